//! State transfer: choice of peers, and processing of their answers.

use crate::unit_support::{at, genesis, quorum, signed_by};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_consensus::recovery::transfer::{Answer, MANIFEST, Part, Transfer};
use quorate_types::state::{CHUNK_BYTES, chunk_of};
use quorate_types::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const ME: ReplicaId = ReplicaId(3);
const PATIENCE: Duration = Duration::from_millis(100);

/// Returns a state of `chunks` different chunks.
fn state(chunks: usize) -> Bytes {
    (0..chunks * CHUNK_BYTES - 7).map(|byte| (byte / CHUNK_BYTES) as u8 ^ byte as u8).collect()
}

fn part_of(state: &Bytes, part: Part) -> Bytes {
    match part.checked_sub(1) {
        Some(chunk) => chunk_of(state, chunk).expect("the chunk belongs to the state"),
        None => {
            let mut out = Encoder::with_capacity(64);
            Manifest::of(state).encode(&mut out);
            out.finish()
        }
    }
}

fn transfer(state: &Bytes) -> Transfer {
    let digest = Manifest::of(state).digest();
    let subject = Subject { domain: Domain::Checkpoint, view: View(0), height: Height(8), digest };
    let checkpoint = Certificate { subject, signers: signed_by(&[0, 1, 2]), ..genesis() };
    Transfer::new(checkpoint, quorum(4), ME, at(0))
}

/// Returns a transfer that has the manifest and needs chunks.
fn with_manifest(state: &Bytes, held: &[u32]) -> Transfer {
    let mut transfer = transfer(state);
    let asked = transfer.requests(at(0), PATIENCE);
    let [(peer, MANIFEST)] = asked[..] else { panic!("expected one request for the manifest: {asked:?}") };
    let answer = transfer.on_answer(at(0), peer, MANIFEST, &part_of(state, MANIFEST));
    assert_eq!(answer, Answer::Manifest(Manifest::of(state)));
    assert!(
        transfer.has_manifest() && !transfer.is_complete(),
        "a transfer is not complete before the host reports its chunks"
    );
    assert_eq!(transfer.next_request(), None);
    transfer.on_ready(at(0), held);
    transfer
}

fn peers(asked: &[(ReplicaId, Part)]) -> BTreeSet<u16> {
    asked.iter().map(|(peer, _)| peer.0).collect()
}

#[test]
fn all_others_are_asked_for_a_few_chunks_each() {
    let state = state(20);
    let mut transfer = with_manifest(&state, &[]);
    let asked = transfer.requests(at(0), PATIENCE);
    transfer.invariants();
    assert_eq!(asked.len(), 6, "each peer is asked for two chunks");
    assert_eq!(peers(&asked), BTreeSet::from([0, 1, 2]), "the replica does not ask itself");
    assert!(transfer.requests(at(1), PATIENCE).is_empty(), "no peer has more than two requests");
    assert_eq!(transfer.next_request(), Some(at(100)));
    let (peer, part) = asked[0];
    assert_eq!(transfer.on_answer(at(5), peer, part, &part_of(&state, part)), Answer::Chunk(part - 1));
    assert_eq!(
        transfer.on_answer(at(5), peer, part, &part_of(&state, part)),
        Answer::Unasked,
        "a second copy was not requested"
    );
    let more = transfer.requests(at(5), PATIENCE);
    assert_eq!(peers(&more), BTreeSet::from([peer.0]), "a peer that answered gets the next requests");
}

#[test]
fn a_peer_that_lies_is_not_asked_again() {
    let state = state(20);
    let mut transfer = with_manifest(&state, &[]);
    let asked = transfer.requests(at(0), PATIENCE);
    let (liar, part) = asked[0];
    for wrong in [b"x".to_vec(), part_of(&state, part % 20 + 1).to_vec(), [&part_of(&state, part)[..], b"x"].concat()] {
        assert_eq!(transfer.on_answer(at(1), liar, part, &wrong.into()), Answer::Forged);
        transfer.invariants();
    }
    for step in 1..200 {
        let asked = transfer.requests(at(step * 50), PATIENCE);
        assert!(!peers(&asked).contains(&liar.0));
        transfer.invariants();
    }
}

#[test]
fn an_uncertified_manifest_is_forged() {
    let state = state(2);
    let mut transfer = transfer(&state);
    let other = self::state(3);
    for wrong in
        [part_of(&other, MANIFEST), part_of(&state, 1), Bytes::from([&part_of(&state, MANIFEST)[..], b"x"].concat())]
    {
        let asked = transfer.requests(at(1000), PATIENCE);
        let [(peer, MANIFEST)] = asked[..] else { panic!("expected one request for the manifest: {asked:?}") };
        assert_eq!(transfer.on_answer(at(1000), peer, MANIFEST, &wrong), Answer::Forged);
        transfer.invariants();
    }
    assert!(!transfer.has_manifest());
    assert!(transfer.requests(at(1000), PATIENCE).is_empty(), "peers that sent wrong data are not asked again");
}

#[test]
fn a_slow_peer_is_asked_for_less_and_later() {
    let state = state(64);
    let mut transfer = with_manifest(&state, &[]);
    let mut asked = transfer.requests(at(0), PATIENCE);
    let mut of_staller = 0;
    for now in (0..3000).step_by(10) {
        for (peer, part) in std::mem::take(&mut asked) {
            match peer {
                ReplicaId(0) => of_staller += 1,
                _ => {
                    assert_eq!(transfer.on_answer(at(now), peer, part, &part_of(&state, part)), Answer::Chunk(part - 1))
                }
            }
        }
        asked = transfer.requests(at(now + 10), PATIENCE);
        transfer.invariants();
    }
    assert!(transfer.is_complete(), "the other peers complete the transfer");
    assert!(of_staller <= 8, "a peer that never answers was asked {of_staller} times");
}

#[test]
fn late_answers_count() {
    let state = state(1);
    let mut transfer = with_manifest(&state, &[]);
    let (first, part) = transfer.requests(at(0), PATIENCE)[0];
    let (second, again) = transfer.requests(at(100), PATIENCE)[0];
    assert!(first != second && part == again, "another peer is asked after a timeout");
    assert_eq!(transfer.on_answer(at(101), first, part, &part_of(&state, part)), Answer::Chunk(0));
    transfer.invariants();
    assert!(transfer.is_complete());
    assert!(!transfer.is_complete(), "completion is reported once");
    assert_eq!(transfer.on_answer(at(102), second, part, &part_of(&state, part)), Answer::Unasked);
    transfer.invariants();
}

#[test]
fn held_chunks_are_not_requested() {
    let state = state(5);
    let mut transfer = with_manifest(&state, &[0, 2, 3, 99]);
    let asked = transfer.requests(at(0), PATIENCE);
    assert_eq!(asked.iter().map(|(_, part)| *part).collect::<BTreeSet<_>>(), BTreeSet::from([2, 5]));
    let mut complete = with_manifest(&state, &[0, 1, 2, 3, 4]);
    assert!(complete.is_complete(), "chunks from before the restart complete the transfer");
    assert_eq!(complete.next_request(), None);
}

#[test]
fn f_plus_one_peers_without_the_state_end_the_transfer() {
    let state = state(9);
    let mut transfer = with_manifest(&state, &[]);
    let asked = transfer.requests(at(0), PATIENCE);
    let of = |peer: u16| asked.iter().find(|(one, _)| one.0 == peer).expect("every peer is asked").1;
    assert_eq!(transfer.on_answer(at(1), ReplicaId(0), of(0), &Bytes::new()), Answer::Lacks);
    assert!(!transfer.is_in_vain(at(1), PATIENCE, quorum(4)), "a single peer without the state may be lying");
    let more = transfer.requests(at(2), PATIENCE);
    assert!(!peers(&more).contains(&0), "a peer without the state is not asked");
    assert_eq!(transfer.on_answer(at(3), ReplicaId(1), of(1), &Bytes::new()), Answer::Lacks);
    assert!(transfer.is_in_vain(at(3), PATIENCE, quorum(4)));
    transfer.invariants();
}

#[test]
fn an_overdue_manifest_ends_the_transfer() {
    let state = state(1);
    let mut transfer = transfer(&state);
    for now in (0..1600).step_by(50) {
        transfer.requests(at(now), PATIENCE);
        assert!(!transfer.is_in_vain(at(now), PATIENCE, quorum(4)), "at {now}");
    }
    assert!(transfer.is_in_vain(at(1600), PATIENCE, quorum(4)));
    let mut real = with_manifest(&state, &[]);
    for now in (0..100_000).step_by(500) {
        real.requests(at(now), PATIENCE);
        assert!(!real.is_in_vain(at(now), PATIENCE, quorum(4)), "a manifest proves that the state exists: at {now}");
    }
}

#[test]
fn peers_without_the_state_are_asked_again_when_no_other_is_left() {
    let state = state(1);
    let mut transfer = with_manifest(&state, &[]);
    for now in 0..3 {
        let (peer, part) = transfer.requests(at(now), PATIENCE)[0];
        transfer.on_answer(at(now), peer, part, &Bytes::new());
    }
    assert!(transfer.requests(at(3), PATIENCE).is_empty());
    let due = transfer.next_request().expect("the transfer continues");
    assert!(due > at(3), "the retry is delayed");
    assert_eq!(transfer.requests(due, PATIENCE).len(), 1);
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Honest,
    Slow,
    Liar,
    Lacking,
    Silent,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&[Kind::Honest, Kind::Slow, Kind::Liar, Kind::Lacking, Kind::Silent][..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// With one honest peer and arbitrary others, and with answers in any order and duplicated, the state becomes
    /// complete, and few requests are outstanding at any time.
    #[test]
    fn the_state_is_fetched_for_any_order_of_answers(
        kinds in [kind(), kind()],
        honest in 0..3usize,
        order in prop::collection::vec(any::<prop::sample::Index>(), 400),
        held in prop::collection::btree_set(0..12u32, 0..12),
    ) {
        let state = state(12);
        let mut kinds = kinds.to_vec();
        kinds.insert(honest, Kind::Honest);
        let held: Vec<u32> = held.into_iter().collect();
        let mut transfer = with_manifest(&state, &held);
        let mut got: BTreeMap<u32, Bytes> = held.iter().map(|chunk| (*chunk, part_of(&state, chunk + 1))).collect();
        let mut flying: Vec<(ReplicaId, Part)> = Vec::new();
        let mut now = 0;
        let mut complete = transfer.is_complete();
        for pick in order {
            if complete {
                break;
            }
            now += 30;
            flying.extend(transfer.requests(at(now), PATIENCE));
            transfer.invariants();
            let answers = if flying.is_empty() { 0 } else { 1 + pick.index(3) };
            for _ in 0..answers.min(flying.len()) {
                let (peer, part) = flying.remove(pick.index(flying.len()));
                let right = part_of(&state, part);
                let bytes = match kinds[peer.index()] {
                    Kind::Honest => right.clone(),
                    Kind::Slow if u64::is_multiple_of(now, 4) => right.clone(),
                    Kind::Liar => right.slice(1..),
                    Kind::Lacking => Bytes::new(),
                    Kind::Slow | Kind::Silent => continue,
                };
                for _ in 0..1 + pick.index(2) {
                    match transfer.on_answer(at(now), peer, part, &bytes) {
                        Answer::Chunk(chunk) => {
                            prop_assert_eq!(chunk + 1, part);
                            prop_assert!(got.insert(chunk, bytes.clone()).is_none(), "a chunk is accepted once");
                        }
                        Answer::Forged => prop_assert_eq!(kinds[peer.index()], Kind::Liar),
                        Answer::Lacks => prop_assert_eq!(kinds[peer.index()], Kind::Lacking),
                        Answer::Unasked => {}
                        Answer::Manifest(_) => prop_assert!(false, "the manifest is not requested again"),
                    }
                    transfer.invariants();
                }
            }
            complete = transfer.is_complete();
        }
        prop_assert!(complete, "{} of 12 chunks came from {kinds:?}", got.len());
        prop_assert_eq!(got.into_values().collect::<Vec<_>>().concat(), &state[..]);
    }
}
