// SPDX-License-Identifier: BSD-3-Clause
//! E0521: the data of a message is there for the time of its handler.
use causeway::Worker;
use std::cell::RefCell;
use std::rc::Rc;

pub fn listen(worker: &Worker) -> causeway::Result<()> {
    let place = Rc::new(RefCell::new(None));
    worker.on_message(1, move |message| {
        #[cfg(accepted)]
        let bytes = message.data().map(|bytes| bytes.to_vec());
        #[cfg(not(accepted))]
        let bytes = message.data();
        *place.borrow_mut() = bytes;
    })
}
