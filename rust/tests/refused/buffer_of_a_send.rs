// SPDX-License-Identifier: BSD-3-Clause
//! E0382: a buffer that an operation owns is not there any more.
use causeway::Endpoint;

pub fn send(endpoint: &Endpoint) -> usize {
    let buffer = vec![0u8; 8];
    #[cfg(accepted)]
    let buffer_after = buffer.clone();
    let operation = endpoint.tag_send(1, buffer);
    #[cfg(not(accepted))]
    let buffer_after = buffer;
    drop(operation);
    buffer_after.len()
}
