// SPDX-License-Identifier: BSD-3-Clause
//! Memory that an operation owns while the library uses it.

use crate::sys;
use std::os::raw::c_void;
use std::sync::Arc;

/// Memory that can be sent.
///
/// # Safety
/// `bytes` gives the same memory whenever it is called, also after the owner was moved, as long as nobody changes the
/// owner; nobody else changes these bytes meanwhile.
pub unsafe trait SendBuffer: 'static {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

/// Memory that can be received into.
///
/// # Safety
/// As [`SendBuffer`], and nobody else reads or writes the bytes of `bytes_mut` while the owner exists.
pub unsafe trait RecvBuffer: SendBuffer {
    /// The bytes.
    fn bytes_mut(&mut self) -> &mut [u8];
}

macro_rules! heap_memory {
    ($($owner:ty),*) => {$(
        // SAFETY: the bytes lie on the heap and stay there when the owner moves.
        unsafe impl SendBuffer for $owner {
            fn bytes(&self) -> &[u8] {
                self.as_ref()
            }
        }
    )*};
}
heap_memory!(Vec<u8>, Box<[u8]>, String, Arc<[u8]>);

// SAFETY: the bytes are constant and live for ever.
unsafe impl SendBuffer for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as above.
unsafe impl SendBuffer for &'static str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: as above.
unsafe impl<const N: usize> SendBuffer for &'static [u8; N] {
    fn bytes(&self) -> &[u8] {
        &self[..]
    }
}

// SAFETY: the only owner of memory on the heap.
unsafe impl RecvBuffer for Vec<u8> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

// SAFETY: as above.
unsafe impl RecvBuffer for Box<[u8]> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

// SAFETY: what is in the box keeps its promise also where it is moved, and it is not.
unsafe impl SendBuffer for Box<dyn SendBuffer> {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }
}

/// Buffers that are sent as one message.
pub struct Parts<B> {
    buffers: Vec<B>,
    list: Vec<sys::ucp_dt_iov_t>,
}

impl<B: SendBuffer> Parts<B> {
    pub(crate) fn new(buffers: Vec<B>) -> Parts<B> {
        Parts { buffers, list: Vec::new() }
    }

    /// The buffers again.
    pub fn into_buffers(self) -> Vec<B> {
        self.buffers
    }

    /// The list for a call whose parameters then say that it is one.
    pub(crate) fn list(&mut self, param: &mut sys::ucp_request_param_t) -> (*const c_void, usize) {
        param.op_attr_mask |= sys::UCP_OP_ATTR_FIELD_DATATYPE as u32;
        param.datatype = u64::from(sys::UCP_DATATYPE_IOV);
        self.list = self
            .buffers
            .iter()
            .map(|buffer| buffer.bytes())
            .map(|bytes| sys::ucp_dt_iov_t { buffer: bytes.as_ptr() as *mut c_void, length: bytes.len() })
            .collect();
        (self.list.as_ptr().cast(), self.list.len())
    }
}
