// SPDX-License-Identifier: BSD-3-Clause
//! E0277: an operation stays in the thread of its worker.
use causeway::Worker;

pub fn start(worker: &Worker) {
    let operation = worker.tag_recv(1, 0, vec![0u8; 8]);
    #[cfg(not(accepted))]
    std::thread::spawn(move || drop(operation));
    #[cfg(accepted)]
    drop(operation);
}
