// SPDX-License-Identifier: BSD-3-Clause
//! Waiting for futures while a worker makes progress.

use crate::{sys, Worker};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake};

/// A future of two results ([`join`]).
pub struct Join<A: Future, B: Future> {
    a: (Pin<Box<A>>, Option<A::Output>),
    b: (Pin<Box<B>>, Option<B::Output>),
}

/// Waits for both.
pub fn join<A: Future, B: Future>(a: A, b: B) -> Join<A, B> {
    Join { a: (Box::pin(a), None), b: (Box::pin(b), None) }
}

impl<A: Future, B: Future> Future for Join<A, B>
where
    A::Output: Unpin,
    B::Output: Unpin,
{
    type Output = (A::Output, B::Output);

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.a.1.is_none() {
            if let Poll::Ready(output) = this.a.0.as_mut().poll(task) {
                this.a.1 = Some(output);
            }
        }
        if this.b.1.is_none() {
            if let Poll::Ready(output) = this.b.0.as_mut().poll(task) {
                this.b.1 = Some(output);
            }
        }
        match (this.a.1.take(), this.b.1.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                this.a.1 = a;
                this.b.1 = b;
                Poll::Pending
            }
        }
    }
}

/// Wakes whoever waits in `block_on`, from any thread.
struct Alarm {
    rung: AtomicBool,
    sleeper: Mutex<Option<Sleeper>>,
}

struct Sleeper(sys::ucp_worker_h);

// SAFETY: nothing but ucp_worker_signal is called with it, which any thread may do.
unsafe impl Send for Sleeper {}

impl Alarm {
    fn sleeper(&self) -> MutexGuard<'_, Option<Sleeper>> {
        self.sleeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        if let Some(Sleeper(worker)) = *self.sleeper() {
            // SAFETY: the handle is taken away when `block_on` is left, and so before the worker can go.
            unsafe { sys::ucp_worker_signal(worker) };
        }
    }
}

/// Takes the handle of the worker away from wakers, which may outlive it, when `block_on` is left in whatever way.
struct Lent<'a>(&'a Alarm);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.0.sleeper() = None;
    }
}

pub(crate) fn block_on<F: Future>(worker: &Worker, future: F) -> F::Output {
    let mut future = Box::pin(future);
    let sleeper = if worker.sleeps() { Some(Sleeper(worker.handle())) } else { None };
    let alarm = Arc::new(Alarm { rung: AtomicBool::new(true), sleeper: Mutex::new(sleeper) });
    let _lent = Lent(&alarm);
    let waker = Arc::clone(&alarm).into();
    let mut task = Context::from_waker(&waker);
    loop {
        if alarm.rung.swap(false, Ordering::Acquire) {
            if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
                return output;
            }
        }
        if worker.progress() == 0 && !alarm.rung.load(Ordering::Acquire) {
            worker.wait();
        }
    }
}
