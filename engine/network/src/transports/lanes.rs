//! Frames to and from streams of bytes: what waits for a stream, and what comes from it.

use crate::channels::{Loss, Output};
use crate::transports::framing::{FrameBuffer, HEADER_BYTES, header};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Frames with a body up to this size are copied into one piece with others, larger ones are shared. Few
/// pieces matter where a library searches them one by one.
const COALESCE_BYTES: usize = 4 << 10;
/// Size at which a piece ends.
const PIECE_BYTES: usize = 64 << 10;

/// Frames that wait for a stream.
#[derive(Default)]
pub struct SendLane {
    pieces: VecDeque<Bytes>,
    /// The piece after all others, which grows.
    last: BytesMut,
    bytes: usize,
}

impl SendLane {
    /// Returns the bytes that wait, headers included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends bytes without a header.
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.last.extend_from_slice(bytes);
    }

    /// Appends a frame.
    pub fn push(&mut self, frame: Bytes) {
        self.bytes += HEADER_BYTES + frame.len();
        if self.last.len() >= PIECE_BYTES {
            self.end_piece();
        }
        self.last.extend_from_slice(&header(frame.len()));
        if frame.len() <= COALESCE_BYTES {
            self.last.extend_from_slice(&frame);
        } else {
            self.end_piece();
            self.pieces.push_back(frame);
        }
    }

    fn end_piece(&mut self) {
        if !self.last.is_empty() {
            self.pieces.push_back(self.last.split().freeze());
        }
    }

    /// Returns the pieces that wait, in order.
    pub fn pieces(&mut self) -> &mut [Bytes] {
        self.end_piece();
        self.pieces.make_contiguous()
    }

    /// Removes the first `pieces` pieces. From them and the next one, `bytes` bytes were taken.
    pub fn taken(&mut self, pieces: usize, bytes: usize) {
        self.pieces.drain(..pieces);
        self.bytes -= bytes;
    }

    /// Removes and returns at most `most` bytes from the front; `None` if nothing waits.
    pub fn take(&mut self, most: usize) -> Option<Bytes> {
        if self.pieces.is_empty() {
            self.end_piece();
        }
        let first = self.pieces.front_mut()?;
        let taken = first.split_to(most.min(first.len()));
        if first.is_empty() {
            self.pieces.pop_front();
        }
        self.bytes -= taken.len();
        Some(taken)
    }
}

/// Appends bytes of a stream to its incomplete frame, and reports the frames that are complete.
pub fn take_frames(frames: &mut FrameBuffer, mut bytes: &[u8], out: &mut Vec<Output>) -> Result<(), Loss> {
    while !bytes.is_empty() {
        let room = frames.spare();
        let count = room.len().min(bytes.len());
        let (now, later) = bytes.split_at(count);
        for (slot, byte) in room.iter_mut().zip(now) {
            slot.write(*byte);
        }
        // SAFETY: these bytes were just written.
        unsafe { frames.filled(count) };
        bytes = later;
        loop {
            match frames.next_frame() {
                Ok(Some(frame)) => out.push(Output::Frame(frame)),
                Ok(None) => break,
                Err(long) => return Err(Loss::FrameTooLong { bytes: long.bytes, limit: long.limit }),
            }
        }
    }
    Ok(())
}
