//! Frames in packets: small frames share a packet, large ones are split into pieces.
//!
//! ```text
//! whole  0  length 2  bytes
//! piece  1  frame 4  index 2  count 2  frame's length 4  length 2  bytes     all pieces but the last are equally long
//! ```
//! A packet contains any number of these.

use crate::channels::Loss;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_types::limits::MAX_FRAME_BYTES;
use std::collections::VecDeque;

const WHOLE: u8 = 0;
const PIECE: u8 = 1;
const WHOLE_HEAD_BYTES: usize = 3;
const PIECE_HEAD_BYTES: usize = 15;

/// Queue of frames to be packed into packets.
#[derive(Debug)]
pub struct Packer {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// The frame at the front, if part of it has been packed.
    splitting: Option<Splitting>,
    next_frame: u32,
    step: u32,
}

#[derive(Debug)]
struct Splitting {
    frame: u32,
    index: u16,
    count: u16,
    piece_bytes: usize,
}

impl Packer {
    /// Creates a packer that numbers its frames `first`, `first + step` and so on: packers that share an [`Assembler`]
    /// must not share numbers.
    pub fn new(first: u32, step: u32) -> Packer {
        Packer { frames: VecDeque::new(), bytes: 0, splitting: None, next_frame: first, step }
    }

    pub fn push(&mut self, frame: Bytes) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the bytes of frames that have not been packed.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the length of a packet filled up to at most `budget` bytes.
    pub fn packet_bytes(&self, budget: usize) -> usize {
        budget.min(self.bytes + WHOLE_HEAD_BYTES * self.frames.len() + PIECE_HEAD_BYTES)
    }

    /// Appends as many frames as fit into a packet of `budget` bytes. Frames too long for a whole packet are split.
    pub fn pack(&mut self, packet: &mut BytesMut, budget: usize) {
        assert!(budget > PIECE_HEAD_BYTES, "a packet has room for a piece of a frame");
        // The later pieces of a frame are as long as its first, even if the MTU budget has shrunk since.
        let begun = self.splitting.as_ref().map_or(0, |splitting| splitting.piece_bytes + PIECE_HEAD_BYTES);
        let budget = budget.max(begun);
        let end = packet.len() + budget;
        while let Some(frame) = self.frames.front() {
            let left = end - packet.len();
            if self.splitting.is_none() && frame.len() + WHOLE_HEAD_BYTES <= left && frame.len() <= u16::MAX.into() {
                packet.put_u8(WHOLE);
                packet.put_u16_le(frame.len() as u16);
                packet.extend_from_slice(frame);
                self.bytes -= frame.len();
                self.frames.pop_front();
                continue;
            }
            let most = budget.min(usize::from(u16::MAX)) - PIECE_HEAD_BYTES;
            if self.splitting.is_none() && frame.len() + WHOLE_HEAD_BYTES > budget {
                let count = frame.len().div_ceil(most);
                let count = u16::try_from(count).expect("the number of pieces of the largest frame fits in 16 bits");
                let piece_bytes = frame.len().div_ceil(count.into());
                self.splitting = Some(Splitting { frame: self.next_frame, index: 0, count, piece_bytes });
                self.next_frame = self.next_frame.wrapping_add(self.step);
            }
            let Some(splitting) = &mut self.splitting else { return };
            let from = usize::from(splitting.index) * splitting.piece_bytes;
            let piece = &frame[from..frame.len().min(from + splitting.piece_bytes)];
            if piece.len() + PIECE_HEAD_BYTES > left {
                return;
            }
            packet.put_u8(PIECE);
            packet.put_u32_le(splitting.frame);
            packet.put_u16_le(splitting.index);
            packet.put_u16_le(splitting.count);
            packet.put_u32_le(frame.len() as u32);
            packet.put_u16_le(piece.len() as u16);
            packet.extend_from_slice(piece);
            self.bytes -= piece.len();
            splitting.index += 1;
            if splitting.index == splitting.count {
                self.splitting = None;
                self.frames.pop_front();
            }
        }
    }
}

/// A partly received frame.
#[derive(Debug)]
struct Partial {
    frame: u32,
    /// Pieces at their offsets. Gaps before the last received piece are filled with zeros.
    bytes: BytesMut,
    total: usize,
    count: u16,
    missing: u16,
    /// Bitmap of the received pieces.
    seen: Vec<u64>,
}

impl Partial {
    /// Copies a piece to its offset; pieces that arrive in order are appended.
    fn place(&mut self, from: usize, piece: &[u8]) {
        let has_successor = from < self.bytes.len();
        if has_successor {
            self.bytes[from..from + piece.len()].copy_from_slice(piece);
        } else {
            self.bytes.resize(from, 0);
            self.bytes.extend_from_slice(piece);
        }
    }
}

/// Reassembles frames from packets.
#[derive(Debug)]
pub struct Assembler {
    partial: VecDeque<Partial>,
    held_bytes: usize,
    frame_limit: usize,
    /// Maximum bytes of incomplete frames.
    limit: usize,
    /// Whether to drop the oldest incomplete frame beyond the limit; otherwise the link fails.
    forgets: bool,
}

impl Assembler {
    /// Creates an assembler that holds at most `limit` bytes of incomplete frames, or one frame. Beyond the limit, it
    /// drops the oldest if it `forgets`, and fails the link otherwise.
    pub fn new(limit: usize, forgets: bool) -> Assembler {
        Assembler { partial: VecDeque::new(), held_bytes: 0, frame_limit: MAX_FRAME_BYTES, limit, forgets }
    }

    pub fn set_frame_limit(&mut self, bytes: usize) {
        self.frame_limit = bytes;
    }

    /// Returns the bytes reserved for incomplete frames.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Unpacks a packet and passes its whole frames, and those that it completes, to `on_frame`.
    ///
    /// # Errors
    /// If the packet is malformed, or a frame exceeds the limit.
    pub fn take(&mut self, mut packet: Bytes, mut on_frame: impl FnMut(Bytes)) -> Result<(), Loss> {
        while packet.has_remaining() {
            match packet.get_u8() {
                WHOLE if packet.len() >= WHOLE_HEAD_BYTES - 1 => {
                    let length = usize::from(packet.get_u16_le());
                    if length > packet.len() {
                        return Err(Loss::Violation("a frame is longer than its packet"));
                    }
                    self.check_length(length)?;
                    on_frame(packet.split_to(length));
                }
                PIECE if packet.len() >= PIECE_HEAD_BYTES - 1 => {
                    if let Some(frame) = self.take_piece(&mut packet)? {
                        on_frame(frame);
                    }
                }
                _ => return Err(Loss::Violation("a packet holds neither a frame nor a piece of one")),
            }
        }
        Ok(())
    }

    fn check_length(&self, bytes: usize) -> Result<(), Loss> {
        match bytes > self.frame_limit {
            true => Err(Loss::FrameTooLong { bytes, limit: self.frame_limit }),
            false => Ok(()),
        }
    }

    fn take_piece(&mut self, packet: &mut Bytes) -> Result<Option<Bytes>, Loss> {
        let (frame, index, count) = (packet.get_u32_le(), packet.get_u16_le(), packet.get_u16_le());
        let (total, length) = (packet.get_u32_le() as usize, usize::from(packet.get_u16_le()));
        self.check_length(total)?;
        if index >= count || length > packet.len() || total == 0 {
            return Err(Loss::Violation("a piece of a frame contradicts itself"));
        }
        let bytes = packet.split_to(length);
        let piece_bytes = total.div_ceil(count.into());
        let from = usize::from(index) * piece_bytes;
        if from >= total || total.min(from + piece_bytes) - from != length {
            return Err(Loss::Violation("a piece of a frame has the wrong length"));
        }
        let at = match self.partial.iter().rposition(|partial| partial.frame == frame) {
            Some(at) => at,
            None => self.begin(frame, count, total)?,
        };
        let partial = &mut self.partial[at];
        if (partial.count, partial.total) != (count, total) {
            return Err(Loss::Violation("pieces of a frame contradict each other"));
        }
        let (word, bit) = (usize::from(index) / 64, 1 << (index % 64));
        if partial.seen[word] & bit == 0 {
            partial.seen[word] |= bit;
            partial.missing -= 1;
            partial.place(from, &bytes);
        }
        if partial.missing > 0 {
            return Ok(None);
        }
        let whole = self.partial.remove(at).expect("it was just found");
        self.held_bytes -= total;
        Ok(Some(whole.bytes.freeze()))
    }

    fn begin(&mut self, frame: u32, count: u16, total: usize) -> Result<usize, Loss> {
        while self.held_bytes > 0 && self.held_bytes + total > self.limit {
            if !self.forgets {
                return Err(Loss::Violation("it begins too many frames without ending them"));
            }
            let oldest = self.partial.pop_front().expect("bytes are held for some frame");
            self.held_bytes -= oldest.total;
        }
        self.held_bytes += total;
        let seen = vec![0; usize::from(count).div_ceil(64)];
        self.partial.push_back(Partial {
            frame,
            bytes: BytesMut::with_capacity(total),
            total,
            count,
            missing: count,
            seen,
        });
        Ok(self.partial.len() - 1)
    }
}
