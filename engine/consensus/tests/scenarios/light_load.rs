//! Clusters with little or no load.

use crate::common::play::Viewed;
use crate::common::{config, world::World};
use quorate_consensus::Config;
use quorate_consensus::config::{BatchPolicy, BatchSize, Dissemination, LeaderKind};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

crate::for_every_protocol! {
    /// Commands arriving one at a time are ordered under any settings, and no view times out.
    single_commands_are_ordered_without_timeouts,
    /// Committees of any size work.
    committees_of_every_size_order_commands,
    /// An idle replica sends nothing and waits for nothing.
    an_idle_replica_sends_nothing,
    /// Clients send to the leader alone, and proposals carry the commands.
    proposals_carry_commands_sent_to_the_leader,
    /// A client reaches only one backup, which relays the command to the leader.
    a_backup_relays_a_command_that_only_it_received,
    /// Many commands at once are ordered in blocks of the maximum size.
    a_burst_is_ordered_in_full_blocks,
}

mod bodies {
    use super::*;

    pub fn single_commands_are_ordered_without_timeouts<R: Viewed>() {
        let fixed = BatchPolicy::ALL.iter().map(|policy| (400.into(), *policy));
        for (batch, policy) in fixed.chain([(BatchSize::Auto, BatchPolicy::Eager)]) {
            for leader in LeaderKind::ALL {
                let config = Config { batch, batch_policy: policy, leader: *leader, ..config::<R>() };
                let patience = config.view_timeout() * 4;
                let mut world = World::<R>::started(4, config, 1);
                for number in 0..5 {
                    let command = world.submit(1);
                    let done = world.run_until_done(patience, &command);
                    assert!(done, "command {number} is not ordered with {batch} {policy} batches and {leader} leaders");
                }
                assert_eq!(world.view_timeouts(), 0, "with {batch} {policy} batches and {leader} leaders");
            }
        }
    }

    pub fn committees_of_every_size_order_commands<R: Viewed>() {
        for n in [1, 4, 5, 7] {
            for leader in LeaderKind::ALL {
                let mut world = World::<R>::started(n, Config { leader: *leader, ..config::<R>() }, 1);
                for number in 0..30 {
                    let command = world.submit(1);
                    let done = world.run_until_done(Duration::from_millis(50), &command);
                    assert!(done, "command {number} is not ordered by {n} replicas with {leader} leaders");
                }
                assert_eq!(world.view_timeouts(), 0);
            }
        }
    }

    pub fn an_idle_replica_sends_nothing<R: Viewed>() {
        for leader in LeaderKind::ALL {
            let mut world = World::<R>::started(4, Config { leader: *leader, ..config::<R>() }, 1);
            world.run_for(HOUR);
            assert_eq!(world.messages, 0, "no message is sent before the first command");
            let command = world.submit(1);
            assert!(world.run_until_done(Duration::from_secs(1), &command));
            world.run_for(Duration::from_secs(5));
            let messages = world.messages;
            world.run_for(HOUR);
            assert_eq!(world.messages, messages, "with {leader} leaders, messages are sent after the last commit");
            assert_eq!(world.view_timeouts(), 0);
            assert!(world.is_quiet(), "with {leader} leaders, a timer is armed after the last commit");
        }
    }

    pub fn proposals_carry_commands_sent_to_the_leader<R: Viewed>() {
        let config = Config { dissemination: Dissemination::Leader, ..config::<R>() };
        let mut world = World::<R>::started(4, config, 1);
        for _ in 0..10 {
            let command = world.submit_to(&[0], 3);
            assert!(world.run_until_done(Duration::from_millis(20), &command), "the leader's blocks need no fetching");
        }
        assert_eq!(world.view_timeouts(), 0);
    }

    pub fn a_backup_relays_a_command_that_only_it_received<R: Viewed>() {
        for leader in LeaderKind::ALL {
            for dissemination in Dissemination::ALL {
                let config = Config { leader: *leader, dissemination: *dissemination, ..config::<R>() };
                let patience = config.view_timeout();
                let mut world = World::<R>::started(4, config, 1);
                for backup in [2, 3, 1, 0] {
                    let command = world.submit_to(&[backup], 1);
                    let done = world.run_until_done(patience, &command);
                    assert!(done, "R{backup} does not relay the command: {leader} leaders, {dissemination}");
                }
                assert_eq!(world.view_timeouts(), 0);
            }
        }
    }

    pub fn a_burst_is_ordered_in_full_blocks<R: Viewed>() {
        let config = Config { batch: 10.into(), retained_blocks: 16, ..config::<R>() };
        let mut world = World::<R>::started(4, config, 1);
        let commands: Vec<_> = (0..200).map(|_| world.submit(3)).collect();
        assert!(world.run_until_done(Duration::from_secs(1), &commands[199]));
        assert!(commands.iter().all(|command| world.is_done(command)), "the oldest commands are ordered first");
        let fullest = world.commits(0).iter().map(|commit| commit.block.payload.len()).max();
        assert_eq!(fullest, Some(3), "three bundles of three commands fit into a block of ten");
        assert_eq!(world.view_timeouts(), 0);
    }
}
