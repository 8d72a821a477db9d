// SPDX-License-Identifier: Apache-2.0
//! The runtime: its log and the devices that it finds.
use crate::error::call;
use crate::handle::Handle;
use crate::{sys, text, Device, DeviceConfig, DeviceInfo, Dtype, LogLevel, Result};
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The ABI number of the loaded library; compare it with [`sys::MOERT_ABI_VERSION`].
pub fn abi_version() -> u32 {
    unsafe { sys::moert_abi_version() }
}

/// The loaded library's version, such as "0.1.0".
pub fn version() -> String {
    unsafe { text::owned(sys::moert_version_string()) }
}

/// Names of the built-in families, separated by commas.
pub fn family_names() -> String {
    unsafe { text::owned(sys::moert_family_names()) }
}

/// Name of a dtype as safetensors spells it.
pub fn dtype_name(dtype: Dtype) -> String {
    unsafe { text::owned(sys::moert_dtype_name(dtype.to_raw())) }
}

/// Bits of one element.
pub fn dtype_bits(dtype: Dtype) -> u32 {
    unsafe { sys::moert_dtype_bits(dtype.to_raw()) }
}

/// Found drivers, and where log lines go. Two runtimes of a process share nothing.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle<sys::moert_runtime>,
}

impl Runtime {
    /// A runtime without a log.
    pub fn new() -> Result<Self> {
        Self::create(&sys::moert_runtime_desc::default())
    }

    /// A runtime with a log.
    pub fn config() -> RuntimeConfig {
        RuntimeConfig::default()
    }

    fn create(desc: &sys::moert_runtime_desc) -> Result<Self> {
        let mut out = std::ptr::null_mut();
        call(|error| unsafe { sys::moert_runtime_create(desc, &mut out, error) })?;
        Ok(Self { handle: Handle::new(out) })
    }

    /// Facts about all devices that were found, the CPU first.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>> {
        let runtime = self.as_ptr();
        let mut count = 0;
        call(|error| unsafe { sys::moert_runtime_num_devices(runtime, &mut count, error) })?;
        let info = |index| {
            let mut raw = sys::moert_device_info::default();
            call(|error| unsafe {
                sys::moert_runtime_device_info(runtime, index, &mut raw, error)
            })?;
            unsafe { DeviceInfo::from_raw(&raw) }
        };
        (0..count).map(info).collect()
    }

    /// Opens a device: "cpu", "cuda:N", "hip:N", or "best" for a GPU that works, else the CPU.
    pub fn device(&self, name: &str) -> Result<Device> {
        Device::create(self, name, &DeviceConfig::default())
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::moert_runtime {
        self.handle.as_ptr()
    }
}

type Log = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// What a runtime is made of.
#[derive(Default)]
pub struct RuntimeConfig {
    log: Option<(LogLevel, Log)>,
}

impl RuntimeConfig {
    /// Sends log lines of that level and above to `f`, from any thread. A panic of `f` ends there.
    #[must_use]
    pub fn log(
        mut self,
        min_level: LogLevel,
        f: impl Fn(LogLevel, &str) + Send + Sync + 'static,
    ) -> Self {
        self.log = Some((min_level, Box::new(f)));
        self
    }

    /// Makes the runtime.
    pub fn build(self) -> Result<Runtime> {
        let (min_level, log) = match self.log {
            Some(log) => log,
            None => return Runtime::new(),
        };
        let sink = sys::moert_log_sink {
            min_level: min_level.to_raw(),
            user_data: Box::into_raw(Box::new(log)).cast(),
            write: Some(write_log),
            free_fn: Some(free_log),
            ..Default::default()
        };
        Runtime::create(&sys::moert_runtime_desc { log: &sink, ..Default::default() })
    }
}

unsafe extern "C" fn write_log(
    user_data: *mut c_void,
    level: sys::moert_log_level,
    message: *const c_char,
) {
    let log = &*user_data.cast::<Log>();
    // A panic must not unwind through C frames.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        log(LogLevel::from_raw(level).unwrap_or(LogLevel::Error), &text::owned(message));
    }));
}

unsafe extern "C" fn free_log(user_data: *mut c_void) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(user_data.cast::<Log>()))));
}
