//! Frames to and from the streams of one direction.

use crate::framing::{FrameBuffer, HEADER_BYTES, header};
use bytes::{Bytes, BytesMut};
use quinn_proto::{Connection, ReadError, ReadableError, StreamId, WriteError};
use quorate_channels::{Loss, Output};
use std::collections::VecDeque;

/// Frames with a body up to this size are copied into one piece with others, larger ones are shared: the library
/// searches its pieces one by one.
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

    /// Gives the stream as much as it takes. Returns the number of bytes.
    pub fn write(&mut self, connection: &mut Connection, stream: StreamId) -> Result<usize, Loss> {
        self.end_piece();
        let mut written = 0;
        while !self.pieces.is_empty() {
            match connection.send_stream(stream).write_chunks(self.pieces.make_contiguous()) {
                Ok(taken) => {
                    self.pieces.drain(..taken.chunks);
                    written += taken.bytes;
                    self.bytes -= taken.bytes;
                }
                Err(WriteError::Blocked) => break,
                Err(_) => return Err(Loss::Violation("it stopped one of its streams")),
            }
        }
        Ok(written)
    }
}

/// Passes what a stream has received to `take`, in order.
pub fn read(
    connection: &mut Connection,
    stream: StreamId,
    mut take: impl FnMut(&[u8]) -> Result<(), Loss>,
) -> Result<(), Loss> {
    let mut stream = connection.recv_stream(stream);
    let mut chunks = match stream.read(true) {
        Ok(chunks) => chunks,
        Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => return Ok(()),
    };
    let outcome = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => {
                if let Err(why) = take(&chunk.bytes) {
                    break Err(why);
                }
            }
            Err(ReadError::Blocked) => break Ok(()),
            Ok(None) | Err(ReadError::Reset(_)) => break Err(Loss::Violation("it ended one of its streams")),
        }
    };
    // Whether there is something to send is found out after each step anyway.
    let _ = chunks.finalize();
    outcome
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
