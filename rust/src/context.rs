// SPDX-License-Identifier: BSD-3-Clause
//! The library, opened with a set of features.

use crate::{error, sys, Error, Memory, Result, Worker};
use std::ffi::CString;
use std::ops::BitOr;
use std::ptr;
use std::sync::Arc;

/// What a context is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features(u64);

impl Features {
    /// Messages with tags.
    pub const TAG: Features = Features(sys::UCP_FEATURE_TAG as u64);
    /// Streams of bytes.
    pub const STREAM: Features = Features(sys::UCP_FEATURE_STREAM as u64);
    /// Active messages.
    pub const AM: Features = Features(sys::UCP_FEATURE_AM as u64);
    /// Remote memory.
    pub const RMA: Features = Features(sys::UCP_FEATURE_RMA as u64);
    /// Atomic operations on 8 bytes of remote memory.
    pub const ATOMIC: Features = Features(sys::UCP_FEATURE_AMO64 as u64);
    /// Workers can sleep; without it [`Worker::block_on`] spins.
    pub const WAKEUP: Features = Features(sys::UCP_FEATURE_WAKEUP as u64);

    fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Features {
    type Output = Features;

    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

pub(crate) struct ContextHandle {
    pub(crate) handle: sys::ucp_context_h,
    features: Features,
}

// SAFETY: the library takes calls on a context, which is opened for workers of several threads, from any thread.
unsafe impl Send for ContextHandle {}
unsafe impl Sync for ContextHandle {}

impl Drop for ContextHandle {
    fn drop(&mut self) {
        // SAFETY: whatever was made of the context holds a reference to this, so nothing is left of it.
        unsafe { sys::ucp_cleanup(self.handle) }
    }
}

/// The library, opened with settings of its own. Cheap to clone; may be used by several threads.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<ContextHandle>);

impl Context {
    /// Opens the library with the settings of the environment (`UCX_TLS` and so on).
    pub fn new(features: Features) -> Result<Context> {
        Context::with_settings(features, &[])
    }

    /// Opens the library with settings, names without `UCX_`, that beat those of the environment.
    pub fn with_settings(features: Features, settings: &[(&str, &str)]) -> Result<Context> {
        let mut config: *mut sys::ucp_config_t = ptr::null_mut();
        error::follow_log();
        // SAFETY: no prefix and no file; the configuration is ours until it is released below.
        Error::check(unsafe { sys::ucp_config_read(ptr::null(), ptr::null(), &mut config) })?;
        let mut result = Ok(());
        for (name, value) in settings {
            let pair = (CString::new(*name), CString::new(*value));
            result = match pair {
                // SAFETY: both texts end with a zero byte; the library copies them.
                (Ok(name), Ok(value)) => {
                    Error::check(unsafe { sys::ucp_config_modify(config, name.as_ptr(), value.as_ptr()) })
                }
                _ => Err(Error::INVALID_PARAM),
            };
            if result.is_err() {
                break;
            }
        }
        let opened = result.and_then(|()| Context::open(features, config));
        // SAFETY: contexts copy what they need.
        unsafe { sys::ucp_config_release(config) };
        opened
    }

    fn open(features: Features, config: *const sys::ucp_config_t) -> Result<Context> {
        // SAFETY: all members may be zero; the mask says which of them count.
        let mut params: sys::ucp_params_t = unsafe { std::mem::zeroed() };
        params.field_mask = (sys::UCP_PARAM_FIELD_FEATURES | sys::UCP_PARAM_FIELD_MT_WORKERS_SHARED) as u64;
        params.features = features.0;
        params.mt_workers_shared = 1;
        let mut handle: sys::ucp_context_h = ptr::null_mut();
        // SAFETY: the parameters live during the call.
        Error::check(unsafe {
            sys::ucp_init_version(sys::UCP_API_MAJOR, sys::UCP_API_MINOR, &params, config, &mut handle)
        })?;
        Ok(Context(Arc::new(ContextHandle { handle, features })))
    }

    /// A new worker, for the thread that calls.
    pub fn worker(&self) -> Result<Worker> {
        Worker::new(self)
    }

    /// Zeroed memory of that many bytes that peers with its key may read and write.
    pub fn map(&self, length: usize) -> Result<Memory> {
        Memory::allocate(self, length)
    }

    pub(crate) fn sleeps(&self) -> bool {
        self.0.features.contains(Features::WAKEUP)
    }
}
