// SPDX-License-Identifier: BSD-3-Clause
//! E0521: a message is there for the time of its handler; keep() is what makes it last.
use causeway::Worker;
use std::cell::RefCell;
use std::rc::Rc;

pub fn listen(worker: &Worker) -> causeway::Result<()> {
    let place = Rc::new(RefCell::new(None));
    worker.on_message(1, move |message| {
        #[cfg(accepted)]
        let message = message.keep();
        *place.borrow_mut() = Some(message);
    })
}
