// SPDX-License-Identifier: BSD-3-Clause
//! E0505: the header lies where the data does.
use causeway::Message;

pub fn first(message: Message<'_>) -> u8 {
    #[cfg(accepted)]
    let bytes = message.header().to_vec();
    #[cfg(not(accepted))]
    let bytes = message.header();
    drop(message.keep());
    bytes[0]
}
