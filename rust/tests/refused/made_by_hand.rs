// SPDX-License-Identifier: BSD-3-Clause
//! E0451: a key is made by unpack alone, which ties it to its endpoint.
use causeway::{Endpoint, RemoteKey};

pub fn key(endpoint: &Endpoint) -> causeway::Result<RemoteKey> {
    #[cfg(not(accepted))]
    return Ok(RemoteKey { endpoint: endpoint.clone(), key: unreachable!() });
    #[cfg(accepted)]
    endpoint.remote_key(b"bytes")
}
