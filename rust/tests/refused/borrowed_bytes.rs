// SPDX-License-Identifier: BSD-3-Clause
//! E0597: bytes that are borrowed for less than ever cannot be sent.
use causeway::Endpoint;

pub fn send(endpoint: &Endpoint) {
    #[cfg(accepted)]
    let bytes = b"for ever";
    #[cfg(not(accepted))]
    let local = [0u8; 8];
    #[cfg(not(accepted))]
    let bytes = &local;
    std::mem::forget(endpoint.tag_send(1, &bytes[..]));
}
