// SPDX-License-Identifier: BSD-3-Clause
//! E0505: receive() takes a kept message, with its data.
use causeway::KeptMessage;

pub fn first(message: KeptMessage) -> u8 {
    #[cfg(accepted)]
    let bytes = message.data().unwrap().to_vec();
    #[cfg(not(accepted))]
    let bytes = message.data().unwrap();
    drop(message.receive(vec![0u8; 8]));
    bytes[0]
}
