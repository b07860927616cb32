//! Replicas with different parameters: both report the differences, exchange nothing else, and strangers learn nothing.

use crate::handshake::{answer, config, dial, key, replica, talk};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_network::channels::{
    ChannelConfig, ChannelError, ChannelKind, LocalEnd, Loss, Output, PlainChannel, RemoteIdentity, Side,
};
use quorate_types::parameters::MAX_PARAMETERS_BYTES;
use quorate_types::{ClientId, Difference, EpochId, Parameters, ReplicaId, Time};
use std::time::Duration;

fn with(end: ChannelConfig, values: &[(&str, &str)]) -> ChannelConfig {
    let parameters = Parameters::new(values.iter().map(|(key, value)| (*key, (*value).to_owned())));
    ChannelConfig { parameters, ..end }
}

fn ends() -> (ChannelConfig, ChannelConfig) {
    let one = with(replica(0), &[("batch", "auto"), ("faults", "1"), ("protocol", "jolteon")]);
    let other = with(replica(1), &[("batch", "10"), ("faults", "1"), ("leader", "fixed"), ("protocol", "pbft")]);
    (one, other)
}

fn differences(own: bool) -> Vec<Difference> {
    let text = |value: &str| Some(value.to_owned());
    let values = [
        ("batch", text("auto"), text("10")),
        ("leader", None, text("fixed")),
        ("protocol", text("jolteon"), text("pbft")),
    ];
    let difference = |(key, one, other): (&str, Option<String>, Option<String>)| match own {
        true => Difference { key: key.to_owned(), own: one, peer: other },
        false => Difference { key: key.to_owned(), own: other, peer: one },
    };
    values.into_iter().map(difference).collect()
}

fn refusal(peer: u16, own: bool) -> ChannelError {
    ChannelError::Parameters { replica: ReplicaId(peer), differences: differences(own) }
}

#[test]
fn over_a_stream_both_ends_name_each_difference_and_no_frame_passes() {
    for kind in [ChannelKind::PLAIN, ChannelKind::TLS] {
        for cut in [1, 7, 1_000] {
            let (one, other) = ends();
            let (one, other) = (ChannelConfig { kind, ..one }, ChannelConfig { kind, ..other });
            let (mut a, mut b) = (dial(&one, 1), answer(&other));
            talk(&mut a, &mut b, cut);
            assert_eq!((&a.failed, &b.failed), (&Some(refusal(1, true)), &Some(refusal(0, false))), "{kind}");
            assert_eq!((a.channel.remote(), b.channel.remote()), (None, None));
            assert!(a.plain.is_empty() && b.plain.is_empty());
        }
    }
    let told = refusal(1, true).to_string();
    assert!(told.contains("`batch` is auto here and 10 there; `leader` is unknown here and fixed there"), "{told}");
}

#[test]
fn equal_parameters_connect() {
    let values = [("batch", "auto"), ("faults", "1")];
    for kind in [ChannelKind::PLAIN, ChannelKind::TLS] {
        let end = |id| ChannelConfig { kind, ..with(replica(id), &values) };
        let (mut a, mut b) = (dial(&end(0), 1), answer(&end(1)));
        talk(&mut a, &mut b, 3);
        assert!(a.channel.remote().is_some() && b.channel.remote().is_some(), "{:?} {:?}", a.failed, b.failed);
    }
}

/// How long [`meet`] loses packets.
const LOSSY_MS: u64 = 1_500;

/// Lets two machines communicate for ten seconds, with their timers. Until [`LOSSY_MS`], every `lost`th packet is lost.
/// The losses must end: where a flight has `lost` packets, they can hit the same packet of every repetition.
fn meet(kind: ChannelKind, one: &ChannelConfig, other: &ChannelConfig, lost: usize) -> [Vec<Output>; 2] {
    let machine = |end: &ChannelConfig, side| {
        let nonce = end.nonce().expect("randomness");
        kind.suite().over_packets(&ChannelConfig { kind, ..end.clone() }, side, nonce).expect("a machine")
    };
    let mut ends = [machine(one, Side::Initiator { expects: ReplicaId(1) }), machine(other, Side::Responder)];
    let mut said = [Vec::new(), Vec::new()];
    let (mut now, mut count) = (Time::from_millis(1), 0);
    let mut on_the_way: Vec<(usize, Bytes)> = Vec::new();
    for round in 0..500 {
        for at in 0..2 {
            let mut out = Vec::new();
            for (to, packet) in std::mem::take(&mut on_the_way) {
                match to == at {
                    true => ends[at].packet(now, packet, &mut out),
                    false => on_the_way.push((to, packet)),
                }
            }
            match round {
                0 => ends[at].start(now, &mut out),
                _ if ends[at].due().is_some_and(|due| due <= now) => ends[at].timer(now, &mut out),
                _ => {}
            }
            for output in out {
                match output {
                    Output::Packet(packet) => {
                        count += 1;
                        assert!(packet.len() <= 1_232, "a packet of {} bytes", packet.len());
                        if count % lost != 0 || now > Time::from_millis(LOSSY_MS) {
                            on_the_way.push((1 - at, packet));
                        }
                    }
                    other => said[at].push(other),
                }
            }
        }
        now = now + Duration::from_millis(20);
    }
    said
}

#[test]
fn over_packets_both_ends_name_each_difference_and_no_frame_passes() {
    let (one, other) = ends();
    for kind in [ChannelKind::PLAIN, ChannelKind::DTLS] {
        let [a, b] = meet(kind, &one, &other, usize::MAX);
        assert_eq!(a, [Output::Lost(Loss::Channel(refusal(1, true)))], "{kind}");
        assert_eq!(b, [Output::Lost(Loss::Channel(refusal(0, false)))], "{kind}");
    }
}

#[test]
fn the_longest_parameters_fit_into_one_packet() {
    let long = |byte: char| {
        let values = (0..8).map(|at| (format!("key-000{at}"), byte.to_string().repeat(127)));
        Parameters::new(values)
    };
    assert!(long('a').encode().len() + 10 > MAX_PARAMETERS_BYTES, "they are nearly as long as allowed");
    for kind in [ChannelKind::PLAIN, ChannelKind::DTLS] {
        let end = |id, byte| ChannelConfig { parameters: long(byte), ..replica(id) };
        let [a, b] = meet(kind, &end(0, 'a'), &end(1, 'b'), usize::MAX);
        let named = |said: &[Output]| matches!(said, [Output::Lost(Loss::Channel(ChannelError::Parameters { .. }))]);
        assert!(named(&a) && named(&b), "{kind}: {a:?} {b:?}");
    }
}

#[test]
fn equal_parameters_connect_although_packets_are_lost() {
    let values = [("batch", "auto")];
    for kind in [ChannelKind::PLAIN, ChannelKind::DTLS] {
        for lost in 3..9 {
            let [a, b] = meet(kind, &with(replica(0), &values), &with(replica(1), &values), lost);
            assert_eq!((a, b), (vec![Output::Established], vec![Output::Established]), "{kind}, every {lost}th");
        }
    }
}

/// An end without a proved identity sees the same bytes for all parameters.
#[test]
fn strangers_learn_nothing_of_the_parameters() {
    let (one, other) = ends();
    let open = |end: &ChannelConfig, me: LocalEnd, side| {
        let end = ChannelConfig { me, cluster: end.cluster, ..end.clone() };
        crate::handshake::Line::new(Box::new(PlainChannel::new(end, side, [7; 32])))
    };
    let dials = Side::Initiator { expects: ReplicaId(1) };
    for stranger in [key(0, 66), LocalEnd::Client(ClientId(9))] {
        let told = [&one, &other].map(|of| {
            let mut stranger = open(&config("one", stranger.clone()), stranger.clone(), dials);
            let mut honest = open(of, key(1, 1), Side::Responder);
            talk(&mut stranger, &mut honest, 1_000);
            honest.receive(&[0; 64]);
            honest.sent
        });
        assert_eq!(told[0], told[1]);
    }
    // The same for an end that answers in a replica's place.
    let told = [&one, &other].map(|of| {
        let mut honest = open(of, key(0, 0), dials);
        let mut stranger = open(&config("one", key(1, 66)), key(1, 66), Side::Responder);
        talk(&mut honest, &mut stranger, 1_000);
        honest.sent
    });
    assert_eq!(told[0], told[1]);
}

/// Ends with equal cluster names and different genesis authenticate each other, so that they can report the difference,
/// but never connect.
#[test]
fn ends_with_another_genesis_never_connect() {
    for kind in [ChannelKind::PLAIN, ChannelKind::TLS] {
        let of = |end: ChannelConfig, name| ChannelConfig { kind, epoch: EpochId::of_name(name), ..end };
        let [ours, theirs] = ["here", "there"].map(EpochId::of_name);
        // With different parameters, replicas report these.
        let (one, other) = ends();
        let (mut a, mut b) = (dial(&of(one, "here"), 1), answer(&of(other, "there")));
        talk(&mut a, &mut b, 1_000);
        assert_eq!((&a.failed, &b.failed), (&Some(refusal(1, true)), &Some(refusal(0, false))), "{kind}");
        // With equal parameters, each end reports both ids.
        let genesis = |remote, theirs, ours| Some(ChannelError::Genesis { remote, theirs, ours });
        let replicas = [0, 1].map(|id| RemoteIdentity::Replica(ReplicaId(id)));
        let (mut a, mut b) = (dial(&of(replica(0), "here"), 1), answer(&of(replica(1), "there")));
        talk(&mut a, &mut b, 7);
        assert_eq!(a.failed, genesis(replicas[1], theirs, ours), "{kind}");
        assert_eq!(b.failed, genesis(replicas[0], ours, theirs), "{kind}");
        assert_eq!((a.channel.remote(), b.channel.remote()), (None, None));
        // A client learns of the difference from a replica that has proved its identity.
        let client = of(config("one", LocalEnd::Client(ClientId(9))), "here");
        let (mut c, mut r) = (dial(&client, 1), answer(&of(replica(1), "there")));
        talk(&mut c, &mut r, 1_000);
        assert_eq!(c.failed, genesis(replicas[1], theirs, ours), "{kind}");
        assert_eq!(r.failed, genesis(RemoteIdentity::Client(ClientId(9)), ours, theirs), "{kind}");
        assert_eq!((c.channel.remote(), r.channel.remote()), (None, None));
        let (mut c, mut r) = (dial(&client, 1), answer(&of(config("one", key(1, 66)), "there")));
        talk(&mut c, &mut r, 1_000);
        assert_eq!(
            c.failed,
            Some(ChannelError::Signature(ReplicaId(1))),
            "{kind}: an impostor says nothing of a genesis"
        );
    }
}

#[test]
fn a_liar_whose_values_do_not_have_its_digest_is_refused() {
    let (mut a, mut liar) = (dial(&ends().0, 1), answer(&ends().1));
    liar.receive(&a.take_sent());
    a.receive(&liar.take_sent());
    liar.receive(&a.take_sent());
    let mut sent = liar.take_sent();
    let values = ends().0.parameters.encode();
    // Its release with its length, and its digest.
    sent.truncate(1 + usize::from(sent[0]) + 32);
    sent.extend_from_slice(&(values.len() as u16).to_le_bytes());
    sent.extend_from_slice(&values);
    a.receive(&sent);
    let expected = ChannelError::Malformed("its parameters do not have the digest that it sent");
    assert_eq!(a.failed, Some(expected));
}

proptest! {
    #[test]
    fn parameters_survive_their_encoding(values in prop::collection::btree_map("[a-z_.]{1,20}", "[ -~]{0,30}", 0..20)) {
        let parameters = Parameters::new(values.into_iter());
        prop_assert_eq!(Parameters::decode(&parameters.encode()), Some(parameters));
    }

    #[test]
    fn no_bytes_make_reading_panic_and_what_is_read_is_canonical(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(parameters) = Parameters::decode(&bytes) {
            prop_assert_eq!(parameters.encode(), bytes);
        }
    }
}
