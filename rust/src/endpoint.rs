// SPDX-License-Identifier: BSD-3-Clause
//! One end of a connection.

use crate::address::RawAddress;
use crate::buffer::{RecvBuffer, SendBuffer};
use crate::memory::KeyHandle;
use crate::message::post_message;
use crate::operation::Kind;
use crate::{sys, Error, Operation, Received, RemoteKey, Result, Worker};
use std::cell::Cell;
use std::net::SocketAddr;
use std::os::raw::c_void;
use std::ptr;
use std::rc::Rc;

/// Addresses of workers say themselves how long they are; one that lies finds so many zeros behind it.
const ADDRESS_ROOM: usize = 1 << 16;

pub(crate) struct EndpointHandle {
    handle: Cell<sys::ucp_ep_h>,
    worker: Worker,
    /// Shared with the library's error callback, which may be called until the endpoint is closed.
    error: Rc<Cell<Option<Error>>>,
}

extern "C" fn broke(arg: *mut c_void, _ep: sys::ucp_ep_h, status: sys::ucs_status_t) {
    // SAFETY: the closing operation keeps this alive until the endpoint is closed.
    let error = unsafe { &*(arg as *const Cell<Option<Error>>) };
    error.set(Error::check(status).err());
}

impl EndpointHandle {
    fn close(&self, flags: u32) -> Operation<Rc<Cell<Option<Error>>>> {
        let handle = self.handle.replace(ptr::null_mut());
        self.worker.closes(handle);
        Operation::start(&self.worker, Kind::Send, Rc::clone(&self.error), None, |_, param, _| {
            param.op_attr_mask |= sys::UCP_OP_ATTR_FIELD_FLAGS as u32;
            param.flags = flags;
            // SAFETY: the handle is closed this once.
            Ok(unsafe { sys::ucp_ep_close_nbx(handle, param) })
        })
    }
}

impl Drop for EndpointHandle {
    fn drop(&mut self) {
        if !self.handle.get().is_null() {
            self.close(sys::UCP_EP_CLOSE_FLAG_FORCE).detach();
        }
    }
}

/// One end of a connection between two workers. Cheap to clone. With its last clone it is closed at once, and what is
/// under way ends with an error; [`Endpoint::close`] waits for it.
#[derive(Clone)]
pub struct Endpoint(Rc<EndpointHandle>);

impl Endpoint {
    /// `fill` sets the members that say to whom, with their bits; what they point to lives during the call.
    pub(crate) fn make(worker: &Worker, fill: impl FnOnce(&mut sys::ucp_ep_params_t)) -> Result<Endpoint> {
        let error = Rc::new(Cell::new(None));
        // SAFETY: all members may be zero; the mask says which of them count.
        let mut params: sys::ucp_ep_params_t = unsafe { std::mem::zeroed() };
        params.field_mask = (sys::UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | sys::UCP_EP_PARAM_FIELD_ERR_HANDLER) as u64;
        params.err_mode = sys::UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = Some(broke);
        params.err_handler.arg = Rc::as_ptr(&error) as *mut c_void;
        fill(&mut params);
        let mut handle: sys::ucp_ep_h = ptr::null_mut();
        // SAFETY: the parameters and what they name live during the call.
        Error::check(unsafe { sys::ucp_ep_create(worker.handle(), &params, &mut handle) })?;
        Ok(Endpoint(Rc::new(EndpointHandle { handle: Cell::new(handle), worker: worker.clone(), error })))
    }

    pub(crate) fn to_worker(worker: &Worker, address: &[u8]) -> Result<Endpoint> {
        if address.is_empty() || address.len() > ADDRESS_ROOM {
            return Err(Error::INVALID_PARAM);
        }
        let mut room = vec![0u8; 2 * ADDRESS_ROOM];
        room[..address.len()].copy_from_slice(address);
        Endpoint::make(worker, |params| {
            params.field_mask |= sys::UCP_EP_PARAM_FIELD_REMOTE_ADDRESS as u64;
            params.address = room.as_ptr().cast();
        })
    }

    pub(crate) fn to_listener(worker: &Worker, address: SocketAddr) -> Result<Endpoint> {
        let raw = RawAddress::new(address);
        Endpoint::make(worker, |params| {
            params.field_mask |= (sys::UCP_EP_PARAM_FIELD_SOCK_ADDR | sys::UCP_EP_PARAM_FIELD_FLAGS) as u64;
            params.flags = sys::UCP_EP_PARAMS_FLAGS_CLIENT_SERVER as u32;
            params.sockaddr = sys::ucs_sock_addr_t { addr: raw.as_ptr(), addrlen: raw.length() };
        })
    }

    /// The worker that it belongs to.
    pub fn worker(&self) -> &Worker {
        &self.0.worker
    }

    /// Why the connection broke; `None` as long as it is well.
    pub fn error(&self) -> Option<Error> {
        self.0.error.get()
    }

    /// The handle, or why there is none any more.
    pub(crate) fn handle(&self) -> Result<sys::ucp_ep_h> {
        let handle = self.0.handle.get();
        if handle.is_null() {
            Err(Error::NOT_CONNECTED)
        } else {
            Ok(handle)
        }
    }

    /// Starts an operation with the callback of a send, as `Operation::start` says.
    pub(crate) fn start<B>(
        &self,
        buffer: B,
        key: Option<&Rc<KeyHandle>>,
        post: impl FnOnce(&mut B, &mut sys::ucp_request_param_t) -> Result<sys::ucs_status_ptr_t>,
    ) -> Operation<B> {
        Operation::start(&self.0.worker, Kind::Send, buffer, key.cloned(), |buffer, param, _| post(buffer, param))
    }

    /// Sends a message with a tag.
    pub fn tag_send<B: SendBuffer>(&self, tag: u64, buffer: B) -> Operation<B> {
        self.start(buffer, None, |buffer, param| {
            let bytes = buffer.bytes();
            let ep = self.handle()?;
            // SAFETY: the endpoint is open; the buffer lives until the operation has ended.
            Ok(unsafe { sys::ucp_tag_send_nbx(ep, bytes.as_ptr().cast(), bytes.len(), tag, param) })
        })
    }

    /// Sends bytes of the endpoint's stream.
    pub fn stream_send<B: SendBuffer>(&self, buffer: B) -> Operation<B> {
        self.start(buffer, None, |buffer, param| {
            let bytes = buffer.bytes();
            let ep = self.handle()?;
            // SAFETY: as in `tag_send`.
            Ok(unsafe { sys::ucp_stream_send_nbx(ep, bytes.as_ptr().cast(), bytes.len(), param) })
        })
    }

    /// Receives bytes of the endpoint's stream: what there is, or, with `all`, as many as the buffer takes.
    pub fn stream_recv<B: RecvBuffer>(&self, buffer: B, all: bool) -> Operation<B> {
        Operation::start(&self.0.worker, Kind::StreamRecv, buffer, None, |buffer, param, info| {
            let bytes = buffer.bytes_mut();
            let handle = self.handle()?;
            param.op_attr_mask |= sys::UCP_OP_ATTR_FIELD_FLAGS as u32;
            param.flags = if all { sys::UCP_STREAM_RECV_FLAG_WAITALL } else { 0 };
            let mut length = 0;
            // SAFETY: the buffer lives until the operation has ended; the length is written in the call only.
            let pointer = unsafe {
                sys::ucp_stream_recv_nbx(handle, bytes.as_mut_ptr().cast(), bytes.len(), &mut length, param)
            };
            *info = Received { tag: 0, length };
            Ok(pointer)
        })
    }

    /// Sends an active message: a header and data for the handler of that id.
    pub fn send_message<H: SendBuffer, B: SendBuffer>(&self, id: u16, header: H, buffer: B) -> Operation<(H, B)> {
        self.start((header, buffer), None, |buffers, param| {
            param.op_attr_mask |= sys::UCP_OP_ATTR_FIELD_FLAGS as u32;
            param.flags = sys::UCP_AM_SEND_FLAG_REPLY as u32;
            let parts = (buffers.0.bytes(), buffers.1.bytes());
            let ep = self.handle()?;
            // SAFETY: the endpoint is open, and both buffers live until the operation has ended.
            Ok(unsafe { post_message(ep, id, parts, param) })
        })
    }

    /// Reads a key that the owner of memory gave ([`crate::Memory::key`]). The bytes may come from anywhere.
    pub fn remote_key(&self, key: &[u8]) -> Result<RemoteKey> {
        RemoteKey::unpack(self, key)
    }

    /// Waits until everything that was sent, put or posted before is complete at the target.
    pub fn flush(&self) -> Operation<()> {
        self.start((), None, |_, param| {
            let ep = self.handle()?;
            // SAFETY: the endpoint is open.
            Ok(unsafe { sys::ucp_ep_flush_nbx(ep, param) })
        })
    }

    /// Closes it, for all clones, once everything that was sent is delivered.
    pub async fn close(self) -> Result<()> {
        self.handle()?;
        self.0.close(0).await.0.map(|_| ())
    }
}
