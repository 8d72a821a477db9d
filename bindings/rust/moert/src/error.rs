// SPDX-License-Identifier: Apache-2.0
//! The error of every call, and how a status becomes one.
use crate::{sys, text, Corruption, Status};
use std::fmt;

/// A failed call: its status and the text that explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    native_code: i64,
    message: String,
}

/// The result of a call that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Why the call failed.
    pub fn status(&self) -> Status {
        self.status
    }

    /// errno or a driver's code, as the status says.
    pub fn native_code(&self) -> i64 {
        self.native_code
    }

    /// What is wrong with bytes that were refused as [`Status::CorruptData`].
    pub fn corruption(&self) -> Option<Corruption> {
        match self.status {
            Status::CorruptData => Corruption::from_raw(self.native_code as i32),
            _ => None,
        }
    }

    /// Names the value that was wrong and what is accepted.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn invalid_argument(message: String) -> Self {
        Self { status: Status::InvalidArgument, native_code: 0, message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the name is static.
        let name = unsafe { text::owned(sys::moert_status_name(self.status.to_raw())) };
        write!(f, "{}: {}", name, self.message)
    }
}

impl std::error::Error for Error {}

/// Makes a call that takes a `moert_error`.
pub(crate) fn call(f: impl FnOnce(*mut sys::moert_error) -> sys::moert_status) -> Result<()> {
    let mut raw = sys::moert_error::default();
    match f(&mut raw) {
        sys::MOERT_STATUS_OK => Ok(()),
        code => Err(Error {
            status: Status::from_raw(code).unwrap_or(Status::Internal),
            native_code: raw.native_code,
            message: text::array(&raw.message),
        }),
    }
}

/// An enum of the C ABI. A newer library may know values that this crate does not.
pub(crate) fn known<T>(field: &str, raw: i32, convert: impl Fn(i32) -> Option<T>) -> Result<T> {
    convert(raw).ok_or_else(|| Error {
        status: Status::Unsupported,
        native_code: 0,
        message: format!("{} is {}, which this version of the crate does not know", field, raw),
    })
}
