// SPDX-License-Identifier: BSD-3-Clause
//! A server that sends back what comes, and a client that talks to it: `echo`, or `echo ADDRESS:PORT TEXT`. The server
//! listens at 127.0.0.1:13400, or where `echo listen ADDRESS:PORT` says.

use causeway::{Context, Endpoint, Error, Features, Result};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

async fn exchange(endpoint: &Endpoint, text: String) -> Result<String> {
    let worker = endpoint.worker();
    let answer = worker.tag_recv(2, u64::MAX, vec![0u8; 4096]);
    endpoint.tag_send(1, text).await.0?;
    let (info, buffer) = answer.await;
    Ok(String::from_utf8_lossy(&buffer[..info?.length]).into_owned())
}

fn client(address: SocketAddr, text: String) -> Result<()> {
    let worker = Context::new(Features::TAG | Features::WAKEUP)?.worker()?;
    let endpoint = worker.connect_to(address)?;
    println!("{}", worker.block_on(exchange(&endpoint, text))?);
    worker.block_on(endpoint.close())
}

fn serve(address: SocketAddr, clients: usize) -> Result<()> {
    let worker = Context::new(Features::TAG | Features::WAKEUP)?.worker()?;
    let endpoints = Rc::new(RefCell::new(Vec::<Endpoint>::new()));
    let (come, accepting) = (Rc::clone(&endpoints), worker.clone());
    let listener = worker.listen(address, move |request| match request.accept(&accepting) {
        Ok(endpoint) => come.borrow_mut().push(endpoint),
        Err(error) => eprintln!("a client could not be accepted: {error}"),
    })?;
    println!("listening at {}", listener.address()?);
    for _ in 0..clients {
        let (info, mut buffer) = worker.block_on(worker.tag_recv(1, u64::MAX, vec![0u8; 4096]));
        buffer.truncate(info?.length);
        let endpoint = endpoints.borrow_mut().remove(0);
        worker.block_on(endpoint.tag_send(2, buffer)).0?;
        worker.block_on(endpoint.close())?;
    }
    Ok(())
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let at = |text: &str| text.parse().map_err(|_| Error::INVALID_PARAM);
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve(at("127.0.0.1:13400")?, usize::MAX),
        ["listen", address] => serve(at(address)?, usize::MAX),
        [address, ref text @ ..] => client(at(address)?, text.join(" ")),
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("echo: {error}");
        std::process::exit(1);
    }
}
