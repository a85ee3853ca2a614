// SPDX-License-Identifier: BSD-3-Clause
//! E0382: an endpoint that was closed is not there any more.
use causeway::Endpoint;

pub fn close(endpoint: Endpoint) {
    #[cfg(accepted)]
    drop(endpoint.flush());
    let closing = endpoint.close();
    #[cfg(not(accepted))]
    drop(endpoint.flush());
    drop(closing);
}
