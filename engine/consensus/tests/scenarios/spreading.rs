//! Replicas that disseminate the bundles of their clients: the needs of a client, and the delays that a Byzantine
//! spreader can cause.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::play::{Play, Viewed};
use crate::common::told_pbft::Pbft;
use crate::common::world::World;
use quorate_consensus::config::{Dissemination, LeaderKind};
use quorate_consensus::seam::Drop;
use quorate_consensus::{Config, Envelope};
use quorate_types::{Digest, ReplicaId};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const VIEW_TIMEOUT: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(1);

crate::for_every_protocol! {
    /// A command that one backup receives is ordered without a relay or a fetch.
    a_command_at_one_replica_is_spread,
    /// A bundle that two replicas receive is executed once.
    a_bundle_that_two_replicas_spread_is_executed_once,
    /// A replica that disseminates nothing costs only its own clients time.
    a_replica_that_spreads_nothing_delays_its_own_clients_only,
    /// Bundles that a faulty replica sends to the leader alone delay no block.
    bundles_spread_to_the_leader_alone_delay_no_block,
    /// If replicas do not disseminate bundles, none accepts bundles that a peer disseminates.
    what_nobody_asked_for_is_not_accepted,
}

mod pbft {
    use super::*;

    #[test]
    fn a_command_at_one_replica_is_spread() {
        at_one_replica::<Pbft>();
    }

    #[test]
    fn a_bundle_that_two_replicas_spread_is_executed_once() {
        at_two_replicas::<Pbft>();
    }

    #[test]
    fn a_replica_that_spreads_nothing_delays_its_own_clients_only() {
        spreads_nothing::<Pbft>();
    }

    #[test]
    fn bundles_spread_to_the_leader_alone_delay_no_block() {
        spread_to_the_leader_alone::<Pbft>();
    }

    #[test]
    fn what_nobody_asked_for_is_not_accepted() {
        unasked::<Pbft>();
    }
}

fn spreading<P: Play>() -> World<P> {
    spreading_with::<P>(VIEW_TIMEOUT)
}

/// Returns a cluster whose leader is R0 and whose replicas disseminate bundles.
fn spreading_with<P: Play>(view_timeout: Duration) -> World<P> {
    let view_timeout_ms = view_timeout.as_millis() as u64;
    let dissemination = Dissemination::Replicas;
    let mut world = World::<P>::started(
        4,
        Config { dissemination, batch: 400.into(), leader: LeaderKind::Fixed, view_timeout_ms, ..config::<P>() },
        1,
    );
    let command = world.submit_to(&[1], 1);
    assert!(world.run_until_done(VIEW_TIMEOUT, &command));
    world
}

fn at_one_replica<P: Play>() {
    orders_unaided(&mut spreading::<P>(), |_| ());
}

/// Checks that a command at any one replica is ordered without a relay, a fetch or a view timeout. Calls `then` after
/// each command.
pub fn orders_unaided<P: Play>(world: &mut World<P>, then: impl Fn(&World<P>)) {
    let (helped, count) = (Rc::new(Cell::new(0)), |letter: &Letter<P::Message>| {
        u32::from(matches!(letter, Envelope::Relay(_) | Envelope::FetchBundles { .. }))
    });
    let seen = helped.clone();
    world.network.filter = Some(Box::new(move |flight| {
        seen.set(seen.get() + count(flight.letter));
        false
    }));
    for replica in [0, 1, 2, 3] {
        let command = world.submit_to(&[replica], 1);
        assert!(world.run_until_done(VIEW_TIMEOUT, &command), "command at R{replica}");
        then(world);
    }
    assert_eq!((helped.get(), world.view_timeouts()), (0, 0), "relays and fetches, view timeouts");
}

fn at_two_replicas<P: Play>() {
    let mut world = spreading::<P>();
    let command = world.submit_to(&[2, 3], 1);
    assert!(world.run_until_done(VIEW_TIMEOUT, &command));
    world.run_for(VIEW_TIMEOUT);
    let times = |bundle: &Digest| {
        world.commits(0).iter().flat_map(|commit| &commit.block.payload).filter(|one| *one == bundle).count()
    };
    assert_eq!(times(&command), 1);
}

fn spreads_nothing<P: Play>() {
    let mut world = spreading::<P>();
    let withheld = |letter: &Letter<P::Message>| matches!(letter, Envelope::Spread(_));
    world.network.filter = Some(Box::new(move |flight| flight.from == ReplicaId(3) && withheld(flight.letter)));
    let lost = world.submit_to(&[3], 1);
    for round in 0..20 {
        let command = world.submit_to(&[round % 3], 1);
        assert!(world.run_until_done(VIEW_TIMEOUT / 4, &command), "round {round}: another replica's client waits");
    }
    // The client gives up waiting for it, and turns to another replica.
    world.submit_again(&lost);
    assert!(world.run_until_done(VIEW_TIMEOUT / 4, &lost));
    assert_eq!(world.view_timeouts(), 0);
}

/// Returns the number of blocks that R0 commits in a fixed time. R3 gets a command per tick, which it sends to all
/// replicas or to the leader alone.
fn blocks<P: Play>(to_all: bool) -> usize {
    let mut world = spreading_with::<P>(10 * VIEW_TIMEOUT);
    let spread = |letter: &Letter<P::Message>| matches!(letter, Envelope::Spread(_));
    world.network.filter = Some(Box::new(move |flight| {
        !to_all && flight.from == ReplicaId(3) && flight.to != ReplicaId(0) && spread(flight.letter)
    }));
    for _ in 0..2000 {
        world.submit_to(&[3], 1);
        world.run_for(TICK);
    }
    assert_eq!(world.view_timeouts(), 0);
    world.commits(0).len()
}

fn spread_to_the_leader_alone<P: Play>() {
    let (all, alone) = (blocks::<P>(true), blocks::<P>(false));
    assert!(alone * 10 >= all * 8, "{alone} blocks instead of {all}");
}

fn unasked<P: Play>() {
    let mut world = World::<P>::started(4, config::<P>(), 1);
    let bundle = world.bundle(1);
    world.inject_letter(3, 0, Envelope::Spread(vec![bundle.clone()]));
    world.run_for(TICK * 10);
    let replica = world.replica(0);
    assert_eq!(replica.dropped().get(&Drop::Unasked), Some(&1));
    assert!(!replica.is_known(&bundle.digest()));
}

mod bodies {
    use super::*;

    pub fn a_command_at_one_replica_is_spread<R: Viewed>() {
        at_one_replica::<R>();
    }

    pub fn a_bundle_that_two_replicas_spread_is_executed_once<R: Viewed>() {
        at_two_replicas::<R>();
    }

    pub fn a_replica_that_spreads_nothing_delays_its_own_clients_only<R: Viewed>() {
        spreads_nothing::<R>();
    }

    pub fn bundles_spread_to_the_leader_alone_delay_no_block<R: Viewed>() {
        spread_to_the_leader_alone::<R>();
    }

    pub fn what_nobody_asked_for_is_not_accepted<R: Viewed>() {
        unasked::<R>();
    }
}
