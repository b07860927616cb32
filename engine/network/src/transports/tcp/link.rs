//! One TCP stream with its channel and its queues.

use super::sockets::Protocol;
use crate::channels::{Agreed, Channel};
use crate::transports::error::LinkError;
use crate::transports::framing::FrameBuffer;
use crate::transports::links::{LinkState, Linked, Phase, Stuck};
use crate::transports::write_queue::{MAX_SLICES, WriteQueue};
use crate::transports::{Counters, Event, Remote};
use bytes::{Bytes, BytesMut};
use mio::net::TcpStream;
use quorate_types::Lane;
use quorate_types::line::tcp_packets;
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// Makes a write on a closed stream return an error instead of raising a signal.
const SEND_FLAGS: libc::c_int = libc::MSG_NOSIGNAL;
/// Bytes read at a time if the channel has to decrypt them.
const CHANNEL_READ_BYTES: usize = 16 << 10;
/// Plaintext encrypted ahead of the socket: enough for one system call.
const SEAL_AHEAD_BYTES: usize = 256 << 10;

/// Result of a round of reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The socket is empty; an event will report new data.
    Drained,
    /// The read budget is spent; no event will report the rest.
    More,
}

/// A stream with its channel and its queues.
pub struct Link {
    state: LinkState,
    pub socket: TcpStream,
    protocol: Protocol,
    /// The remote has closed its end; earlier data may still be unread.
    pub has_closed: bool,
    /// Progress of unacknowledged data, and its time limit in milliseconds.
    unacknowledged: (Stuck, u64),
    /// The socket is full; an event will report when it is writable.
    pub blocked: bool,
    /// Whether it is registered for writability events.
    pub watches_writable: bool,
    /// Whether it is registered with the separate poll of client links.
    pub is_apart: bool,
    channel: Box<dyn Channel>,
    transparent: bool,
    wire: BytesMut,
    frames: FrameBuffer,
    outgoing: Vec<u8>,
    outgoing_gone: usize,
    queue: WriteQueue,
    /// The kernel holds little unsent data, because bulk frames are sent on this link.
    limits_unsent: bool,
}

impl Deref for Link {
    type Target = LinkState;

    fn deref(&self) -> &LinkState {
        &self.state
    }
}

impl DerefMut for Link {
    fn deref_mut(&mut self) -> &mut LinkState {
        &mut self.state
    }
}

impl Linked for Link {
    fn partial_bytes(&self) -> usize {
        self.frames.held_bytes()
    }

    fn queued_bytes(&self) -> usize {
        self.queue.bytes() + self.outgoing.len() - self.outgoing_gone
    }

    #[inline]
    fn push(&mut self, frame: Bytes, lane: Lane, max_bytes: usize) -> bool {
        if lane == Lane::Bulk {
            return self.push_bulk(frame, max_bytes);
        }
        let has_room = fits(self.queue.ahead_bytes(), &frame, max_bytes);
        if has_room {
            self.queue.push(frame);
        }
        has_room
    }

    fn set_frame_limit(&mut self, bytes: usize) {
        self.frames.set_limit(bytes);
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        self.blocked
    }

    fn trouble(&mut self, now: Instant) -> Option<LinkError> {
        let (waits, progress) = self.protocol.trouble(&self.socket);
        let (stuck, limit_ms) = &mut self.unacknowledged;
        let limit = Duration::from_millis(*limit_ms);
        (stuck.observe(now, waits, progress) >= limit).then_some(LinkError::Unacknowledged(*limit_ms))
    }
}

/// Returns whether a frame may join a queue of `waiting` bytes. An empty queue accepts a frame of any size.
fn fits(waiting: usize, frame: &Bytes, max_bytes: usize) -> bool {
    waiting == 0 || waiting + crate::transports::framing::HEADER_BYTES + frame.len() <= max_bytes
}

impl Link {
    /// Returns the wire version of the link and the remote's release, once they are agreed on.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.channel.agreed()
    }

    fn push_bulk(&mut self, frame: Bytes, max_bytes: usize) -> bool {
        let has_room = fits(self.queue.bytes(), &frame, max_bytes);
        if has_room {
            if !std::mem::replace(&mut self.limits_unsent, true) {
                self.protocol.limit_unsent(&self.socket);
            }
            self.queue.push_bulk(frame);
        }
        has_room
    }

    pub fn new(
        state: LinkState,
        socket: TcpStream,
        protocol: Protocol,
        channel: Box<dyn Channel>,
        unacknowledged_ms: u64,
    ) -> Link {
        Link {
            protocol,
            watches_writable: state.dialled.is_some(),
            state,
            socket,
            has_closed: false,
            is_apart: false,
            unacknowledged: (Stuck::default(), unacknowledged_ms),
            blocked: false,
            channel,
            transparent: false,
            wire: BytesMut::new(),
            frames: FrameBuffer::new(),
            outgoing: Vec::new(),
            outgoing_gone: 0,
            queue: WriteQueue::new(),
            limits_unsent: false,
        }
    }

    /// Returns whether dialling has finished, or the error with which it failed.
    pub fn finish_dialling(&mut self) -> Result<bool, LinkError> {
        if let Some(error) = self.socket.take_error().map_err(LinkError::Dial)? {
            return Err(LinkError::Dial(error));
        }
        match self.socket.peer_addr() {
            Ok(_) => {
                self.phase = Phase::Handshake;
                self.start();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(LinkError::Dial(error)),
        }
    }

    /// Queues the first bytes of the handshake, if this end speaks first.
    pub fn start(&mut self) {
        self.channel.start(&mut self.outgoing);
    }

    pub fn has_outgoing(&self) -> bool {
        self.outgoing_gone < self.outgoing.len()
    }

    /// Writes until nothing is left or the socket is full.
    pub fn flush(&mut self, counters: &mut Counters) -> Result<(), LinkError> {
        loop {
            if !self.transparent && matches!(self.phase, Phase::Established(_)) {
                self.encrypt_queue(counters);
            }
            self.queue.stage();
            let from_outgoing = self.has_outgoing();
            let (wanted, written) = if from_outgoing {
                let rest = self.piece(&self.outgoing[self.outgoing_gone..]);
                (rest.len(), self.write_one(rest))
            } else if self.transparent && !self.queue.is_empty() {
                self.write_queue()
            } else {
                return Ok(());
            };
            counters.write_calls += 1;
            match written {
                Ok(count) => {
                    counters.bytes_sent += count as u64;
                    counters.stream_packets += tcp_packets(count as u64);
                    self.bytes_written += count as u64;
                    if from_outgoing {
                        self.consume_outgoing(count);
                    } else {
                        counters.frames_sent += self.queue.consume(count);
                    }
                    if count < wanted {
                        self.blocked = true;
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) => return Err(LinkError::Io(error)),
            }
        }
    }

    fn write_queue(&self) -> (usize, io::Result<usize>) {
        if let Some(only) = self.queue.only_slice() {
            let only = self.piece(only);
            return (only.len(), self.write_one(only));
        }
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let (mut count, mut total) = self.queue.slices(&mut slices);
        if let Some(most) = self.protocol.message_bytes().filter(|most| *most < total) {
            match first_slices(&slices[..count], most) {
                (0, _) => {
                    let first = self.piece(&slices[0]);
                    return (first.len(), self.write_one(first));
                }
                fitting => (count, total) = fitting,
            }
        }
        (total, SockRef::from(&self.socket).send_vectored_with_flags(&slices[..count], SEND_FLAGS))
    }

    /// Returns the longest prefix that the protocol accepts in one write.
    fn piece<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[..self.protocol.message_bytes().map_or(bytes.len(), |most| most.min(bytes.len()))]
    }

    fn write_one(&self, bytes: &[u8]) -> io::Result<usize> {
        SockRef::from(&self.socket).send_with_flags(bytes, SEND_FLAGS)
    }

    fn consume_outgoing(&mut self, count: usize) {
        self.outgoing_gone += count;
        if self.outgoing_gone == self.outgoing.len() {
            self.outgoing_gone = 0;
            self.outgoing.clear();
            if self.transparent {
                self.outgoing = Vec::new();
            }
        }
    }

    /// Encrypts queued frames, for channels that change the bytes. A frame counts as sent once it is encrypted.
    fn encrypt_queue(&mut self, counters: &mut Counters) {
        while !self.queue.is_empty() && self.outgoing.len() < SEAL_AHEAD_BYTES {
            self.queue.stage();
            let mut slices = [IoSlice::new(&[])];
            let (_, total) = self.queue.slices(&mut slices);
            self.channel.encrypt(&slices[0], &mut self.outgoing);
            counters.frames_sent += self.queue.consume(total);
        }
    }

    /// Reads handshake bytes until the remote is authenticated, the socket is empty, or the handshake fails. Responses
    /// are left for [`Link::flush`].
    pub fn read_handshake(&mut self, counters: &mut Counters) -> Result<Option<Remote>, LinkError> {
        while let Some((count, _)) = self.read_wire()? {
            counters.bytes_received += count as u64;
            self.channel.receive(&mut self.wire, self.frames.bytes_mut(), &mut self.outgoing)?;
            if let Some(identity) = self.channel.remote() {
                self.transparent = self.channel.is_transparent();
                if self.transparent {
                    self.wire = BytesMut::new();
                }
                return Ok(Some(identity.into()));
            }
        }
        Ok(None)
    }

    /// Reads frames until the socket is empty or about `budget` bytes have been read. A short read means that the
    /// socket is empty. If the remote is `closing`, the end of the stream may follow without a separate event.
    pub fn read_frames(
        &mut self,
        remote: Remote,
        budget: usize,
        closing: bool,
        counters: &mut Counters,
        events: &mut Vec<Event>,
    ) -> Result<Reading, LinkError> {
        let mut left = budget;
        self.take_frames(remote, counters, events)?;
        loop {
            let read = if self.transparent { self.read_plain()? } else { self.read_wire()? };
            let Some((count, spare)) = read else { return Ok(Reading::Drained) };
            counters.bytes_received += count as u64;
            if !self.transparent {
                self.channel.receive(&mut self.wire, self.frames.bytes_mut(), &mut self.outgoing)?;
            }
            self.take_frames(remote, counters, events)?;
            // With SCTP, the end of a message ends a read even if more data follows.
            if count < spare && !closing && self.protocol.message_bytes().is_none() {
                return Ok(Reading::Drained);
            }
            left = left.saturating_sub(count);
            if left == 0 {
                return Ok(Reading::More);
            }
        }
    }

    #[inline]
    fn take_frames(
        &mut self,
        remote: Remote,
        counters: &mut Counters,
        events: &mut Vec<Event>,
    ) -> Result<(), LinkError> {
        while let Some(frame) = self.frames.next_frame()? {
            counters.frames_received += 1;
            self.frames_received += 1;
            if let Remote::Client(_) = remote {
                self.share.handed_out(frame.len());
            }
            events.push(Event::Received { link: self.id, remote, frame });
        }
        Ok(())
    }

    /// Reads once, directly into the frame buffer. Returns the bytes read and the buffer's free space, or `None` if the
    /// socket is empty.
    fn read_plain(&mut self) -> Result<Option<(usize, usize)>, LinkError> {
        let spare = self.frames.spare();
        let wanted = spare.len();
        let Some(count) = receive(&self.socket, spare)? else { return Ok(None) };
        // SAFETY: the kernel filled the first `count` bytes of the buffer.
        unsafe { self.frames.filled(count) };
        Ok(Some((count, wanted)))
    }

    /// Reads once into the buffer that the channel decrypts, with the same results as [`Link::read_plain`].
    fn read_wire(&mut self) -> Result<Option<(usize, usize)>, LinkError> {
        self.wire.reserve(CHANNEL_READ_BYTES);
        let spare = self.wire.spare_capacity_mut();
        let wanted = spare.len();
        let Some(count) = receive(&self.socket, spare)? else { return Ok(None) };
        let end = self.wire.len() + count;
        // SAFETY: the kernel filled the first `count` bytes of the spare capacity.
        unsafe { self.wire.set_len(end) };
        Ok(Some((count, wanted)))
    }
}

/// Reads once. Returns the number of bytes, or `None` if the socket is empty.
fn receive(socket: &TcpStream, spare: &mut [MaybeUninit<u8>]) -> Result<Option<usize>, LinkError> {
    loop {
        match SockRef::from(socket).recv(spare) {
            Ok(0) => return Err(LinkError::Closed),
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            // SCTP reports this error for an association that the remote has ended.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return Err(LinkError::Closed),
            Err(error) => return Err(LinkError::Io(error)),
        }
    }
}

/// Returns how many of the first slices contain at most `most` bytes together, and their total.
fn first_slices(slices: &[IoSlice<'_>], most: usize) -> (usize, usize) {
    let mut total = 0;
    let count = slices.iter().take_while(|slice| {
        let fits = total + slice.len() <= most;
        total += if fits { slice.len() } else { 0 };
        fits
    });
    (count.count(), total)
}
