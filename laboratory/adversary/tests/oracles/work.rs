//! Limits on the work that one peer can cause a replica.

use quorate_adversary::oracles::{
    MAX_ANSWER_BYTES_PER_SECOND, MAX_ANSWER_SIGNATURES_PER_SECOND, MAX_BLOCK_RESULT_BYTES, Relays, Weight, Work,
};
use quorate_consensus::Config;
use quorate_types::{Digest, ReplicaId, Time};

const ME: ReplicaId = ReplicaId(0);
const PEER: ReplicaId = ReplicaId(1);

#[test]
fn answers_are_limited_to_one_seconds_worth() {
    let mut work = Work::new(4, &Config::default());
    let half = MAX_ANSWER_BYTES_PER_SECOND / 2;
    for part in 0..10 {
        let at = Time::from_millis(500 * part);
        assert_eq!(work.answers(ME, PEER, at, half, false), None, "the answer is within the budget");
    }
    let last = Time::from_millis(4500);
    assert_eq!(work.answers(ME, ReplicaId(2), last, 2 * half, false), None, "each peer has its own budget");
    assert_eq!(work.answers(ME, PEER, last, half, false), None, "one second's worth may be sent at once");
    let what = work.answers(ME, PEER, last, half, false).expect("the budget is exceeded");
    assert!(what.contains("replica 0 answers replica 1"), "{what}");
}

#[test]
fn signatures_for_one_peer_are_counted() {
    let mut work = Work::new(4, &Config::default());
    for _ in 0..MAX_ANSWER_SIGNATURES_PER_SECOND {
        assert_eq!(work.answers(ME, PEER, Time(0), 100, true), None);
    }
    assert_eq!(work.answers(ME, PEER, Time(0), 100, false), None, "no signature was made");
    assert!(work.answers(ME, PEER, Time(0), 100, true).is_some_and(|what| what.contains("signatures")));
    assert_eq!(work.answers(ME, PEER, Time::from_millis(10), 100, true), None, "time has passed");
}

#[test]
fn the_results_of_one_block_are_bounded() {
    let work = Work::new(4, &Config::default());
    assert_eq!(work.results(ME, MAX_BLOCK_RESULT_BYTES), None);
    assert!(work.results(ME, MAX_BLOCK_RESULT_BYTES + 1).is_some());
}

#[test]
fn one_bundle_may_be_larger_than_a_block_and_two_may_not() {
    let config = Config { batch: 400.into(), batch_bytes: 10_000, ..Config::default() };
    let work = Work::new(4, &config);
    let weight = |bundles, commands, bytes| Weight { bundles, commands, bytes };
    assert_eq!(work.block(ME, "commits", weight(1, 65_536, 9_000)), None, "a single bundle");
    assert_eq!(work.block(ME, "commits", weight(2, 400, 10_000)), None, "exactly the limit");
    let what = work.block(ME, "votes for", weight(2, 401, 10_000)).expect("a command too many");
    assert!(what.contains("replica 0 votes for a block of 2 bundles with 401 commands"), "{what}");
    assert!(work.block(ME, "commits", weight(2, 400, 10_001)).is_some(), "a byte too many");
}

#[test]
fn each_of_four_peers_gets_an_eighth_of_the_pool() {
    let config = Config { pool_bundles: 80, pool_bytes: 8_000, ..Config::default() };
    let work = Work::new(4, &config);
    let weight = |bundles, bytes| Weight { bundles, commands: bundles, bytes };
    assert_eq!(work.relays(ME, PEER, weight(10, 1_000)), None);
    assert_eq!(work.relays(ME, PEER, weight(1, 5_000)), None, "a single bundle");
    let what = work.relays(ME, PEER, weight(11, 1_000)).expect("a bundle too many");
    assert!(what.contains("replica 0 keeps 11 bundles") && what.contains("only replica 1 relays"), "{what}");
    assert!(work.relays(ME, PEER, weight(10, 1_001)).is_some(), "a byte too many");
}

#[test]
fn a_bundle_with_another_source_counts_in_no_share() {
    let mut relays = Relays::new(4);
    let [first, second, third] = [1, 2, 3].map(|number| Digest([number; 32]));
    let one = Weight { bundles: 1, commands: 5, bytes: 100 };
    let hear = |relays: &mut Relays, from, bundles: &[Digest], waits: &[Digest]| {
        let entered = bundles.iter().map(|bundle| (*bundle, one));
        relays.relays(ME, from, bundles.iter().copied(), entered, |bundle| waits.contains(bundle), |_| false).bundles
    };
    let all = [first, second, third];
    assert_eq!(hear(&mut relays, PEER, &all, &all), 3);
    assert_eq!(hear(&mut relays, PEER, &[], &[first, second]), 2, "one of them no longer waits");
    relays.clients_send(ReplicaId(2), &[first]);
    assert_eq!(hear(&mut relays, PEER, &[], &all), 2, "a client sent it to another replica");
    relays.clients_send(ME, &[first]);
    assert_eq!(hear(&mut relays, PEER, &[], &all), 1, "a client sent it too");
    assert_eq!(hear(&mut relays, ReplicaId(3), &[second], &all), 0, "two peers relay it");
    assert_eq!(hear(&mut relays, PEER, &[], &all), 0);
}

#[test]
fn bundles_that_no_longer_wait_are_removed_before_they_seem_too_many() {
    let mut relays = Relays::new(4);
    let one = Weight { bundles: 1, commands: 5, bytes: 100 };
    let hear = |relays: &mut Relays, number| {
        let bundle = Digest([number; 32]);
        let few = |weight: &Weight| weight.bundles <= 10;
        relays.relays(ME, PEER, [bundle].into_iter(), [(bundle, one)].into_iter(), |it| *it == bundle, few).bundles
    };
    let counts: Vec<usize> = (0..25).map(|number| hear(&mut relays, number)).collect();
    assert_eq!(counts.iter().max(), Some(&10), "only the last one waits: {counts:?}");
    assert_eq!(counts[10], 1, "an exact count when eleven seem to wait");
}
