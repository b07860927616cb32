//! Write queue of one link, laid out so that many frames leave in one system call.

use crate::transports::framing::{HEADER_BYTES, header};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Maximum body size of frames that are copied into one buffer; larger ones are shared. Up to this size, a copy costs
/// less than a separate slice in the system call.
const COALESCE_BYTES: usize = 2 << 10;
/// Size at which a copied segment ends.
const SEGMENT_BYTES: usize = 64 << 10;
/// Capacity that the empty copy buffer retains.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// Bulk frames are staged for writing while fewer bytes than this are ahead of them.
pub const STAGED_BYTES: usize = 64 << 10;
/// Maximum number of slices in one system call.
pub(crate) const MAX_SLICES: usize = 64;

enum Segment {
    /// `bytes` bytes of the copy buffer, which contain the ends of `frames` frames.
    Copied { bytes: usize, frames: u64 },
    /// The body of one frame.
    Shared(Bytes),
}

/// Queue of frames, headers included. Bulk frames wait behind all others, until [`WriteQueue::stage`] stages them.
#[derive(Default)]
pub struct WriteQueue {
    copied: Vec<u8>,
    /// Bytes of `copied` in segments that are completely written.
    copied_gone: usize,
    segments: VecDeque<Segment>,
    /// Bytes of the first segment already written.
    front_written: usize,
    bytes: usize,
    /// Bulk frames that are not staged, and their bytes.
    bulk: VecDeque<Bytes>,
    bulk_bytes: usize,
}

impl WriteQueue {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the queued bytes, headers included.
    pub fn bytes(&self) -> usize {
        self.bytes + self.bulk_bytes
    }

    /// Returns the bytes ahead of the next frame that is not bulk, headers included.
    pub fn ahead_bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Queues a frame that later frames may overtake.
    pub fn push_bulk(&mut self, frame: Bytes) {
        self.bulk_bytes += HEADER_BYTES + frame.len();
        self.bulk.push_back(frame);
    }

    /// Stages bulk frames until [`STAGED_BYTES`] are ready to be written. Call it before each write.
    #[inline]
    pub fn stage(&mut self) {
        while self.bytes < STAGED_BYTES
            && let Some(frame) = self.bulk.pop_front()
        {
            self.bulk_bytes -= HEADER_BYTES + frame.len();
            self.push(frame);
        }
    }

    #[inline]
    pub fn push(&mut self, frame: Bytes) {
        self.bytes += HEADER_BYTES + frame.len();
        if frame.len() <= COALESCE_BYTES {
            self.copied.extend_from_slice(&header(frame.len()));
            self.copied.extend_from_slice(&frame);
            self.extend_copied(HEADER_BYTES + frame.len(), 1);
        } else {
            self.copied.extend_from_slice(&header(frame.len()));
            self.extend_copied(HEADER_BYTES, 0);
            self.segments.push_back(Segment::Shared(frame));
        }
    }

    fn extend_copied(&mut self, more: usize, ended: u64) {
        match self.segments.back_mut() {
            Some(Segment::Copied { bytes, frames }) if *bytes < SEGMENT_BYTES => {
                *bytes += more;
                *frames += ended;
            }
            _ => self.segments.push_back(Segment::Copied { bytes: more, frames: ended }),
        }
    }

    /// Returns the whole queue, except unstaged bulk, if it is contiguous, as usual with a few small frames.
    pub fn only_slice(&self) -> Option<&[u8]> {
        match self.segments.front() {
            Some(Segment::Copied { bytes, .. }) if self.segments.len() == 1 => {
                Some(&self.copied[self.copied_gone + self.front_written..self.copied_gone + bytes])
            }
            _ => None,
        }
    }

    /// Fills `slices` with the front of the queue. Returns the number of slices and of bytes.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> (usize, usize) {
        let mut skip = self.front_written;
        let mut copied_at = self.copied_gone;
        let mut total = 0;
        let mut count = 0;
        for (segment, slice) in self.segments.iter().zip(slices) {
            let bytes = match segment {
                Segment::Copied { bytes, .. } => {
                    copied_at += bytes;
                    &self.copied[copied_at - bytes..copied_at]
                }
                Segment::Shared(frame) => frame,
            };
            *slice = IoSlice::new(&bytes[skip..]);
            total += bytes.len() - skip;
            skip = 0;
            count += 1;
        }
        (count, total)
    }

    /// Removes `written` bytes from the front. Returns the number of frames completed by them.
    pub fn consume(&mut self, written: usize) -> u64 {
        assert!(written <= self.bytes, "more was written than queued");
        self.bytes -= written;
        let mut left = self.front_written + written;
        let mut ended = 0;
        while let Some(front) = self.segments.front() {
            let (bytes, frames, copied) = match front {
                Segment::Copied { bytes, frames } => (*bytes, *frames, *bytes),
                Segment::Shared(frame) => (frame.len(), 1, 0),
            };
            if left < bytes {
                break;
            }
            left -= bytes;
            ended += frames;
            self.copied_gone += copied;
            self.segments.pop_front();
        }
        self.front_written = left;
        self.compact();
        ended
    }

    fn compact(&mut self) {
        if self.segments.is_empty() {
            assert_eq!(self.copied_gone, self.copied.len(), "an empty queue has written every copied byte");
            self.copied.clear();
            self.copied_gone = 0;
            self.copied.shrink_to(MAX_KEPT_BYTES);
        } else if self.copied_gone > SEGMENT_BYTES && self.copied_gone > self.copied.len() / 2 {
            self.copied.drain(..self.copied_gone);
            self.copied_gone = 0;
        }
    }
}
