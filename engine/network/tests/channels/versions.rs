//! Wire versions: a link uses the highest one that both ends speak, nobody on the path can lower it, and an end that is
//! limited to version 6 sends the same bytes as releases without ranges.

use crate::handshake::{Line, answer, config, dial, key, replica, talk};
use quorate_network::channels::version::{NEWEST_WIRE_VERSION, OLDEST_WIRE_VERSION};
use quorate_network::channels::{
    Agreed, ChannelConfig, ChannelError, ChannelKind, LocalEnd, Output, PlainChannel, Release, Side, Versions,
};
use quorate_types::{ClientId, ReplicaId, Time};
use std::time::Duration;

/// Offsets in a hello of its fields, as in the table of the format.
const OLDEST_AT: usize = 8;
const MARK_AT: usize = 93 + 24;
const NEWEST_AT: usize = 93 + 31;
const HELLO_BYTES: usize = 93 + 32;
/// Versions of releases before and after this one.
const OLD: u8 = OLDEST_WIRE_VERSION;
const NEW: u8 = NEWEST_WIRE_VERSION;

fn range(oldest: u8, newest: u8) -> Versions {
    Versions::new(oldest, newest).expect("a range")
}

fn speaking(end: ChannelConfig, versions: Versions) -> ChannelConfig {
    ChannelConfig { versions, ..end }
}

fn meet(one: &ChannelConfig, other: &ChannelConfig) -> (Line, Line) {
    let (mut a, mut b) = (dial(one, 1), answer(other));
    talk(&mut a, &mut b, 1_000);
    (a, b)
}

/// Pairs of ranges with their highest common version. Later releases have ranges above [`NEW`].
const PAIRS: [([u8; 2], [u8; 2], u8); 6] = [
    ([OLD, NEW], [OLD, NEW], NEW),
    ([OLD, OLD], [OLD, NEW], OLD),
    ([OLD, OLD], [OLD, OLD], OLD),
    ([OLD, NEW], [NEW, NEW + 2], NEW),
    ([NEW, NEW], [OLD, NEW + 1], NEW),
    ([OLD, NEW], [OLD, 255], NEW),
];

#[test]
fn a_link_uses_the_highest_common_version() {
    for kind in [ChannelKind::PLAIN, ChannelKind::TLS] {
        for ([a, b], [c, d], version) in PAIRS {
            let ends = [range(a, b), range(c, d)];
            for [one, other] in [ends, [ends[1], ends[0]]] {
                let end = |id, versions| ChannelConfig { kind, ..speaking(replica(id), versions) };
                let (a, b) = meet(&end(0, one), &end(1, other));
                let release = (version >= 7).then(Release::own);
                let expected = Agreed { version, release };
                assert_eq!(a.channel.agreed(), Some(&expected), "{kind}: {one} and {other}: {:?}", a.failed);
                assert_eq!(b.channel.agreed(), Some(&expected), "{kind}: {one} and {other}: {:?}", b.failed);
            }
        }
    }
}

#[test]
fn over_packets_too() {
    for kind in [ChannelKind::PLAIN, ChannelKind::DTLS] {
        for ([a, b], [c, d], version) in PAIRS {
            let machine = |id, versions, side| {
                let end = ChannelConfig { kind, ..speaking(replica(id), versions) };
                kind.suite().over_packets(&end, side, end.nonce().expect("randomness")).expect("a machine")
            };
            let dials = Side::Initiator { expects: ReplicaId(1) };
            let mut ends = [machine(0, range(a, b), dials), machine(1, range(c, d), Side::Responder)];
            let (mut now, mut out) = (Time::from_millis(1), [Vec::new(), Vec::new()]);
            ends[0].start(now, &mut out[0]);
            while ends.iter().any(|end| end.agreed().is_none()) {
                assert!(now < Time::from_millis(10_000), "{kind}: the handshake hangs");
                now = now + Duration::from_millis(5);
                for at in 0..2 {
                    for said in std::mem::take(&mut out[at]) {
                        if let Output::Packet(packet) = said {
                            ends[1 - at].packet(now, packet, &mut out[1 - at]);
                        }
                    }
                    if ends[at].due().is_some_and(|due| due <= now) {
                        ends[at].timer(now, &mut out[at]);
                    }
                }
            }
            let expected = Agreed { version, release: (version >= 7).then(Release::own) };
            assert!(ends.iter().all(|end| end.agreed() == Some(&expected)), "{kind}: {:?}", ends[0].agreed());
        }
    }
}

#[test]
fn clients_agree_on_a_version_and_learn_of_no_release() {
    for (versions, version) in [(Versions::ALL, NEW), (Versions::up_to(OLD), OLD)] {
        let client = speaking(config("one", LocalEnd::Client(ClientId(9))), versions);
        let (c, r) = meet(&client, &replica(1));
        let expected = Agreed { version, release: None };
        assert_eq!((c.channel.agreed(), r.channel.agreed()), (Some(&expected), Some(&expected)));
        assert_eq!(r.sent.len(), HELLO_BYTES + 2 + 32, "a hello and a proof");
    }
}

#[test]
fn without_a_common_version_both_ends_name_both_ranges() {
    let pairs = [
        (range(OLD, NEW), range(NEW + 1, NEW + 3), [OLD, NEW], [NEW + 1, NEW + 1]),
        (range(NEW, NEW), range(OLD, OLD), [NEW, NEW], [OLD, OLD]),
    ];
    for (one, other, of_one, of_other) in pairs {
        let (a, b) = meet(&speaking(replica(0), one), &speaking(replica(1), other));
        // The end that is too old learns of the other's oldest version alone, from the first bytes.
        let (a, b) = (a.failed.expect("refused"), b.failed.expect("refused"));
        let version = |theirs, ours| ChannelError::Version { theirs, ours };
        let seen = |seen: &ChannelError, theirs: [u8; 2], all: Versions, ours| {
            *seen == version(range(theirs[0], theirs[1]), ours) || *seen == version(all, ours)
        };
        assert!(seen(&a, of_other, other, one) && seen(&b, of_one, one, other), "{a:?} {b:?}");
        let text = a.to_string();
        assert!(text.contains(&format!("this end {one}; help: upgrade the older one")), "{text}");
    }
}

/// An attacker on the path who hides the newest version, or claims another, breaks the signatures of the handshake.
#[test]
fn nobody_on_the_path_can_change_the_version() {
    let forge: [fn(&mut [u8]); 4] = [
        |hello| hello[MARK_AT] ^= 1,
        |hello| hello[NEWEST_AT] = OLD,
        |hello| hello[NEWEST_AT] = NEW + 1,
        |hello| hello[OLDEST_AT] = NEW,
    ];
    for end in [replica(0), config("one", LocalEnd::Client(ClientId(9)))] {
        for change in forge {
            for changes_initiator in [true, false] {
                let (mut a, mut b) = (dial(&end, 1), answer(&replica(1)));
                let mut hello = a.take_sent();
                if changes_initiator {
                    change(&mut hello);
                }
                b.receive(&hello);
                let mut answered = b.take_sent();
                if !changes_initiator {
                    change(&mut answered[..HELLO_BYTES]);
                }
                a.receive(&answered);
                assert_eq!(a.failed, Some(ChannelError::Signature(ReplicaId(1))));
                assert!(a.channel.agreed().is_none());
            }
        }
    }
}

/// The handshake of a release that knows version 6 alone, spelt out.
#[test]
fn an_end_limited_to_version_6_sends_what_such_a_release_sends() {
    let open = |id, side| {
        let end = speaking(replica(id), Versions::up_to(6));
        Line::new(Box::new(PlainChannel::new(end, side, [id as u8 + 40; 32])))
    };
    let (mut a, mut b) = (open(0, Side::Initiator { expects: ReplicaId(1) }), open(1, Side::Responder));
    talk(&mut a, &mut b, 1_000);
    let end = replica(0);
    let hello = |id: u8, expects: [u8; 3]| {
        let identity = [&[1, id][..], &[0; 15]].concat();
        [&b"QUORATE\n\x06"[..], &end.cluster.0.0, &end.epoch.0.0, &identity, &expects, &[id + 40; 32]].concat()
    };
    let hellos = [hello(0, [1, 1, 0]), hello(1, [0; 3])];
    let proof = |id: u8| {
        let LocalEnd::Replica(signer) = key(id.into(), id) else { unreachable!("a replica") };
        let signed = [&b"quorate handshake v2"[..], &[id + 1], &hellos[0], &hellos[1]].concat();
        [&[32, 0][..], &signer.sign(&signed)].concat()
    };
    let digest = end.parameters.digest().0;
    assert_eq!(a.sent, [&hellos[0][..], &proof(0), &digest].concat());
    assert_eq!(b.sent, [&hellos[1][..], &proof(1), &digest].concat());
}

#[test]
fn an_unreadable_release_is_refused() {
    let cases: [(&[u8], &str); 4] = [
        (&[1, 7], "cannot be read"),
        (&[0], "cannot be read"),
        (&[3, 7, b'1', b'\n'], "cannot be read"),
        (&[26], "over the limit of 25"),
    ];
    for (release, expected) in cases {
        let (mut a, mut b) = (dial(&replica(0), 1), answer(&replica(1)));
        b.receive(&a.take_sent());
        a.receive(&b.take_sent());
        let proof = a.take_sent();
        b.receive(&[&proof[..2 + 32], release, &[0; 40]].concat());
        let failed = b.failed.expect("refused").to_string();
        assert!(failed.contains(expected), "{failed}");
    }
}

#[test]
fn versions_are_displayed_as_ranges() {
    assert_eq!(Versions::up_to(6).to_string(), "6");
    assert_eq!(Versions::ALL.to_string(), "6 to 7");
    assert_eq!(Versions::new(7, 6), None);
}
