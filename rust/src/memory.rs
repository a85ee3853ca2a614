// SPDX-License-Identifier: BSD-3-Clause
//! Memory that peers reach by themselves.

use crate::buffer::{RecvBuffer, SendBuffer};
use crate::{sys, BufferResult, Context, Endpoint, Error, Operation, Result};
use std::os::raw::c_void;
use std::ptr;
use std::rc::Rc;

/// Keys say themselves how long they are; one that lies finds so many zeros behind it.
const KEY_ROOM: usize = 4096;

/// Memory that peers with its key read and write at any time. So it is read and written by copies, never by reference.
pub struct Memory {
    context: Context,
    handle: sys::ucp_mem_h,
    address: *mut u8,
    length: usize,
}

impl Memory {
    pub(crate) fn allocate(context: &Context, length: usize) -> Result<Memory> {
        // SAFETY: all members may be zero; the mask says which of them count.
        let mut params: sys::ucp_mem_map_params_t = unsafe { std::mem::zeroed() };
        params.field_mask = (sys::UCP_MEM_MAP_PARAM_FIELD_LENGTH | sys::UCP_MEM_MAP_PARAM_FIELD_FLAGS) as u64;
        params.length = length;
        params.flags = sys::UCP_MEM_MAP_ALLOCATE;
        let mut handle: sys::ucp_mem_h = ptr::null_mut();
        // SAFETY: the parameters live during the call, the context as long as the memory.
        Error::check(unsafe { sys::ucp_mem_map(context.0.handle, &params, &mut handle) })?;
        let mut memory = Memory { context: context.clone(), handle, address: ptr::null_mut(), length };
        // SAFETY: all members may be zero; the mask says which of them are written.
        let mut attr: sys::ucp_mem_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = sys::UCP_MEM_ATTR_FIELD_ADDRESS as u64;
        // SAFETY: the region is mapped.
        Error::check(unsafe { sys::ucp_mem_query(handle, &mut attr) })?;
        memory.address = attr.address.cast();
        Ok(memory)
    }

    /// Where it begins, as peers name it.
    pub fn address(&self) -> u64 {
        self.address as u64
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The key by which peers reach it.
    pub fn key(&self) -> Result<Vec<u8>> {
        let mut key: *mut c_void = ptr::null_mut();
        let mut length = 0;
        // SAFETY: the library gives so many bytes until they are released.
        unsafe {
            Error::check(sys::ucp_rkey_pack(self.context.0.handle, self.handle, &mut key, &mut length))?;
            let bytes = std::slice::from_raw_parts(key as *const u8, length).to_vec();
            sys::ucp_rkey_buffer_release(key);
            Ok(bytes)
        }
    }

    /// # Panics
    /// When the range is not within the memory.
    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        let end = offset.checked_add(length);
        assert!(end.map_or(false, |end| end <= self.length), "the range is not within the memory");
        // SAFETY: within the memory, as just checked.
        unsafe { self.address.add(offset) }
    }

    /// Copies bytes out of it. What a peer writes meanwhile may be seen in part.
    ///
    /// # Panics
    /// When the range is not within the memory.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let source = self.at(offset, bytes.len());
        for (i, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: within the memory; volatile, for a peer may write there.
            *byte = unsafe { source.add(i).read_volatile() };
        }
    }

    /// Copies bytes into it.
    ///
    /// # Panics
    /// When the range is not within the memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let target = self.at(offset, bytes.len());
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: within the memory; volatile, for a peer may read there.
            unsafe { target.add(i).write_volatile(*byte) };
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it is unmapped this once; accesses of peers are refused afterwards.
        unsafe { sys::ucp_mem_unmap(self.context.0.handle, self.handle) };
    }
}

/// What an endpoint knows of memory of its peer. Addresses are those that [`Memory::address`] returns there; what is not
/// within the memory is refused at the peer.
///
/// ```no_run
/// # fn main() -> causeway::Result<()> {
/// # use causeway::{Context, Features};
/// # let context = Context::new(Features::RMA | Features::ATOMIC)?;
/// # let worker = context.worker()?;
/// # let endpoint = worker.connect(&worker.address()?)?;
/// let memory = context.map(4096)?;
/// // At the peer, which was sent the two:
/// let (place, key) = (memory.address(), memory.key()?);
/// let key = endpoint.remote_key(&key)?;
/// let (result, _) = worker.block_on(key.put(place, vec![1u8; 100]));
/// result?;
/// worker.block_on(endpoint.flush()).0?;
/// println!("it was {}", worker.block_on(key.fetch_add(place + 1024, 1))?);
/// # Ok(())
/// # }
/// ```
///
/// A key that is dropped stays with the library until the operations that use it have ended.
pub struct RemoteKey {
    key: Rc<KeyHandle>,
    endpoint: Endpoint,
}

/// Shared by a key and the operations that use it.
pub(crate) struct KeyHandle(sys::ucp_rkey_h);

impl Drop for KeyHandle {
    fn drop(&mut self) {
        // SAFETY: it is destroyed this once, while the worker is there: the key's endpoint holds the worker, and the
        // worker ends after the operations.
        unsafe { sys::ucp_rkey_destroy(self.0) }
    }
}

impl RemoteKey {
    pub(crate) fn unpack(endpoint: &Endpoint, key: &[u8]) -> Result<RemoteKey> {
        // Nothing but zeros is a key of no memory, which some C programs unpack and never use.
        if key.iter().all(|&byte| byte == 0) || key.len() > KEY_ROOM {
            return Err(Error::INVALID_PARAM);
        }
        let mut room = vec![0u8; 2 * KEY_ROOM];
        room[..key.len()].copy_from_slice(key);
        let mut handle: sys::ucp_rkey_h = ptr::null_mut();
        // SAFETY: the endpoint is open; the bytes live during the call.
        Error::check(unsafe { sys::ucp_ep_rkey_unpack(endpoint.handle()?, room.as_ptr().cast(), &mut handle) })?;
        Ok(RemoteKey { key: Rc::new(KeyHandle(handle)), endpoint: endpoint.clone() })
    }

    /// Writes bytes to the peer's memory.
    pub fn put<B: SendBuffer>(&self, address: u64, buffer: B) -> Operation<B> {
        self.endpoint.start(buffer, Some(&self.key), |buffer, param| {
            let bytes = buffer.bytes();
            let ep = self.endpoint.handle()?;
            // SAFETY: the endpoint is open; buffer and key, which is the endpoint's, live until the operation has ended.
            Ok(unsafe { sys::ucp_put_nbx(ep, bytes.as_ptr().cast(), bytes.len(), address, self.key.0, param) })
        })
    }

    /// Reads bytes of the peer's memory.
    pub fn get<B: RecvBuffer>(&self, address: u64, buffer: B) -> Operation<B> {
        self.endpoint.start(buffer, Some(&self.key), |buffer, param| {
            let bytes = buffer.bytes_mut();
            let ep = self.endpoint.handle()?;
            // SAFETY: as in `put`.
            Ok(unsafe { sys::ucp_get_nbx(ep, bytes.as_mut_ptr().cast(), bytes.len(), address, self.key.0, param) })
        })
    }

    /// `words`: the operand, and what the operation answers.
    async fn atomic(&self, opcode: sys::ucp_atomic_op_t, address: u64, words: [u64; 2]) -> Result<u64> {
        let operation = self.endpoint.start(Box::new(words), Some(&self.key), |words, param| {
            param.op_attr_mask |=
                (sys::UCP_OP_ATTR_FIELD_DATATYPE | sys::UCP_OP_ATTR_FIELD_REPLY_BUFFER) as u32;
            // A contiguous datatype of 8 bytes.
            param.datatype = 8 << sys::UCP_DATATYPE_SHIFT | u64::from(sys::UCP_DATATYPE_CONTIG);
            let words = words.as_mut_ptr();
            let ep = self.endpoint.handle()?;
            // SAFETY: the endpoint is open; both words and the key live until the operation has ended.
            unsafe {
                param.reply_buffer = words.add(1).cast();
                Ok(sys::ucp_atomic_op_nbx(ep, opcode, words.cast(), 1, address, self.key.0, param))
            }
        });
        let (result, words): BufferResult<_, Box<[u64; 2]>> = operation.await;
        result.map(|_| words[1])
    }

    /// Adds to a word; gives its value before.
    pub async fn fetch_add(&self, address: u64, value: u64) -> Result<u64> {
        self.atomic(sys::UCP_ATOMIC_OP_ADD, address, [value, 0]).await
    }

    /// Stores a word; gives its value before.
    pub async fn swap(&self, address: u64, value: u64) -> Result<u64> {
        self.atomic(sys::UCP_ATOMIC_OP_SWAP, address, [value, 0]).await
    }

    /// Combines a word with a value by and; gives its value before.
    pub async fn fetch_and(&self, address: u64, value: u64) -> Result<u64> {
        self.atomic(sys::UCP_ATOMIC_OP_AND, address, [value, 0]).await
    }

    /// Combines a word with a value by or; gives its value before.
    pub async fn fetch_or(&self, address: u64, value: u64) -> Result<u64> {
        self.atomic(sys::UCP_ATOMIC_OP_OR, address, [value, 0]).await
    }

    /// Combines a word with a value by exclusive or; gives its value before.
    pub async fn fetch_xor(&self, address: u64, value: u64) -> Result<u64> {
        self.atomic(sys::UCP_ATOMIC_OP_XOR, address, [value, 0]).await
    }

    /// Stores a word if it is `expected`; gives its value before.
    pub async fn compare_and_swap(&self, address: u64, expected: u64, value: u64) -> Result<u64> {
        self.atomic(sys::UCP_ATOMIC_OP_CSWAP, address, [expected, value]).await
    }
}
