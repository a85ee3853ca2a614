// SPDX-License-Identifier: BSD-3-Clause
//! E0505: keep() takes the message, and whoever has the kept one may free its data.
use causeway::Message;

pub fn first(message: Message<'_>) -> u8 {
    #[cfg(accepted)]
    let bytes = message.data().unwrap().to_vec();
    #[cfg(not(accepted))]
    let bytes = message.data().unwrap();
    drop(message.keep());
    bytes[0]
}
