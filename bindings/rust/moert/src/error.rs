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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::raw::c_char;

    fn fail(status: sys::moert_status, text: &str) -> Error {
        call(|error| {
            // SAFETY: `call` passes an error to write to.
            let error = unsafe { &mut *error };
            error.code = status;
            error.native_code = 7;
            for (to, from) in error.message.iter_mut().zip(text.bytes()) {
                *to = from as c_char;
            }
            status
        })
        .unwrap_err()
    }

    #[test]
    fn each_status_becomes_an_error_with_its_text() {
        for code in sys::MOERT_STATUS_OK + 1..=sys::MOERT_STATUS_INTERNAL {
            let text = format!("größe {} is too large", code);
            let error = fail(code, &text);
            // SAFETY: the name is static.
            let name = unsafe { text::owned(sys::moert_status_name(code)) };
            assert_eq!(error.status().to_raw(), code);
            assert_eq!(error.message(), text);
            assert_eq!(error.native_code(), 7);
            assert_eq!(error.to_string(), format!("{}: {}", name, text));
            let variant = format!("{:?}", error.status()).to_uppercase();
            assert_eq!(variant, name.replace('_', ""));
            let corruption =
                (code == sys::MOERT_STATUS_CORRUPT_DATA).then(|| Corruption::from_raw(7).unwrap());
            assert_eq!(error.corruption(), corruption);
        }
        assert_eq!(Status::from_raw(sys::MOERT_STATUS_INTERNAL + 1), None);
        assert_eq!(fail(sys::MOERT_STATUS_INTERNAL + 1, "new").status(), Status::Internal);
    }
}
