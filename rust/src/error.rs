// SPDX-License-Identifier: BSD-3-Clause
//! Statuses of the library as errors, with the library's sentence where it has said one.

use crate::sys;
use std::cell::RefCell;
use std::ffi::CStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::mem;
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Arc, Once};

/// What the library answered when something failed: a kind, and a sentence for people. Two errors of the same status
/// are equal, whatever their sentences.
#[derive(Clone)]
pub struct Error {
    status: sys::ucs_status_t,
    sentence: Option<Arc<str>>,
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of failure an error is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operation was cancelled, or its endpoint was closed by force.
    Canceled,
    /// The buffer is too short for what came.
    Truncated,
    /// The peer closed its endpoint in good order.
    Closed,
    /// The peer died or broke the connection.
    ConnectionReset,
    /// No transport leads to the peer.
    Unreachable,
    /// Nobody listens there, or the endpoint was closed here.
    NotConnected,
    /// The server declined the connection.
    Rejected,
    /// The peer's machine or the network stopped responding.
    TimedOut,
    /// There is no memory for it.
    NoMemory,
    /// An argument or a setting is not possible, or its feature was not asked for.
    InvalidParam,
    /// The address lies outside of the memory.
    InvalidAddress,
    /// The library, the transport or the kind of memory cannot do this.
    Unsupported,
    /// There is one already.
    AlreadyExists,
    /// The address is in use.
    Busy,
    /// Anything else: see [`Error::code`].
    Other,
}

/// As `ucp_ep_print_info` has it.
const CLOSED_BY_PEER: &str = "the peer closed the endpoint";

impl Error {
    /// The operation was cancelled.
    pub const CANCELED: Error = Error::plain(sys::UCS_ERR_CANCELED);
    /// The buffer is too short for what came; it holds the beginning.
    pub const TRUNCATED: Error = Error::plain(sys::UCS_ERR_MESSAGE_TRUNCATED);
    /// The peer is gone.
    pub const CONNECTION_RESET: Error = Error::plain(sys::UCS_ERR_CONNECTION_RESET);
    /// Nobody answers there.
    pub const UNREACHABLE: Error = Error::plain(sys::UCS_ERR_UNREACHABLE);
    /// The endpoint was closed.
    pub const NOT_CONNECTED: Error = Error::plain(sys::UCS_ERR_NOT_CONNECTED);
    /// An argument is not possible.
    pub const INVALID_PARAM: Error = Error::plain(sys::UCS_ERR_INVALID_PARAM);
    /// The library cannot do this.
    pub const UNSUPPORTED: Error = Error::plain(sys::UCS_ERR_UNSUPPORTED);
    /// There is one already.
    pub const ALREADY_EXISTS: Error = Error::plain(sys::UCS_ERR_ALREADY_EXISTS);

    const fn plain(status: sys::ucs_status_t) -> Error {
        Error { status, sentence: None }
    }

    /// The number of the status, as `ucs_status_t` has it.
    pub fn code(&self) -> i32 {
        i32::from(self.status)
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self.status {
            sys::UCS_ERR_CANCELED => ErrorKind::Canceled,
            sys::UCS_ERR_MESSAGE_TRUNCATED => ErrorKind::Truncated,
            sys::UCS_ERR_CONNECTION_RESET => match &self.sentence {
                Some(sentence) if sentence.ends_with(CLOSED_BY_PEER) => ErrorKind::Closed,
                _ => ErrorKind::ConnectionReset,
            },
            sys::UCS_ERR_UNREACHABLE => ErrorKind::Unreachable,
            sys::UCS_ERR_NOT_CONNECTED => ErrorKind::NotConnected,
            sys::UCS_ERR_REJECTED => ErrorKind::Rejected,
            sys::UCS_ERR_TIMED_OUT | sys::UCS_ERR_ENDPOINT_TIMEOUT => ErrorKind::TimedOut,
            sys::UCS_ERR_NO_MEMORY => ErrorKind::NoMemory,
            sys::UCS_ERR_INVALID_PARAM => ErrorKind::InvalidParam,
            sys::UCS_ERR_INVALID_ADDR => ErrorKind::InvalidAddress,
            sys::UCS_ERR_UNSUPPORTED | sys::UCS_ERR_NOT_IMPLEMENTED => ErrorKind::Unsupported,
            sys::UCS_ERR_ALREADY_EXISTS => ErrorKind::AlreadyExists,
            sys::UCS_ERR_BUSY => ErrorKind::Busy,
            _ => ErrorKind::Other,
        }
    }

    /// What the library said about it: the line that it logged in the call, or how the connection ended.
    pub fn sentence(&self) -> Option<&str> {
        self.sentence.as_deref()
    }

    /// The result of a call, with what the library logged meanwhile.
    pub(crate) fn check(status: sys::ucs_status_t) -> Result<()> {
        let said = take_log();
        if status == sys::UCS_OK {
            Ok(())
        } else {
            Err(Error { status, sentence: said.map(Arc::from) })
        }
    }

    /// The result of an operation that has ended by itself.
    pub(crate) fn later(status: sys::ucs_status_t) -> Result<()> {
        if status == sys::UCS_OK {
            Ok(())
        } else {
            Err(Error::plain(status))
        }
    }

    /// The status in what a non-blocking call returned: `None` for a request that is under way.
    pub(crate) fn of_pointer(pointer: sys::ucs_status_ptr_t) -> Option<Result<()>> {
        let value = pointer as isize;
        if value == 0 {
            Some(Ok(()))
        } else if value < 0 && value >= sys::UCS_ERR_LAST as isize {
            Some(Error::check(value as sys::ucs_status_t))
        } else {
            None
        }
    }

    /// The same error with the reason of an endpoint that has failed with it.
    pub(crate) fn because_of(self, ep: sys::ucp_ep_h) -> Error {
        match reason_of(ep) {
            Some(reason) if reason.starts_with(&*status_text(self.status)) => {
                Error { status: self.status, sentence: Some(Arc::from(reason)) }
            }
            _ => self,
        }
    }
}

fn status_text(status: sys::ucs_status_t) -> String {
    // SAFETY: the library answers a constant text for any number.
    unsafe { CStr::from_ptr(sys::ucs_status_string(status)) }.to_string_lossy().into_owned()
}

impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        self.status == other.status
    }
}

impl Eq for Error {}

impl Hash for Error {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.status.hash(state);
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sentence {
            Some(sentence) => formatter.write_str(sentence),
            None => formatter.write_str(&status_text(self.status)),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Error({}: {})", self.status, self)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.kind() {
            ErrorKind::Closed => io::ErrorKind::UnexpectedEof,
            ErrorKind::ConnectionReset => io::ErrorKind::ConnectionReset,
            ErrorKind::NotConnected => io::ErrorKind::NotConnected,
            ErrorKind::Rejected => io::ErrorKind::ConnectionRefused,
            ErrorKind::TimedOut => io::ErrorKind::TimedOut,
            ErrorKind::InvalidParam => io::ErrorKind::InvalidInput,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
            ErrorKind::Busy => io::ErrorKind::AddrInUse,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// As an argument: an address on x86-64, AArch64 and other processors of 64 bits.
type VaList = *mut c_void;
type LogHandler =
    unsafe extern "C" fn(*const c_char, c_uint, *const c_char, c_int, *const c_void, *const c_char, VaList) -> c_int;

extern "C" {
    fn ucs_log_push_handler(handler: Option<LogHandler>);
    fn vsnprintf(text: *mut c_char, size: usize, format: *const c_char, arguments: VaList) -> c_int;
    fn open_memstream(text: *mut *mut c_char, size: *mut usize) -> *mut sys::FILE;
    fn fclose(stream: *mut sys::FILE) -> c_int;
    fn free(memory: *mut c_void);
}

const LEVEL_WARN: c_int = 2;
const CONTINUE: c_int = 1;

thread_local! {
    /// What the library has logged in this thread since it was taken.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

unsafe extern "C" fn note(
    _file: *const c_char,
    _line: c_uint,
    _function: *const c_char,
    level: c_int,
    _component: *const c_void,
    format: *const c_char,
    arguments: VaList,
) -> c_int {
    if level <= LEVEL_WARN {
        let mut text = [0u8; 512];
        // SAFETY: so many bytes may be written, of which the last is zero; format and arguments are the library's.
        let written = unsafe { vsnprintf(text.as_mut_ptr().cast(), text.len(), format, arguments) };
        if written > 0 {
            let length = text.iter().position(|&byte| byte == 0).unwrap_or(0);
            let text = String::from_utf8_lossy(&text[..length]).into_owned();
            let _ = SAID.try_with(|said| *said.borrow_mut() = Some(text));
        }
    }
    CONTINUE
}

/// From now on errors carry what the library logs; it is printed as before.
pub(crate) fn follow_log() {
    static ONCE: Once = Once::new();
    // SAFETY: the handler is a function of the program, which stays.
    ONCE.call_once(|| unsafe { ucs_log_push_handler(Some(note)) });
}

pub(crate) fn take_log() -> Option<String> {
    SAID.try_with(|said| mem::take(&mut *said.borrow_mut())).ok().flatten()
}

/// Why an endpoint has failed; `None`: it has not. `ucp_ep_print_info` alone says it.
fn reason_of(ep: sys::ucp_ep_h) -> Option<String> {
    let mut text: *mut c_char = ptr::null_mut();
    let mut size = 0;
    // SAFETY: the stream is closed before its memory is read, and that is freed behind.
    unsafe {
        let stream = open_memstream(&mut text, &mut size);
        if stream.is_null() {
            return None;
        }
        sys::ucp_ep_print_info(ep, stream);
        let closed = fclose(stream) == 0;
        let all = if closed { CStr::from_ptr(text).to_string_lossy().into_owned() } else { String::new() };
        free(text.cast());
        let reason = all.lines().find_map(|line| line.split_once(" reason: "))?.1;
        Some(reason.to_owned())
    }
}
