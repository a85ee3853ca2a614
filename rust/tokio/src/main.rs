// SPDX-License-Identifier: BSD-3-Clause
//! A server that sends back what comes and a client, in one event loop of tokio beside its own tasks:
//! `causeway-tokio`, or `causeway-tokio ADDRESS:PORT TEXT`.
//!
//! A worker and all that belongs to it stays in one thread, so its tasks run in a `LocalSet`. One of them, `drive`, makes
//! progress and sleeps on the worker's descriptor; the others await operations.

use causeway::{ConnectionRequest, Context, Endpoint, ErrorKind, Features, Worker};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::io::{AsRawFd, RawFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tokio::sync::mpsc;
use tokio::task::{spawn_local, yield_now, LocalSet};

/// The worker's descriptor, which the worker closes.
struct Descriptor(RawFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

async fn drive(worker: Worker) -> io::Result<()> {
    let descriptor = AsyncFd::with_interest(Descriptor(worker.as_raw_fd()), Interest::READABLE)?;
    loop {
        while !worker.arm()? {
            worker.progress();
            yield_now().await; // those that it has woken, and others of this thread
        }
        descriptor.readable().await?.clear_ready();
    }
}

/// Runs a future with a worker that is driven meanwhile.
fn run<F: Future<Output = io::Result<()>>>(main: impl FnOnce(Worker) -> F) -> io::Result<()> {
    let worker = Context::new(Features::STREAM | Features::WAKEUP)?.worker()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let driver = spawn_local(drive(worker.clone()));
        let result = main(worker).await;
        driver.abort();
        result
    })
}

async fn echo(endpoint: Endpoint) -> causeway::Result<()> {
    let mut buffer = vec![0u8; 4096];
    loop {
        let (received, mut bytes) = endpoint.stream_recv(buffer, false).await;
        bytes.truncate(received?.length);
        let (sent, bytes) = endpoint.stream_send(bytes).await;
        sent?;
        buffer = bytes;
        buffer.resize(4096, 0);
    }
}

async fn serve(worker: Worker) -> io::Result<()> {
    let (come, mut clients) = mpsc::unbounded_channel::<ConnectionRequest>();
    let listener = worker.listen("127.0.0.1:0".parse().expect("a constant address"), move |request| {
        let _ = come.send(request);
    })?;
    println!("listening at {}", listener.address()?);
    while let Some(request) = clients.recv().await {
        let endpoint = request.accept(&worker)?;
        spawn_local(async move {
            match echo(endpoint.clone()).await {
                Err(error) if error.kind() == ErrorKind::Closed => println!("a client has closed"),
                Err(error) => println!("a client has ended: {error}"),
                Ok(()) => (),
            }
            let _ = endpoint.close().await;
        });
    }
    Ok(())
}

async fn ask(worker: Worker, address: SocketAddr, text: String) -> io::Result<()> {
    let endpoint = worker.connect_to(address)?;
    tokio::time::timeout(Duration::from_secs(10), endpoint.flush()).await?.0?; // refused: the sentence says by whom
    let length = text.len();
    endpoint.stream_send(text).await.0?;
    let (received, answer) = endpoint.stream_recv(vec![0u8; length], true).await;
    received?;
    println!("{}", String::from_utf8_lossy(&answer));
    endpoint.close().await?;
    Ok(())
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(|address| address.parse()) {
        Some(Ok(address)) => run(|worker| ask(worker, address, arguments.get(2).cloned().unwrap_or_else(|| "hello".into()))),
        Some(Err(error)) => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {error}", arguments[1]))),
        None => run(serve),
    }
}
