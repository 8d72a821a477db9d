// SPDX-License-Identifier: Apache-2.0
//! Device memory.
use crate::error::call;
use crate::handle::Handle;
use crate::matrix::View;
use crate::{sys, Device, Element, Matrix, MatrixMut, Result};
use std::os::raw::c_void;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Memory {
    device: Handle<sys::moert_device>,
    address: *mut c_void,
}

// SAFETY: only the library reads and writes what `address` points to.
unsafe impl Send for Memory {}
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: streams keep what their work uses until that work is done.
        unsafe { sys::moert_device_free(self.device.as_ptr(), self.address) }
    }
}

/// A block of device memory. Work that uses it keeps it alive. What work on two streams at once
/// does to the same bytes is up to the caller's events.
#[derive(Clone, Debug)]
pub struct Buffer {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Buffer {
    pub(crate) fn new(device: &Device, bytes: u64) -> Result<Self> {
        let device = device.retain();
        let mut address = std::ptr::null_mut();
        call(|error| unsafe {
            sys::moert_device_alloc(device.as_ptr(), bytes, &mut address, error)
        })?;
        Ok(Self { memory: Arc::new(Memory { device, address }), bytes })
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn address(&self) -> *mut c_void {
        self.memory.address
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// A packed matrix `offset` bytes into the buffer.
    pub fn matrix<T: Element>(&self, offset: u64, rows: usize, cols: usize) -> Matrix<'static> {
        Matrix::from_view(View::device::<T>(self, offset, rows, cols))
    }

    /// As [`Buffer::matrix`], to be written.
    pub fn matrix_mut<T: Element>(
        &self,
        offset: u64,
        rows: usize,
        cols: usize,
    ) -> MatrixMut<'static> {
        MatrixMut::from_view(View::device::<T>(self, offset, rows, cols))
    }
}
