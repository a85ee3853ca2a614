// SPDX-License-Identifier: BSD-3-Clause
//! What the library uses for an operation is there until the operation has ended, on every way out: a panic, a drop, a
//! close in the middle. Most of these harm memory where they fail: `test.sh ... valgrind` sees it.

use causeway::{join, Context, Endpoint, Error, Features, RecvBuffer, SendBuffer, Worker};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread;

const LARGE: usize = 200_000;

fn all() -> Context {
    let features =
        Features::TAG | Features::STREAM | Features::AM | Features::RMA | Features::ATOMIC | Features::WAKEUP;
    Context::new(features).unwrap()
}

fn loopback() -> (Worker, Endpoint) {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    (worker, endpoint)
}

fn two() -> (Worker, Worker, Endpoint) {
    let context = all();
    let (near, far) = (context.worker().unwrap(), context.worker().unwrap());
    let endpoint = near.connect(&far.address().unwrap()).unwrap();
    (near, far, endpoint)
}

fn catch<T>(action: impl FnOnce() -> T) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(action)).err()?;
    Some(payload.downcast_ref::<&str>().map_or_else(String::new, |text| text.to_string()))
}

/// A buffer that does something when the crate asks for its bytes, and that records when it is dropped.
struct Does<F> {
    bytes: Vec<u8>,
    action: RefCell<Option<F>>,
    _alive: Rc<()>,
}

impl<F: FnOnce() + 'static> Does<F> {
    fn new(alive: &Rc<()>, action: F) -> Does<F> {
        Does { bytes: vec![7; 64], action: RefCell::new(Some(action)), _alive: Rc::clone(alive) }
    }

    fn act(&self) {
        let action = self.action.borrow_mut().take();
        if let Some(action) = action {
            action();
        }
    }
}

// SAFETY: the bytes lie on the heap, and nobody changes them.
unsafe impl<F: FnOnce() + 'static> SendBuffer for Does<F> {
    fn bytes(&self) -> &[u8] {
        self.act();
        &self.bytes
    }
}

// SAFETY: as above; the only owner.
unsafe impl<F: FnOnce() + 'static> RecvBuffer for Does<F> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.act();
        &mut self.bytes
    }
}

#[test]
fn a_key_may_be_dropped_while_it_is_used() {
    drop_keys_in_use(all(), all());
    // What is posted here waits for the connection.
    let over_tcp = || Context::with_settings(Features::RMA | Features::WAKEUP, &[("TLS", "tcp")]).unwrap();
    drop_keys_in_use(over_tcp(), over_tcp());
}

fn drop_keys_in_use(of_near: Context, of_far: Context) {
    let (near, far) = (of_near.worker().unwrap(), of_far.worker().unwrap());
    let endpoint = near.connect(&far.address().unwrap()).unwrap();
    let memory = far.context().map(LARGE).unwrap();
    let packed = memory.key().unwrap();
    for length in [8, 4096, LARGE] {
        let (put, got) = {
            let key = endpoint.remote_key(&packed).unwrap();
            (key.put(memory.address(), vec![5u8; length]), key.get(memory.address(), vec![0u8; length]))
        };
        let junk: Vec<Vec<u8>> = (0..1000).map(|i| vec![0x41u8; 8 * (i % 100)]).collect();
        while !put.is_done() || !got.is_done() {
            near.progress();
            far.progress();
        }
        near.block_on(put).0.unwrap();
        near.block_on(got).0.unwrap();
        let flushed = endpoint.flush();
        while !flushed.is_done() {
            near.progress();
            far.progress();
        }
        let mut byte = [0u8; 1];
        memory.read(length - 1, &mut byte);
        assert_eq!((byte[0], junk.len()), (5, 1000));
        memory.write(0, &vec![0; LARGE]);
    }
    // Dropped with its operations, which nobody asks for.
    let key = endpoint.remote_key(&packed).unwrap();
    key.put(memory.address(), vec![5u8; LARGE]).detach();
    drop(key.get(memory.address(), vec![0u8; LARGE]));
    drop(key);
    drop((endpoint, near));
}

#[test]
fn an_atomic_operation_may_be_dropped_with_its_key() {
    let (near, far, endpoint) = two();
    let memory = far.context().map(64).unwrap();
    let key = endpoint.remote_key(&memory.key().unwrap()).unwrap();
    for _ in 0..3 {
        let mut adding = Box::pin(key.fetch_add(memory.address(), 1));
        near.block_on(Once(|task: &mut Task<'_>| {
            let _ = adding.as_mut().poll(task);
        }));
        drop(adding);
    }
    drop(key);
    for _ in 0..1000 {
        near.progress();
        far.progress();
    }
}

/// Polls once.
struct Once<F>(F);

impl<F: FnMut(&mut Task<'_>) + Unpin> Future for Once<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        (self.get_mut().0)(task);
        Poll::Ready(())
    }
}

/// Gives its waker away and panics.
struct Panics(Arc<Mutex<Option<Waker>>>);

impl Future for Panics {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        *self.0.lock().unwrap() = Some(task.waker().clone());
        panic!("of the future");
    }
}

#[test]
fn a_waker_may_outlive_a_block_on_that_a_panic_left() {
    let slot = Arc::new(Mutex::new(None));
    let (worker, _) = loopback();
    assert_eq!(catch(|| worker.block_on(Panics(Arc::clone(&slot)))).unwrap(), "of the future");
    drop(worker);
    let waker = slot.lock().unwrap().take().unwrap();
    thread::spawn(move || waker.wake()).join().unwrap();
}

/// Gives its waker away and waits for ever.
struct Waits(Arc<Mutex<Option<Waker>>>);

impl Future for Waits {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        *self.0.lock().unwrap() = Some(task.waker().clone());
        Poll::Pending
    }
}

#[test]
fn a_waker_may_outlive_a_block_on_that_a_handler_left() {
    let slot = Arc::new(Mutex::new(None));
    let (worker, endpoint) = loopback();
    worker.on_message(1, |_| panic!("of the handler")).unwrap();
    endpoint.send_message(1, "", "").detach();
    assert_eq!(catch(|| worker.block_on(Waits(Arc::clone(&slot)))).unwrap(), "of the handler");
    drop((worker, endpoint));
    let waker = slot.lock().unwrap().take().unwrap();
    thread::spawn(move || waker.wake()).join().unwrap();
}

#[test]
fn a_buffer_that_panics_is_freed_and_nothing_is_posted() {
    let (worker, endpoint) = loopback();
    let memory = worker.context().map(64).unwrap();
    let key = endpoint.remote_key(&memory.key().unwrap()).unwrap();
    let alive = Rc::new(());
    let bad = || Does::new(&alive, || panic!("of the buffer"));
    let place = memory.address();
    let calls: Vec<(&str, Box<dyn Fn() + '_>)> = vec![
        ("tag_send", Box::new(|| drop(endpoint.tag_send(1, bad())))),
        ("stream_send", Box::new(|| drop(endpoint.stream_send(bad())))),
        ("stream_recv", Box::new(|| drop(endpoint.stream_recv(bad(), true)))),
        ("header", Box::new(|| drop(endpoint.send_message(1, bad(), "")))),
        ("message", Box::new(|| drop(endpoint.send_message(1, "", bad())))),
        ("tag_recv", Box::new(|| drop(worker.tag_recv(1, u64::MAX, bad())))),
        ("put", Box::new(|| drop(key.put(place, bad())))),
        ("get", Box::new(|| drop(key.get(place, bad())))),
    ];
    for (name, call) in &calls {
        assert_eq!(catch(call).as_deref(), Some("of the buffer"), "{}", name);
        assert_eq!(Rc::strong_count(&alive), 1, "{}", name);
    }
    drop(calls);
    let receive = worker.tag_recv(2, u64::MAX, vec![0u8; 8]);
    let ((sent, _), (received, _)) = worker.block_on(join(endpoint.tag_send(2, "x"), receive));
    sent.unwrap();
    received.unwrap();
}

#[test]
fn a_buffer_that_closes_the_endpoint_is_given_back() {
    let alive = Rc::new(());
    let closes = |endpoint: &Endpoint| {
        let (worker, closing) = (endpoint.worker().clone(), endpoint.clone());
        Does::new(&alive, move || worker.block_on(closing.close()).unwrap())
    };
    for case in 0..7 {
        let (worker, endpoint) = loopback();
        let memory = worker.context().map(64).unwrap();
        let key = endpoint.remote_key(&memory.key().unwrap()).unwrap();
        let result = match case {
            0 => worker.block_on(endpoint.tag_send(1, closes(&endpoint))).0,
            1 => worker.block_on(endpoint.stream_send(closes(&endpoint))).0,
            2 => worker.block_on(endpoint.stream_recv(closes(&endpoint), false)).0,
            3 => worker.block_on(endpoint.send_message(1, closes(&endpoint), "")).0,
            4 => worker.block_on(endpoint.send_message(1, "", closes(&endpoint))).0,
            5 => worker.block_on(key.put(memory.address(), closes(&endpoint))).0,
            _ => worker.block_on(key.get(memory.address(), closes(&endpoint))).0,
        };
        assert_eq!(result, Err(Error::NOT_CONNECTED), "{}", case);
        assert_eq!(Rc::strong_count(&alive), 1, "{}", case);
    }
}

#[test]
fn a_reply_after_the_handler_has_closed_the_connection_is_refused() {
    let (near, far, endpoint) = two();
    let own = Rc::new(RefCell::new(Some(far.connect(&near.address().unwrap()).unwrap())));
    let answers = Rc::new(RefCell::new(Vec::new()));
    let (mine, noted) = (Rc::clone(&own), Rc::clone(&answers));
    far.on_message(1, move |message| {
        drop(mine.borrow_mut().take()); // the same connection: closed by force
        noted.borrow_mut().push(message.reply(2, "", vec![1u8; 100]));
    })
    .unwrap();
    endpoint.send_message(1, "", "x").detach();
    while answers.borrow().is_empty() {
        near.progress();
        far.progress();
    }
    let reply = answers.borrow_mut().pop().unwrap();
    let (result, buffers) = far.block_on(reply);
    assert_eq!((result, buffers.1), (Err(Error::NOT_CONNECTED), vec![1u8; 100]));
}

#[test]
fn a_message_whose_buffer_panics_is_released() {
    let (worker, endpoint) = loopback();
    let kept = Rc::new(RefCell::new(Vec::new()));
    let place = Rc::clone(&kept);
    worker.on_message(1, move |message| place.borrow_mut().extend(message.keep())).unwrap();
    for length in [500, 3 * LARGE] {
        endpoint.send_message(1, "", vec![1u8; length]).detach();
        while kept.borrow().is_empty() {
            worker.progress();
        }
        let alive = Rc::new(());
        let message = kept.borrow_mut().pop().unwrap();
        let bad = Does::new(&alive, || panic!("of the buffer"));
        assert_eq!(catch(|| drop(message.receive(bad))).as_deref(), Some("of the buffer"));
        assert_eq!(Rc::strong_count(&alive), 1);
    }
}

#[test]
fn every_panic_of_handlers_but_the_first_is_dropped() {
    struct Fatal;
    impl Drop for Fatal {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("of the end of a panic");
            }
        }
    }
    let (worker, endpoint) = loopback();
    let calls = Rc::new(Cell::new(0));
    let count = Rc::clone(&calls);
    worker
        .on_message(1, move |_| {
            count.set(count.get() + 1);
            if count.get() == 1 {
                panic!("the first");
            }
            std::panic::panic_any(Box::new(Fatal));
        })
        .unwrap();
    for _ in 0..3 {
        endpoint.send_message(1, "", "").detach();
    }
    let mut caught = Vec::new();
    while calls.get() < 3 {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| worker.progress())) {
            caught.push(payload.downcast_ref::<&str>().copied());
            std::mem::forget(payload);
        }
    }
    worker.progress();
    assert_eq!(caught[0], Some("the first"));
}

#[test]
fn a_waker_that_panics_harms_nobody() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            panic!("of the waker");
        }
    }
    let (worker, endpoint) = loopback();
    let waker = Waker::from(Arc::new(Bad));
    let mut receive = worker.tag_recv(1, u64::MAX, vec![0u8; 8]);
    assert!(Pin::new(&mut receive).poll(&mut Task::from_waker(&waker)).is_pending());
    worker.block_on(endpoint.tag_send(1, "x")).0.unwrap();
    assert_eq!(worker.block_on(receive).0.unwrap().length, 1);
}

#[test]
fn a_panic_of_a_listener_refuses_who_came() {
    let server = all().worker().unwrap();
    let listener = match server.listen("127.0.0.1:0".parse().unwrap(), |_| panic!("of the listener")) {
        Ok(listener) => listener,
        Err(_) => return, // these transports have none
    };
    let address = listener.address().unwrap();
    let client = thread::spawn(move || {
        let worker = all().worker().unwrap();
        let endpoint = worker.connect_to(address).unwrap();
        while endpoint.error().is_none() {
            worker.progress();
        }
    });
    let mut caught = None;
    while caught.is_none() {
        caught = catch(|| server.progress());
    }
    assert_eq!(caught.as_deref(), Some("of the listener"));
    while !client.is_finished() {
        server.progress();
    }
    client.join().unwrap();
}

#[test]
fn a_close_may_be_dropped() {
    let (near, far, endpoint) = two();
    endpoint.tag_send(1, vec![1u8; LARGE]).detach();
    let mut closing = Box::pin(endpoint.close());
    near.block_on(Once(|task: &mut Task<'_>| {
        let _ = closing.as_mut().poll(task);
    }));
    drop(closing);
    let (info, _) = {
        let receive = far.tag_recv(1, u64::MAX, vec![0u8; LARGE]);
        while !receive.is_done() {
            near.progress();
            far.progress();
        }
        far.block_on(receive)
    };
    assert_eq!(info.unwrap().length, LARGE);
}
