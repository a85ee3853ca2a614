// SPDX-License-Identifier: BSD-3-Clause
//! E0277: memory that is only borrowed cannot be received into; the operation may outlive the borrow.
use causeway::Worker;

pub fn receive(worker: &Worker) {
    #[cfg(accepted)]
    let buffer = vec![0u8; 8];
    #[cfg(not(accepted))]
    let mut place = vec![0u8; 8];
    #[cfg(not(accepted))]
    let buffer = &mut place[..];
    std::mem::forget(worker.tag_recv(1, 0, buffer));
}
