//! Batches that wait for their bundles, and certificates that wait for their batches.

use crate::common::keys::forged_certificate;
use quorate_consensus::data::batches::{Batch, Entry, MAX_BATCH_BUNDLES};
use quorate_consensus::data::early::{EarlyBatches, MAX_EARLY_BATCHES, MAX_EARLY_BUNDLES, MAX_EARLY_CERTIFICATES};
use quorate_types::{Digest, Height, Quorum, ReplicaId, Time};
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(1);

fn early() -> EarlyBatches {
    EarlyBatches::new(Quorum::of(4).expect("the size is valid"), PATIENCE)
}

/// Returns a batch with the bundles of these numbers.
fn batch(spreader: u16, number: u64, bundles: std::ops::Range<usize>) -> Arc<Batch> {
    let digest = |bundle: usize| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&bundle.to_le_bytes());
        Digest(digest)
    };
    let entry = |bundle| Entry { bundle: digest(bundle), commands: 1, bytes: 100 };
    Arc::new(Batch::new(ReplicaId(spreader), number, Height(9), bundles.map(entry).collect()))
}

#[test]
fn a_batch_is_taken_out_when_its_last_bundle_is_here() {
    let mut early = early();
    let (first, second) = (batch(1, 1, 0..3), batch(1, 2, 3..4));
    early.add(Time(5), first.clone());
    early.add(Time(6), second.clone());
    assert_eq!(early.add(Time(7), first.clone()), 0, "a repeated batch is the same one");
    let mut here = vec![first.entries()[0], first.entries()[2]];
    assert_eq!(early.take_whole(ReplicaId(1), |entry| here.contains(entry)), []);
    assert_eq!(early.take_whole(ReplicaId(2), |_| true), [], "another spreader's batches");
    here.push(first.entries()[1]);
    assert_eq!(early.take_whole(ReplicaId(1), |entry| here.contains(entry)), [(Time(5), first)]);
    assert_eq!(early.get(ReplicaId(1), &second.digest()), Some(&second));
    early.forget(&second);
    assert_eq!(early.len(), (0, 0));
}

#[test]
fn each_spreader_has_room_for_its_last_batches() {
    let mut early = early();
    early.add(Time(0), batch(2, 0, 0..1));
    let added = MAX_EARLY_BATCHES as u64 + 10;
    let displaced: usize = (0..added).map(|number| early.add(Time(number), batch(1, number, 0..10))).sum();
    assert_eq!(displaced, 10);
    assert_eq!(early.len(), (MAX_EARLY_BATCHES + 1, 10 * MAX_EARLY_BATCHES + 1), "the other spreader's is there");
    assert_eq!(early.get(ReplicaId(1), &batch(1, 9, 0..10).digest()), None, "the oldest made room");
    assert!(early.get(ReplicaId(1), &batch(1, 10, 0..10).digest()).is_some());
    for number in 0..8 {
        early.add(Time(100), batch(3, number, 0..MAX_BATCH_BUNDLES));
    }
    let of_third = early.take_whole(ReplicaId(3), |_| true);
    assert_eq!(of_third.len() * MAX_BATCH_BUNDLES, MAX_EARLY_BUNDLES, "long batches count by their bundles");
}

#[test]
fn certificates_wait_for_their_batch_and_each_spreader_has_room_for_its_last_ones() {
    let mut early = early();
    let of = |batch: &Batch| forged_certificate(batch.subject(), [0, 1, 2]);
    let (own, other) = (batch(1, 1, 0..3), batch(2, 1, 0..3));
    assert_eq!(early.add_certificate(Time(0), ReplicaId(1), of(&own)), 0);
    assert_eq!(early.add_certificate(Time(1), ReplicaId(1), of(&own)), 0, "a repeated certificate is the same one");
    assert_eq!(early.certificates(), 1);
    assert_eq!(early.take_certificates(&other), [], "another spreader's batch");
    assert_eq!(early.take_certificates(&own), [of(&own)]);
    early.add_certificate(Time(0), ReplicaId(2), of(&other));
    let added = MAX_EARLY_CERTIFICATES as u64 + 10;
    let add = |number| early.add_certificate(Time(number), ReplicaId(1), of(&batch(1, number, 0..1)));
    assert_eq!((0..added).map(add).sum::<usize>(), 10);
    assert_eq!(early.certificates(), MAX_EARLY_CERTIFICATES + 1, "the other spreader's is there");
    early.expire(Time(added) + PATIENCE);
    assert_eq!(early.certificates(), 0, "certificates whose batches never arrive are forgotten");
}

#[test]
fn a_batch_waits_until_its_bundles_are_listed_again() {
    let mut early = early();
    early.add(Time(0), batch(1, 1, 0..1));
    early.add(Time(1), batch(2, 1, 0..1));
    assert_eq!(early.expire(Time(0) + (PATIENCE - Duration::from_nanos(1))), []);
    assert_eq!(early.expire(Time(0) + PATIENCE), [ReplicaId(1)]);
    assert_eq!(early.len(), (1, 1));
}
