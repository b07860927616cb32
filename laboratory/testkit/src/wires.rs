//! A packet transport and a channel outside the lists of shipped ones. They show that each is one file, and that node
//! and simulator run the same one. The transport retransmits by a timer; the channel signs every packet, after a
//! handshake that it repeats until it is answered.

use bytes::{Buf, Bytes, BytesMut};
use quorate_network::channels::{
    Carriage, ChannelConfig, ChannelError, ChannelKind, ChannelProfile, ChannelSuite, LocalEnd, Loss, Machine,
    NONCE_BYTES, Output, RemoteIdentity, Side, Stack,
};
use quorate_network::transports::{Association, Datagrams, TransportKind, TransportProfile, Wire, WireSettings};
use quorate_types::limits::MAX_FRAME_BYTES;
use quorate_types::{ClientId, ClusterId, Hasher, Lane, ReplicaId, Time};
use std::collections::{BTreeMap, VecDeque};

/// Retransmission over packets.
pub const REPEATING: TransportKind = TransportKind::of(&Datagrams(&Repeating));
/// A signature on every packet.
pub const SIGNED: ChannelKind = ChannelKind::of(&Signed);

/// The toy transport with the toy channel.
pub fn toy_wire() -> Wire {
    Wire { transport: REPEATING, channel: SIGNED, ..Wire::default() }
}

const MS: u64 = 1_000_000;
/// Bytes of a frame in one packet.
const PART_BYTES: usize = 1_000;
/// Maximum number of unacknowledged packets.
const WINDOW: usize = 64;
/// First retransmission timeout; it doubles each time.
const FIRST_WAIT_NS: u64 = 40 * MS;
const LAST_WAIT_NS: u64 = 320 * MS;
/// Retransmissions without an answer after which the other end counts as gone.
const MAX_REPETITIONS: u32 = 12;
/// Interval between repetitions of the hello, until it is answered.
const HELLO_WAIT_NS: u64 = 50 * MS;

struct Repeating;

static REPEATING_PROFILE: TransportProfile = TransportProfile {
    name: "toy-repeating",
    summary: "a toy",
    carriage: Carriage::Datagrams,
    own_channel: None,
    guards_links: false,
    keeps_order: true,
    repairs_losses: true,
};

impl Association for Repeating {
    fn profile(&self) -> &TransportProfile {
        &REPEATING_PROFILE
    }

    fn open(
        &self,
        end: &ChannelConfig,
        side: Side,
        _: &WireSettings,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError> {
        Ok(Box::new(Stack::on_channel(end, side, nonce, Box::new(Repeater::new()))?))
    }
}

/// A packet: a kind, a number, whether the frame continues in the next packet, and a part of a frame.
const DATA: u8 = 1;
const ACKNOWLEDGE: u8 = 2;
const CLOSE: u8 = 3;

/// One end of the toy transport.
struct Repeater {
    is_open: bool,
    /// Parts not yet sent.
    waiting: VecDeque<(bool, Bytes)>,
    /// Unacknowledged parts; the first has the number `first`.
    sent: VecDeque<Bytes>,
    first: u64,
    unsent: usize,
    due: Option<Time>,
    wait_ns: u64,
    repetitions: u32,
    began: Time,
    expected: u64,
    early: BTreeMap<u64, (bool, Bytes)>,
    frame: BytesMut,
    limit: usize,
}

impl Repeater {
    fn new() -> Repeater {
        Repeater {
            is_open: false,
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            first: 0,
            unsent: 0,
            due: None,
            wait_ns: FIRST_WAIT_NS,
            repetitions: 0,
            began: Time(0),
            expected: 0,
            early: BTreeMap::new(),
            frame: BytesMut::new(),
            limit: MAX_FRAME_BYTES,
        }
    }

    fn fill(&mut self, now: Time, out: &mut Vec<Output>) {
        while self.is_open && self.sent.len() < WINDOW {
            let Some((goes_on, part)) = self.waiting.pop_front() else { break };
            let number = self.first + self.sent.len() as u64;
            let mut packet = BytesMut::with_capacity(part.len() + 10);
            packet.extend_from_slice(&[DATA]);
            packet.extend_from_slice(&number.to_le_bytes());
            packet.extend_from_slice(&[u8::from(goes_on)]);
            packet.extend_from_slice(&part);
            let packet = packet.freeze();
            if self.sent.is_empty() {
                self.began = now;
                self.due = Some(Time(now.0 + self.wait_ns));
            }
            self.sent.push_back(packet.clone());
            out.push(Output::Packet(packet));
        }
    }

    fn acknowledged(&mut self, now: Time, upto: u64, out: &mut Vec<Output>) {
        if upto <= self.first || upto > self.first + self.sent.len() as u64 {
            return;
        }
        while self.first < upto {
            let packet = self.sent.pop_front().expect("the acknowledged packets were counted");
            self.unsent -= packet.len() - 10;
            self.first += 1;
        }
        (self.wait_ns, self.repetitions, self.began) = (FIRST_WAIT_NS, 0, now);
        self.due = (!self.sent.is_empty()).then_some(Time(now.0 + self.wait_ns));
        self.fill(now, out);
    }

    fn take_part(&mut self, number: u64, goes_on: bool, part: Bytes, out: &mut Vec<Output>) -> Result<(), Loss> {
        if number >= self.expected && number < self.expected + WINDOW as u64 {
            self.early.insert(number, (goes_on, part));
        }
        while let Some((goes_on, part)) = self.early.remove(&self.expected) {
            self.expected += 1;
            let bytes = self.frame.len() + part.len();
            if bytes > self.limit {
                return Err(Loss::FrameTooLong { bytes, limit: self.limit });
            }
            self.frame.extend_from_slice(&part);
            if !goes_on {
                out.push(Output::Frame(self.frame.split().freeze()));
            }
        }
        let mut answer = vec![ACKNOWLEDGE];
        answer.extend_from_slice(&self.expected.to_le_bytes());
        out.push(Output::Packet(answer.into()));
        Ok(())
    }
}

impl Machine for Repeater {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        self.is_open = true;
        out.push(Output::Established);
        self.fill(now, out);
    }

    fn packet(&mut self, now: Time, mut packet: Bytes, out: &mut Vec<Output>) {
        if packet.len() < 9 {
            return out.push(Output::Lost(Loss::Violation("a packet is too short")));
        }
        let (kind, number) = (packet.get_u8(), packet.get_u64_le());
        match kind {
            ACKNOWLEDGE => self.acknowledged(now, number, out),
            DATA if !packet.is_empty() => {
                let goes_on = packet.get_u8() != 0;
                if let Err(why) = self.take_part(number, goes_on, packet, out) {
                    out.push(Output::Lost(why));
                }
            }
            CLOSE => out.push(Output::Lost(Loss::Closed)),
            _ => out.push(Output::Lost(Loss::Violation("a packet of no known kind"))),
        }
    }

    fn send(&mut self, now: Time, frame: Bytes, _: Lane, out: &mut Vec<Output>) {
        self.unsent += frame.len();
        let parts = frame.len().div_ceil(PART_BYTES).max(1);
        for at in 0..parts {
            let part = frame.slice(at * PART_BYTES..frame.len().min((at + 1) * PART_BYTES));
            self.waiting.push_back((at + 1 < parts, part));
        }
        self.fill(now, out);
    }

    fn due(&self) -> Option<Time> {
        self.due
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        self.repetitions += 1;
        if self.repetitions > MAX_REPETITIONS {
            self.due = None;
            return out.push(Output::Lost(Loss::Silent(now.since(self.began).as_millis() as u64)));
        }
        self.wait_ns = (self.wait_ns * 2).min(LAST_WAIT_NS);
        self.due = Some(Time(now.0 + self.wait_ns));
        out.extend(self.sent.iter().cloned().map(Output::Packet));
    }

    fn close(&mut self, _: Time, out: &mut Vec<Output>) {
        let mut close = vec![CLOSE];
        close.extend_from_slice(&self.first.to_le_bytes());
        out.push(Output::Packet(close.into()));
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        None
    }

    fn unsent_bytes(&self) -> usize {
        self.unsent
    }

    fn partial_bytes(&self) -> usize {
        self.frame.len() + self.early.values().map(|(_, part)| part.len()).sum::<usize>()
    }

    fn set_frame_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }
}

struct Signed;

static SIGNED_PROFILE: ChannelProfile = ChannelProfile {
    name: "toy-signed",
    summary: "a toy",
    over: &[Carriage::Datagrams],
    encrypts: false,
    authenticates_frames: true,
    guards_packets: false,
};

impl ChannelSuite for Signed {
    fn profile(&self) -> &ChannelProfile {
        &SIGNED_PROFILE
    }

    fn over_packets(
        &self,
        end: &ChannelConfig,
        side: Side,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError> {
        let own = nonce[..8].try_into().expect("a nonce has more than 8 bytes");
        Ok(Box::new(Signing { end: end.clone(), side, own, theirs: None, remote: None, due: None, is_over: false }))
    }
}

type Nonce = [u8; 8];

/// A packet: the sender, its nonce, the nonce that it has received, the length of the signature, the signature, and the
/// frame. A client's "signature" proves nothing: it is a sum that anyone can compute.
const ID_BYTES: usize = 17;
const HEAD_BYTES: usize = ID_BYTES + 8 + 8 + 2;

/// One end of the toy channel.
struct Signing {
    end: ChannelConfig,
    side: Side,
    own: Nonce,
    theirs: Option<Nonce>,
    remote: Option<RemoteIdentity>,
    due: Option<Time>,
    is_over: bool,
}

fn encode(id: RemoteIdentity) -> [u8; ID_BYTES] {
    let (role, number) = match id {
        RemoteIdentity::Replica(replica) => (1, u128::from(replica.0)),
        RemoteIdentity::Client(client) => (2, client.0),
    };
    let mut bytes = [role; ID_BYTES];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<RemoteIdentity> {
    let number = u128::from_le_bytes(bytes[1..].try_into().ok()?);
    match bytes[0] {
        1 => Some(RemoteIdentity::Replica(ReplicaId(u16::try_from(number).ok()?))),
        2 => Some(RemoteIdentity::Client(ClientId(number))),
        _ => None,
    }
}

fn statement(cluster: ClusterId, head: &[u8], frame: &[u8]) -> Vec<u8> {
    [&b"toy packet"[..], &cluster.0.0, head, frame].concat()
}

fn sum(statement: &[u8]) -> [u8; 32] {
    let mut hasher = Hasher::new(*b"toy2");
    hasher.update(statement);
    hasher.finish().0
}

impl Signing {
    fn seal(&self, frame: &[u8]) -> Output {
        let mut packet = encode(self.end.me.identity()).to_vec();
        packet.extend_from_slice(&self.own);
        packet.extend_from_slice(&self.theirs.unwrap_or_default());
        let statement = statement(self.end.cluster, &packet, frame);
        let signature = match &self.end.me {
            LocalEnd::Replica(signer) => signer.sign(&statement),
            LocalEnd::Client(_) => Bytes::copy_from_slice(&sum(&statement)),
        };
        packet.extend_from_slice(&(signature.len() as u16).to_le_bytes());
        packet.extend_from_slice(&signature);
        packet.extend_from_slice(frame);
        Output::Packet(packet.into())
    }

    /// Returns the sender of a packet, its nonces and its frame; `None` if the signature is invalid.
    fn open(&self, mut packet: Bytes) -> Option<(RemoteIdentity, Nonce, Nonce, Bytes)> {
        if packet.len() < HEAD_BYTES {
            return None;
        }
        let mut head = packet.split_to(HEAD_BYTES);
        let length = usize::from(head.split_off(HEAD_BYTES - 2).get_u16_le());
        if packet.len() < length {
            return None;
        }
        let signature = packet.split_to(length);
        let (id, statement) = (decode(&head[..ID_BYTES])?, statement(self.end.cluster, &head, &packet));
        let holds = match (id, self.side) {
            (RemoteIdentity::Replica(replica), Side::Initiator { expects }) => {
                replica == expects && self.end.verifier.verify(replica, &statement, &signature)
            }
            (RemoteIdentity::Replica(replica), Side::Responder) => {
                self.end.verifier.verify(replica, &statement, &signature)
            }
            (RemoteIdentity::Client(_), Side::Responder) => signature == sum(&statement)[..],
            (RemoteIdentity::Client(_), Side::Initiator { .. }) => false,
        };
        let nonce = |at: usize| -> Nonce { head[at..at + 8].try_into().expect("eight bytes") };
        holds.then(|| (id, nonce(ID_BYTES), nonce(ID_BYTES + 8), packet))
    }
}

impl Machine for Signing {
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        out.push(self.seal(b""));
        self.due = Some(Time(now.0 + HELLO_WAIT_NS));
    }

    fn packet(&mut self, now: Time, packet: Bytes, out: &mut Vec<Output>) {
        // An unsigned packet may come from anyone, so it is not blamed on the other end.
        let Some((id, nonce, echo, frame)) = self.open(packet).filter(|_| !self.is_over) else { return };
        let is_fresh = echo == self.own;
        if !is_fresh {
            // The remote has not received this end's hello yet, so answer.
            if self.remote.is_none() {
                self.theirs = Some(nonce);
                out.push(self.seal(b""));
            } else if self.theirs != Some(nonce) {
                // The remote may have restarted, and proves it by signing this end's nonce together with its new one.
                let kept = self.theirs.replace(nonce);
                out.push(self.seal(b""));
                self.theirs = kept;
            }
            return;
        }
        if self.remote.is_some() && self.theirs != Some(nonce) {
            self.is_over = true;
            return out.push(Output::Lost(Loss::Violation("the remote has restarted")));
        }
        let is_responder = self.side == Side::Responder;
        if self.remote.is_none() {
            (self.remote, self.theirs) = (Some(id), Some(nonce));
            out.push(self.seal(b""));
            out.push(Output::Established);
            // The initiator repeats its hello until it receives an answer; the responder answers each one.
            self.due = (!is_responder).then_some(Time(now.0 + HELLO_WAIT_NS));
        } else {
            self.due = None;
            if is_responder && frame.is_empty() {
                out.push(self.seal(b""));
            }
        }
        if !frame.is_empty() && self.remote == Some(id) {
            out.push(Output::Frame(frame));
        }
    }

    fn send(&mut self, _: Time, frame: Bytes, _: Lane, out: &mut Vec<Output>) {
        out.push(self.seal(&frame));
    }

    fn due(&self) -> Option<Time> {
        self.due
    }

    fn timer(&mut self, now: Time, out: &mut Vec<Output>) {
        self.start(now, out);
    }

    fn close(&mut self, _: Time, _: &mut Vec<Output>) {
        self.is_over = true;
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        self.remote
    }

    fn unsent_bytes(&self) -> usize {
        0
    }

    fn partial_bytes(&self) -> usize {
        0
    }

    fn set_frame_limit(&mut self, _: usize) {}
}
