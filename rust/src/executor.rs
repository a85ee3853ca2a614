// SPDX-License-Identifier: BSD-3-Clause
//! Waiting for futures while a worker makes progress.

use crate::{sys, Worker};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
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

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        if let Ok(sleeper) = self.sleeper.lock() {
            if let Some(Sleeper(worker)) = *sleeper {
                // SAFETY: the handle is taken away before `block_on` returns, and so before the worker can go.
                unsafe { sys::ucp_worker_signal(worker) };
            }
        }
    }
}

pub(crate) fn block_on<F: Future>(worker: &Worker, future: F) -> F::Output {
    let mut future = Box::pin(future);
    let sleeper = if worker.sleeps() { Some(Sleeper(worker.handle())) } else { None };
    let alarm = Arc::new(Alarm { rung: AtomicBool::new(true), sleeper: Mutex::new(sleeper) });
    let waker = Arc::clone(&alarm).into();
    let mut task = Context::from_waker(&waker);
    loop {
        if alarm.rung.swap(false, Ordering::Acquire) {
            if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
                if let Ok(mut sleeper) = alarm.sleeper.lock() {
                    *sleeper = None;
                }
                return output;
            }
        }
        if worker.progress() == 0 && !alarm.rung.load(Ordering::Acquire) {
            worker.wait();
        }
    }
}
