// SPDX-License-Identifier: Apache-2.0
//! Strings and lists across the C ABI: UTF-8, copied at once.
use crate::{Error, Result};
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::path::Path;

/// # Safety
/// `text` is NULL or a C string.
pub(crate) unsafe fn owned(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    CStr::from_ptr(text).to_string_lossy().into_owned()
}

/// A C string in an array, cut at its end.
pub(crate) fn array(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// # Safety
/// `data` holds `len` elements, or is NULL.
pub(crate) unsafe fn list<T: Copy>(data: *const T, len: usize) -> Vec<T> {
    if data.is_null() {
        return Vec::new();
    }
    std::slice::from_raw_parts(data, len).to_vec()
}

pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::invalid_argument(format!("{:?} contains a NUL character", text)))
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    match path.to_str() {
        Some(text) => c_string(text),
        None => Err(Error::invalid_argument(format!("the path {:?} is not UTF-8", path))),
    }
}

/// The pointer of an optional string.
pub(crate) fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr())
}
