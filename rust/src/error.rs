// SPDX-License-Identifier: BSD-3-Clause
//! Statuses of the library as errors.

use crate::sys;
use std::ffi::CStr;
use std::fmt;

/// What the library answered when something failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error(sys::ucs_status_t);

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The operation was cancelled.
    pub const CANCELED: Error = Error(sys::UCS_ERR_CANCELED);
    /// The buffer is too short for what came; it holds the beginning.
    pub const TRUNCATED: Error = Error(sys::UCS_ERR_MESSAGE_TRUNCATED);
    /// The peer is gone.
    pub const CONNECTION_RESET: Error = Error(sys::UCS_ERR_CONNECTION_RESET);
    /// Nobody answers there.
    pub const UNREACHABLE: Error = Error(sys::UCS_ERR_UNREACHABLE);
    /// The endpoint was closed.
    pub const NOT_CONNECTED: Error = Error(sys::UCS_ERR_NOT_CONNECTED);
    /// An argument is not possible.
    pub const INVALID_PARAM: Error = Error(sys::UCS_ERR_INVALID_PARAM);
    /// The library cannot do this.
    pub const UNSUPPORTED: Error = Error(sys::UCS_ERR_UNSUPPORTED);
    /// There is one already.
    pub const ALREADY_EXISTS: Error = Error(sys::UCS_ERR_ALREADY_EXISTS);

    /// The number of the status, as `ucs_status_t` has it.
    pub fn code(self) -> i32 {
        i32::from(self.0)
    }

    pub(crate) fn check(status: sys::ucs_status_t) -> Result<()> {
        if status == sys::UCS_OK {
            Ok(())
        } else {
            Err(Error(status))
        }
    }

    /// The status in what a non-blocking call returned: `None` for a request that is under way.
    pub(crate) fn of_pointer(pointer: sys::ucs_status_ptr_t) -> Option<Result<()>> {
        let value = pointer as isize;
        if value == 0 {
            Some(Ok(()))
        } else if value < 0 && value >= sys::UCS_ERR_LAST as isize {
            Some(Err(Error(value as sys::ucs_status_t)))
        } else {
            None
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the library answers a constant text for any number.
        let text = unsafe { CStr::from_ptr(sys::ucs_status_string(self.0)) };
        formatter.write_str(&text.to_string_lossy())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Error({}: {})", self.0, self)
    }
}

impl std::error::Error for Error {}
