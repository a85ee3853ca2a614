// SPDX-License-Identifier: BSD-3-Clause
//! Active messages.

use crate::buffer::{RecvBuffer, SendBuffer};
use crate::operation::Kind;
use crate::worker::WorkerHandle;
use crate::{sys, Error, Operation, Received, Result, Worker};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::os::raw::c_void;
use std::pin::Pin;
use std::ptr;
use std::rc::{Rc, Weak};
use std::slice;
use std::task::{Context, Poll, Waker};

type Function = Box<dyn FnMut(Message<'_>)>;

/// What the library is given for an id.
pub(crate) struct Handler {
    worker: Weak<WorkerHandle>,
    function: RefCell<Function>,
}

/// Bytes of the library; an empty range may have no address.
///
/// # Safety
/// So many bytes are there as long as the result is used.
unsafe fn bytes<'a>(start: *const c_void, length: usize) -> &'a [u8] {
    if length == 0 {
        &[]
    } else {
        // SAFETY: as the caller says.
        unsafe { slice::from_raw_parts(start.cast(), length) }
    }
}

/// Gives an active message to the library: a header and data.
///
/// # Safety
/// The endpoint is open, and both parts stay where they are until the operation has ended.
pub(crate) unsafe fn post_message(
    ep: sys::ucp_ep_h,
    id: u16,
    (header, bytes): (&[u8], &[u8]),
    param: &sys::ucp_request_param_t,
) -> sys::ucs_status_ptr_t {
    // SAFETY: as the caller says.
    unsafe {
        sys::ucp_am_send_nbx(
            ep,
            u32::from(id),
            header.as_ptr().cast(),
            header.len(),
            bytes.as_ptr().cast(),
            bytes.len(),
            param,
        )
    }
}

impl Handler {
    pub(crate) fn new(worker: Weak<WorkerHandle>, function: Function) -> Handler {
        Handler { worker, function: RefCell::new(function) }
    }

    /// The library's callback.
    pub(crate) unsafe extern "C" fn arrived(
        arg: *mut c_void,
        header: *const c_void,
        header_length: usize,
        data: *mut c_void,
        length: usize,
        param: *const sys::ucp_am_recv_param_t,
    ) -> sys::ucs_status_t {
        // SAFETY: the worker owns the handler, and the library calls for this worker only.
        let handler = unsafe { &*(arg as *const Handler) };
        // A worker that is ending has nobody left to hand it to.
        let worker = match handler.worker.upgrade() {
            Some(worker) => Worker::of(worker),
            None => return sys::UCS_OK,
        };
        // SAFETY: the library gives these for the time of the callback.
        let (header, attributes, reply) = unsafe {
            (bytes(header, header_length), (*param).recv_attr, (*param).reply_ep)
        };
        let has_reply = attributes & u64::from(sys::UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
        let kept = Cell::new(false);
        let message = Message {
            header,
            data,
            length,
            announced: attributes & u64::from(sys::UCP_AM_RECV_ATTR_FLAG_RNDV) != 0,
            keeps: attributes & u64::from(sys::UCP_AM_RECV_ATTR_FLAG_DATA | sys::UCP_AM_RECV_ATTR_FLAG_RNDV) != 0,
            reply: if has_reply { reply } else { ptr::null_mut() },
            worker: &worker,
            kept: &kept,
        };
        worker.handler_begins();
        worker.guard(|| {
            if let Ok(mut function) = handler.function.try_borrow_mut() {
                function(message);
            }
        });
        if kept.get() {
            sys::UCS_INPROGRESS
        } else {
            sys::UCS_OK
        }
    }
}

/// An active message, for the time of its handler.
pub struct Message<'a> {
    header: &'a [u8],
    data: *mut c_void,
    length: usize,
    announced: bool,
    keeps: bool,
    reply: sys::ucp_ep_h,
    worker: &'a Worker,
    kept: &'a Cell<bool>,
}

impl<'a> Message<'a> {
    /// The header. It lies where the data does, so it is there until [`Message::keep`].
    pub fn header(&self) -> &[u8] {
        self.header
    }

    /// How many bytes of data it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no data.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The data, where it lies. `None`: it is at the sender's still, and [`Message::keep`] gives what receives it.
    pub fn data(&self) -> Option<&[u8]> {
        // SAFETY: data that came along is there for the time of the callback, unless `keep` takes it before.
        (!self.announced).then(|| unsafe { bytes(self.data, self.length) })
    }

    /// The worker that it came to.
    pub fn worker(&self) -> &'a Worker {
        self.worker
    }

    /// Answers the sender with an active message. [`Error::NOT_CONNECTED`]: the handler has closed the connection.
    pub fn reply<H: SendBuffer, B: SendBuffer>(&self, id: u16, header: H, buffer: B) -> Operation<(H, B)> {
        if self.reply.is_null() {
            return Operation::failed(self.worker, (header, buffer), Error::UNREACHABLE);
        }
        Operation::start(self.worker, Kind::Send, (header, buffer), None, |buffers, param, _| {
            let parts = (buffers.0.bytes(), buffers.1.bytes());
            if self.worker.has_closed(self.reply) {
                return Err(Error::NOT_CONNECTED);
            }
            // SAFETY: both live until the operation has ended, the endpoint for the time of the callback.
            Ok(unsafe { post_message(self.reply, id, parts, param) })
        })
    }

    /// Keeps the data beyond the handler. A message without data cannot be kept.
    pub fn keep(self) -> Option<KeptMessage> {
        (self.keeps && !self.data.is_null() && !self.kept.replace(true)).then(|| KeptMessage {
            data: self.data,
            length: self.length,
            announced: self.announced,
            worker: self.worker.clone(),
        })
    }
}

/// The data of an active message, kept beyond its handler. Dropping it gives the data up.
pub struct KeptMessage {
    data: *mut c_void,
    length: usize,
    announced: bool,
    worker: Worker,
}

impl KeptMessage {
    /// How many bytes of data it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no data.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The data, where it lies. `None`: it is at the sender's still.
    pub fn data(&self) -> Option<&[u8]> {
        // SAFETY: data that came along is there until it is released.
        (!self.announced).then(|| unsafe { bytes(self.data, self.length) })
    }

    /// Receives the data.
    pub fn receive<B: RecvBuffer>(mut self, buffer: B) -> Operation<B> {
        let (worker, length) = (self.worker.clone(), self.length);
        Operation::start(&worker, Kind::MessageRecv, buffer, None, |buffer, param, info| {
            let bytes = buffer.bytes_mut();
            if bytes.len() < length {
                return Err(Error::TRUNCATED);
            }
            if !self.announced {
                if length > 0 {
                    // SAFETY: both have so many bytes, and nothing of them is the same.
                    unsafe { ptr::copy_nonoverlapping(self.data.cast(), bytes.as_mut_ptr(), length) };
                }
                *info = Received { tag: 0, length };
                return Ok(ptr::null_mut());
            }
            let data = std::mem::replace(&mut self.data, ptr::null_mut());
            let mut received = 0;
            param.op_attr_mask |= sys::UCP_OP_ATTR_FIELD_RECV_INFO as u32;
            param.recv_info.length = &mut received;
            // SAFETY: the buffer lives until the operation has ended; the announcement is used this once.
            let pointer = unsafe {
                sys::ucp_am_recv_data_nbx(worker.handle(), data, bytes.as_mut_ptr().cast(), length, param)
            };
            *info = Received { tag: 0, length: received };
            Ok(pointer)
        })
    }
}

impl Drop for KeptMessage {
    fn drop(&mut self) {
        if !self.data.is_null() {
            // SAFETY: it was neither received nor released.
            unsafe { sys::ucp_am_data_release(self.worker.handle(), self.data) }
        }
    }
}

/// An active message that a stream has kept.
pub struct Taken {
    header: Vec<u8>,
    data: KeptMessage,
}

impl Taken {
    /// The header.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// How many bytes of data it has.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether it has no data.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The data, where it lies. `None`: it is at the sender's still, and [`Taken::receive`] fetches it.
    pub fn data(&self) -> Option<&[u8]> {
        self.data.data()
    }

    /// Receives the data.
    pub fn receive<B: RecvBuffer>(self, buffer: B) -> Operation<B> {
        self.data.receive(buffer)
    }
}

struct Inbox {
    messages: RefCell<VecDeque<Taken>>,
    waker: RefCell<Option<Waker>>,
}

/// Active messages of one id, in the order of their arrival ([`Worker::messages`]). A `Stream` of the crate futures is
/// one line over [`Messages::poll_next`].
pub struct Messages(Rc<Inbox>);

impl Messages {
    pub(crate) fn new(worker: &Worker, id: u16) -> Result<Messages> {
        let inbox = Rc::new(Inbox { messages: RefCell::new(VecDeque::new()), waker: RefCell::new(None) });
        let place = Rc::downgrade(&inbox); // what is kept there holds the worker, which holds the handler
        worker.on_message(id, move |message| {
            if let Some(inbox) = place.upgrade() {
                let header = message.header().to_vec();
                let (worker, length) = (message.worker().clone(), message.len());
                let empty = || KeptMessage { data: ptr::null_mut(), length: 0, announced: false, worker };
                match message.keep() {
                    Some(data) => inbox.messages.borrow_mut().push_back(Taken { header, data }),
                    None if length == 0 => inbox.messages.borrow_mut().push_back(Taken { header, data: empty() }),
                    None => return,
                }
                let waker = inbox.waker.take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        })?;
        Ok(Messages(inbox))
    }

    /// The next message, or none yet: then the task is woken when one comes.
    pub fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Taken> {
        let first = self.0.messages.borrow_mut().pop_front();
        match first {
            Some(message) => Poll::Ready(message),
            None => {
                let old = self.0.waker.replace(Some(task.waker().clone()));
                drop(old);
                Poll::Pending
            }
        }
    }

    /// Waits for the next message. There is no end of them: the peers' connections have one.
    pub fn next(&mut self) -> Next<'_> {
        Next(self)
    }
}

/// A future of the next message ([`Messages::next`]). Dropping it loses none.
pub struct Next<'a>(&'a mut Messages);

impl Future for Next<'_> {
    type Output = Taken;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Taken> {
        self.0.poll_next(task)
    }
}
