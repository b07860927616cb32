//! The time for which a replica waits for bundles that are on their way.

use crate::unit_support::*;
use proptest::prelude::*;
use quorate_consensus::Config;
use quorate_consensus::config::{LeaderKind, ViewDuration};
use quorate_consensus::data::digest_map::Salt;
use quorate_consensus::data::lateness::{Lateness, MAX_MULTIPLE};
use quorate_consensus::protocols::chained::message::ChainedMessage;
use quorate_consensus::seam::Envelope;
use quorate_consensus::store::Store;
use quorate_consensus::voting::leader::LeaderElection;
use quorate_types::*;
use std::sync::Arc;
use std::time::Duration;

const BUNDLES: usize = 16;

fn lateness() -> Lateness {
    Lateness::new(&config(), Salt(0))
}

fn digest(number: u64) -> Digest {
    bundle(number, 1, 0).digest()
}

/// Clients that send every `late_every`-th bundle late, by `late_ms`.
struct Clients {
    late_every: usize,
    late_ms: u64,
}

impl Clients {
    /// Sends the bundles of `blocks` blocks, one block every 200 ms from `first` on.
    fn send(&self, lateness: &mut Lateness, first: u64, blocks: u64) {
        for block in first..first + blocks {
            let named = at(1000 + 200 * block);
            let late: Vec<Digest> = (0..BUNDLES.div_ceil(self.late_every))
                .map(|place| digest(block * BUNDLES as u64 + place as u64))
                .collect();
            lateness.on_proposal(named, BUNDLES, &late);
            late.iter().for_each(|bundle| lateness.on_arrival(named + millis(self.late_ms), bundle));
            lateness.invariants();
        }
    }
}

#[test]
fn bundles_that_are_never_late_are_awaited_for_the_shortest_time() {
    let mut lateness = lateness();
    (0..100).for_each(|_| lateness.on_proposal(at(1000), BUNDLES, &[]));
    assert_eq!(lateness.wait(), millis(10));
}

#[test]
fn the_wait_follows_late_bundles_and_falls_again() {
    let mut lateness = lateness();
    Clients { late_every: 1, late_ms: 40 }.send(&mut lateness, 0, 2);
    assert!(lateness.wait() >= millis(40), "{:?} after two blocks", lateness.wait());
    Clients { late_every: 1, late_ms: 40 }.send(&mut lateness, 2, 100);
    assert!((millis(40)..millis(50)).contains(&lateness.wait()), "{:?} when it is steady", lateness.wait());
    (0..30).for_each(|_| lateness.on_proposal(at(1000), BUNDLES, &[]));
    assert_eq!(lateness.wait(), millis(10), "after thirty blocks with nothing late");
}

#[test]
fn some_late_bundles_among_many_are_enough() {
    let mut lateness = lateness();
    Clients { late_every: 4, late_ms: 40 }.send(&mut lateness, 0, 100);
    assert!(lateness.wait() >= millis(40), "{:?} if every fourth is late", lateness.wait());
}

#[test]
fn who_owns_less_than_an_eighth_does_not_prolong_the_wait_to_its_own_lateness() {
    let mut lateness = lateness();
    Clients { late_every: 16, late_ms: 40 }.send(&mut lateness, 0, 100);
    assert!(lateness.wait() < millis(40), "{:?} if every sixteenth is late", lateness.wait());
}

#[test]
fn the_wait_is_bounded_however_late_bundles_come() {
    let mut lateness = lateness();
    Clients { late_every: 2, late_ms: 3_600_000 }.send(&mut lateness, 0, 1000);
    assert_eq!(lateness.wait(), millis(10) * MAX_MULTIPLE);
}

#[test]
fn bundles_that_nobody_has_prolong_nothing_and_are_forgotten() {
    let mut lateness = lateness();
    for block in 0..3000 {
        let made_up: Vec<Digest> = (0..4).map(|place| digest(4 * block + place)).collect();
        lateness.on_proposal(at(block), 4, &made_up);
        lateness.invariants();
    }
    assert_eq!(lateness.wait(), millis(10));
    assert!(!lateness.expects(&digest(0)) && lateness.expects(&digest(11_999)), "only the latest are remembered");
}

#[test]
fn a_bundle_counts_once() {
    let mut lateness = lateness();
    lateness.on_proposal(at(1000), 1, &[digest(1)]);
    assert!(lateness.expects(&digest(1)));
    lateness.on_arrival(at(1050), &digest(1));
    let wait = lateness.wait();
    assert!(wait > millis(50) && !lateness.expects(&digest(1)));
    lateness.on_arrival(at(1090), &digest(1));
    lateness.on_arrival(at(1090), &digest(2));
    assert_eq!(lateness.wait(), wait);
}

#[test]
fn the_wait_is_a_part_of_the_shortest_view_timeout() {
    let longest = |config: Config| {
        let mut lateness = Lateness::new(&config, Salt(0));
        Clients { late_every: 2, late_ms: 3_600_000 }.send(&mut lateness, 0, 100);
        lateness.wait()
    };
    assert_eq!(longest(Config { view_timeout_ms: 200, ..config() }), millis(50));
    let adaptive = Config { view_duration: ViewDuration::Adaptive, min_view_timeout_ms: 60, ..config() };
    assert_eq!(longest(adaptive), millis(15));
    assert_eq!(longest(Config { view_timeout_ms: 20, ..config() }), millis(10), "it never shrinks");
    assert_eq!(longest(Config { fetch_delay_ms: 0, ..config() }), Duration::ZERO);
}

/// A store, and the leader whose blocks it gets.
struct Host {
    store: Store,
    leaders: LeaderElection,
    blocks: u64,
}

impl Host {
    fn new() -> Host {
        let store = Store::new(&config(), quorum(4), ReplicaId(2), genesis().subject.digest, Salt(0));
        Host { store, leaders: LeaderElection::new(LeaderKind::Fixed, quorum(4)), blocks: 0 }
    }

    /// Offers the store a block with one bundle that it does not have.
    fn offer(&mut self, now: Time) -> Bundle {
        self.blocks += 1;
        let missing = bundle(self.blocks, 1, 0);
        let block = block(self.blocks, 1, genesis(), vec![missing.digest()]);
        self.store.offer(now, Arc::clone(&block), ReplicaId(1), &self.leaders, &mut Vec::new());
        missing
    }

    /// Returns the number of requests that leave now.
    fn requests(&mut self, now: Time) -> usize {
        let mut requests: Vec<(ReplicaId, Envelope<ChainedMessage>)> = Vec::new();
        self.store.requests(now, &mut requests);
        requests.len()
    }

    fn supply(&mut self, bundle: &Bundle) {
        self.store.supply(bundle.clone(), &self.leaders, &mut Vec::new());
        self.store.invariants();
    }
}

#[test]
fn the_next_bundles_are_requested_later_if_the_last_ones_came_late() {
    let mut host = Host::new();
    let first = host.offer(at(1000));
    assert_eq!(host.requests(at(1009)), 0);
    assert_eq!(host.requests(at(1010)), 1, "bundles are rarely late");
    host.store.on_arrival(at(1040), &first.digest());
    host.supply(&first);
    assert!(host.store.fetch_wait() >= millis(40));
    host.offer(at(2000));
    assert_eq!(host.requests(at(1999) + host.store.fetch_wait()), 0, "it may still come");
    assert_eq!(host.requests(at(2000) + host.store.fetch_wait()), 1);
}

#[test]
fn a_fetched_bundle_is_expected_until_its_client_has_sent_it() {
    let mut host = Host::new();
    let fetched = host.offer(at(1000));
    assert!(!host.store.expects(&fetched.digest()), "it is not here at all");
    host.supply(&fetched);
    assert!(host.store.expects(&fetched.digest()), "a peer has brought it");
    host.store.on_arrival(at(1030), &fetched.digest());
    assert!(!host.store.expects(&fetched.digest()));
    assert!(host.store.fetch_wait() >= millis(30));
}

proptest! {
    /// The wait never leaves its bounds, whichever bundles leaders name and whenever clients send.
    #[test]
    fn the_wait_stays_within_its_bounds(
        fetch_delay_ms in 0u64..100,
        view_timeout_ms in 1u64..2000,
        events in prop::collection::vec((0u64..300, 0u64..50, 0usize..20, any::<bool>()), 0..200),
    ) {
        let config = Config { fetch_delay_ms, view_timeout_ms, ..config() };
        let mut lateness = Lateness::new(&config, Salt(0));
        let mut now = Time(0);
        for (pause, first, named, arrives) in events {
            now = now + millis(pause);
            let bundles: Vec<Digest> = (first..first + named as u64).map(digest).collect();
            match arrives {
                true => bundles.iter().for_each(|bundle| lateness.on_arrival(now, bundle)),
                false => lateness.on_proposal(now, named + first as usize, &bundles),
            }
            lateness.invariants();
            prop_assert!(lateness.wait() >= millis(fetch_delay_ms));
            let most = (10 * fetch_delay_ms).min(view_timeout_ms / 4 + 1).max(fetch_delay_ms);
            prop_assert!(lateness.wait() <= millis(most));
        }
    }
}
