// SPDX-License-Identifier: BSD-3-Clause
//! Everything that progresses together.

use crate::buffer::RecvBuffer;
use crate::error::take_log;
use crate::message::{Handler, Messages};
use crate::operation::Kind;
use crate::{executor, sys, Context, Endpoint, Error, Message, Operation, Received, Result};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::mem;
use std::os::raw::c_void;
use std::os::unix::io::{AsRawFd, RawFd};
use std::panic;
use std::ptr;
use std::rc::Rc;

/// How many times progress is called for what is under way when a worker ends; what is left then is never freed.
const LAST_ROUNDS: u32 = 1_000_000;

pub(crate) struct WorkerHandle {
    handle: sys::ucp_worker_h,
    context: Context,
    outstanding: Rc<Cell<usize>>,
    handlers: RefCell<HashMap<u16, Box<Handler>>>,
    in_progress: Cell<bool>,
    /// Endpoints that the handler under way has closed: the one to the sender of its message may be among them.
    closed: RefCell<Vec<sys::ucp_ep_h>>,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        let mut rounds = 0;
        while self.outstanding.get() > 0 && rounds < LAST_ROUNDS {
            // SAFETY: the worker is there, and no other reference to it.
            unsafe { sys::ucp_worker_progress(self.handle) };
            rounds += 1;
        }
        // SAFETY: endpoints, keys and operations hold references to this, so none of them is left.
        unsafe { sys::ucp_worker_destroy(self.handle) }
    }
}

/// Everything that progresses together, in one thread. Cheap to clone; it ends with its last clone, endpoint and
/// operation.
#[derive(Clone)]
pub struct Worker(Rc<WorkerHandle>);

impl Worker {
    pub(crate) fn new(context: &Context) -> Result<Worker> {
        // SAFETY: all members may be zero; the mask says which of them count.
        let mut params: sys::ucp_worker_params_t = unsafe { std::mem::zeroed() };
        params.field_mask = sys::UCP_WORKER_PARAM_FIELD_THREAD_MODE as u64;
        params.thread_mode = sys::UCS_THREAD_MODE_SINGLE;
        let mut handle: sys::ucp_worker_h = ptr::null_mut();
        // SAFETY: the parameters live during the call, the context as long as the worker.
        Error::check(unsafe { sys::ucp_worker_create(context.0.handle, &params, &mut handle) })?;
        Ok(Worker(Rc::new(WorkerHandle {
            handle,
            context: context.clone(),
            outstanding: Rc::new(Cell::new(0)),
            handlers: RefCell::new(HashMap::new()),
            in_progress: Cell::new(false),
            closed: RefCell::new(Vec::new()),
            panic: RefCell::new(None),
        })))
    }

    /// The context that it was made of.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// The address by which other workers connect to this one.
    pub fn address(&self) -> Result<Vec<u8>> {
        let mut address: *mut sys::ucp_address_t = ptr::null_mut();
        let mut length = 0;
        // SAFETY: the library gives so many bytes until they are released.
        unsafe {
            Error::check(sys::ucp_worker_get_address(self.handle(), &mut address, &mut length))?;
            let bytes = std::slice::from_raw_parts(address as *const u8, length).to_vec();
            sys::ucp_worker_release_address(self.handle(), address);
            Ok(bytes)
        }
    }

    /// An endpoint to the worker with that address. The address may come from anywhere.
    pub fn connect(&self, address: &[u8]) -> Result<Endpoint> {
        Endpoint::to_worker(self, address)
    }

    /// An endpoint to a [`crate::Listener`].
    pub fn connect_to(&self, address: std::net::SocketAddr) -> Result<Endpoint> {
        Endpoint::to_listener(self, address)
    }

    /// Listens at that address; `handler` gets everybody who comes, inside of progress.
    ///
    /// ```no_run
    /// # fn main() -> causeway::Result<()> {
    /// # use causeway::{Context, Features};
    /// # use std::{cell::RefCell, rc::Rc};
    /// # let worker = Context::new(Features::STREAM)?.worker()?;
    /// let guests = Rc::new(RefCell::new(Vec::new()));
    /// let waiting = Rc::clone(&guests);
    /// let listener = worker.listen("0.0.0.0:13400".parse().unwrap(), move |guest| waiting.borrow_mut().push(guest))?;
    /// println!("listening at {}", listener.address()?);
    /// while guests.borrow().is_empty() {
    ///     worker.progress();
    /// }
    /// let endpoint = guests.borrow_mut().remove(0).accept(&worker)?;
    /// let (result, buffer) = worker.block_on(endpoint.stream_recv(vec![0u8; 100], false));
    /// println!("{:?}", &buffer[..result?.length]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen(
        &self,
        address: std::net::SocketAddr,
        handler: impl FnMut(crate::ConnectionRequest) + 'static,
    ) -> Result<crate::Listener> {
        crate::Listener::new(self, address, Box::new(handler))
    }

    /// Moves what can be moved, without waiting; 0: there was nothing to do. Completions and handlers run inside.
    /// Inside of a handler it does nothing.
    ///
    /// # Panics
    /// With what a handler panicked with.
    pub fn progress(&self) -> u32 {
        if self.0.in_progress.replace(true) {
            return 0;
        }
        // SAFETY: the worker is there; nobody else is in it, as it belongs to one thread.
        let count = unsafe { sys::ucp_worker_progress(self.handle()) };
        self.0.in_progress.set(false);
        self.0.closed.borrow_mut().clear();
        drop(take_log()); // it is about no call
        let caught = self.0.panic.borrow_mut().take();
        if let Some(payload) = caught {
            panic::resume_unwind(payload);
        }
        count
    }

    /// Before the program sleeps on the descriptor ([`AsRawFd`]): `true` if it may, `false` if there is something to
    /// progress. Needs [`crate::Features::WAKEUP`].
    pub fn arm(&self) -> Result<bool> {
        // SAFETY: the worker is there.
        let status = unsafe { sys::ucp_worker_arm(self.handle()) };
        if status == sys::UCS_ERR_BUSY {
            return Ok(false);
        }
        Error::check(status).map(|()| true)
    }

    /// Waits for a future, with progress meanwhile; sleeps where the context has [`crate::Features::WAKEUP`].
    ///
    /// # Panics
    /// Inside of a handler, where nothing could make progress.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert!(!self.0.in_progress.get(), "block_on was called inside of a handler");
        executor::block_on(self, future)
    }

    /// Receives a message whose tag is equal in all bits of `mask`.
    pub fn tag_recv<B: RecvBuffer>(&self, tag: u64, mask: u64, buffer: B) -> Operation<B> {
        Operation::start(self, Kind::TagRecv, buffer, None, |buffer, param, info| {
            let bytes = buffer.bytes_mut();
            let mut found = sys::ucp_tag_recv_info_t { sender_tag: 0, length: 0 };
            param.op_attr_mask |= sys::UCP_OP_ATTR_FIELD_RECV_INFO as u32;
            param.recv_info.tag_info = &mut found;
            // SAFETY: the buffer lives until the operation has ended; the information is written in the call only.
            let pointer = unsafe {
                sys::ucp_tag_recv_nbx(self.handle(), bytes.as_mut_ptr().cast(), bytes.len(), tag, mask, param)
            };
            *info = Received { tag: found.sender_tag, length: found.length };
            Ok(pointer)
        })
    }

    /// The first message that waits for a receive with such a tag.
    pub fn tag_probe(&self, tag: u64, mask: u64) -> Option<Received> {
        let mut info = sys::ucp_tag_recv_info_t { sender_tag: 0, length: 0 };
        // SAFETY: the information is written in the call only.
        let found = unsafe { sys::ucp_tag_probe_nb(self.handle(), tag, mask, 0, &mut info) };
        (!found.is_null()).then(|| Received { tag: info.sender_tag, length: info.length })
    }

    /// What is to happen with active messages of that id. The handler runs inside of progress; a clone of the worker
    /// that it owned would never end. [`Error::ALREADY_EXISTS`]: there is one.
    ///
    /// ```no_run
    /// # fn main() -> causeway::Result<()> {
    /// # let worker = causeway::Context::new(causeway::Features::AM)?.worker()?;
    /// worker.on_message(1, |message| match message.data() {
    ///     Some(data) => println!("{:?}: {} bytes", message.header(), data.len()),
    ///     None => {
    ///         let length = message.len();
    ///         if let Some(kept) = message.keep() {
    ///             kept.receive(vec![0u8; length]).detach();
    ///         }
    ///     }
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_message(&self, id: u16, handler: impl FnMut(Message<'_>) + 'static) -> Result<()> {
        if self.0.handlers.borrow().contains_key(&id) {
            return Err(Error::ALREADY_EXISTS);
        }
        let handler = Box::new(Handler::new(Rc::downgrade(&self.0), Box::new(handler)));
        // SAFETY: all members may be zero; the mask says which of them count.
        let mut param: sys::ucp_am_handler_param_t = unsafe { std::mem::zeroed() };
        param.field_mask = (sys::UCP_AM_HANDLER_PARAM_FIELD_ID
            | sys::UCP_AM_HANDLER_PARAM_FIELD_FLAGS
            | sys::UCP_AM_HANDLER_PARAM_FIELD_CB
            | sys::UCP_AM_HANDLER_PARAM_FIELD_ARG) as u64;
        param.id = u32::from(id);
        param.flags = (sys::UCP_AM_FLAG_WHOLE_MSG | sys::UCP_AM_FLAG_PERSISTENT_DATA) as u32;
        param.cb = Some(Handler::arrived);
        param.arg = &*handler as *const Handler as *mut c_void;
        // SAFETY: the handler lies in a box of the worker, which outlives the library's use of it.
        Error::check(unsafe { sys::ucp_worker_set_am_recv_handler(self.handle(), &param) })?;
        self.0.handlers.borrow_mut().insert(id, handler);
        Ok(())
    }

    /// Active messages of that id as a stream, which keeps those that arrive until they are taken. When the stream is
    /// dropped, later ones are lost. [`Error::ALREADY_EXISTS`]: there is a handler.
    ///
    /// ```no_run
    /// # async fn serve(worker: causeway::Worker) -> causeway::Result<()> {
    /// let mut messages = worker.messages(1)?;
    /// loop {
    ///     let message = messages.next().await;
    ///     println!("{:?}: {} bytes", message.header(), message.len());
    ///     let length = message.len();
    ///     let (result, data) = message.receive(vec![0u8; length]).await;
    ///     result?;
    /// }
    /// # }
    /// ```
    pub fn messages(&self, id: u16) -> Result<Messages> {
        Messages::new(self, id)
    }

    /// Waits until everything that was sent, put or posted before is complete at its target.
    pub fn flush(&self) -> Operation<()> {
        Operation::start(self, Kind::Send, (), None, |_, param, _| {
            // SAFETY: the parameters live during the call.
            Ok(unsafe { sys::ucp_worker_flush_nbx(self.handle(), param) })
        })
    }

    pub(crate) fn handle(&self) -> sys::ucp_worker_h {
        self.0.handle
    }

    pub(crate) fn outstanding(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.0.outstanding)
    }

    pub(crate) fn of(handle: Rc<WorkerHandle>) -> Worker {
        Worker(handle)
    }

    pub(crate) fn sleeps(&self) -> bool {
        self.0.context.sleeps()
    }

    /// Sleeps until something happens. An error, as without the feature, means looking again at once.
    pub(crate) fn wait(&self) {
        if self.sleeps() {
            // SAFETY: the worker is there.
            unsafe { sys::ucp_worker_wait(self.handle()) };
        }
    }

    /// Notes that the program closes an endpoint.
    pub(crate) fn closes(&self, endpoint: sys::ucp_ep_h) {
        if self.0.in_progress.get() {
            self.0.closed.borrow_mut().push(endpoint);
        }
    }

    /// A handler begins: what was closed before is not what its message came by.
    pub(crate) fn handler_begins(&self) {
        self.0.closed.borrow_mut().clear();
    }

    /// Whether the handler under way has closed the endpoint.
    pub(crate) fn has_closed(&self, endpoint: sys::ucp_ep_h) -> bool {
        self.0.closed.borrow().contains(&endpoint)
    }

    /// Runs what the program gave, of which no panic may pass through the library. Progress goes on with the first.
    pub(crate) fn guard(&self, action: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(panic::AssertUnwindSafe(action)) {
            let mut first = self.0.panic.borrow_mut();
            if first.is_none() {
                *first = Some(payload);
            } else {
                mem::forget(payload); // Its own end may panic.
            }
        }
    }
}

/// The descriptor that becomes readable when there is something to progress; -1 without [`crate::Features::WAKEUP`].
impl AsRawFd for Worker {
    fn as_raw_fd(&self) -> RawFd {
        let mut fd = -1;
        // SAFETY: the worker is there; on failure the descriptor stays -1.
        unsafe { sys::ucp_worker_get_efd(self.handle(), &mut fd) };
        fd
    }
}
