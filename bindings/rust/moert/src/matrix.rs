// SPDX-License-Identifier: Apache-2.0
//! Matrices that calls read and write: slices of the host, or device memory.
use crate::buffer::Memory;
use crate::{sys, Buffer, Dtype, Element, Error, Result};
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::c_void;
use std::sync::Arc;

/// Where a matrix lies. Shapes are judged when a call uses it, so that the error can name it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    data: *mut c_void,
    /// Elements from `data` to the end of the slice or buffer.
    len: usize,
    /// Rows, cols and row stride; a bare slice takes the shape that the call expects.
    shape: Option<[usize; 3]>,
    dtype: Dtype,
    element_bytes: usize,
    pub(crate) memory: Option<Arc<Memory>>,
}

impl View {
    fn host<T: Element>(data: *mut T, len: usize, shape: Option<[usize; 3]>) -> Self {
        let element_bytes = size_of::<T>();
        Self { data: data.cast(), len, shape, dtype: T::DTYPE, element_bytes, memory: None }
    }

    pub(crate) fn device<T: Element>(b: &Buffer, offset: u64, rows: usize, cols: usize) -> Self {
        let left = b.bytes().saturating_sub(offset);
        let offset = offset.min(b.bytes()) as usize;
        Self {
            data: b.address().cast::<u8>().wrapping_add(offset).cast(),
            len: left as usize / size_of::<T>(),
            shape: Some([rows, cols, cols]),
            dtype: T::DTYPE,
            element_bytes: size_of::<T>(),
            memory: Some(b.memory().clone()),
        }
    }

    /// The matrix for the C ABI. `cols` is what a bare slice has.
    pub(crate) fn resolve(&self, name: &str, cols: i64) -> Result<sys::moert_matrix> {
        let [rows, cols, row_stride] = match self.shape {
            Some(shape) => shape,
            None => self.rows_of(name, cols as usize)?,
        };
        let needed = if rows == 0 { Some(0) } else { (rows - 1).checked_mul(row_stride) }
            .and_then(|n| n.checked_add(if rows == 0 { 0 } else { cols }));
        if needed.map_or(true, |n| n > self.len) {
            return Err(Error::invalid_argument(format!(
                "{} of {} rows, {} columns and row stride {} does not fit into {} elements",
                name, rows, cols, row_stride, self.len
            )));
        }
        Ok(sys::moert_matrix {
            data: self.data,
            rows: rows as i64,
            cols: cols as i64,
            row_stride: row_stride as i64,
            dtype: self.dtype.to_raw(),
            reserved: 0,
        })
    }

    fn rows_of(&self, name: &str, cols: usize) -> Result<[usize; 3]> {
        if self.len.checked_rem(cols).unwrap_or(self.len) != 0 {
            return Err(Error::invalid_argument(format!(
                "{} has {} elements, which is not a multiple of its {} columns",
                name, self.len, cols
            )));
        }
        Ok([self.len.checked_div(cols).unwrap_or(0), cols, cols])
    }

    pub(crate) fn element_bytes(&self) -> usize {
        self.element_bytes
    }
}

/// A matrix to be read: a slice, or part of a [`Buffer`]. A slice converts into one; its rows
/// follow from the columns that the call expects.
#[derive(Clone, Debug)]
pub struct Matrix<'a> {
    pub(crate) view: View,
    _data: PhantomData<&'a [u8]>,
}

/// A matrix to be written; see [`Matrix`].
#[derive(Debug)]
pub struct MatrixMut<'a> {
    pub(crate) view: View,
    _data: PhantomData<&'a mut [u8]>,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows lie `row_stride` elements apart.
    pub fn strided<T: Element>(data: &'a [T], rows: usize, cols: usize, row_stride: usize) -> Self {
        let shape = Some([rows, cols, row_stride]);
        Self::from_view(View::host(data.as_ptr() as *mut T, data.len(), shape))
    }

    pub(crate) fn from_view(view: View) -> Self {
        Self { view, _data: PhantomData }
    }
}

impl<'a> MatrixMut<'a> {
    /// A matrix whose rows lie `row_stride` elements apart.
    pub fn strided<T: Element>(
        data: &'a mut [T],
        rows: usize,
        cols: usize,
        row_stride: usize,
    ) -> Self {
        let shape = Some([rows, cols, row_stride]);
        Self::from_view(View::host(data.as_mut_ptr(), data.len(), shape))
    }

    pub(crate) fn from_view(view: View) -> Self {
        Self { view, _data: PhantomData }
    }
}

impl<'a, T: Element> From<&'a [T]> for Matrix<'a> {
    fn from(data: &'a [T]) -> Self {
        Self::from_view(View::host(data.as_ptr() as *mut T, data.len(), None))
    }
}

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for Matrix<'a> {
    fn from(data: &'a [T; N]) -> Self {
        Self::from(&data[..])
    }
}

impl<'a, T: Element> From<&'a Vec<T>> for Matrix<'a> {
    fn from(data: &'a Vec<T>) -> Self {
        Self::from(&data[..])
    }
}

impl<'a, T: Element> From<&'a mut [T]> for MatrixMut<'a> {
    fn from(data: &'a mut [T]) -> Self {
        Self::from_view(View::host(data.as_mut_ptr(), data.len(), None))
    }
}

impl<'a, T: Element, const N: usize> From<&'a mut [T; N]> for MatrixMut<'a> {
    fn from(data: &'a mut [T; N]) -> Self {
        Self::from(&mut data[..])
    }
}

impl<'a, T: Element> From<&'a mut Vec<T>> for MatrixMut<'a> {
    fn from(data: &'a mut Vec<T>) -> Self {
        Self::from(&mut data[..])
    }
}
