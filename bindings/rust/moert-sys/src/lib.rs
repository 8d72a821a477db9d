// SPDX-License-Identifier: Apache-2.0
//! The C ABI of moert, as moert.h declares it. The crate `moert` is the one to use; this one is for
//! what that leaves out.
//!
//! A struct's `Default` sets `struct_size` and zeros, as its `MOERT_*_INIT` macro does.
#![allow(non_camel_case_types)]

mod bindings;
pub use bindings::*;
