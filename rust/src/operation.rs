// SPDX-License-Identifier: BSD-3-Clause
//! An operation under way, with the memory that the library uses for it.

use crate::endpoint::EndpointHandle;
use crate::memory::KeyHandle;
use crate::{sys, Error, Result, Worker};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::future::Future;
use std::mem;
use std::os::raw::c_void;
use std::panic;
use std::pin::Pin;
use std::ptr;
use std::rc::{Rc, Weak};
use std::task::{Context as TaskContext, Poll, Waker};

/// What an operation gives back: how it ended, and the buffer.
pub type BufferResult<I, B> = (Result<I>, B);

/// What came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// The tag of the message; 0 for what has none.
    pub tag: u64,
    /// How many bytes came.
    pub length: usize,
}

/// Shared by the operation and, while it is under way, by the library's request. What the library uses for the
/// operation is in it, so that it is there until the operation has ended.
pub(crate) struct State<B> {
    request: Cell<*mut c_void>,
    ended: RefCell<Option<Result<Received>>>,
    waker: RefCell<Option<Waker>>,
    buffer: UnsafeCell<Option<B>>,
    key: RefCell<Option<Rc<KeyHandle>>>,
    outstanding: Rc<Cell<usize>>,
}

impl<B> State<B> {
    /// Of an operation that the worker counts as under way until it has ended.
    fn new(worker: &Worker, buffer: B, key: Option<Rc<KeyHandle>>) -> Rc<State<B>> {
        let outstanding = worker.outstanding();
        outstanding.set(outstanding.get() + 1);
        Rc::new(State {
            request: Cell::new(ptr::null_mut()),
            ended: RefCell::new(None),
            waker: RefCell::new(None),
            buffer: UnsafeCell::new(Some(buffer)),
            key: RefCell::new(key),
            outstanding,
        })
    }

    fn end(&self, result: Result<Received>) {
        *self.ended.borrow_mut() = Some(result);
        self.request.set(ptr::null_mut());
        self.outstanding.set(self.outstanding.get() - 1);
        drop(self.key.take());
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<B> Drop for State<B> {
    fn drop(&mut self) {
        if self.ended.get_mut().is_none() {
            self.outstanding.set(self.outstanding.get() - 1); // it was never posted: its buffer panicked
        }
    }
}

/// The reference to the state that a request is about to have. It is taken back when a panic of the buffer, which is the
/// program's, keeps the operation from being posted.
struct Offered<B>(*const State<B>);

impl<B> Drop for Offered<B> {
    fn drop(&mut self) {
        // SAFETY: made by `into_raw`, and no request has it.
        drop(unsafe { Rc::from_raw(self.0) });
    }
}

/// Which callback of the library an operation wants.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Send,
    TagRecv,
    StreamRecv,
    MessageRecv,
}

/// Ends the operation whose state the request brought along.
///
/// # Safety
/// `user_data` is the pointer that `start` gave to the request, and this is the request's only callback.
unsafe fn end<B>(request: *mut c_void, result: Result<Received>, user_data: *mut c_void) {
    // SAFETY: `start` made it of such a reference, which this takes back.
    let state = unsafe { Rc::from_raw(user_data as *const State<B>) };
    // SAFETY: the request is complete; the library takes the handle back inside a callback, too.
    unsafe { sys::ucp_request_free(request) };
    // Wakers and buffers are the program's, and no panic of theirs may pass through the library.
    if let Err(payload) = panic::catch_unwind(panic::AssertUnwindSafe(move || state.end(result))) {
        mem::forget(payload); // It was printed on standard error; its own end may panic.
    }
}

extern "C" fn sent<B>(request: *mut c_void, status: sys::ucs_status_t, user_data: *mut c_void) {
    let result = Error::later(status).map(|()| Received::default());
    // SAFETY: the library calls this once for a request of `start`.
    unsafe { end::<B>(request, result, user_data) }
}

extern "C" fn tag_received<B>(
    request: *mut c_void,
    status: sys::ucs_status_t,
    info: *const sys::ucp_tag_recv_info_t,
    user_data: *mut c_void,
) {
    // SAFETY: the library gives the information for the time of the callback.
    let result = Error::later(status).map(|()| unsafe {
        Received { tag: (*info).sender_tag, length: (*info).length }
    });
    // SAFETY: as in `sent`.
    unsafe { end::<B>(request, result, user_data) }
}

extern "C" fn received<B>(request: *mut c_void, status: sys::ucs_status_t, length: usize, user_data: *mut c_void) {
    let result = Error::later(status).map(|()| Received { tag: 0, length });
    // SAFETY: as in `sent`.
    unsafe { end::<B>(request, result, user_data) }
}

/// An operation under way: a future of how it ended and of its buffer. Dropping it cancels the operation; the buffer is
/// freed when the library is done with it.
#[must_use = "an operation that is dropped is cancelled"]
pub struct Operation<B: 'static> {
    state: Rc<State<B>>,
    worker: Worker,
    /// Knows why it failed, as long as it is open.
    endpoint: Weak<EndpointHandle>,
}

impl<B: 'static> Operation<B> {
    /// Starts an operation that uses the key, if there is one. `post` calls the library with the buffer, which stays
    /// where it is, and the parameters that name the callback; it may add members to them. Results that the library
    /// writes in the call go to `*info`. The methods of buffers are the program's code, which may close endpoints or
    /// panic: `post` calls them first, and then takes the handles that it gives to the library.
    pub(crate) fn start(
        worker: &Worker,
        kind: Kind,
        buffer: B,
        key: Option<Rc<KeyHandle>>,
        post: impl FnOnce(&mut B, &mut sys::ucp_request_param_t, &mut Received) -> Result<sys::ucs_status_ptr_t>,
    ) -> Operation<B> {
        let state = State::new(worker, buffer, key);
        let offered = Offered(Rc::into_raw(Rc::clone(&state)));
        // SAFETY: all members may be zero; the mask says which of them count.
        let mut param: sys::ucp_request_param_t = unsafe { std::mem::zeroed() };
        param.op_attr_mask = (sys::UCP_OP_ATTR_FIELD_CALLBACK | sys::UCP_OP_ATTR_FIELD_USER_DATA) as u32;
        param.user_data = offered.0 as *mut c_void;
        param.cb = match kind {
            Kind::Send => sys::ucp_request_param_t__bindgen_ty_1 { send: Some(sent::<B>) },
            Kind::TagRecv => sys::ucp_request_param_t__bindgen_ty_1 { recv: Some(tag_received::<B>) },
            Kind::StreamRecv => sys::ucp_request_param_t__bindgen_ty_1 { recv_stream: Some(received::<B>) },
            Kind::MessageRecv => sys::ucp_request_param_t__bindgen_ty_1 { recv_am: Some(received::<B>) },
        };
        let mut info = Received::default();
        // SAFETY: nobody else has the state yet, and the buffer stays in it until the operation has ended.
        let posted = unsafe {
            match (*state.buffer.get()).as_mut() {
                Some(buffer) => post(buffer, &mut param, &mut info),
                None => Ok(ptr::null_mut()),
            }
        };
        let (pointer, ended) = match posted {
            Ok(pointer) => (pointer, Error::of_pointer(pointer)),
            Err(error) => (ptr::null_mut(), Some(Err(error))),
        };
        match ended {
            None => {
                mem::forget(offered); // the callback takes the reference back
                if state.ended.borrow().is_none() {
                    state.request.set(pointer);
                }
            }
            Some(result) => {
                drop(offered); // no callback follows
                state.end(result.map(|()| info));
            }
        }
        Operation { state, worker: worker.clone(), endpoint: Weak::new() }
    }

    /// The same as an operation of that endpoint.
    pub(crate) fn of(mut self, endpoint: &Rc<EndpointHandle>) -> Operation<B> {
        self.endpoint = Rc::downgrade(endpoint);
        self
    }

    /// An operation that failed before the library saw it.
    pub(crate) fn failed(worker: &Worker, buffer: B, error: Error) -> Operation<B> {
        let state = State::new(worker, buffer, None);
        state.end(Err(error));
        Operation { state, worker: worker.clone(), endpoint: Weak::new() }
    }

    /// Asks the library to give the operation up. It ends with [`Error::CANCELED`], unless it was faster.
    pub fn cancel(&self) {
        let request = self.state.request.get();
        if !request.is_null() {
            // SAFETY: the request is under way, as its callback forgets it.
            unsafe { sys::ucp_request_cancel(self.worker.handle(), request) }
        }
    }

    /// Whether it has ended, in whatever way.
    pub fn is_done(&self) -> bool {
        self.state.ended.borrow().is_some()
    }

    /// Lets it go on by itself: nobody will ask how it ended.
    pub fn detach(self) {
        self.state.request.set(ptr::null_mut());
    }
}

impl<B: 'static> Future for Operation<B> {
    type Output = BufferResult<Received, B>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if self.state.ended.borrow().is_none() {
            // Wakers are the program's: what their methods do may end the operation.
            let old = self.state.waker.replace(Some(task.waker().clone()));
            drop(old);
        }
        let ended = self.state.ended.borrow().clone();
        match ended {
            None => Poll::Pending,
            Some(result) => {
                let result = result.map_err(|error| match self.endpoint.upgrade() {
                    Some(endpoint) => endpoint.explain(error),
                    None => error,
                });
                // SAFETY: the library has let go of the buffer.
                let buffer = unsafe { (*self.state.buffer.get()).take() };
                Poll::Ready((result, buffer.expect("an operation was polled after it had given its result")))
            }
        }
    }
}

impl<B: 'static> Drop for Operation<B> {
    fn drop(&mut self) {
        self.cancel();
    }
}
