//! States kept for peers, and a state being received.

use bytes::Bytes;
use quorate_consensus::recovery::checkpoints::MAX_STATES_KEPT;
use quorate_consensus::recovery::transfer::MANIFEST;
use quorate_hosting::{Chunks, MAX_UNCERTIFIED, StateKeeper};
use quorate_types::state::{CHUNK_BYTES, chunk_of};
use quorate_types::{Certificate, Decoder, Domain, EpochId, Height, Manifest, Wire};

/// A state of three chunks; the last has one byte, and the middle one depends on the height.
fn state(height: u64) -> Bytes {
    let mut bytes = vec![1; 2 * CHUNK_BYTES + 1];
    bytes[CHUNK_BYTES..2 * CHUNK_BYTES].fill(height as u8);
    bytes[2 * CHUNK_BYTES] = 9;
    bytes.into()
}

fn certificate(height: u64) -> Certificate {
    let mut certificate = Certificate::genesis(&EpochId::of_name("test"));
    certificate.subject.domain = Domain::Checkpoint;
    certificate.subject.height = Height(height);
    certificate.subject.digest = Manifest::of(&state(height)).digest();
    certificate
}

fn keep(keeper: &mut StateKeeper<Bytes>, height: u64) {
    keeper.keep(Height(height), Manifest::of(&state(height)), state(height));
}

fn heights<S: Chunks>(keeper: &StateKeeper<S>) -> Vec<u64> {
    keeper.kept().iter().map(|kept| kept.height.0).collect()
}

fn transfer(keeper: &mut StateKeeper<Bytes>, height: u64) -> Vec<u32> {
    keeper.receive(Height(height), Manifest::of(&state(height)), |_| None)
}

#[test]
fn the_last_uncertified_states_are_kept() {
    let mut keeper = StateKeeper::default();
    (1..=6).for_each(|height| keep(&mut keeper, height));
    assert_eq!(heights(&keeper), [3, 4, 5, 6]);
    assert_eq!(heights(&keeper).len(), MAX_UNCERTIFIED);
}

#[test]
fn a_certificate_drops_uncertified_states_below_and_all_but_the_last_two_certified_ones() {
    let mut keeper = StateKeeper::default();
    keep(&mut keeper, 1);
    assert!(keeper.certify(certificate(1)).is_some());
    keep(&mut keeper, 2);
    assert!(keeper.certify(certificate(2)).is_some());
    keep(&mut keeper, 3);
    keep(&mut keeper, 4);
    assert!(keeper.certify(certificate(4)).is_some());
    assert_eq!(heights(&keeper), [2, 4]);
    assert_eq!(keeper.certified().count(), MAX_STATES_KEPT);
    (5..=9).for_each(|height| keep(&mut keeper, height));
    assert_eq!(heights(&keeper), [2, 4, 6, 7, 8, 9], "a certified state was dropped");
    assert!(keeper.certify(certificate(5)).is_none(), "the state was dropped");
    assert_eq!(heights(&keeper), [2, 4, 6, 7, 8, 9]);
}

#[test]
fn a_state_is_read_in_parts() {
    let mut keeper = StateKeeper::default();
    keep(&mut keeper, 1);
    let manifest = keeper.read(Height(1), MANIFEST).expect("the state is kept");
    assert_eq!(Manifest::decode(&mut Decoder::new(manifest)), Ok(Manifest::of(&state(1))));
    for chunk in 0..3 {
        assert_eq!(keeper.read(Height(1), chunk + 1), chunk_of(&state(1), chunk));
    }
    assert_eq!(keeper.read(Height(1), 4), None);
    assert_eq!(keeper.read(Height(2), MANIFEST), None);
}

#[test]
fn chunks_already_here_are_not_fetched() {
    let mut keeper = StateKeeper::default();
    assert_eq!(transfer(&mut keeper, 1), [0u32; 0]);
    keep(&mut keeper, 1);
    assert_eq!(transfer(&mut keeper, 2), [0, 2], "the chunks come from the newest kept state");
    keeper.keep_chunk(Height(2), 1, chunk_of(&state(2), 1).expect("a state has three chunks"));
    keeper.retain(|_| false);
    assert_eq!(transfer(&mut keeper, 3), [0, 2], "the chunks come from the interrupted transfer");
    keeper.forget_received();
    let (sought, found) = (Manifest::of(&state(3)).digests()[1], chunk_of(&state(3), 1));
    let held = keeper.receive(Height(3), Manifest::of(&state(3)), |digest| found.clone().filter(|_| *digest == sought));
    assert_eq!(held, [1], "the chunk comes from the host");
    assert_eq!(keeper.received_chunks().count(), 1);
}

#[test]
fn a_state_is_received_and_kept() {
    let mut keeper = StateKeeper::default();
    transfer(&mut keeper, 7);
    (0..3).for_each(|chunk| {
        keeper.keep_chunk(Height(7), chunk, chunk_of(&state(7), chunk).expect("a state has three chunks"))
    });
    let (manifest, received) = keeper.received(Height(7));
    assert_eq!((manifest.clone(), received.clone()), (Manifest::of(&state(7)), state(7)));
    assert_eq!(heights(&keeper), [0u64; 0], "kept before it is durable");
    keeper.keep_certified(certificate(7), manifest, received);
    assert_eq!(keeper.certified().map(|(checkpoint, _)| checkpoint).collect::<Vec<_>>(), [&certificate(7)]);
}

#[test]
#[should_panic(expected = "when all its chunks are here")]
fn adopting_an_incomplete_state_panics() {
    let mut keeper = StateKeeper::default();
    transfer(&mut keeper, 7);
    keeper.keep_chunk(Height(7), 0, chunk_of(&state(7), 0).expect("a state has three chunks"));
    keeper.received(Height(7));
}

/// A disk that returns different bytes than were written.
struct Rotten(Bytes);

impl Chunks for Rotten {
    fn chunk(&mut self, _: &Manifest, chunk: u32) -> Option<Bytes> {
        chunk_of(&self.0, chunk).map(|bytes| bytes.iter().map(|byte| byte ^ 1).collect())
    }
}

#[test]
fn a_chunk_damaged_on_disk_is_fetched() {
    let mut keeper = StateKeeper::default();
    keeper.keep(Height(1), Manifest::of(&state(1)), Rotten(state(1)));
    assert_eq!(keeper.receive(Height(2), Manifest::of(&state(2)), |_| None), [0u32; 0]);
}
