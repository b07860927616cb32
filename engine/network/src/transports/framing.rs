//! Frames on a byte stream: a four-byte little-endian length, then the body.
//!
//! [`FrameBuffer`] receives into chunks and returns bodies as slices of them, without a copy. The memory that a
//! long-lived frame can pin is bounded: a frame that fits in a chunk pins one chunk ([`CHUNK_BYTES`]), which it shares
//! with its neighbours on the stream; a larger frame has its own buffer, at most twice its size and never shared. A
//! chunk is filled completely before the next one is begun, so on a busy link chunks hold little besides live frames.
//! Code that keeps only a few of many small frames for long should copy them. A buffer for a large frame grows as its
//! bytes arrive, at most doubling, so announcing a length allocates no memory.

use bytes::{Buf, Bytes, BytesMut};
use quorate_types::limits::MAX_FRAME_BYTES;
use std::mem::MaybeUninit;
use thiserror::Error;

/// Size of the length prefix, in bytes.
pub const HEADER_BYTES: usize = 4;
/// Size of a receive chunk, in bytes; small enough for the allocator to recycle it without the kernel.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Minimum free space for a read, in bytes; below it, a new chunk is begun.
const MIN_SPARE_BYTES: usize = 16 << 10;

/// Error: a remote announced a frame longer than the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the remote announced a frame of {bytes} bytes, over the limit of {limit}: it is faulty")]
pub struct FrameTooLong {
    pub bytes: usize,
    pub limit: usize,
}

/// Returns the header of a frame with a body of `bytes` bytes.
///
/// Panics if the body exceeds the limit, which the sender must respect.
pub fn header(bytes: usize) -> [u8; HEADER_BYTES] {
    assert!(bytes <= MAX_FRAME_BYTES, "a frame of {bytes} bytes is over the limit of {MAX_FRAME_BYTES}");
    (bytes as u32).to_le_bytes()
}

/// Collects a byte stream and splits it into frames.
pub struct FrameBuffer {
    bytes: BytesMut,
    limit: usize,
}

impl Default for FrameBuffer {
    fn default() -> Self {
        FrameBuffer { bytes: BytesMut::new(), limit: MAX_FRAME_BYTES }
    }
}

impl FrameBuffer {
    /// Creates an empty buffer, without allocating memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rejects frames with a body of more than `bytes` bytes from now on.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes.min(MAX_FRAME_BYTES);
    }

    /// Returns the bytes held by an incomplete frame, including its own buffer if it has one.
    pub fn held_bytes(&self) -> usize {
        if self.bytes.len() > CHUNK_BYTES { self.bytes.capacity() } else { self.bytes.len() }
    }

    /// Returns the length of the frame at the front, header included, once its header is complete.
    fn front_bytes(&self) -> Option<usize> {
        let header = self.bytes.get(..HEADER_BYTES)?;
        Some(HEADER_BYTES + u32::from_le_bytes(header.try_into().expect("a header has four bytes")) as usize)
    }

    /// Returns the free space for the next read, never empty. All complete frames must have been taken before.
    pub fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        let have = self.bytes.len();
        let front = self.front_bytes().unwrap_or(HEADER_BYTES);
        let missing = front.checked_sub(have).filter(|&missing| missing > 0).expect("whole frames are taken first");
        let spare = self.bytes.capacity() - have;
        if front > CHUNK_BYTES {
            if spare < missing.min(MIN_SPARE_BYTES) {
                self.bytes.reserve(missing.min(have.max(CHUNK_BYTES)));
            }
            let spare = self.bytes.spare_capacity_mut();
            let end = missing.min(spare.len());
            return &mut spare[..end];
        }
        if spare < missing.max(MIN_SPARE_BYTES) && !self.bytes.try_reclaim(CHUNK_BYTES - have) {
            let mut next = BytesMut::with_capacity(CHUNK_BYTES);
            next.extend_from_slice(&self.bytes);
            self.bytes = next;
        }
        self.bytes.spare_capacity_mut()
    }

    /// Marks the first `count` bytes of [`FrameBuffer::spare`] as filled by a read.
    ///
    /// # Safety
    /// They must be initialised.
    pub unsafe fn filled(&mut self, count: usize) {
        let end = self.bytes.len() + count;
        assert!(end <= self.bytes.capacity(), "a read fills at most the room it was given");
        // SAFETY: the caller initialised the bytes up to `end`, which is within the capacity.
        unsafe { self.bytes.set_len(end) };
    }

    /// Returns the buffer, for callers that append to it without a read.
    pub fn bytes_mut(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Removes and returns the body of the next complete frame.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, FrameTooLong> {
        let Some(front) = self.front_bytes() else { return Ok(None) };
        let body = front - HEADER_BYTES;
        if body > self.limit {
            return Err(FrameTooLong { bytes: body, limit: self.limit });
        }
        if self.bytes.len() < front {
            return Ok(None);
        }
        self.bytes.advance(HEADER_BYTES);
        if body == 0 {
            return Ok(Some(Bytes::new()));
        }
        let frame = self.bytes.split_to(body).freeze();
        if front > CHUNK_BYTES {
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
        Ok(Some(frame))
    }
}
