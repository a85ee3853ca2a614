// SPDX-License-Identifier: BSD-3-Clause
//! E0608: memory that peers change is read by copies, never by reference, so nothing refers to it when it is unmapped.
use causeway::Memory;

pub fn first(memory: Memory) -> u8 {
    let mut byte = [0u8];
    #[cfg(accepted)]
    memory.read(0, &mut byte);
    #[cfg(not(accepted))]
    byte.copy_from_slice(&memory[..1]);
    drop(memory);
    byte[0]
}
