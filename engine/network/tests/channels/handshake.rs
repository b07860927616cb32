//! The plain channel's handshake: who is admitted, who is rejected and why. No input makes it panic.

use bytes::BytesMut;
use proptest::prelude::*;
use quorate_network::channels::{
    Channel, ChannelConfig, ChannelError, ChannelFactory, ChannelKind, LocalEnd, PlainChannel, RemoteIdentity,
    Sessions, Side,
};
use quorate_testkit::ends::{ToyKey, end_of};
use quorate_types::{ClientId, ClusterId, ReplicaId};
use std::sync::Arc;

const OVER_STREAMS: [ChannelKind; 2] = [ChannelKind::PLAIN, ChannelKind::TLS];

pub fn config(cluster: &str, me: LocalEnd) -> ChannelConfig {
    ChannelConfig { sessions: Sessions::default(), ..end_of(ClusterId::from_name(cluster), me) }
}

pub fn key(replica: u16, key: u8) -> LocalEnd {
    LocalEnd::Replica(Arc::new(ToyKey { replica: ReplicaId(replica), key }))
}

pub fn replica(id: u16) -> ChannelConfig {
    config("one", key(id, id as u8))
}

pub fn dial(end: &ChannelConfig, expects: u16) -> Line {
    Line::new(end.open(Side::Initiator { expects: ReplicaId(expects) }).expect("randomness"))
}

pub fn answer(end: &ChannelConfig) -> Line {
    Line::new(end.open(Side::Responder).expect("randomness"))
}

/// A channel with everything that it sent and received.
pub struct Line {
    pub channel: Box<dyn Channel>,
    pub sent: Vec<u8>,
    taken: usize,
    wire: BytesMut,
    pub plain: BytesMut,
    pub failed: Option<ChannelError>,
}

impl Line {
    pub fn new(mut channel: Box<dyn Channel>) -> Line {
        let mut sent = Vec::new();
        channel.start(&mut sent);
        Line { channel, sent, taken: 0, wire: BytesMut::new(), plain: BytesMut::new(), failed: None }
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        self.wire.extend_from_slice(bytes);
        let received = self.channel.receive(&mut self.wire, &mut self.plain, &mut self.sent);
        self.failed = self.failed.take().or(received.err());
    }

    pub fn take_sent(&mut self) -> Vec<u8> {
        let fresh = self.sent[self.taken..].to_vec();
        self.taken = self.sent.len();
        fresh
    }
}

/// Delivers bytes both ways, at most `cut` at a time, until neither end sends more.
pub fn talk(a: &mut Line, b: &mut Line, cut: usize) {
    loop {
        let (from_a, from_b) = (a.take_sent(), b.take_sent());
        if from_a.is_empty() && from_b.is_empty() {
            return;
        }
        from_a.chunks(cut).for_each(|bytes| b.receive(bytes));
        from_b.chunks(cut).for_each(|bytes| a.receive(bytes));
    }
}

#[test]
fn two_replicas_authenticate_each_other_however_the_bytes_are_split() {
    for cut in [1, 2, 7, 86, 1_000] {
        let (mut a, mut b) = (dial(&replica(0), 1), answer(&replica(1)));
        talk(&mut a, &mut b, cut);
        assert_eq!(a.channel.remote(), Some(RemoteIdentity::Replica(ReplicaId(1))));
        assert_eq!(b.channel.remote(), Some(RemoteIdentity::Replica(ReplicaId(0))));
        assert!(a.channel.is_transparent() && b.channel.is_transparent());
        a.channel.encrypt(b"hello", &mut a.sent);
        talk(&mut a, &mut b, cut);
        assert_eq!(&b.plain[..], b"hello");
    }
}

#[test]
fn a_client_verifies_the_replica_and_proves_nothing() {
    OVER_STREAMS.iter().for_each(|kind| clients_verify_replicas(*kind));
}

fn clients_verify_replicas(kind: ChannelKind) {
    let config = |cluster, me| ChannelConfig { kind, ..config(cluster, me) };
    let replica = |id| ChannelConfig { kind, ..replica(id) };
    let client = config("one", LocalEnd::Client(ClientId(9)));
    let (mut c, mut r) = (dial(&client, 1), answer(&replica(1)));
    talk(&mut c, &mut r, 1_000);
    assert_eq!(r.channel.remote(), Some(RemoteIdentity::Client(ClientId(9))));
    assert_eq!(c.channel.remote(), Some(RemoteIdentity::Replica(ReplicaId(1))));
    let (mut c, mut r) = (dial(&client, 1), answer(&config("one", key(1, 66))));
    talk(&mut c, &mut r, 1_000);
    assert_eq!(c.failed, Some(ChannelError::Signature(ReplicaId(1))));
    assert_eq!(c.channel.remote(), None);
}

#[test]
fn bytes_after_the_handshake_are_passed_on_without_a_copy() {
    let client = config("one", LocalEnd::Client(ClientId(9)));
    let (mut c, mut r) = (dial(&client, 1), answer(&replica(1)));
    let mut hello = c.take_sent();
    hello.extend_from_slice(b"and a frame");
    r.wire.extend_from_slice(&hello);
    let at = r.wire[hello.len() - 11..].as_ptr();
    r.receive(&[]);
    assert_eq!((&r.plain[..], r.plain.as_ptr()), (&b"and a frame"[..], at));
}

#[test]
fn a_handshake_with_the_wrong_end_names_the_mistake() {
    OVER_STREAMS.iter().for_each(|kind| wrong_ends_are_named(*kind));
}

fn wrong_ends_are_named(kind: ChannelKind) {
    let config = |cluster, me| ChannelConfig { kind, ..config(cluster, me) };
    let replica = |id| ChannelConfig { kind, ..replica(id) };
    let meet = |mut a: Line, mut b: Line| {
        talk(&mut a, &mut b, 1_000);
        (a.failed, b.failed)
    };
    let (ours, theirs) = (ClusterId::from_name("one"), ClusterId::from_name("two"));
    let cluster = |ours, theirs| Some(ChannelError::Cluster { theirs, ours });
    let met = meet(dial(&replica(0), 1), answer(&config("two", key(1, 1))));
    assert_eq!(met, (cluster(ours, theirs), cluster(theirs, ours)));
    let met = meet(dial(&replica(0), 1), answer(&replica(2)));
    let found = RemoteIdentity::Replica(ReplicaId(2));
    assert_eq!(met.0, Some(ChannelError::UnexpectedRemote { expected: ReplicaId(1), found }));
    assert_eq!(met.1, Some(ChannelError::Misdirected { meant: ReplicaId(1), me: ReplicaId(2) }));
    let met = meet(dial(&config("one", key(1, 1)), 2), answer(&replica(1)));
    assert_eq!(met.1, Some(ChannelError::OwnIdentity(ReplicaId(1))));
    let met = meet(dial(&config("one", key(0, 66)), 1), answer(&replica(1)));
    assert_eq!(met.1, Some(ChannelError::Signature(ReplicaId(0))));
    let met = meet(dial(&replica(0), 1), dial(&replica(1), 0));
    assert!(matches!(met.0, Some(ChannelError::Malformed(_) | ChannelError::Tls(_))), "{kind}: {met:?}");
}

#[test]
fn other_programs_and_other_versions_are_refused_at_once() {
    let mut r = answer(&replica(1));
    r.receive(b"GET / HTTP/1.1");
    assert_eq!((r.failed, r.sent.len()), (Some(ChannelError::NotQuorate), 0));
    let mut r = answer(&replica(1));
    r.receive(b"QUORATE\n\x63");
    assert!(matches!(r.failed, Some(ChannelError::Version { theirs, .. }) if theirs.oldest() == 0x63));
    assert!(!r.sent.is_empty(), "the other end is not told the version");
}

#[test]
fn a_long_signature_is_refused_by_its_announced_length() {
    let (mut a, mut b) = (dial(&replica(0), 1), answer(&replica(1)));
    b.receive(&a.take_sent());
    b.receive(&[0xff, 0xff]);
    assert!(matches!(b.failed, Some(ChannelError::HandshakeTooLong { bytes: 65_535, .. })));
}

#[test]
fn a_proof_is_valid_in_one_handshake_only() {
    let open =
        |end: &ChannelConfig, side, nonce| Line::new(Box::new(PlainChannel::new(end.clone(), side, [nonce; 32])));
    let side = Side::Initiator { expects: ReplicaId(1) };
    let (mut a, mut b) = (open(&replica(0), side, 1), open(&replica(1), Side::Responder, 2));
    talk(&mut a, &mut b, 1_000);
    assert!(a.channel.remote().is_some() && b.channel.remote().is_some());
    // Replayed to the same replica, which has a different nonce by now.
    let mut later = open(&replica(1), Side::Responder, 3);
    later.receive(&a.sent);
    assert_eq!(later.failed, Some(ChannelError::Signature(ReplicaId(0))));
    // Reflected: the responder's proof in the initiator's role.
    let mut again = open(&replica(1), Side::Responder, 2);
    let hello = 125;
    again.receive(&[&a.sent[..hello], &b.sent[hello..]].concat());
    assert_eq!(again.failed, Some(ChannelError::Signature(ReplicaId(0))));
    // Relayed: replica 0's signature for replica 1 does not admit anybody as replica 0 at replica 2.
    let mut other = open(&replica(2), Side::Responder, 2);
    other.receive(&a.sent);
    assert!(matches!(other.failed, Some(ChannelError::Misdirected { .. })));
    // The same proof is accepted in its own handshake, so the refusals above are meaningful.
    let mut same = open(&replica(1), Side::Responder, 2);
    same.receive(&a.sent);
    assert_eq!(same.channel.remote(), Some(RemoteIdentity::Replica(ReplicaId(0))));
}

#[test]
fn every_flipped_bit_of_a_handshake_is_detected() {
    let open =
        |end: &ChannelConfig, side, nonce| Line::new(Box::new(PlainChannel::new(end.clone(), side, [nonce; 32])));
    let side = Side::Initiator { expects: ReplicaId(1) };
    let (mut a, mut b) = (open(&replica(0), side, 1), open(&replica(1), Side::Responder, 2));
    talk(&mut a, &mut b, 1_000);
    for bit in 0..a.sent.len() * 8 {
        let mut changed = a.sent.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let mut responder = open(&replica(1), Side::Responder, 2);
        responder.receive(&changed);
        let remote = responder.channel.remote();
        // A bit flip can turn a replica's hello into a client's, because a client's id is only a claim.
        assert!(matches!(remote, None | Some(RemoteIdentity::Client(_))), "bit {bit}: {remote:?}");
    }
}

#[test]
fn channel_names_are_parsed_and_displayed() {
    assert_eq!("plain".parse(), Ok(ChannelKind::PLAIN));
    assert_eq!(ChannelKind::PLAIN.to_string(), "plain");
    assert!("tsl".parse::<ChannelKind>().expect_err("the channel is unknown").to_string().contains("`tsl`"));
    let read: std::collections::BTreeMap<String, ChannelKind> =
        toml::from_str("channel = \"plain\"").expect("a known channel");
    assert_eq!(read["channel"], ChannelKind::PLAIN);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_never_panic_in_a_handshake(
        honest in 0..160usize,
        random in proptest::collection::vec(any::<u8>(), 0..400),
        cut in 1..100usize,
        dials in any::<bool>(),
    ) {
        let (mut a, mut b) = (dial(&replica(0), 1), answer(&replica(1)));
        b.receive(&a.sent);
        let (mut target, told) = if dials { (a, b.sent) } else { (answer(&replica(1)), a.take_sent()) };
        let stream = [&told[..honest.min(told.len())], &random[..]].concat();
        stream.chunks(cut).for_each(|bytes| target.receive(bytes));
        prop_assert!(dials || !matches!(target.channel.remote(), Some(RemoteIdentity::Replica(_))));
    }
}
