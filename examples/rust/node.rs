// SPDX-License-Identifier: BSD-3-Clause
//! What a program needs of UCP to exchange messages while it sleeps between them: a worker, its descriptor, and a box
//! for active messages. Written for ping_pong.rs; take it from here.
//!
//! Everything is waited for before a function returns. That is what makes it right to hand slices to the library, which
//! keeps using them after its own call returned.

mod ucp {
    #![allow(clippy::all, dead_code, unused_imports, non_camel_case_types, non_snake_case, non_upper_case_globals)]
    include!(env!("UCP_BINDINGS")); // made by build.sh
}
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{c_void, CStr};
use std::io::{Error, Read, Write};
use std::{process, ptr, slice};
pub use ucp::{ucp_ep_h, ucp_tag_t};
use ucp::*;

const LETTER: u32 = 7; // id of the active messages, any number up to 65535

pub fn die(what: &str) -> ! {
    eprintln!("ping_pong: {what}");
    process::exit(1)
}

fn must(status: ucs_status_t, what: &str) {
    if status != UCS_OK {
        let text = unsafe { CStr::from_ptr(ucs_status_string(status)) };
        die(&format!("{what}: {}", text.to_string_lossy()));
    }
}

/// What UCS_PTR_STATUS() says of a returned pointer; macros do not get through bindgen. In progress: it is a request.
fn status_of(returned: ucs_status_ptr_t) -> ucs_status_t {
    match returned as isize {
        0 => UCS_OK,
        error if error < 0 && error >= UCS_ERR_LAST.into() => error as ucs_status_t,
        _ => UCS_INPROGRESS,
    }
}

/// An active message on its way into the queue of those that are complete.
struct Letter {
    text: Vec<u8>,
    inbox: *const Inbox,
}

/// Callbacks hold a shared reference while the node holds another: hence the cell.
struct Inbox {
    worker: ucp_worker_h,
    letters: RefCell<VecDeque<Vec<u8>>>,
}

/// The text of a letter is here, or never will be.
unsafe fn keep(letter: *mut Letter, status: ucs_status_t) {
    let letter = Box::from_raw(letter);

    if status == UCS_OK {
        (*letter.inbox).letters.borrow_mut().push_back(letter.text);
    }
}

unsafe extern "C" fn fetched(request: *mut c_void, status: ucs_status_t, _length: usize, letter: *mut c_void) {
    keep(letter.cast(), status);
    ucp_request_free(request);
}

/// Runs inside progress. No callback may panic: there is C below it. A short text is here already, a long one still lies
/// at its sender; the same call gets both.
unsafe extern "C" fn arrived(
    inbox: *mut c_void,
    _header: *const c_void,
    _header_length: usize,
    data: *mut c_void,
    length: usize,
    _param: *const ucp_am_recv_param_t,
) -> ucs_status_t {
    let inbox = inbox as *const Inbox;
    let letter = Box::into_raw(Box::new(Letter { text: vec![0; length], inbox }));
    let mut param = ucp_request_param_t {
        op_attr_mask: UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        user_data: letter.cast(),
        ..Default::default()
    };

    param.cb.recv_am = Some(fetched);
    let room = (*letter).text.as_mut_ptr().cast();
    let request = ucp_am_recv_data_nbx((*inbox).worker, data, room, length, &param);
    if status_of(request) != UCS_INPROGRESS {
        keep(letter, status_of(request)); // complete at once: the callback does not run
    }
    UCS_OK
}

pub struct Node {
    context: ucp_context_h,
    worker: ucp_worker_h,
    fd: i32,
    inbox: Box<Inbox>, // in a box, because the library knows where it is
    pub turns: usize,  // of the loop
    pub sleeps: usize,
}

impl Node {
    pub fn new() -> Node {
        let features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
        let params = ucp_params_t {
            field_mask: UCP_PARAM_FIELD_FEATURES.into(),
            features: features.into(),
            ..Default::default()
        };
        let mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
        let (mut context, mut worker, mut fd) = (ptr::null_mut(), ptr::null_mut(), -1);

        unsafe {
            must(ucp_init(&params, ptr::null(), &mut context), "ucp_init");
            must(ucp_worker_create(context, &Default::default(), &mut worker), "ucp_worker_create");
            must(ucp_worker_get_efd(worker, &mut fd), "ucp_worker_get_efd");
        }
        let inbox = Box::new(Inbox { worker, letters: Default::default() });
        let handler = ucp_am_handler_param_t {
            field_mask: mask.into(),
            id: LETTER,
            cb: Some(arrived),
            arg: &*inbox as *const Inbox as *mut c_void,
            ..Default::default()
        };
        must(unsafe { ucp_worker_set_am_recv_handler(worker, &handler) }, "ucp_worker_set_am_recv_handler");
        Node { context, worker, fd, inbox, turns: 0, sleeps: 0 }
    }

    /// The only right order: progress until nothing is left, arm, and sleep if arming says that nothing came meanwhile.
    fn progress_or_sleep(&mut self) {
        let mut fd = pollfd { fd: self.fd, events: POLLIN as i16, revents: 0 };

        self.turns += 1;
        if unsafe { ucp_worker_progress(self.worker) } != 0 {
            return;
        }
        match unsafe { ucp_worker_arm(self.worker) } {
            UCS_OK => match unsafe { poll(&mut fd, 1, 20_000) } {
                0 => die("nothing happened for 20 seconds"),
                _ => self.sleeps += 1,
            },
            UCS_ERR_BUSY => (),
            status => must(status, "ucp_worker_arm"),
        }
    }

    /// Ends any operation: a null pointer is done, an error pointer has failed, the rest is waited for.
    fn finish(&mut self, request: ucs_status_ptr_t, what: &str) {
        let mut status = status_of(request);

        if status == UCS_INPROGRESS {
            while status == UCS_INPROGRESS {
                self.progress_or_sleep();
                status = unsafe { ucp_request_check_status(request) };
            }
            unsafe { ucp_request_free(request) };
        }
        must(status, what);
    }

    /// An address is bytes, at most a thousand, to be carried by any means: here its length and itself.
    pub fn write_address(&self, to: &mut impl Write) -> Result<(), Error> {
        let mut attr = ucp_worker_attr_t { field_mask: UCP_WORKER_ATTR_FIELD_ADDRESS.into(), ..Default::default() };

        must(unsafe { ucp_worker_query(self.worker, &mut attr) }, "ucp_worker_query");
        let address = unsafe { slice::from_raw_parts(attr.address as *const u8, attr.address_length).to_vec() };
        unsafe { ucp_worker_release_address(self.worker, attr.address) };
        to.write_all(&(address.len() as u16).to_ne_bytes())?;
        to.write_all(&address)?;
        to.flush()
    }

    pub fn connect(&mut self, from: &mut impl Read) -> Result<ucp_ep_h, Error> {
        let mut length = [0; 2];
        let mut ep = ptr::null_mut();

        from.read_exact(&mut length)?;
        let mut address = vec![0; u16::from_ne_bytes(length).into()];
        from.read_exact(&mut address)?;
        let params = ucp_ep_params_t {
            field_mask: UCP_EP_PARAM_FIELD_REMOTE_ADDRESS.into(),
            address: address.as_ptr().cast(),
            ..Default::default()
        };
        must(unsafe { ucp_ep_create(self.worker, &params, &mut ep) }, "ucp_ep_create");
        Ok(ep)
    }

    pub fn send(&mut self, ep: ucp_ep_h, tag: ucp_tag_t, data: &[u8]) {
        let sent = unsafe { ucp_tag_send_nbx(ep, data.as_ptr().cast(), data.len(), tag, &Default::default()) };
        self.finish(sent, "ucp_tag_send_nbx");
    }

    /// Receives a message of any length: it is searched for, and taken out of the queue, before there is memory for it.
    pub fn receive(&mut self, tag: ucp_tag_t) -> Vec<u8> {
        let (mut info, param) = (ucp_tag_recv_info_t::default(), Default::default());

        loop {
            let message = unsafe { ucp_tag_probe_nb(self.worker, tag, !0, 1, &mut info) };
            if !message.is_null() {
                let mut data = vec![0; info.length];
                let room = data.as_mut_ptr().cast();
                let received = unsafe { ucp_tag_msg_recv_nbx(self.worker, room, data.len(), message, &param) };
                self.finish(received, "ucp_tag_msg_recv_nbx");
                return data;
            }
            self.progress_or_sleep();
        }
    }

    pub fn write_letter(&mut self, ep: ucp_ep_h, text: &[u8]) {
        let (bytes, param) = (text.as_ptr().cast(), Default::default());
        let sent = unsafe { ucp_am_send_nbx(ep, LETTER, ptr::null(), 0, bytes, text.len(), &param) };
        self.finish(sent, "ucp_am_send_nbx");
    }

    pub fn read_letter(&mut self) -> Vec<u8> {
        loop {
            let letter = self.inbox.letters.borrow_mut().pop_front();
            match letter {
                Some(text) => return text,
                None => self.progress_or_sleep(),
            }
        }
    }

    pub fn close(&mut self, ep: ucp_ep_h) {
        let closed = unsafe { ucp_ep_close_nbx(ep, &Default::default()) };
        self.finish(closed, "ucp_ep_close_nbx");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        unsafe {
            ucp_worker_destroy(self.worker); // callbacks may run a last time, so the inbox goes after it
            ucp_cleanup(self.context);
        }
    }
}
