//! Channels over packets: who is admitted, and what attackers on and off the path can do. The first test body runs over
//! both.

use crate::handshake::{config, key, replica};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_network::channels::envelope::{self, DATA_HEAD_BYTES, HANDSHAKE_HEAD_BYTES, Head, Token};
use quorate_network::channels::{
    ChannelConfig, ChannelError, ChannelKind, LocalEnd, Loss, Machine, Output, RemoteIdentity, Side, certificate,
};
use quorate_types::{ClientId, Lane, ReplicaId, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KINDS: [ChannelKind; 2] = [ChannelKind::PLAIN, ChannelKind::DTLS];

/// One end with everything that it sent.
struct Post {
    machine: Box<dyn Machine>,
    sent: Vec<Bytes>,
    taken: usize,
    frames: Vec<Bytes>,
    is_established: bool,
    lost: Option<Loss>,
    now: Time,
}

impl Post {
    fn new(kind: ChannelKind, end: &ChannelConfig, side: Side) -> Post {
        let end = ChannelConfig { kind, ..end.clone() };
        let nonce = end.nonce().expect("randomness");
        let machine = kind.suite().over_packets(&end, side, nonce).expect("a machine");
        let (sent, frames) = (Vec::new(), Vec::new());
        let mut post =
            Post { machine, sent, taken: 0, frames, is_established: false, lost: None, now: Time::from_millis(1) };
        post.act(|machine, now, out| machine.start(now, out));
        post
    }

    fn act(&mut self, act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>)) {
        let mut out = Vec::new();
        act(&mut *self.machine, self.now, &mut out);
        for said in out {
            match said {
                Output::Packet(packet) => self.sent.push(packet),
                Output::PathCarries { .. } => {}
                Output::PacketTo(..) | Output::Moved(_) => unreachable!("both ends keep their addresses"),
                Output::Established => self.is_established = true,
                Output::Frame(frame) => self.frames.push(frame),
                Output::Lost(why) => self.lost = Some(why),
            }
        }
    }

    fn receive(&mut self, packet: Bytes) {
        self.act(|machine, now, out| machine.packet(now, packet, out));
    }

    fn send(&mut self, frame: &'static [u8]) {
        self.act(|machine, now, out| machine.send(now, Bytes::from_static(frame), Lane::Ordinary, out));
    }

    fn take_sent(&mut self) -> Vec<Bytes> {
        let fresh = self.sent[self.taken..].to_vec();
        self.taken = self.sent.len();
        fresh
    }

    /// Advances the time, and fires the timer if it is due.
    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        if self.machine.due().is_some_and(|due| due <= self.now) {
            self.act(|machine, now, out| machine.timer(now, out));
        }
    }

    fn refusal(&self) -> Option<ChannelError> {
        match &self.lost {
            Some(Loss::Channel(why)) => Some(why.clone()),
            _ => None,
        }
    }
}

fn dial(kind: ChannelKind, end: &ChannelConfig, expects: u16) -> Post {
    Post::new(kind, end, Side::Initiator { expects: ReplicaId(expects) })
}

fn answer(kind: ChannelKind, end: &ChannelConfig) -> Post {
    Post::new(kind, end, Side::Responder)
}

/// Delivers packets both ways, unless `loses` returns true, until neither end sends more.
fn talk(a: &mut Post, b: &mut Post, mut loses: impl FnMut() -> bool) {
    loop {
        let (from_a, from_b) = (a.take_sent(), b.take_sent());
        if from_a.is_empty() && from_b.is_empty() {
            return;
        }
        from_a.into_iter().filter(|_| !loses()).for_each(|packet| b.receive(packet));
        from_b.into_iter().filter(|_| !loses()).for_each(|packet| a.receive(packet));
    }
}

fn connected(kind: ChannelKind) -> (Post, Post) {
    let (mut a, mut b) = (dial(kind, &replica(0), 1), answer(kind, &replica(1)));
    talk(&mut a, &mut b, || false);
    assert!(a.is_established && b.is_established, "{kind}: {:?}, {:?}", a.lost, b.lost);
    (a, b)
}

#[test]
fn two_replicas_and_a_client_authenticate_each_other_and_exchange_frames() {
    for kind in KINDS {
        let (mut a, mut b) = connected(kind);
        assert_eq!(a.machine.remote(), Some(RemoteIdentity::Replica(ReplicaId(1))));
        assert_eq!(b.machine.remote(), Some(RemoteIdentity::Replica(ReplicaId(0))));
        a.send(b"from a");
        b.send(b"");
        talk(&mut a, &mut b, || false);
        assert_eq!((&b.frames[..], &a.frames[..]), (&[Bytes::from_static(b"from a")][..], &[Bytes::new()][..]));
        let client = config("one", LocalEnd::Client(ClientId(9)));
        let (mut c, mut r) = (dial(kind, &client, 1), answer(kind, &replica(1)));
        talk(&mut c, &mut r, || false);
        assert_eq!(r.machine.remote(), Some(RemoteIdentity::Client(ClientId(9))));
    }
}

#[test]
fn keys_are_replaced_while_both_ends_send() {
    let often = |end| ChannelConfig { key_update_records: 3, ..end };
    let (kind, one, other) = (ChannelKind::DTLS, often(replica(0)), often(replica(1)));
    let (mut a, mut b) = (dial(kind, &one, 1), answer(kind, &other));
    talk(&mut a, &mut b, || false);
    let before = a.sent.len();
    for _ in 0..100 {
        a.send(b"from a");
        b.send(b"from b");
        talk(&mut a, &mut b, || false);
    }
    assert_eq!((a.frames.len(), b.frames.len()), (100, 100));
    assert_eq!((a.lost, b.lost), (None, None));
    // The first byte of an encrypted record contains the last bits of its epoch (RFC 9147, section 4).
    let epochs: BTreeSet<u8> = a.sent[before..].iter().map(|packet| packet[DATA_HEAD_BYTES] & 3).collect();
    assert_eq!(epochs.len(), 4, "all of four epochs in a row were used");
}

#[test]
fn impostors_strangers_and_misdirected_ends_are_refused() {
    for kind in KINDS {
        let cases = [
            (replica(0), config("one", key(1, 66)), ChannelError::Signature(ReplicaId(1))),
            (replica(0), replica(2), ChannelError::Misdirected { meant: ReplicaId(1), me: ReplicaId(2) }),
            (config("one", key(0, 66)), replica(1), ChannelError::Signature(ReplicaId(0))),
        ];
        for (dials, answers, why) in cases {
            let (mut a, mut b) = (dial(kind, &dials, 1), answer(kind, &answers));
            talk(&mut a, &mut b, || false);
            assert!([a.refusal(), b.refusal()].contains(&Some(why)), "{kind}: {:?}, {:?}", a.lost, b.lost);
            assert!(!b.is_established && (!a.is_established || a.lost.is_some() || b.lost.is_some()), "{kind}");
        }
        let (mut a, mut b) = (dial(kind, &config("another", key(0, 0)), 1), answer(kind, &replica(1)));
        talk(&mut a, &mut b, || false);
        let says_cluster = |end: &Post| matches!(end.refusal(), Some(ChannelError::Cluster { .. }));
        assert!(says_cluster(&a) && says_cluster(&b), "{kind}: {:?}, {:?}", a.lost, b.lost);
    }
}

#[test]
fn a_replayed_handshake_and_replayed_frames_are_refused() {
    for kind in KINDS {
        let (mut a, mut b) = connected(kind);
        a.send(b"pay one coin");
        talk(&mut a, &mut b, || false);
        let mut again = answer(kind, &replica(1));
        a.sent.iter().for_each(|packet| again.receive(packet.clone()));
        assert!(!again.is_established && again.frames.is_empty(), "{kind}");
        if kind == ChannelKind::DTLS {
            a.sent.iter().for_each(|packet| b.receive(packet.clone()));
            assert_eq!(b.frames.len(), 1, "a record counts once");
        }
    }
}

#[test]
fn an_end_with_another_channel_is_told_apart() {
    let mut plain = answer(ChannelKind::PLAIN, &replica(1));
    dial(ChannelKind::DTLS, &replica(0), 1).take_sent().into_iter().for_each(|packet| plain.receive(packet));
    assert_eq!(plain.refusal(), Some(ChannelError::PeerSpeaks("dtls")));
    let mut dtls = answer(ChannelKind::DTLS, &replica(1));
    dial(ChannelKind::PLAIN, &replica(0), 1).take_sent().into_iter().for_each(|packet| dtls.receive(packet));
    assert_eq!(dtls.refusal(), Some(ChannelError::PeerSpeaks("plain")));
}

#[test]
fn a_lost_handshake_packet_is_sent_again() {
    for kind in KINDS {
        for lost in 0..8 {
            let (mut a, mut b) = (dial(kind, &replica(0), 1), answer(kind, &replica(1)));
            let mut count = 0;
            let mut loses = || {
                count += 1;
                count == lost + 1
            };
            for _ in 0..40 {
                talk(&mut a, &mut b, &mut loses);
                a.wait(Duration::from_millis(100));
                b.wait(Duration::from_millis(100));
            }
            assert!(a.is_established && b.is_established, "{kind}, packet {lost}: {:?}, {:?}", a.lost, b.lost);
        }
    }
}

/// A replica that has lost its state sends a reset to the sender of packets of unknown connections.
#[test]
fn data_for_a_forgotten_connection_is_answered_with_a_reset() {
    let (mut a, _) = connected(ChannelKind::PLAIN);
    a.send(b"still there?");
    let mut reborn = answer(ChannelKind::PLAIN, &replica(1));
    talk(&mut a, &mut reborn, || false);
    assert_eq!((a.lost, reborn.lost), (Some(Loss::Closed), Some(Loss::Closed)));
}

#[test]
fn a_reset_without_the_token_changes_nothing() {
    let (mut a, mut b) = connected(ChannelKind::PLAIN);
    a.receive(Bytes::from_static(&[0x53, 1, 2, 3, 4, 5, 6, 7, 8]));
    a.send(b"frame");
    talk(&mut a, &mut b, || false);
    assert_eq!((a.lost, b.frames.len()), (None, 1));
}

#[test]
fn encrypted_frames_cannot_be_read_or_changed_on_the_way() {
    let (mut a, mut b) = connected(ChannelKind::DTLS);
    a.send(b"pay one coin to bob");
    let packets = a.take_sent();
    assert!(packets.iter().all(|packet| !packet.windows(8).any(|window| window == b"pay one ")));
    for packet in packets {
        for at in 0..packet.len() {
            let mut changed = packet.to_vec();
            changed[at] ^= 0x40;
            b.receive(changed.into());
        }
    }
    assert_eq!((b.frames.len(), b.lost), (0, None), "changed packets are dropped, and the link stands");
}

/// A DTLS end without the inner handshake, as an attacker on the path can have. The attacker knows the tokens around
/// the records.
struct Bare {
    session: dimpl::Dtls,
    own: Token,
    theirs: Token,
    dials: bool,
    opened: Vec<Bytes>,
    is_connected: bool,
}

impl Bare {
    fn new(dials: bool) -> Bare {
        let config = dimpl::Config::builder().require_client_certificate(false).build().expect("a configuration");
        let certificate = certificate::self_signed().expect("a certificate");
        let mut session = dimpl::Dtls::new_13(Arc::new(config), certificate, Instant::now());
        session.set_active(dials);
        session.handle_timeout(Instant::now()).expect("a clock");
        Bare { session, own: 77, theirs: 0, dials, opened: Vec::new(), is_connected: false }
    }

    /// Returns the records of a packet, or the answer to it.
    fn open(&mut self, packet: &Bytes) -> Result<Bytes, Option<Bytes>> {
        match envelope::head(packet) {
            Some(Head::Ask { of, .. }) => Err(Some(envelope::answer(of, envelope::DTLS, self.own))),
            Some(Head::Handshake { from, .. }) => {
                self.theirs = from;
                Ok(packet.slice(HANDSHAKE_HEAD_BYTES..))
            }
            Some(Head::Data { .. }) => Ok(packet.slice(DATA_HEAD_BYTES..)),
            Some(Head::Answer { from, .. }) => {
                self.theirs = from;
                Err(None)
            }
            _ => Err(None),
        }
    }

    fn close(&self, records: &[u8]) -> Bytes {
        let mut packet = match self.dials {
            true => envelope::handshake(self.theirs, self.own, records.len()),
            false => envelope::data(self.theirs, records.len()),
        };
        packet.extend_from_slice(records);
        packet.freeze()
    }

    fn poll(&mut self) -> Vec<Bytes> {
        let (mut packets, mut room) = (Vec::new(), vec![0; 20_000]);
        loop {
            match self.session.poll_output(&mut room) {
                dimpl::Output::Packet(records) => packets.push(Bytes::copy_from_slice(records)),
                dimpl::Output::Connected => self.is_connected = true,
                dimpl::Output::ApplicationData(data) => self.opened.push(Bytes::copy_from_slice(data)),
                dimpl::Output::Timeout(_) => return packets.iter().map(|records| self.close(records)).collect(),
                _ => {}
            }
        }
    }
}

/// Relays, byte by byte, an end's data inside its session to the session with the other end.
fn relay(end: &mut Post, near: &mut Bare, far: &mut Bare) {
    for packet in end.take_sent() {
        match near.open(&packet) {
            Ok(records) => near.session.handle_packet(&records).expect("an honest end"),
            Err(answer) => answer.into_iter().for_each(|answer| end.receive(answer)),
        }
        near.poll().into_iter().for_each(|packet| end.receive(packet));
    }
    near.poll().into_iter().for_each(|packet| end.receive(packet));
    for said in near.opened.drain(..).filter(|_| far.is_connected) {
        far.session.send_application_data(&said).expect("an open session");
    }
}

#[test]
fn whoever_stands_in_the_middle_is_refused() {
    let (mut a, mut b) = (dial(ChannelKind::DTLS, &replica(0), 1), answer(ChannelKind::DTLS, &replica(1)));
    let (mut to_a, mut to_b) = (Bare::new(false), Bare::new(true));
    b.receive(envelope::ask(to_b.own, envelope::DTLS));
    for packet in b.take_sent() {
        assert_eq!(to_b.open(&packet), Err(None), "the answer of an honest end");
    }
    for _ in 0..20 {
        relay(&mut a, &mut to_a, &mut to_b);
        relay(&mut b, &mut to_b, &mut to_a);
        // Data that was sent too early is retransmitted.
        a.wait(Duration::from_millis(100));
    }
    assert_eq!(a.refusal(), Some(ChannelError::Signature(ReplicaId(1))));
    assert!(!a.is_established && !b.is_established);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn arbitrary_packets_never_panic_and_never_authenticate(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..8),
        honest in 0..6usize,
        cut in 0..300usize,
        dials in any::<bool>(),
        encrypted in any::<bool>(),
    ) {
        let kind = KINDS[usize::from(encrypted)];
        let (a, b) = connected(kind);
        let (sent, mut end) = match dials {
            true => (b.sent, dial(kind, &replica(0), 1)),
            false => (a.sent, answer(kind, &replica(1))),
        };
        for packet in sent.iter().take(honest) {
            end.receive(packet.slice(..cut.min(packet.len())));
        }
        packets.into_iter().for_each(|packet| end.receive(packet.into()));
        prop_assert!(!end.is_established);
    }
}
