//! The plain channel over packets: the handshake of [`plain`](crate::channels::plain), then unprotected packets with a
//! token.
//!
//! Packets begin with the header of [`envelope`], so only an attacker on the path can inject one (see
//! [`plain`](crate::channels::plain)). The initiator first requests the responder's token, which proves the initiator's
//! address.
//!
//! ```text
//! handshake  0x51  to 8  from 8  have 2  at 2  bytes    part `at..` of this end's handshake; `have` bytes have arrived
//! data       0x52  to 8  bytes
//! ```
//! The initiator repeats handshake packets until all its bytes have arrived; the responder only answers.
//!
//! **Inside a secure session**, which has tokens of its own, a data packet begins with its kind alone, and the first
//! handshake packet with a zero token, because the remote's is not known yet. The answer to a challenge echoes its
//! proof.

use crate::channels::envelope::{
    self, Challenges, DATA, DATA_HEAD_BYTES, FIRST_WAIT, Head, LAST_WAIT, MOVE, PLAIN, Token,
};
use crate::channels::hello::HELLO_BYTES;
use crate::channels::plain::MAX_RELEASE_PART_BYTES;
use crate::channels::{
    Agreed, Channel, ChannelConfig, ChannelError, Detour, Loss, Machine, NONCE_BYTES, Output, PlainChannel,
    RemoteIdentity, Side,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_types::limits::MAX_SIGNATURE_BYTES;
use quorate_types::parameters::MAX_PARAMETERS_BYTES;
use quorate_types::{Lane, Time};
use std::time::Duration;

/// Header bytes of a handshake packet.
const HANDSHAKE_HEAD_BYTES: usize = envelope::HANDSHAKE_HEAD_BYTES + 2 + 2;
/// Header bytes of a data packet inside a secure session.
pub(crate) const INSIDE_HEAD_BYTES: usize = 1;
/// Maximum handshake length of one end: a hello, a proof with its length, a release, a digest, and parameters with
/// their length.
const MAX_HANDSHAKE_BYTES: usize =
    HELLO_BYTES + 2 + MAX_SIGNATURE_BYTES + MAX_RELEASE_PART_BYTES + 32 + 2 + MAX_PARAMETERS_BYTES;

/// One end of a plain channel over packets.
pub struct PlainPackets {
    inner: PlainChannel,
    side: Side,
    /// Whether a secure session below this channel identifies the sender of packets.
    is_inside: bool,
    own: Token,
    /// Token of the remote. At the accepting end, `None` until the handshake begins.
    theirs: Option<Token>,
    /// This end's bytes of the handshake.
    said: Vec<u8>,
    /// Number of these bytes that the other end has acknowledged.
    arrived: usize,
    /// Number of handshake bytes received from the other end.
    heard: usize,
    /// The other end's hello.
    their_hello: Vec<u8>,
    challenges: Challenges,
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
        PlainPackets { is_inside: false, ..PlainPackets::inside(config, side, nonce, &[]) }
    }

    /// Creates one end inside a secure session. Its signatures cover `session`, so they are worthless in any other
    /// session.
    pub(crate) fn inside(config: ChannelConfig, side: Side, nonce: [u8; NONCE_BYTES], session: &[u8]) -> PlainPackets {
        PlainPackets {
            own: envelope::token(&nonce),
            inner: PlainChannel::inside(config, side, nonce, session),
            side,
            is_inside: true,
            theirs: None,
            said: Vec::new(),
            arrived: 0,
            heard: 0,
            their_hello: Vec::new(),
            challenges: Challenges::default(),
            is_established: false,
            is_over: false,
            due: None,
            wait: FIRST_WAIT,
        }
    }

    /// Retransmits unacknowledged handshake bytes and acknowledges the other end's. Before that, the initiator requests
    /// the other end's token.
    fn say(&self, out: &mut Vec<Output>) {
        if self.theirs.is_none() && !self.is_inside {
            return out.push(Output::Packet(envelope::ask(self.own, PLAIN)));
        }
        let rest = &self.said[self.arrived..];
        let mut packet = envelope::handshake(self.theirs.unwrap_or(0), self.own, 2 + 2 + rest.len());
        packet.put_u16_le(self.heard as u16);
        packet.put_u16_le(self.arrived as u16);
        packet.extend_from_slice(rest);
        out.push(Output::Packet(packet.freeze()));
    }

    fn is_heard(&self) -> bool {
        self.arrived == self.said.len()
    }

    /// Returns the header of a data packet, in a buffer with capacity for `bytes` more.
    fn data_head(&self, bytes: usize) -> BytesMut {
        assert!(self.is_established, "nothing is sent before the handshake is complete");
        if self.is_inside {
            let mut packet = BytesMut::with_capacity(INSIDE_HEAD_BYTES + bytes);
            packet.put_u8(DATA);
            return packet;
        }
        envelope::data(self.theirs.expect("an established channel knows the other end's token"), bytes)
    }

    fn take_data(&mut self, frame: Bytes, out: &mut Vec<Output>) {
        if self.is_established {
            // The other end sends data only after it has received this end's whole handshake.
            (self.arrived, self.due) = (self.said.len(), None);
            out.push(Output::Frame(frame));
        }
    }

    fn end(&mut self, why: Loss, out: &mut Vec<Output>) {
        (self.is_over, self.due) = (true, None);
        out.push(Output::Lost(why));
    }

    /// Handles the answer to the token request.
    fn take_answer(&mut self, now: Time, channel: u8, from: Token, packet: &[u8], out: &mut Vec<Output>) {
        if channel != PLAIN.0 {
            return self.end(envelope::speaks_other(packet, PLAIN).into(), out);
        }
        // A later answer counts only if the other end did not know the token of an earlier one.
        if self.heard == 0 && self.theirs != Some(from) {
            self.theirs = Some(from);
            self.say(out);
            self.wait = FIRST_WAIT;
            self.due = Some(now + self.wait);
        }
    }

    fn take_handshake(&mut self, mut packet: Bytes, from: Token, out: &mut Vec<Output>) {
        packet.advance(envelope::HANDSHAKE_HEAD_BYTES);
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
            let rest = packet.len().min(HELLO_BYTES - self.their_hello.len());
            self.their_hello.extend_from_slice(&packet[..rest]);
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

    /// Returns the tag that answers a challenge with this proof.
    fn move_tag(&self, proof: u64) -> u64 {
        let own = &self.said[..HELLO_BYTES.min(self.said.len())];
        match self.side {
            Side::Initiator { .. } => envelope::move_tag(own, &self.their_hello, proof),
            Side::Responder => envelope::move_tag(&self.their_hello, own, proof),
        }
    }

    /// Builds the answer to a challenge with this proof.
    pub(crate) fn answer_challenge(&self, proof: u64) -> Option<Bytes> {
        let theirs = self.theirs.filter(|_| self.is_established && self.side != Side::Responder)?;
        if !self.is_inside {
            return Some(envelope::moved(theirs, self.move_tag(proof)));
        }
        Some(Bytes::from([&[MOVE][..], &proof.to_le_bytes()].concat()))
    }

    /// Returns whether a packet answers a challenge with one of these proofs.
    fn answers(&self, packet: &[u8], proofs: [u64; 2]) -> bool {
        match envelope::head(packet) {
            _ if self.is_inside => packet.split_first().is_some_and(|(kind, proof)| {
                *kind == MOVE && proofs.iter().any(|expected| *proof == expected.to_le_bytes())
            }),
            Some(Head::Move { to, tag }) => to == self.own && proofs.iter().any(|proof| tag == self.move_tag(*proof)),
            _ => false,
        }
    }

    /// Refuses a first packet that does not begin a handshake. Any later packet belongs to a connection that this end
    /// has forgotten, so its sender gets a reset.
    fn refuse(&mut self, packet: &[u8], out: &mut Vec<Output>) {
        let why = match envelope::head(packet) {
            Some(Head::Data { to } | Head::Handshake { to, .. } | Head::Path { to }) => {
                out.push(Output::Packet(envelope::reset(to)));
                Loss::Closed
            }
            Some(Head::Reset { .. }) => Loss::Closed,
            _ => envelope::speaks_other(packet, PLAIN).into(),
        };
        self.end(why, out);
    }

    /// Handles a packet at the accepting end before the handshake has begun.
    fn begin(&mut self, packet: Bytes, out: &mut Vec<Output>) {
        match envelope::head(&packet) {
            Some(Head::Ask { of, channel }) if channel == PLAIN.0 => {
                out.push(Output::Packet(envelope::answer(of, PLAIN, self.own)));
            }
            Some(Head::Handshake { to, from }) if starts_handshake(&packet) => {
                self.own = if self.is_inside { self.own } else { to };
                self.take_handshake(packet, from, out);
            }
            _ => self.refuse(&packet, out),
        }
    }
}

/// Returns whether a handshake packet contains the first byte of its sender's handshake.
fn starts_handshake(packet: &[u8]) -> bool {
    packet.len() > HANDSHAKE_HEAD_BYTES && packet[HANDSHAKE_HEAD_BYTES - 2..HANDSHAKE_HEAD_BYTES] == [0; 2]
}

impl Machine for PlainPackets {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        if let Side::Initiator { .. } = self.side {
            self.inner.start(&mut self.said);
            self.say(out);
            self.due = Some(now + self.wait);
        }
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        if self.is_over {
            return;
        }
        if self.is_inside && packet.first() == Some(&DATA) {
            return self.take_data(packet.slice(INSIDE_HEAD_BYTES..), out);
        }
        if self.side == Side::Responder && self.theirs.is_none() {
            return self.begin(packet, out);
        }
        if !self.is_inside && !self.claims(&packet) {
            return;
        }
        match envelope::head(&packet) {
            Some(Head::Handshake { from, .. }) if packet.len() >= HANDSHAKE_HEAD_BYTES => {
                self.take_handshake(packet, from, out);
            }
            Some(Head::Answer { channel, from, .. }) => self.take_answer(now, channel, from, &packet, out),
            Some(Head::Data { .. }) => self.take_data(packet.slice(DATA_HEAD_BYTES..), out),
            Some(Head::Reset { .. }) => self.end(Loss::Closed, out),
            Some(Head::Challenge { proof, .. }) => out.extend(self.answer_challenge(proof).map(Output::Packet)),
            _ => {}
        }
    }

    fn packet_from(&mut self, now: Time, detour: Detour, packet: Bytes, out: &mut Vec<Output>) {
        if self.is_over || self.name().is_none() {
            return;
        }
        if self.answers(&packet, detour.proofs) {
            return out.push(Output::Moved(detour.from));
        }
        match envelope::head(&packet) {
            _ if self.is_inside => self.packet(now, packet, out),
            Some(Head::Data { to }) if to == self.own => {
                self.take_data(packet.slice(DATA_HEAD_BYTES..), out);
                self.challenges.send(now, self.own, detour, out);
            }
            _ => {}
        }
    }

    fn send(&mut self, _: Time, frame: Bytes, _: Lane, out: &mut Vec<Output>) {
        let mut packet = self.data_head(frame.len());
        packet.extend_from_slice(&frame);
        out.push(Output::Packet(packet.freeze()));
    }

    fn prefix(&self) -> Option<Bytes> {
        Some(self.data_head(0).freeze())
    }

    fn send_prefixed(&mut self, _: Time, packet: Bytes, out: &mut Vec<Output>) {
        out.push(Output::Packet(packet));
    }

    fn claims(&self, packet: &[u8]) -> bool {
        match envelope::head(packet) {
            Some(Head::Handshake { to, from }) => to == self.own && self.theirs == Some(from),
            Some(Head::Answer { to, .. }) => self.side != Side::Responder && to == self.own,
            Some(Head::Data { to } | Head::Path { to }) => to == self.own,
            Some(Head::Reset { of }) => self.theirs == Some(of),
            Some(Head::Challenge { of, .. }) => self.side != Side::Responder && self.theirs == Some(of),
            _ => false,
        }
    }

    fn other_name(&self) -> Option<u64> {
        self.theirs.filter(|_| self.is_established && !self.is_inside)
    }

    fn name(&self) -> Option<u64> {
        (self.is_established && self.side == Side::Responder).then_some(self.own)
    }

    fn mtu_budget(&self, bytes: usize) -> usize {
        bytes.saturating_sub(if self.is_inside { INSIDE_HEAD_BYTES } else { DATA_HEAD_BYTES })
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
            out.push(Output::Packet(envelope::reset(self.own)));
        }
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        self.inner.remote()
    }

    fn agreed(&self) -> Option<&Agreed> {
        self.inner.agreed()
    }

    fn unsent_bytes(&self) -> usize {
        0
    }

    fn partial_bytes(&self) -> usize {
        0
    }

    fn set_frame_limit(&mut self, _: usize) {}
}
