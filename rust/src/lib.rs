// SPDX-License-Identifier: BSD-3-Clause
//! Messages, streams, active messages and remote memory between processes and hosts.
//!
//! A [`Context`] stands for the library, a [`Worker`] for everything that progresses together in one thread, and an
//! [`Endpoint`] for one end of a connection between two workers. A call that takes time returns an [`Operation`], a
//! future that owns the buffer until the operation is complete: memory that the library uses cannot be freed, even when
//! the future is dropped or forgotten. A dropped operation is cancelled.
//!
//! ```no_run
//! use causeway::{join, Context, Features};
//!
//! # fn main() -> causeway::Result<()> {
//! let context = Context::new(Features::TAG | Features::WAKEUP)?;
//! let worker = context.worker()?;
//! let endpoint = worker.connect(&worker.address()?)?;
//! let receive = worker.tag_recv(7, u64::MAX, vec![0u8; 100]);
//! let send = endpoint.tag_send(7, b"hello".to_vec());
//! let ((sent, _), (received, buffer)) = worker.block_on(join(send, receive));
//! sent?;
//! assert_eq!(&buffer[..received?.length], b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here starts a thread. [`Worker::block_on`] makes progress by itself; a program with an event loop of its own
//! watches the worker's descriptor ([`Worker::arm`]) and calls [`Worker::progress`].
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod address;
mod buffer;
mod context;
mod endpoint;
mod error;
mod executor;
mod listener;
mod memory;
mod message;
mod operation;
mod worker;

/// The functions of the library as they are: bindings made by bindgen (`bindings.sh`).
#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, dead_code)]
pub mod sys;

pub use buffer::{Parts, RecvBuffer, SendBuffer};
pub use context::{Context, Features};
pub use endpoint::Endpoint;
pub use error::{Error, ErrorKind, Result};
pub use executor::{join, Join};
pub use listener::{ConnectionRequest, Listener};
pub use memory::{Memory, RemoteKey};
pub use message::{KeptMessage, Message, Messages, Next, Taken};
pub use operation::{BufferResult, Operation, Received};
pub use worker::Worker;
