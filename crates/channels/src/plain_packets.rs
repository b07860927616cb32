//! The plain channel over packets: the handshake of [`plain`](crate::plain), then bare packets with a token.
//!
//! Each end draws a token and tells it to the other in the handshake. Every later packet begins with the token of the
//! end that it goes to, so somebody who cannot read the packets cannot inject one: sender addresses prove nothing over
//! UDP. Somebody on the path can, as [`plain`](crate::plain) says.
//!
//! ```text
//! handshake  0x51  to 8  from 8  have 2  at 2  bytes    part `at..` of this end's handshake; `have` bytes have arrived
//! data       0x52  to 8  bytes
//! reset      0x53  of 8                                 the end that named itself `of` has no such connection any more
//! ```
//! A token of zero stands for one that is not known yet. Handshake packets are repeated by the initiator until all its
//! bytes have arrived; the responder only answers, so that nobody can make it send more than it receives, give or take
//! a factor of four.

use crate::hello::{self, MAGIC};
use crate::{
    Channel, ChannelConfig, ChannelError, Loss, Machine, NONCE_BYTES, Output, PlainChannel, RemoteIdentity, Side,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_types::limits::MAX_SIGNATURE_BYTES;
use quorate_types::parameters::MAX_PARAMETERS_BYTES;
use quorate_types::{Hasher, Time};
use std::time::Duration;

pub(crate) const HANDSHAKE: u8 = 0x51;
const DATA: u8 = 0x52;
const RESET: u8 = 0x53;
/// Bytes before the payload of a packet of data.
pub(crate) const DATA_HEAD_BYTES: usize = 1 + TOKEN_BYTES;
const TOKEN_BYTES: usize = 8;
const HANDSHAKE_HEAD_BYTES: usize = 1 + 2 * TOKEN_BYTES + 2 + 2;
/// Longest handshake of one end: a hello, a proof with its length, a digest, and parameters with their length.
const MAX_HANDSHAKE_BYTES: usize = hello::HELLO_BYTES + 2 + MAX_SIGNATURE_BYTES + 32 + 2 + MAX_PARAMETERS_BYTES;
/// First wait before a handshake packet is repeated; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LAST_WAIT: Duration = Duration::from_millis(800);
/// Domain of the hash that makes a token.
const TOKEN_TAG: [u8; 4] = *b"tokn";

/// Number of one end of a connection, never zero.
type Token = u64;

/// One end of a plain channel over packets.
pub struct PlainPackets {
    inner: PlainChannel,
    side: Side,
    own: Token,
    theirs: Option<Token>,
    /// This end's bytes of the handshake.
    said: Vec<u8>,
    /// Of these, the bytes that have arrived at the other end.
    arrived: usize,
    /// Bytes of the other end's handshake that have arrived here.
    heard: usize,
    is_established: bool,
    is_over: bool,
    due: Option<Time>,
    wait: Duration,
}

impl PlainPackets {
    /// Creates one end at the start of its handshake. `nonce` must never have been used before.
    ///
    /// # Panics
    /// If a client is to respond or a replica to dial itself, as [`PlainChannel::new`].
    pub fn new(config: ChannelConfig, side: Side, nonce: [u8; NONCE_BYTES]) -> PlainPackets {
        PlainPackets::inside(config, side, nonce, &[])
    }

    /// Creates one end inside a secure session. Its signatures cover `session`, so they prove nothing in another one.
    pub(crate) fn inside(config: ChannelConfig, side: Side, nonce: [u8; NONCE_BYTES], session: &[u8]) -> PlainPackets {
        PlainPackets {
            own: token(&nonce),
            inner: PlainChannel::inside(config, side, nonce, session),
            side,
            theirs: None,
            said: Vec::new(),
            arrived: 0,
            heard: 0,
            is_established: false,
            is_over: false,
            due: None,
            wait: FIRST_WAIT,
        }
    }

    /// Sends what has not arrived, and how much of the other end's handshake has.
    fn say(&self, out: &mut Vec<Output>) {
        let rest = &self.said[self.arrived..];
        let mut packet = BytesMut::with_capacity(HANDSHAKE_HEAD_BYTES + rest.len());
        packet.put_u8(HANDSHAKE);
        packet.put_u64_le(self.theirs.unwrap_or(0));
        packet.put_u64_le(self.own);
        packet.put_u16_le(self.heard as u16);
        packet.put_u16_le(self.arrived as u16);
        packet.extend_from_slice(rest);
        out.push(Output::Packet(packet.freeze()));
    }

    fn is_heard(&self) -> bool {
        self.arrived == self.said.len()
    }

    /// Returns what packets of data begin with.
    fn data_head(&self) -> [u8; DATA_HEAD_BYTES] {
        assert!(self.is_established, "nothing is sent before the handshake is complete");
        let token = self.theirs.expect("an established channel knows the other end's token");
        let mut head = [DATA; DATA_HEAD_BYTES];
        head[1..].copy_from_slice(&token.to_le_bytes());
        head
    }

    fn end(&mut self, why: Loss, out: &mut Vec<Output>) {
        (self.is_over, self.due) = (true, None);
        out.push(Output::Lost(why));
    }

    fn take_handshake(&mut self, mut packet: Bytes, out: &mut Vec<Output>) {
        packet.advance(1 + TOKEN_BYTES);
        let from = packet.get_u64_le();
        let (have, at) = (usize::from(packet.get_u16_le()), usize::from(packet.get_u16_le()));
        if from == 0 || at + packet.len() > MAX_HANDSHAKE_BYTES {
            return;
        }
        self.theirs = Some(from);
        self.arrived = self.arrived.max(have.min(self.said.len()));
        let is_answer_due = !packet.is_empty();
        if at <= self.heard && self.heard < at + packet.len() {
            packet.advance(self.heard - at);
            self.heard += packet.len();
            let (mut wire, mut plain) = (BytesMut::from(&packet[..]), BytesMut::new());
            if let Err(why) = self.inner.receive(&mut wire, &mut plain, &mut self.said) {
                self.say(out);
                return self.end(why.into(), out);
            }
            if !wire.is_empty() || !plain.is_empty() {
                return self.end(ChannelError::Malformed("it is longer than it should be").into(), out);
            }
        }
        if is_answer_due || !self.is_heard() {
            self.say(out);
        }
        if !self.is_established && self.inner.remote().is_some() {
            self.is_established = true;
            out.push(Output::Established);
        }
        if self.is_established && self.is_heard() {
            self.due = None;
        }
    }

    /// Refuses a first packet that does not begin a handshake. A sender of data has a connection that this end has
    /// forgotten: it is told so.
    fn refuse(&mut self, packet: &[u8], out: &mut Vec<Output>) {
        let why = match packet {
            [DATA, token @ ..] if token.len() >= TOKEN_BYTES => {
                let mut reset = BytesMut::with_capacity(DATA_HEAD_BYTES);
                reset.put_u8(RESET);
                reset.extend_from_slice(&token[..TOKEN_BYTES]);
                out.push(Output::Packet(reset.freeze()));
                Loss::Closed
            }
            [RESET, ..] => Loss::Closed,
            [first, ..] if *first == hello::TLS_PREFIX[0] => ChannelError::PeerSpeaks("dtls").into(),
            _ => ChannelError::NotQuorate.into(),
        };
        self.end(why, out);
    }
}

/// Returns the token that belongs to a nonce. The nonce itself goes to the other end too, and only there.
fn token(nonce: &[u8; NONCE_BYTES]) -> Token {
    let mut hasher = Hasher::new(TOKEN_TAG);
    hasher.update(nonce);
    hasher.update(&MAGIC);
    let digest = hasher.finish().0;
    Token::from_le_bytes(digest[..TOKEN_BYTES].try_into().expect("a digest is longer than a token")).max(1)
}

/// Returns the kind of a packet and the token after it.
fn head(packet: &[u8]) -> Option<(u8, Token)> {
    let (kind, rest) = packet.split_first()?;
    let token = Token::from_le_bytes(rest.get(..TOKEN_BYTES)?.try_into().ok()?);
    match *kind {
        HANDSHAKE if packet.len() >= HANDSHAKE_HEAD_BYTES => Some((HANDSHAKE, token)),
        DATA | RESET => Some((*kind, token)),
        _ => None,
    }
}

impl Machine for PlainPackets {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        if let Side::Initiator { .. } = self.side {
            self.inner.start(&mut self.said);
            self.say(out);
            self.due = Some(now + self.wait);
        }
    }

    fn packet(&mut self, _: Time, packet: Bytes, out: &mut Vec<Output>) {
        if self.is_over {
            return;
        }
        if self.side == Side::Responder && self.heard == 0 && !matches!(head(&packet), Some((HANDSHAKE, 0))) {
            return self.refuse(&packet, out);
        }
        if !self.claims(&packet) {
            return;
        }
        match head(&packet) {
            Some((HANDSHAKE, _)) => self.take_handshake(packet, out),
            Some((DATA, _)) if self.is_established => {
                // Only an end that has heard all of the handshake sends data.
                (self.arrived, self.due) = (self.said.len(), None);
                out.push(Output::Frame(packet.slice(DATA_HEAD_BYTES..)));
            }
            Some((RESET, _)) => self.end(Loss::Closed, out),
            _ => {}
        }
    }

    fn send(&mut self, _: Time, frame: Bytes, out: &mut Vec<Output>) {
        let mut packet = BytesMut::with_capacity(DATA_HEAD_BYTES + frame.len());
        packet.extend_from_slice(&self.data_head());
        packet.extend_from_slice(&frame);
        out.push(Output::Packet(packet.freeze()));
    }

    fn prefix(&self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(&self.data_head()))
    }

    fn send_prefixed(&mut self, _: Time, packet: Bytes, out: &mut Vec<Output>) {
        out.push(Output::Packet(packet));
    }

    fn claims(&self, packet: &[u8]) -> bool {
        match head(packet) {
            Some((HANDSHAKE, 0)) => {
                let from = packet[1 + TOKEN_BYTES..].first_chunk().map(|bytes| Token::from_le_bytes(*bytes));
                self.side == Side::Responder && (self.theirs.is_none() || self.theirs == from)
            }
            Some((HANDSHAKE | DATA, to)) => to == self.own,
            Some((RESET, of)) => Some(of) == self.theirs,
            _ => false,
        }
    }

    fn room(&self, bytes: usize) -> usize {
        bytes.saturating_sub(DATA_HEAD_BYTES)
    }

    fn due(&self) -> Option<Time> {
        self.due
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        self.say(out);
        self.wait = (2 * self.wait).min(LAST_WAIT);
        self.due = Some(now + self.wait);
    }

    fn close(&mut self, _: Time, out: &mut Vec<Output>) {
        if !self.is_over {
            (self.is_over, self.due) = (true, None);
            let mut reset = BytesMut::with_capacity(DATA_HEAD_BYTES);
            reset.put_u8(RESET);
            reset.put_u64_le(self.own);
            out.push(Output::Packet(reset.freeze()));
        }
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        self.inner.remote()
    }

    fn unsent_bytes(&self) -> usize {
        0
    }

    fn partial_bytes(&self) -> usize {
        0
    }

    fn set_frame_limit(&mut self, _: usize) {}
}
