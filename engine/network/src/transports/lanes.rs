//! Frames on byte streams: queues for sending, and reassembly of received bytes.

use crate::channels::{Loss, Output};
use crate::transports::framing::{FrameBuffer, HEADER_BYTES, header};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Maximum body size of frames that are copied into a common piece; larger ones are shared. Few pieces matter where a
/// library searches them linearly.
const COALESCE_BYTES: usize = 4 << 10;
/// Size at which a piece ends.
const PIECE_BYTES: usize = 64 << 10;

/// Frames queued for a stream.
#[derive(Default)]
pub struct SendLane {
    pieces: VecDeque<Bytes>,
    /// The last piece, which still grows.
    last: BytesMut,
    bytes: usize,
}

impl SendLane {
    /// Returns the queued bytes, headers included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends bytes without a header.
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.last.extend_from_slice(bytes);
    }

    /// Appends a frame behind its length header. Small frames are copied into one piece.
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

    /// Returns the queued pieces, in order.
    pub fn pieces(&mut self) -> &mut [Bytes] {
        self.end_piece();
        self.pieces.make_contiguous()
    }

    /// Removes `bytes` bytes from the front: the first `pieces` pieces completely, the rest from the next one.
    pub fn taken(&mut self, pieces: usize, bytes: usize) {
        self.pieces.drain(..pieces);
        self.bytes -= bytes;
    }

    /// Removes and returns at most `most` bytes from the front; `None` if the queue is empty.
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

/// Appends received bytes to the incomplete frame of a stream, and reports each completed frame.
pub fn take_frames(frames: &mut FrameBuffer, mut bytes: &[u8], out: &mut Vec<Output>) -> Result<(), Loss> {
    while !bytes.is_empty() {
        let spare = frames.spare();
        let count = spare.len().min(bytes.len());
        let (now, later) = bytes.split_at(count);
        for (slot, byte) in spare.iter_mut().zip(now) {
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
