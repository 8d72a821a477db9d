// SPDX-License-Identifier: Apache-2.0
//! Devices.
use crate::error::call;
use crate::handle::Handle;
use crate::stream::StreamConfig;
use crate::{sys, text, Buffer, DeviceInfo, Event, Result, Runtime, Stream};
use std::path::PathBuf;

/// An open device with all its kernels loaded.
#[derive(Debug)]
pub struct Device {
    handle: Handle<sys::moert_device>,
}

/// Options of a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceConfig {
    ignore_environment: bool,
    kernel_path: Option<PathBuf>,
    kernel_data: Vec<u8>,
    cpu_threads: u32,
}

impl DeviceConfig {
    /// Does not read MOERT_KERNEL_PATH or MOERT_CPU_ISA.
    #[must_use]
    pub fn ignore_environment(mut self) -> Self {
        self.ignore_environment = true;
        self
    }

    /// GPU: a kernel file, or the folder that holds it.
    #[must_use]
    pub fn kernel_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.kernel_path = Some(path.into());
        self
    }

    /// GPU: the contents of a kernel file.
    #[must_use]
    pub fn kernel_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.kernel_data = data.into();
        self
    }

    /// CPU: how many threads, the caller's included; 0 means all.
    #[must_use]
    pub fn cpu_threads(mut self, threads: u32) -> Self {
        self.cpu_threads = threads;
        self
    }

    /// Opens the device of that name; see [`Runtime::device`].
    pub fn build(&self, runtime: &Runtime, name: &str) -> Result<Device> {
        Device::create(runtime, name, self)
    }
}

impl Device {
    pub(crate) fn create(runtime: &Runtime, name: &str, config: &DeviceConfig) -> Result<Self> {
        let name = text::c_string(name)?;
        let path = config.kernel_path.as_deref().map(text::c_path).transpose()?;
        let mut desc = sys::moert_device_desc {
            flags: config.ignore_environment as u32 * sys::MOERT_DEVICE_FLAG_IGNORE_ENVIRONMENT,
            kernel_path: text::pointer(&path),
            cpu_threads: config.cpu_threads,
            ..Default::default()
        };
        if !config.kernel_data.is_empty() {
            desc.kernel_data = config.kernel_data.as_ptr().cast();
            desc.kernel_size = config.kernel_data.len() as u64;
        }
        let mut out = std::ptr::null_mut();
        call(|error| unsafe {
            sys::moert_device_create(runtime.as_ptr(), name.as_ptr(), &desc, &mut out, error)
        })?;
        Ok(Self::from_handle(Handle::new(out)))
    }

    pub(crate) fn from_handle(handle: Handle<sys::moert_device>) -> Self {
        Self { handle }
    }

    /// Facts about the device.
    pub fn info(&self) -> Result<DeviceInfo> {
        let mut raw = sys::moert_device_info::default();
        call(|error| unsafe { sys::moert_device_get_info(self.as_ptr(), &mut raw, error) })?;
        unsafe { DeviceInfo::from_raw(&raw) }
    }

    /// A stream whose work runs on the caller's thread (CPU) or on the device.
    pub fn stream(&self) -> Result<Stream> {
        Stream::create(self, StreamConfig::default())
    }

    /// As [`Device::stream`], but a CPU queues the work on its own threads.
    pub fn async_stream(&self) -> Result<Stream> {
        Stream::create(self, StreamConfig { asynchronous: true })
    }

    /// An event that was never recorded and so counts as reached.
    pub fn event(&self) -> Result<Event> {
        Event::create(self)
    }

    /// Device memory, not initialised.
    pub fn buffer(&self, bytes: u64) -> Result<Buffer> {
        Buffer::new(self, bytes)
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::moert_device {
        self.handle.as_ptr()
    }

    /// A reference of its own.
    pub(crate) fn retain(&self) -> Handle<sys::moert_device> {
        unsafe { sys::moert_device_retain(self.as_ptr()) };
        Handle::new(self.as_ptr())
    }
}
