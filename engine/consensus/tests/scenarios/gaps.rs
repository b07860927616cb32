//! Lost messages, and replicas that are disconnected for a while.

use crate::common::network::Letter;
use crate::common::play::Viewed;
use crate::common::{config, world::World};
use quorate_consensus::Config;
use quorate_consensus::Message;
use quorate_consensus::config::{LeaderKind, ViewDuration};
use quorate_types::{ReplicaId, View};
use std::time::Duration;

crate::for_every_protocol! {
    /// Two percent of the messages are lost, two percent are duplicated, and any message may overtake another.
    commands_are_ordered_over_unreliable_links,
    /// A replica misses ten views, and more blocks than one answer holds.
    an_isolated_replica_catches_up,
    /// A replica misses one proposal and learns of the block from its certificate.
    a_lost_proposal_is_fetched,
    /// The leader can never reach one replica.
    a_replica_that_the_leader_cannot_reach_keeps_up,
    /// No replica reaches any other for a while.
    replicas_resume_after_a_blackout,
    /// A replica learns late of a block that the others committed long ago and no longer send.
    a_replica_learns_of_the_last_commit_in_an_idle_cluster,
}

mod bodies {
    use super::*;

    pub fn commands_are_ordered_over_unreliable_links<R: Viewed>() {
        for seed in 0..20 {
            let leader = LeaderKind::ALL[seed as usize % LeaderKind::ALL.len()];
            let view_duration = ViewDuration::ALL[seed as usize / 3 % ViewDuration::ALL.len()];
            let config = Config { leader, view_duration, view_timeout_ms: 100, ..config::<R>() };
            let mut world = World::<R>::new(4, config, seed);
            world.network.jitter = Duration::from_millis(3);
            world.network.lost_per_mille = 20;
            world.network.doubled_per_mille = 20;
            world.crypto_time = Duration::from_micros(300);
            world.start();
            for number in 0..30 {
                let command = world.submit(1);
                let done = world.run_until_done(Duration::from_secs(10), &command);
                assert!(done, "seed {seed}, {leader} leaders, {view_duration} views: command {number} is not ordered");
            }
        }
    }

    pub fn an_isolated_replica_catches_up<R: Viewed>() {
        for (leader, commands) in [(LeaderKind::Fixed, 10), (LeaderKind::Fixed, 100), (LeaderKind::Reputation, 100)] {
            let config = Config { leader, view_timeout_ms: 100, ..config::<R>() };
            let mut world = World::<R>::started(4, config, 1);
            let first = world.submit(1);
            assert!(world.run_until_done(Duration::from_secs(1), &first));
            world.network.isolate(ReplicaId(3), true);
            let start = world.replica(0).view();
            for _ in 0..commands {
                let command = world.submit_to(&[0, 1, 2], 1);
                let done = |world: &World<R>| (0..3).all(|replica| world.commit_time(replica, &command).is_some());
                assert!(world.run_until(Duration::from_secs(1), done), "three of four replicas make progress");
            }
            assert!(world.replica(0).view().0 >= start.0 + 10, "ten views have passed");
            world.network.heal();
            let last = world.submit(1);
            assert!(world.run_until_done(Duration::from_secs(1), &last), "R3 catches up with {leader} leaders");
            assert!(world.commits(3).len() > commands, "R3 has committed all commands that it missed");
        }
    }

    pub fn a_lost_proposal_is_fetched<R: Viewed>() {
        for lost in 1..5 {
            let mut world = World::<R>::new(4, config::<R>(), 1);
            world.network.filter = Some(Box::new(move |flight| {
                let is_proposal = matches!(flight.letter, Letter::Protocol(message) if message.is_proposal());
                flight.to == ReplicaId(3) && is_proposal && flight.view() == Some(View(lost))
            }));
            world.start();
            for _ in 0..3 {
                let command = world.submit(1);
                assert!(
                    world.run_until_done(Duration::from_millis(800), &command),
                    "R3 lacks the block of view {lost}"
                );
            }
        }
    }

    pub fn a_replica_that_the_leader_cannot_reach_keeps_up<R: Viewed>() {
        let config = Config { view_timeout_ms: 100, ..config::<R>() };
        let mut world = World::<R>::new(4, config, 1);
        world.network.set_cut(ReplicaId(0), ReplicaId(3), true);
        world.start();
        for number in 0..5 {
            let command = world.submit(1);
            assert!(world.run_until_done(Duration::from_secs(4), &command), "R3 does not learn of command {number}");
        }
    }

    pub fn replicas_resume_after_a_blackout<R: Viewed>() {
        for leader in LeaderKind::ALL {
            let config = Config { leader: *leader, view_timeout_ms: 50, ..config::<R>() };
            let mut world = World::<R>::started(4, config, 1);
            world.replicas().into_iter().for_each(|replica| world.network.isolate(replica, true));
            let early = world.submit(1);
            world.run_for(Duration::from_secs(20));
            world.network.heal();
            assert!(
                world.run_until_done(Duration::from_secs(1), &early),
                "replicas with {leader} leaders resume where they stopped"
            );
        }
    }

    pub fn a_replica_learns_of_the_last_commit_in_an_idle_cluster<R: Viewed>() {
        for leader in LeaderKind::ALL {
            let config = Config { leader: *leader, view_timeout_ms: 100, ..config::<R>() };
            let mut world = World::<R>::started(4, config, 1);
            let first = world.submit(1);
            world.run_for(Duration::from_micros(1500));
            // From here on the last replica misses everything, including a failed view.
            world.network.isolate(ReplicaId(3), true);
            world.network.isolate(ReplicaId(2), true);
            world.run_for(Duration::from_millis(150));
            world.network.isolate(ReplicaId(2), false);
            world.network.isolate(ReplicaId(3), true);
            world.run_for(Duration::from_secs(5));
            world.network.heal();
            let patience = Duration::from_secs(20);
            assert!(world.run_until_done(patience, &first), "{leader} leaders: a replica misses the last commit");
        }
    }
}
