// SPDX-License-Identifier: Apache-2.0
//! Streams and events, and how a call on matrices becomes work of a stream.
use crate::buffer::Memory;
use crate::error::call;
use crate::handle::Handle;
use crate::matrix::View;
use crate::{sys, Buffer, Device, DeviceKind, Element, Error, Matrix, MatrixMut, Result, Status};
use std::os::raw::c_void;
use std::ptr;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct StreamConfig {
    pub(crate) asynchronous: bool,
}

/// An order of work on a device.
#[derive(Debug)]
pub struct Stream {
    handle: Handle<sys::moert_stream>,
    device: Device,
    /// Whether slices must be copied to the device.
    staged: bool,
    stage: Option<Buffer>,
    scratch_bytes: u64,
    /// What enqueued work uses.
    in_flight: Vec<Arc<Memory>>,
}

impl Stream {
    pub(crate) fn create(device: &Device, config: StreamConfig) -> Result<Self> {
        let desc = sys::moert_stream_desc {
            flags: config.asynchronous as u32 * sys::MOERT_STREAM_FLAG_ASYNC,
            ..Default::default()
        };
        let mut out = ptr::null_mut();
        call(|error| unsafe { sys::moert_stream_create(device.as_ptr(), &desc, &mut out, error) })?;
        Self::new(Handle::new(out), device)
    }

    /// Wraps a CUstream or hipStream_t of the device's primary context.
    ///
    /// # Safety
    /// `native` must be such a stream and outlive the result.
    pub unsafe fn import(device: &Device, native: *mut c_void) -> Result<Self> {
        let mut out = ptr::null_mut();
        call(|error| sys::moert_stream_import(device.as_ptr(), native, &mut out, error))?;
        Self::new(Handle::new(out), device)
    }

    fn new(handle: Handle<sys::moert_stream>, device: &Device) -> Result<Self> {
        Ok(Self {
            handle,
            staged: device.info()?.kind != DeviceKind::Cpu,
            device: Device::from_handle(device.retain()),
            stage: None,
            scratch_bytes: 0,
            in_flight: Vec::new(),
        })
    }

    /// The driver's stream, null on the CPU.
    pub fn native(&self) -> *mut c_void {
        unsafe { sys::moert_stream_native(self.as_ptr()) }
    }

    /// Grows the stream's scratch to at least that size. Calls without a workspace do it as needed.
    pub fn reserve(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.scratch_bytes {
            call(|error| unsafe { sys::moert_stream_reserve(self.as_ptr(), bytes, error) })?;
            self.scratch_bytes = bytes;
        }
        Ok(())
    }

    /// Waits until all work is done, then reports like [`Stream::check`].
    pub fn synchronize(&mut self) -> Result<()> {
        let result = call(|error| unsafe { sys::moert_stream_synchronize(self.as_ptr(), error) });
        self.in_flight.clear();
        result
    }

    /// Reports, without waiting, the first failure of work that has run since the last report.
    pub fn check(&mut self) -> Result<()> {
        call(|error| unsafe { sys::moert_stream_check(self.as_ptr(), error) })
    }

    /// Work enqueued from now on starts after the event is reached.
    pub fn wait_event(&mut self, event: &Event) -> Result<()> {
        call(|error| unsafe {
            sys::moert_stream_wait_event(self.as_ptr(), event.handle.as_ptr(), error)
        })
    }

    /// Copies a slice to the start of a buffer, after the work enqueued so far; returns when done.
    pub fn upload<T: Element>(&mut self, to: &Buffer, from: &[T]) -> Result<()> {
        let bytes = fits(to, from)?;
        unsafe { self.copy(to.address(), from.as_ptr().cast(), bytes)? };
        self.synchronize()
    }

    /// Copies the start of a buffer to a slice, after the work enqueued so far; returns when done.
    pub fn download<T: Element>(&mut self, to: &mut [T], from: &Buffer) -> Result<()> {
        let bytes = fits(from, to)?;
        unsafe { self.copy(to.as_mut_ptr().cast(), from.address(), bytes)? };
        self.synchronize()
    }

    /// # Safety
    /// Both ranges must be valid until the stream has been waited for.
    pub(crate) unsafe fn copy(
        &mut self,
        to: *mut c_void,
        from: *const c_void,
        bytes: u64,
    ) -> Result<()> {
        call(|error| sys::moert_stream_copy(self.as_ptr(), to, from, bytes, error))
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::moert_stream {
        self.handle.as_ptr()
    }

    /// Work uses this memory until the stream has been waited for.
    pub(crate) fn keep(&mut self, memory: &Arc<Memory>) {
        if !self.in_flight.iter().any(|m| Arc::ptr_eq(m, memory)) {
            self.in_flight.push(memory.clone());
        }
    }

    #[cfg(test)]
    pub(crate) fn force_staging(&mut self) {
        self.staged = true;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.in_flight.is_empty() {
            let _ = self.synchronize();
        }
    }
}

fn fits<T: Element>(buffer: &Buffer, slice: &[T]) -> Result<u64> {
    let bytes = std::mem::size_of_val(slice) as u64;
    if bytes > buffer.bytes() {
        return Err(Error::invalid_argument(format!(
            "a slice of {} bytes does not fit a buffer of {}",
            bytes,
            buffer.bytes()
        )));
    }
    Ok(bytes)
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    handle: Handle<sys::moert_event>,
}

impl Event {
    pub(crate) fn create(device: &Device) -> Result<Self> {
        let mut out = ptr::null_mut();
        call(|error| unsafe { sys::moert_event_create(device.as_ptr(), &mut out, error) })?;
        Ok(Self { handle: Handle::new(out) })
    }

    /// Marks the stream's present end.
    pub fn record(&mut self, stream: &mut Stream) -> Result<()> {
        call(|error| unsafe {
            sys::moert_event_record(self.handle.as_ptr(), stream.as_ptr(), error)
        })
    }

    /// Whether the event is reached; never blocks. Once it is, a failure of the stream's work up to
    /// here is the result.
    pub fn query(&self) -> Result<bool> {
        match call(|error| unsafe { sys::moert_event_query(self.handle.as_ptr(), error) }) {
            Ok(()) => Ok(true),
            Err(error) if error.status() == Status::NotReady => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Blocks until the event is reached; reports like [`Event::query`].
    pub fn wait(&self) -> Result<()> {
        call(|error| unsafe { sys::moert_event_wait(self.handle.as_ptr(), error) })
    }
}

/// What a call does with a matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    ReadWrite,
}

/// A matrix of a call, ready for the C ABI.
pub(crate) struct Operand {
    matrix: sys::moert_matrix,
    access: Access,
    element_bytes: usize,
    memory: Option<Arc<Memory>>,
    host: *mut c_void,
}

impl Operand {
    fn new(view: &View, name: &str, cols: i64, access: Access) -> Result<Self> {
        let matrix = view.resolve(name, cols)?;
        let host = matrix.data;
        let element_bytes = view.element_bytes();
        Ok(Self { matrix, access, element_bytes, memory: view.memory.clone(), host })
    }

    pub(crate) fn read(m: &Option<Matrix<'_>>, name: &str, cols: i64) -> Result<Option<Self>> {
        m.as_ref().map(|m| Self::new(&m.view, name, cols, Access::Read)).transpose()
    }

    pub(crate) fn write(
        m: &Option<MatrixMut<'_>>,
        name: &str,
        cols: i64,
        access: Access,
    ) -> Result<Option<Self>> {
        m.as_ref().map(|m| Self::new(&m.view, name, cols, access)).transpose()
    }

    fn is_host(&self) -> bool {
        self.memory.is_none()
    }

    /// From the first element to the last, gaps between rows included.
    fn bytes(&self) -> u64 {
        let m = &self.matrix;
        if m.rows == 0 {
            return 0;
        }
        ((m.rows - 1) * m.row_stride + m.cols) as u64 * self.element_bytes as u64
    }

    /// Gaps of an output must survive, so they are copied in first.
    fn copied_in(&self) -> bool {
        self.access != Access::Write || self.matrix.row_stride != self.matrix.cols
    }
}

pub(crate) type Operands<const N: usize> = [Option<Operand>; N];
pub(crate) type Pointers<const N: usize> = [*const sys::moert_matrix; N];

pub(crate) fn pointers<const N: usize>(operands: &Operands<N>) -> Pointers<N> {
    let mut out = [ptr::null(); N];
    for (pointer, operand) in out.iter_mut().zip(operands) {
        *pointer = operand.as_ref().map_or(ptr::null(), |o| &o.matrix);
    }
    out
}

/// Runs a call on its matrices. With a slice among them it returns when the work is done, else it
/// only enqueues and the stream keeps the buffers alive.
pub(crate) fn launch<const N: usize>(
    stream: &mut Stream,
    mut operands: Operands<N>,
    workspace_size: impl Fn(&Pointers<N>) -> Result<u64>,
    enqueue: impl Fn(&Pointers<N>, &mut Stream) -> Result<()>,
) -> Result<()> {
    let host = operands.iter().flatten().any(Operand::is_host);
    let staged = host && stream.staged;
    for memory in operands.iter().flatten().filter_map(|o| o.memory.as_ref()) {
        stream.keep(memory);
    }
    let run = |stream: &mut Stream, operands: &mut Operands<N>| {
        if staged {
            copy_in(stream, operands)?;
        }
        let pointers = pointers(operands);
        let bytes = workspace_size(&pointers)?;
        stream.reserve(bytes)?;
        enqueue(&pointers, stream)?;
        if staged {
            copy_out(stream, operands)?;
        }
        Ok(())
    };
    let result = run(stream, &mut operands);
    if !host {
        return result;
    }
    // Slices are borrowed only until here, whatever happened.
    let done = stream.synchronize();
    result.and(done)
}

/// Gives each host matrix a place in the stream's stage and copies what is read.
fn copy_in<const N: usize>(stream: &mut Stream, operands: &mut Operands<N>) -> Result<()> {
    const ALIGNMENT: u64 = 256;
    let size = |o: &Operand| (o.bytes() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    let total = operands.iter().flatten().filter(|o| o.is_host()).map(size).sum();
    if stream.stage.as_ref().map_or(true, |s| s.bytes() < total) {
        stream.synchronize()?;
        stream.stage = Some(stream.device.buffer(total)?);
    }
    let mut place = match &stream.stage {
        Some(stage) => stage.address().cast::<u8>(),
        None => ptr::null_mut(),
    };
    for operand in operands.iter_mut().flatten().filter(|o| o.is_host()) {
        operand.matrix.data = place.cast();
        place = place.wrapping_add(size(operand) as usize);
        if operand.copied_in() {
            unsafe { stream.copy(operand.matrix.data, operand.host, operand.bytes())? };
        }
    }
    Ok(())
}

fn copy_out<const N: usize>(stream: &mut Stream, operands: &Operands<N>) -> Result<()> {
    let written = |o: &&Operand| o.is_host() && o.access != Access::Read;
    for operand in operands.iter().flatten().filter(written) {
        unsafe { stream.copy(operand.host, operand.matrix.data, operand.bytes())? };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GateConfig, GateForward, GateKind, MatrixMut, Runtime};

    /// The CPU needs no staging, but can be made to do it.
    #[test]
    fn staged_slices_give_the_same_and_keep_the_gaps_between_rows() {
        let device = Runtime::new().unwrap().device("cpu").unwrap();
        let gate = GateConfig::new(GateKind::MultiplyRows, 2).build(&device).unwrap();
        let mut stream = device.async_stream().unwrap();
        stream.force_staging();
        let (x, g) = ([1.0f32, 2.0, 9.0, 3.0, 4.0], [0.0f32, 0.0]);
        let mut out = [7.0f32; 6];
        let args = GateForward::new(
            Matrix::strided(&x, 2, 2, 3),
            &g,
            MatrixMut::strided(&mut out, 2, 2, 4),
        );
        gate.forward(&mut stream, args).unwrap();
        assert_eq!(out, [0.5, 1.0, 7.0, 7.0, 1.5, 2.0]);
        assert!(stream.stage.is_some());
    }
}
