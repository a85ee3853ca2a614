// SPDX-License-Identifier: BSD-3-Clause
//! Meeting by socket addresses.

use crate::address::{self, RawAddress};
use crate::{sys, Endpoint, Error, Result, Worker};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::raw::c_void;
use std::ptr;
use std::rc::Rc;

type Handler = Box<dyn FnMut(ConnectionRequest)>;

struct Shared {
    worker: Worker,
    handle: RefCell<sys::ucp_listener_h>,
    handler: RefCell<Handler>,
}

/// Listens at a socket address until it is dropped.
pub struct Listener(Rc<Shared>);

/// Somebody who came to a listener. Dropping it refuses the connection; once the listener was dropped, the connection is
/// accepted and closed at once.
pub struct ConnectionRequest {
    handle: sys::ucp_conn_request_h,
    listener: Rc<Shared>,
}

extern "C" fn came(request: sys::ucp_conn_request_h, arg: *mut c_void) {
    // SAFETY: the listener owns a reference as long as the library calls this; it takes one of its own.
    let shared = unsafe {
        Rc::increment_strong_count(arg as *const Shared);
        Rc::from_raw(arg as *const Shared)
    };
    let request = ConnectionRequest { handle: request, listener: Rc::clone(&shared) };
    shared.worker.guard(|| {
        if let Ok(mut handler) = shared.handler.try_borrow_mut() {
            handler(request);
        }
    });
}

impl Listener {
    pub(crate) fn new(worker: &Worker, address: SocketAddr, handler: Handler) -> Result<Listener> {
        let shared = Rc::new(Shared {
            worker: worker.clone(),
            handle: RefCell::new(ptr::null_mut()),
            handler: RefCell::new(handler),
        });
        let raw = RawAddress::new(address);
        // SAFETY: all members may be zero; the mask says which of them count.
        let mut params: sys::ucp_listener_params_t = unsafe { std::mem::zeroed() };
        params.field_mask =
            (sys::UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | sys::UCP_LISTENER_PARAM_FIELD_CONN_HANDLER) as u64;
        params.sockaddr = sys::ucs_sock_addr_t { addr: raw.as_ptr(), addrlen: raw.length() };
        params.conn_handler.cb = Some(came);
        params.conn_handler.arg = Rc::as_ptr(&shared) as *mut c_void;
        let mut handle: sys::ucp_listener_h = ptr::null_mut();
        // SAFETY: the address lives during the call, the argument as long as the listener.
        Error::check(unsafe { sys::ucp_listener_create(worker.handle(), &params, &mut handle) })?;
        *shared.handle.borrow_mut() = handle;
        Ok(Listener(shared))
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> Result<SocketAddr> {
        // SAFETY: all members may be zero; the mask says which of them are written.
        let mut attr: sys::ucp_listener_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = sys::UCP_LISTENER_ATTR_FIELD_SOCKADDR as u64;
        // SAFETY: the listener is there.
        Error::check(unsafe { sys::ucp_listener_query(*self.0.handle.borrow(), &mut attr) })?;
        address::read(&attr.sockaddr).ok_or(Error::INVALID_PARAM)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let handle = self.0.handle.replace(ptr::null_mut());
        // SAFETY: it is destroyed this once, and its callback is not called afterwards.
        unsafe { sys::ucp_listener_destroy(handle) }
    }
}

impl ConnectionRequest {
    /// An endpoint to whoever came, on any worker of the same thread.
    pub fn accept(mut self, worker: &Worker) -> Result<Endpoint> {
        let handle = std::mem::replace(&mut self.handle, ptr::null_mut());
        Endpoint::make(worker, |params| {
            params.field_mask |= sys::UCP_EP_PARAM_FIELD_CONN_REQUEST as u64;
            params.conn_request = handle;
        })
    }
}

impl Drop for ConnectionRequest {
    fn drop(&mut self) {
        let listener = *self.listener.handle.borrow();
        let handle = std::mem::replace(&mut self.handle, ptr::null_mut());
        if handle.is_null() {
            return;
        }
        if !listener.is_null() {
            // SAFETY: the request was neither accepted nor refused.
            unsafe { sys::ucp_listener_reject(listener, handle) };
            return;
        }
        // Without its listener a request can only be accepted (CS-12): the endpoint is closed at once.
        drop(Endpoint::make(&self.listener.worker, |params| {
            params.field_mask |= sys::UCP_EP_PARAM_FIELD_CONN_REQUEST as u64;
            params.conn_request = handle;
        }));
    }
}
