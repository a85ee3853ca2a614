// SPDX-License-Identifier: BSD-3-Clause
//! What the crate promises, over whatever UCX_TLS of the environment allows.

use causeway::{
    join, ConnectionRequest, Context, Endpoint, Error, ErrorKind, Features, Listener, SendBuffer, Worker,
};
use std::cell::{Cell, RefCell};
use std::os::unix::io::AsRawFd;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

fn all() -> Context {
    let features =
        Features::TAG | Features::STREAM | Features::AM | Features::RMA | Features::ATOMIC | Features::WAKEUP;
    Context::new(features).unwrap()
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// A thread with a worker of its own, which a function drives until the end of the test.
fn peer(serve: impl FnOnce(&Worker, mpsc::Receiver<()>) + Send + 'static) -> (Vec<u8>, impl FnOnce()) {
    let (sender, address) = mpsc::channel();
    let (stop, stopped) = mpsc::channel();
    let thread = thread::spawn(move || {
        let worker = all().worker().unwrap();
        sender.send(worker.address().unwrap()).unwrap();
        serve(&worker, stopped);
    });
    (address.recv().unwrap(), move || {
        stop.send(()).unwrap();
        thread.join().unwrap();
    })
}

fn until(worker: &Worker, stopped: &mpsc::Receiver<()>) {
    while stopped.try_recv().is_err() {
        worker.progress();
        thread::yield_now();
    }
}

#[test]
fn tag_messages_of_any_length() {
    let (address, end) = peer(|worker, stopped| {
        for length in [0usize, 8, 3000, 100_000, 3_000_000] {
            let (info, buffer) = worker.block_on(worker.tag_recv(length as u64, u64::MAX, vec![0; length + 1]));
            let info = info.unwrap();
            assert_eq!((info.tag, info.length), (length as u64, length));
            assert_eq!(&buffer[..length], &bytes(length)[..]);
        }
        until(worker, &stopped);
    });
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&address).unwrap();
    for length in [0usize, 8, 3000, 100_000, 3_000_000] {
        let (sent, buffer) = worker.block_on(endpoint.tag_send(length as u64, bytes(length)));
        sent.unwrap();
        assert_eq!(buffer, bytes(length));
    }
    worker.block_on(endpoint.flush()).0.unwrap();
    worker.block_on(endpoint.close()).unwrap();
    end();
}

#[test]
fn a_message_that_is_too_long_is_truncated() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    let receive = worker.tag_recv(1, u64::MAX, vec![0u8; 10]);
    let ((sent, _), (received, _)) = worker.block_on(join(endpoint.tag_send(1, bytes(20)), receive));
    sent.unwrap();
    assert_eq!(received, Err(Error::TRUNCATED));
}

#[test]
fn probe_finds_what_waits() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    assert_eq!(worker.tag_probe(5, u64::MAX), None);
    worker.block_on(endpoint.tag_send(5, "probe")).0.unwrap();
    while worker.tag_probe(5, u64::MAX).is_none() {
        worker.progress();
    }
    assert_eq!(worker.tag_probe(5, u64::MAX).unwrap().length, 5);
    let (info, buffer) = worker.block_on(worker.tag_recv(5, u64::MAX, vec![0; 9].into_boxed_slice()));
    assert_eq!(&buffer[..info.unwrap().length], b"probe");
}

#[test]
fn a_cancelled_receive_gives_its_buffer_back() {
    let worker = all().worker().unwrap();
    let receive = worker.tag_recv(1, u64::MAX, vec![7u8; 10]);
    assert!(!receive.is_done());
    receive.cancel();
    let (result, buffer) = worker.block_on(receive);
    assert_eq!(result, Err(Error::CANCELED));
    assert_eq!(buffer, vec![7u8; 10]);
}

#[test]
fn dropped_and_forgotten_operations_harm_nobody() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    drop(worker.tag_recv(1, u64::MAX, vec![0u8; 100_000]));
    std::mem::forget(worker.tag_recv(2, u64::MAX, vec![0u8; 100_000]));
    // The first was cancelled and takes nothing; the second takes its message, and nobody asks for it.
    endpoint.tag_send(2, bytes(100_000)).detach();
    let receive = worker.tag_recv(1, u64::MAX, vec![0u8; 8]);
    let ((sent, _), (received, buffer)) = worker.block_on(join(endpoint.tag_send(1, bytes(8)), receive));
    sent.unwrap();
    received.unwrap();
    assert_eq!(buffer, bytes(8));
}

#[test]
fn active_messages_come_with_their_data_and_are_answered() {
    let (address, end) = peer(|worker, stopped| {
        worker
            .on_message(3, |message| {
                let header = message.header().to_vec();
                if message.data().is_some() {
                    let data = message.data().unwrap().to_vec();
                    message.reply(4, header, data).detach();
                } else {
                    // Announced: received first, then its length is the answer, by a tag message of the other side.
                    let length = message.len();
                    let reply = message.reply(4, header, (length as u64).to_le_bytes().to_vec());
                    reply.detach();
                    message.keep().unwrap().receive(vec![0u8; length]).detach();
                }
            })
            .unwrap();
        assert_eq!(worker.on_message(3, |_| ()), Err(Error::ALREADY_EXISTS));
        until(worker, &stopped);
    });
    let worker = all().worker().unwrap();
    let answers = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&answers);
    worker
        .on_message(4, move |message| {
            let data = message.data().unwrap().to_vec();
            noted.borrow_mut().push((message.header().to_vec(), data));
        })
        .unwrap();
    let endpoint = worker.connect(&address).unwrap();
    for length in [0usize, 10, 2000, 4_000_000] {
        let header = format!("header of {length}");
        let (sent, _) = worker.block_on(endpoint.send_message(3, header.clone(), bytes(length)));
        sent.unwrap();
        while answers.borrow().is_empty() {
            worker.progress();
        }
        let (came, data) = answers.borrow_mut().pop().unwrap();
        assert_eq!(came, header.as_bytes());
        assert!(data == bytes(length) || data == (length as u64).to_le_bytes());
    }
    end();
}

#[test]
fn a_kept_message_is_there_later() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    let kept = Rc::new(RefCell::new(None));
    let place = Rc::clone(&kept);
    worker.on_message(1, move |message| *place.borrow_mut() = message.keep()).unwrap();
    worker.block_on(endpoint.send_message(1, "", bytes(500))).0.unwrap();
    while kept.borrow().is_none() {
        worker.progress();
    }
    let message = kept.borrow_mut().take().unwrap();
    assert_eq!(message.data().unwrap(), &bytes(500)[..]);
    let (result, buffer) = worker.block_on(message.receive(vec![0; 500]));
    assert_eq!((result.unwrap().length, buffer), (500, bytes(500)));
}

#[test]
fn a_message_may_be_kept_and_dropped_in_its_handler() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    let came = Rc::new(Cell::new(0));
    let count = Rc::clone(&came);
    worker
        .on_message(1, move |message| {
            drop(message.keep());
            count.set(count.get() + 1);
        })
        .unwrap();
    for length in [500, 3_000_000] {
        endpoint.send_message(1, "header", bytes(length)).detach();
    }
    while came.get() < 2 {
        worker.progress();
    }
}

#[test]
fn what_belongs_to_a_worker_keeps_it() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    let context = worker.context().clone();
    let memory = context.map(4096).unwrap();
    let key = endpoint.remote_key(&memory.key().unwrap()).unwrap();
    drop((context, worker));
    let worker = endpoint.worker().clone();
    worker.block_on(key.put(memory.address(), bytes(8))).0.unwrap();
    worker.block_on(endpoint.flush()).0.unwrap();
    drop((endpoint, worker));
    drop(memory);
    drop(key); // the last that has the endpoint, and so the worker and the context
}

#[test]
fn a_key_after_its_memory_is_refused() {
    let context = all();
    let worker = context.worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    let memory = context.map(4096).unwrap();
    let key = endpoint.remote_key(&memory.key().unwrap()).unwrap();
    let place = memory.address();
    drop(memory);
    let (put, _) = worker.block_on(key.put(place, bytes(8)));
    let flushed = worker.block_on(endpoint.flush()).0;
    assert!(put.is_err() || flushed.is_err());
}

#[test]
fn a_panic_in_a_handler_comes_out_of_progress() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    worker.on_message(1, |_| panic!("of the handler")).unwrap();
    endpoint.send_message(1, "", "").detach();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..100 {
            worker.progress();
        }
    }));
    assert_eq!(*caught.unwrap_err().downcast_ref::<&str>().unwrap(), "of the handler");
    worker.progress();
}

#[test]
fn streams_keep_order() {
    let (address, end) = peer(|worker, stopped| {
        let endpoint = Rc::new(RefCell::new(None));
        let (info, back) = worker.block_on(worker.tag_recv(1, u64::MAX, vec![0; 2000]));
        *endpoint.borrow_mut() = Some(worker.connect(&back[..info.unwrap().length]).unwrap());
        let endpoint = endpoint.borrow().clone().unwrap();
        let (_, buffer) = worker.block_on(endpoint.stream_recv(vec![0; 100_000], true));
        let (sent, _) = worker.block_on(endpoint.stream_send(buffer));
        sent.unwrap();
        until(worker, &stopped);
    });
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&address).unwrap();
    worker.block_on(endpoint.tag_send(1, worker.address().unwrap())).0.unwrap();
    for part in bytes(100_000).chunks(30_000) {
        worker.block_on(endpoint.stream_send(part.to_vec())).0.unwrap();
    }
    let mut came = Vec::new();
    while came.len() < 100_000 {
        let (info, buffer) = worker.block_on(endpoint.stream_recv(vec![0; 7000], false));
        came.extend_from_slice(&buffer[..info.unwrap().length]);
    }
    assert_eq!(came, bytes(100_000));
    end();
}

#[test]
fn remote_memory_is_written_read_and_counted() {
    let (sender, receiver) = mpsc::channel();
    let (address, end) = peer(move |worker, stopped| {
        let memory = worker.context().map(10_000).unwrap();
        sender.send((memory.address(), memory.key().unwrap())).unwrap();
        until(worker, &stopped);
        let mut word = [0u8; 8];
        memory.read(0, &mut word);
        assert_eq!(u64::from_ne_bytes(word), 77);
    });
    let (base, key) = receiver.recv().unwrap();
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&address).unwrap();
    let remote = endpoint.remote_key(&key).unwrap();
    worker.block_on(remote.put(base + 8, bytes(9000))).0.unwrap();
    worker.block_on(endpoint.flush()).0.unwrap();
    let (result, buffer) = worker.block_on(remote.get(base + 8, vec![0; 9000]));
    result.unwrap();
    assert_eq!(buffer, bytes(9000));
    assert_eq!(worker.block_on(remote.fetch_add(base, 5)), Ok(0));
    assert_eq!(worker.block_on(remote.swap(base, 9)), Ok(5));
    assert_eq!(worker.block_on(remote.compare_and_swap(base, 8, 1)), Ok(9));
    assert_eq!(worker.block_on(remote.compare_and_swap(base, 9, 77)), Ok(9));
    assert_eq!(worker.block_on(remote.fetch_and(base, 0x0f)), Ok(77));
    assert_eq!(worker.block_on(remote.fetch_or(base, 0x70)), Ok(13));
    assert_eq!(worker.block_on(remote.fetch_xor(base, 0x30)), Ok(125));
    assert_eq!(worker.block_on(remote.swap(base, 77)), Ok(77));
    worker.block_on(worker.flush()).0.unwrap();
    end();
}

#[test]
fn lies_are_refused() {
    let worker = all().worker().unwrap();
    assert!(worker.connect(&[]).is_err());
    assert!(worker.connect(&[0xff; 40]).is_err());
    assert!(worker.connect(&vec![1u8; 100_000]).is_err());
    let own = worker.address().unwrap();
    assert!(worker.connect(&own[..own.len() / 2]).is_err());
    let endpoint = worker.connect(&own).unwrap();
    assert!(endpoint.remote_key(&[]).is_err());
    assert!(endpoint.remote_key(&[0xff; 60]).is_err());
    let memory = worker.context().map(64).unwrap();
    let key = memory.key().unwrap();
    // A key that was cut: what is left names nothing.
    if let Ok(cut) = endpoint.remote_key(&key[..5]) {
        let (put, _) = worker.block_on(cut.put(memory.address(), bytes(8)));
        let (flush, _) = worker.block_on(endpoint.flush());
        assert!(put.is_err() || flush.is_err());
    }
    let endpoint = worker.connect(&own).unwrap();
    let remote = endpoint.remote_key(&key).unwrap();
    // Beyond the memory: the owner refuses.
    let (put, _) = worker.block_on(remote.put(memory.address() + (1 << 20), bytes(8)));
    let (flush, _) = worker.block_on(endpoint.flush());
    assert!(put.is_err() || flush.is_err());
}

#[test]
fn a_closed_endpoint_refuses() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    let clone = endpoint.clone();
    worker.block_on(endpoint.close()).unwrap();
    let (result, buffer) = worker.block_on(clone.tag_send(1, bytes(3)));
    assert_eq!((result, buffer), (Err(Error::NOT_CONNECTED), bytes(3)));
    assert_eq!(worker.block_on(clone.clone().close()), Err(Error::NOT_CONNECTED));
}

/// A listener and the requests that came to it; None where the transports have no listeners.
fn listen(server: &Worker) -> Option<(Listener, Rc<RefCell<Vec<ConnectionRequest>>>)> {
    let came = Rc::new(RefCell::new(Vec::new()));
    let place = Rc::clone(&came);
    match server.listen("127.0.0.1:0".parse().unwrap(), move |request| place.borrow_mut().push(request)) {
        Ok(listener) => Some((listener, came)),
        Err(error) => {
            println!("skipped: no listeners over these transports ({error})");
            None
        }
    }
}

#[test]
fn listeners_hand_over_who_comes() {
    let server = all().worker().unwrap();
    let (listener, came) = match listen(&server) {
        Some(pair) => pair,
        None => return,
    };
    let address = listener.address().unwrap();
    assert_ne!(address.port(), 0);
    let client = thread::spawn(move || {
        let worker = all().worker().unwrap();
        let refused = worker.connect_to(address).unwrap();
        let (result, _) = worker.block_on(refused.tag_send(1, "x"));
        let (flushed, _) = worker.block_on(refused.flush());
        assert!(result.is_err() || flushed.is_err());
        assert!(refused.error().is_some());
        let endpoint = worker.connect_to(address).unwrap();
        worker.block_on(endpoint.tag_send(1, "hello")).0.unwrap();
        worker.block_on(endpoint.close()).unwrap();
    });
    while came.borrow().is_empty() {
        server.progress();
    }
    drop(came.borrow_mut().pop());
    while came.borrow().is_empty() {
        server.progress();
    }
    let endpoint = came.borrow_mut().pop().unwrap().accept(&server).unwrap();
    let (info, buffer) = server.block_on(server.tag_recv(1, u64::MAX, vec![0; 10]));
    assert_eq!(&buffer[..info.unwrap().length], b"hello");
    while !client.is_finished() {
        server.progress();
    }
    client.join().unwrap();
    drop(endpoint);
}

/// A client and its server, as far as the transports have listeners.
fn connected() -> Option<(Worker, Worker, Endpoint, Endpoint)> {
    let context = all();
    let (near, far) = (context.worker().unwrap(), context.worker().unwrap());
    let (listener, came) = listen(&far)?;
    let client = near.connect_to(listener.address().unwrap()).unwrap();
    while came.borrow().is_empty() {
        near.progress();
        far.progress();
    }
    let server = came.borrow_mut().pop().unwrap().accept(&far).unwrap();
    let flushed = client.flush();
    while !flushed.is_done() {
        near.progress();
        far.progress();
    }
    near.block_on(flushed).0.unwrap();
    Some((near, far, client, server))
}

#[test]
fn an_endpoint_knows_its_peer_and_its_transports() {
    let (near, _far, client, server) = match connected() {
        Some(all) => all,
        None => return,
    };
    assert!(client.peer().unwrap().ip().is_loopback());
    assert!(server.peer().unwrap().ip().is_loopback());
    let transports = client.transports();
    assert!(!transports.is_empty() && transports.iter().all(|(transport, _)| !transport.is_empty()));
    let other = near.connect(&near.address().unwrap()).unwrap();
    assert_eq!(other.peer(), None);
    near.block_on(client.clone().close()).unwrap();
    assert_eq!((client.peer(), client.transports()), (None, Vec::new()));
}

#[test]
fn an_orderly_close_differs_from_a_death() {
    let (near, far, client, server) = match connected() {
        Some(all) => all,
        None => return,
    };
    let receive = server.stream_recv(vec![0u8; 10], false);
    near.block_on(client.close()).unwrap();
    let error = far.block_on(receive).0.unwrap_err();
    assert_eq!((error.kind(), error.clone()), (ErrorKind::Closed, Error::CONNECTION_RESET));
    assert!(error.sentence().unwrap().ends_with("the peer closed the endpoint"));
    assert_eq!(server.error().unwrap().kind(), ErrorKind::Closed);
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::UnexpectedEof);
    let late = far.block_on(server.tag_send(1, "late")).0.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Closed);
    let flushed = far.block_on(server.flush()).0.unwrap_err();
    assert_eq!(flushed.kind(), ErrorKind::Closed);
    // It is no error of a close that the peer was first.
    far.block_on(server.close()).unwrap();
}

#[test]
fn errors_have_the_sentence_of_the_library() {
    let error = Context::with_settings(Features::TAG, &[("RNDV_THRESH", "nonsense")]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidParam);
    assert!(error.to_string().contains("nonsense"), "{}", error);
    let worker = Context::new(Features::AM | Features::WAKEUP).unwrap().worker().unwrap();
    let (result, _) = worker.block_on(worker.tag_recv(1, u64::MAX, vec![0u8; 8]));
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParam);
    assert!(error.to_string().contains("UCP_FEATURE_TAG"), "{}", error);
    // A refused connection names who refused.
    let worker = all().worker().unwrap();
    if let Some((listener, _)) = listen(&worker) {
        let address = listener.address().unwrap();
        drop(listener);
        let endpoint = worker.connect_to(address).unwrap();
        let error = worker.block_on(endpoint.flush()).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        assert!(error.to_string().contains("127.0.0.1"), "{}", error);
    }
}

#[test]
fn several_buffers_are_sent_as_one_message() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    for length in [0, 10, 3000, 400_000] {
        let parts = || vec![bytes(length), bytes(3), bytes(0), bytes(length)];
        let whole = parts().concat();
        let receive = worker.tag_recv(1, u64::MAX, vec![0u8; whole.len()]);
        let ((sent, back), (received, buffer)) =
            worker.block_on(join(endpoint.tag_send_vectored(1, parts()), receive));
        sent.unwrap();
        assert_eq!((received.unwrap().length, buffer), (whole.len(), whole.clone()));
        assert_eq!(back.into_buffers(), parts());
        let receive = endpoint.stream_recv(vec![0u8; whole.len()], true);
        let ((sent, _), (received, buffer)) = worker.block_on(join(endpoint.stream_send_vectored(parts()), receive));
        sent.unwrap();
        assert_eq!((received.unwrap().length, buffer), (whole.len(), whole));
    }
    // Buffers of several kinds.
    let parts: Vec<Box<dyn SendBuffer>> = vec![Box::new("text"), Box::new(vec![1u8, 2]), Box::new(&b"bytes"[..])];
    let receive = worker.tag_recv(1, u64::MAX, vec![0u8; 11]);
    let ((sent, _), (received, buffer)) = worker.block_on(join(endpoint.tag_send_vectored(1, parts), receive));
    sent.unwrap();
    assert_eq!((received.unwrap().length, buffer), (11, b"text\x01\x02bytes".to_vec()));
}

#[test]
fn active_messages_come_as_a_stream() {
    let worker = all().worker().unwrap();
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    let mut messages = worker.messages(9).unwrap();
    assert_eq!(worker.messages(9).err(), Some(Error::ALREADY_EXISTS));
    let lengths = [0usize, 5, 3000, 4_000_000];
    for length in lengths {
        endpoint.send_message_vectored(9, format!("of {}", length), vec![bytes(length)]).detach();
    }
    for length in lengths {
        let message = worker.block_on(messages.next());
        assert_eq!((message.header(), message.len()), (format!("of {}", length).as_bytes(), length));
        let (result, buffer) = worker.block_on(message.receive(vec![0u8; length]));
        assert_eq!((result.unwrap().length, buffer), (length, bytes(length)));
    }
    // One that waits is woken; what nobody takes goes with the stream.
    let ((sent, _), message) = worker.block_on(join(endpoint.send_message(9, "", bytes(8)), messages.next()));
    sent.unwrap();
    assert_eq!(message.data(), Some(&bytes(8)[..]));
    drop(message);
    endpoint.send_message(9, "", bytes(100)).detach();
    worker.block_on(endpoint.flush()).0.unwrap();
    drop(messages);
    endpoint.send_message(9, "", bytes(100)).detach();
    worker.block_on(endpoint.flush()).0.unwrap();
}

#[test]
fn a_request_that_outlives_its_listener_ends() {
    let server = all().worker().unwrap();
    let (listener, came) = match listen(&server) {
        Some(pair) => pair,
        None => return,
    };
    let address = listener.address().unwrap();
    let client = thread::spawn(move || {
        let worker = all().worker().unwrap();
        let endpoint = worker.connect_to(address).unwrap();
        while endpoint.error().is_none() {
            let _ = worker.block_on(endpoint.tag_send(1, "x"));
            worker.progress();
        }
    });
    while came.borrow().is_empty() {
        server.progress();
    }
    drop(listener);
    drop(came.borrow_mut().pop());
    while !client.is_finished() {
        server.progress();
    }
    client.join().unwrap();
}

#[test]
fn a_worker_that_sleeps_is_woken() {
    let worker = all().worker().unwrap();
    assert!(worker.as_raw_fd() >= 0);
    let endpoint = worker.connect(&worker.address().unwrap()).unwrap();
    worker.block_on(endpoint.flush()).0.unwrap();
    while !worker.arm().unwrap() {
        worker.progress();
    }
    // Another thread wakes a future, with nothing to progress.
    let (give, waker) = mpsc::channel::<std::task::Waker>();
    let woken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let set = std::sync::Arc::clone(&woken);
    let thread = thread::spawn(move || {
        let waker = waker.recv().unwrap();
        thread::sleep(std::time::Duration::from_millis(50));
        set.store(true, std::sync::atomic::Ordering::SeqCst);
        waker.wake();
    });
    let polled = Cell::new(false);
    struct Polled<F>(F);
    impl<F: FnMut(&mut std::task::Context<'_>) -> std::task::Poll<()> + Unpin> std::future::Future for Polled<F> {
        type Output = ();
        fn poll(self: std::pin::Pin<&mut Self>, task: &mut std::task::Context<'_>) -> std::task::Poll<()> {
            (self.get_mut().0)(task)
        }
    }
    worker.block_on(Polled(|task: &mut std::task::Context<'_>| {
        if woken.load(std::sync::atomic::Ordering::SeqCst) {
            return std::task::Poll::Ready(());
        }
        if !polled.replace(true) {
            give.send(task.waker().clone()).unwrap();
        }
        std::task::Poll::Pending
    }));
    thread.join().unwrap();
}

#[test]
fn settings_are_checked() {
    assert!(Context::with_settings(Features::TAG, &[("RNDV_THRESH", "nonsense")]).is_err());
    assert!(Context::with_settings(Features::TAG, &[("RNDV_THRESH", "1\0")]).is_err());
    Context::with_settings(Features::TAG, &[("RNDV_THRESH", "1000")]).unwrap();
    assert_eq!(format!("{}", Error::CANCELED), "Request canceled");
}
