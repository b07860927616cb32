//! Clusters without faults.

use crate::common::config;
use crate::common::told_pbft::Pbft;
use crate::common::world::{HOP, World};
use quorate_consensus::config::{BatchPolicy, BatchSize, Dissemination, ViewDuration};
use quorate_consensus::{Config, Mark};
use quorate_types::{Height, Quorum};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn small() -> Config {
    Config { window: 20, checkpoint_interval: 10, retained_blocks: 64, view_timeout_ms: 100, ..config::<Pbft>() }
}

#[test]
fn a_single_command_takes_three_hops() {
    let fixed = [BatchPolicy::Eager, BatchPolicy::Timed, BatchPolicy::Full].map(|policy| (400.into(), policy));
    for (batch, policy) in fixed.into_iter().chain([(BatchSize::Auto, BatchPolicy::Eager)]) {
        for view_duration in ViewDuration::ALL {
            let config = Config { batch, batch_policy: policy, view_duration: *view_duration, ..config::<Pbft>() };
            let mut world = World::<Pbft>::started(4, config, 1);
            for number in 0..5 {
                let start = world.now;
                let command = world.submit(1);
                let done = world.run_until_done(Duration::from_millis(900), &command);
                assert!(done, "command {number} is not ordered with {batch} {policy} batches, {view_duration} views");
                if policy == BatchPolicy::Eager {
                    assert_eq!(world.now.since(start), HOP * 3, "PRE-PREPARE, PREPARE, COMMIT");
                }
            }
            assert_eq!(world.view_timeouts(), 0, "with {policy} batches, {view_duration} views");
        }
    }
}

#[test]
fn committees_of_every_shape_order_commands() {
    for (n, f) in [(1, 0), (2, 0), (4, 1), (5, 1), (6, 1), (7, 2), (10, 3), (11, 2), (16, 3)] {
        let quorum = Quorum::with_faults(n, f).expect("the committee shape is valid");
        let mut world = World::<Pbft>::with_quorum(quorum, small(), 1);
        world.start();
        for number in 0..45 {
            let command = world.submit(1);
            let done = world.run_until_done(Duration::from_millis(50), &command);
            assert!(done, "command {number} is not ordered with n = {n} and f = {f}");
        }
        assert_eq!(world.view_timeouts(), 0);
    }
}

#[test]
fn all_replicas_beyond_the_quorum_may_be_silent() {
    for (n, f, silent) in [(4, 1, 1), (5, 1, 1), (6, 1, 2), (11, 2, 4), (16, 3, 6)] {
        let quorum = Quorum::with_faults(n, f).expect("the committee shape is valid");
        assert_eq!(n - quorum.quorum(), silent, "n - ((n+f)/2 + 1)");
        for (count, goes_on) in [(silent, true), (silent + 1, false)] {
            let mut world = World::<Pbft>::with_quorum(quorum, small(), 1);
            (n - count..n).for_each(|replica| world.kill(replica as u16));
            world.start();
            let command = world.submit(1);
            let done = world.run_until_done(Duration::from_secs(2), &command);
            assert_eq!(done, goes_on, "{count} of {n} replicas are silent, and f is {f}");
        }
    }
}

#[test]
fn an_idle_replica_sends_nothing_and_arms_no_timer() {
    let mut world = World::<Pbft>::started(4, config::<Pbft>(), 1);
    world.run_for(HOUR);
    assert_eq!(world.messages, 0, "no message is sent before the first command");
    let command = world.submit(1);
    assert!(world.run_until_done(Duration::from_secs(1), &command));
    world.run_for(Duration::from_secs(5));
    let messages = world.messages;
    world.run_for(HOUR);
    assert_eq!(world.messages, messages, "no message is sent after the last commit");
    assert_eq!(world.view_timeouts(), 0);
    assert!(world.is_quiet(), "no timer is armed after the last commit");
}

#[test]
fn a_primary_that_disseminates_needs_no_fetching() {
    let mut world = World::<Pbft>::started(4, Config { dissemination: Dissemination::Leader, ..config::<Pbft>() }, 1);
    for _ in 0..10 {
        let command = world.submit_to(&[0], 3);
        assert!(world.run_until_done(HOP * 4, &command), "the primary's blocks need no fetching");
    }
}

#[test]
fn a_backup_relays_a_command_that_only_it_received() {
    for dissemination in Dissemination::ALL {
        let mut world = World::<Pbft>::started(4, Config { dissemination: *dissemination, ..config::<Pbft>() }, 1);
        for backup in [2, 3, 1, 0] {
            let command = world.submit_to(&[backup], 1);
            assert!(world.run_until_done(Duration::from_secs(1), &command), "R{backup} does not relay the command");
        }
        assert_eq!(world.view_timeouts(), 0);
    }
}

#[test]
fn a_burst_goes_through_the_window_and_many_checkpoints() {
    for (pipeline, jitter_ms) in [(1, 0), (3, 2), (20, 5)] {
        let mut world = World::<Pbft>::new(4, Config { batch: 10.into(), pipeline, ..small() }, 1);
        world.network.jitter = Duration::from_millis(jitter_ms);
        world.start();
        let commands: Vec<_> = (0..400).map(|_| world.submit(3)).collect();
        let all = |world: &World<Pbft>| commands.iter().all(|command| world.is_done(command));
        assert!(world.run_until(Duration::from_secs(20), all), "all commands are ordered");
        assert_eq!(world.view_timeouts(), 0, "with {pipeline} slots in flight");
        world.run_for(Duration::from_millis(50));
        let fullest = world.commits(0).iter().map(|commit| commit.block.payload.len()).max();
        assert_eq!(fullest, Some(3), "three bundles of three commands fit into a block of ten");
        for replica in 0..4 {
            let log = world.replica(replica).protocol().log();
            let height = world.replica(replica).committed_height();
            assert!(
                log.low().0 + 10 > height.0,
                "R{replica} is at {height:?} and its last checkpoint at {:?}",
                log.low()
            );
            assert!(log.slots.len() <= 10, "R{replica} keeps {} slots", log.slots.len());
        }
    }
}

#[test]
fn slots_are_decided_in_any_order_and_executed_in_slot_order() {
    let mut world = World::<Pbft>::new(4, Config { batch: 1.into(), pipeline: 8, ..small() }, 3);
    world.network.jitter = Duration::from_millis(8);
    world.story = Some(Default::default());
    world.start();
    let commands: Vec<_> = (0..30).map(|_| world.submit(1)).collect();
    let all = |world: &World<Pbft>| commands.iter().all(|command| world.is_done(command));
    assert!(world.run_until(Duration::from_secs(5), all));
    let decided: Vec<Height> = world
        .marks(0)
        .iter()
        .filter_map(|mark| match mark {
            Mark::Decided { height, .. } => Some(*height),
            _ => None,
        })
        .collect();
    assert!(!decided.is_sorted(), "slots are decided out of order");
    assert!(world.commits(0).iter().map(|commit| commit.block.height).is_sorted());
}
