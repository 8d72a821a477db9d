// SPDX-License-Identifier: Apache-2.0
//! Mixture-of-Experts layers, routers and gate ops on whatever device is there.
//!
//! A [`Runtime`] finds devices, a [`Device`] makes layers and streams, a [`Layer`] runs on a
//! [`Stream`]. Layers come from a [`Manifest`] of a checkpoint or from plain slices:
//!
//! ```
//! use moert::{Forward, LayerConfig, Role, Routing, Runtime, Weight};
//!
//! let device = Runtime::new()?.device("cpu")?;
//! let one = [1.0f32];
//! let layer = LayerConfig::new(1, 1, Routing::new(1, 1))
//!     .weight(Weight::new(Role::Router, &one, 1, 1))
//!     .weight(Weight::new(Role::ExpertGate, &one, 1, 1))
//!     .weight(Weight::new(Role::ExpertUp, &one, 1, 1))
//!     .weight(Weight::new(Role::ExpertDown, &one, 1, 1))
//!     .build(&device)?;
//! let (x, mut y) = ([1.0f32], [0.0f32]);
//! layer.forward(&mut device.stream()?, Forward::new(&x, &mut y))?;
//! assert!((y[0] - 0.7310586).abs() < 1e-6);
//! # Ok::<(), moert::Error>(())
//! ```
//!
//! The compiler refuses a device after its drop:
//!
//! ```compile_fail,E0382
//! let device = moert::Runtime::new()?.device("cpu")?;
//! drop(device);
//! device.info()?;
//! # Ok::<(), moert::Error>(())
//! ```
//!
//! Objects keep what they were made from alive, so they may be dropped in any order. What the ABI
//! takes as const is `&self` here and may run on several threads at once. Calls on slices return
//! when the result is there; calls on [`Buffer`]s only enqueue.
#![warn(missing_docs)]

mod buffer;
mod device;
mod element;
mod enums;
mod error;
mod gate;
mod handle;
mod layer;
mod manifest;
mod matrix;
mod router;
mod routing;
mod runtime;
mod stream;
mod text;
mod values;

pub use moert_sys as sys;

pub use buffer::Buffer;
pub use device::{Device, DeviceConfig};
pub use element::{Bf16, Element, F16};
pub use enums::*;
pub use error::{Error, Result};
pub use gate::{Gate, GateConfig, GateForward};
pub use layer::{Forward, Layer, LayerConfig, LayerOptions, Weight};
pub use manifest::{Manifest, ManifestConfig, Pack};
pub use matrix::{Matrix, MatrixMut};
pub use router::{Router, RouterConfig, RouterForward};
pub use runtime::{abi_version, dtype_bits, dtype_name, family_names, version};
pub use runtime::{Runtime, RuntimeConfig};
pub use stream::{Event, Stream};
pub use values::*;
