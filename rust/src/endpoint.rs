// SPDX-License-Identifier: BSD-3-Clause
//! One end of a connection.

use crate::address::{self, RawAddress};
use crate::buffer::{Parts, RecvBuffer, SendBuffer};
use crate::memory::KeyHandle;
use crate::message::post_message;
use crate::operation::Kind;
use crate::{sys, Error, Operation, Received, RemoteKey, Result, Worker};
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::net::SocketAddr;
use std::os::raw::{c_char, c_void};
use std::ptr;
use std::rc::Rc;

/// Addresses of workers say themselves how long they are; one that lies finds so many zeros behind it.
const ADDRESS_ROOM: usize = 1 << 16;

pub(crate) struct EndpointHandle {
    handle: Cell<sys::ucp_ep_h>,
    worker: Worker,
    /// Shared with the library's error callback, which may be called until the endpoint is closed.
    error: Rc<RefCell<Option<Error>>>,
}

extern "C" fn broke(arg: *mut c_void, ep: sys::ucp_ep_h, status: sys::ucs_status_t) {
    // SAFETY: the closing operation keeps this alive until the endpoint is closed.
    let error = unsafe { &*(arg as *const RefCell<Option<Error>>) };
    *error.borrow_mut() = Error::later(status).err().map(|error| error.because_of(ep));
}

impl EndpointHandle {
    /// The error of an operation, with the endpoint's reason if that is why it failed.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let known = self.error.borrow().clone();
        let handle = self.handle.get();
        match known {
            Some(reason) if reason == error => reason,
            None if !handle.is_null() && error.sentence().is_none() => error.because_of(handle),
            _ => error,
        }
    }

    fn close(&self, flags: u32) -> Operation<Rc<RefCell<Option<Error>>>> {
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
        let error = Rc::new(RefCell::new(None));
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
        self.0.error.borrow().clone()
    }

    /// The peer's address; `None` where it was reached by the address of its worker, or is gone.
    pub fn peer(&self) -> Option<SocketAddr> {
        let attr = self.query(sys::UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR, &mut []).ok()?;
        address::read(&attr.remote_sockaddr)
    }

    /// The transports by which it goes, each with its device; empty before the connection stands.
    pub fn transports(&self) -> Vec<(String, String)> {
        // SAFETY: both members may be null.
        let mut entries: [sys::ucp_transport_entry_t; 16] = unsafe { std::mem::zeroed() };
        let count = match self.query(sys::UCP_EP_ATTR_FIELD_TRANSPORTS, &mut entries) {
            Ok(attr) => attr.transports.num_entries as usize,
            Err(_) => 0,
        };
        let text = |name: *const c_char| {
            // SAFETY: the library gives constant texts, or those of the open endpoint.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        };
        let named = entries.iter().take(count).filter(|entry| !entry.transport_name.is_null());
        named.map(|entry| {
            let device = if entry.device_name.is_null() { String::new() } else { text(entry.device_name) };
            (text(entry.transport_name), device)
        }).collect()
    }

    fn query(&self, fields: u32, entries: &mut [sys::ucp_transport_entry_t]) -> Result<sys::ucp_ep_attr_t> {
        // SAFETY: all members may be zero; the mask says which of them are written.
        let mut attr: sys::ucp_ep_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = u64::from(fields);
        attr.transports.entries = entries.as_mut_ptr();
        attr.transports.num_entries = entries.len() as u32;
        attr.transports.entry_size = std::mem::size_of::<sys::ucp_transport_entry_t>();
        // SAFETY: the endpoint is open; so many entries may be written.
        Error::check(unsafe { sys::ucp_ep_query(self.handle()?, &mut attr) })?;
        Ok(attr)
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
            .of(&self.0)
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

    /// Sends several buffers as one message with a tag, without joining them in memory.
    ///
    /// ```no_run
    /// # async fn send(endpoint: causeway::Endpoint) -> causeway::Result<()> {
    /// let (result, parts) = endpoint.tag_send_vectored(7, vec![b"head".to_vec(), vec![0u8; 1 << 20]]).await;
    /// result?;
    /// let buffers = parts.into_buffers();
    /// # Ok(())
    /// # }
    /// ```
    pub fn tag_send_vectored<B: SendBuffer>(&self, tag: u64, buffers: Vec<B>) -> Operation<Parts<B>> {
        self.start(Parts::new(buffers), None, |parts, param| {
            let (list, count) = parts.list(param);
            let ep = self.handle()?;
            // SAFETY: the endpoint is open; the list and its buffers live until the operation has ended.
            Ok(unsafe { sys::ucp_tag_send_nbx(ep, list, count, tag, param) })
        })
    }

    /// Sends several buffers, one behind the other, as bytes of the endpoint's stream.
    pub fn stream_send_vectored<B: SendBuffer>(&self, buffers: Vec<B>) -> Operation<Parts<B>> {
        self.start(Parts::new(buffers), None, |parts, param| {
            let (list, count) = parts.list(param);
            let ep = self.handle()?;
            // SAFETY: as in `tag_send_vectored`.
            Ok(unsafe { sys::ucp_stream_send_nbx(ep, list, count, param) })
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
        .of(&self.0)
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

    /// Sends an active message whose data are several buffers.
    pub fn send_message_vectored<H: SendBuffer, B: SendBuffer>(
        &self,
        id: u16,
        header: H,
        buffers: Vec<B>,
    ) -> Operation<(H, Parts<B>)> {
        self.start((header, Parts::new(buffers)), None, |buffers, param| {
            param.op_attr_mask |= sys::UCP_OP_ATTR_FIELD_FLAGS as u32;
            param.flags = sys::UCP_AM_SEND_FLAG_REPLY as u32;
            let (list, count) = buffers.1.list(param);
            let header = buffers.0.bytes();
            let ep = self.handle()?;
            // SAFETY: as in `send_message`; the list lives as long as its buffers.
            Ok(unsafe {
                sys::ucp_am_send_nbx(ep, u32::from(id), header.as_ptr().cast(), header.len(), list, count, param)
            })
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

    /// Closes it, for all clones, once everything that was sent is delivered. That the peer closed first or died is no
    /// error: [`Endpoint::flush`] shows whether everything was delivered.
    pub async fn close(self) -> Result<()> {
        self.handle()?;
        match self.0.close(0).await.0 {
            Err(error) if error != Error::CONNECTION_RESET => Err(error),
            _ => Ok(()),
        }
    }
}
