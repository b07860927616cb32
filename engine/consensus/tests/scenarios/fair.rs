//! Clients that favor one replica can neither cause the replacement of honest leaders nor delay others.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::play::{Play, Viewed};
use crate::common::told_pbft::Pbft;
use crate::common::world::World;
use quorate_consensus::Config;
use quorate_consensus::config::LeaderKind;
use quorate_consensus::protocols::views::message::{Timeout, ViewMessage};
use quorate_consensus::voting::safety::timeout_subject;
use quorate_types::{Attachment, Digest, ReplicaId};
use std::time::Duration;

const VIEW_TIMEOUT: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(1);
/// More than the leader can propose in many view timeouts, at one bundle per block.
const BACKLOG: u64 = 400;

crate::for_every_protocol! {
    /// Only the leader has a backlog; commands of the other replicas do not wait behind it.
    a_backlog_at_the_leader_delays_no_other_command,
    /// The leader has a backlog, and each backup has a different command that no other replica has.
    a_backlog_does_not_delay_one_command_of_each_backup,
    /// The leader's pool is always full.
    a_leader_with_a_full_pool_is_not_replaced,
    /// A client is connected to one backup only.
    a_client_of_one_backup_is_served,
    /// A leader that never acknowledges relayed bundles is replaced.
    a_leader_that_notes_nothing_is_replaced,
    /// Bundles sent to the leader alone delay no block.
    bundles_for_the_leader_only_delay_no_block,
    /// A faulty replica that repeatedly times out in an idle cluster causes only a few empty blocks.
    repeated_timeouts_cause_few_empty_blocks,
}

mod pbft {
    use super::*;

    #[test]
    fn a_backlog_at_the_leader_delays_no_other_command() {
        backlog_at_the_leader::<Pbft>();
    }

    #[test]
    fn a_backlog_does_not_delay_one_command_of_each_backup() {
        backlog_and_a_command_for_each_backup::<Pbft>();
    }

    #[test]
    fn a_leader_with_a_full_pool_is_not_replaced() {
        full_leader::<Pbft>();
    }

    #[test]
    fn a_client_of_one_backup_is_served() {
        for_one_backup_only::<Pbft>();
    }

    #[test]
    fn a_leader_that_notes_nothing_is_replaced() {
        leader_that_notes_nothing::<Pbft>();
    }

    #[test]
    fn bundles_for_the_leader_only_delay_no_block() {
        for_the_leader_only::<Pbft>();
    }
}

/// Configuration with one bundle per block, so that a backlog takes a while.
fn settings<P: Play>() -> Config {
    Config {
        batch: 1.into(),
        leader: LeaderKind::Fixed,
        view_timeout_ms: VIEW_TIMEOUT.as_millis() as u64,
        ..config::<P>()
    }
}

/// Returns a cluster whose leader is R0.
fn led_by_r0<P: Play>(config: Config) -> World<P> {
    let mut world = World::<P>::started(4, config, 1);
    let command = world.submit(1);
    assert!(world.run_until_done(VIEW_TIMEOUT, &command));
    world
}

fn expect_soon<P: Play>(world: &mut World<P>, command: &Digest, timeouts: u32, what: &str) {
    let start = world.now;
    let done = world.run_until_done(VIEW_TIMEOUT * timeouts, command);
    assert!(done, "{what}: not ordered in {:?}", world.now.since(start));
    assert_eq!(world.view_timeouts(), 0, "{what}: an honest leader is replaced");
}

fn backlog_at_the_leader<P: Play>() {
    let mut world = led_by_r0::<P>(settings::<P>());
    (0..BACKLOG).for_each(|_| _ = world.submit_to(&[0], 1));
    for round in 0..4 {
        let command = world.submit_to(&[1, 2, 3], 1);
        expect_soon(&mut world, &command, 1, &format!("round {round}"));
    }
}

fn backlog_and_a_command_for_each_backup<P: Play>() {
    let mut world = led_by_r0::<P>(settings::<P>());
    (0..BACKLOG).for_each(|_| _ = world.submit_to(&[0], 1));
    let commands: Vec<Digest> = [1, 2, 3].iter().map(|backup| world.submit_to(&[*backup], 1)).collect();
    for command in commands {
        expect_soon(&mut world, &command, 3, "command at one backup only");
    }
}

fn full_leader<P: Play>() {
    let mut world = led_by_r0::<P>(Config { pool_bundles: 8, ..settings::<P>() });
    let command = world.submit_to(&[1, 2, 3], 1);
    for _ in 0..2 * VIEW_TIMEOUT.as_millis() {
        (0..8).for_each(|_| _ = world.submit_to(&[0], 1));
        world.run_for(TICK);
    }
    assert_eq!(world.view_timeouts(), 0, "an honest leader with a full pool is replaced");
    assert!(world.is_done(&command), "there is room for the command that has waited longest");
}

fn for_one_backup_only<P: Play>() {
    let mut world = led_by_r0::<P>(settings::<P>());
    let commands: Vec<Digest> = (0..200).map(|_| world.submit_to(&[2], 1)).collect();
    for command in commands {
        expect_soon(&mut world, &command, 20, "commands for one backup only");
    }
}

fn leader_that_notes_nothing<P: Play>() {
    let mut world = led_by_r0::<P>(settings::<P>());
    let relayed = |letter: &Letter<P::Message>| matches!(letter, Letter::Relay(_));
    world.network.filter = Some(Box::new(move |flight| flight.to == ReplicaId(0) && relayed(flight.letter)));
    let command = world.submit_to(&[1, 2, 3], 1);
    let start = world.now;
    while !world.is_done(&command) {
        world.submit_to(&[0], 1);
        world.run_for(TICK);
        assert!(world.now.since(start) < VIEW_TIMEOUT * 10, "R0 orders all but one command");
    }
}

/// Returns the number of blocks that R0 commits in a fixed time while it gets a command per tick, alone or together
/// with the others.
fn blocks<P: Play>(everybody: bool) -> usize {
    let mut world = led_by_r0::<P>(Config { batch: 400.into(), view_timeout_ms: 1000, ..settings::<P>() });
    let recipients: &[u16] = if everybody { &[0, 1, 2, 3] } else { &[0] };
    for _ in 0..2000 {
        world.submit_to(recipients, 1);
        world.run_for(TICK);
    }
    assert_eq!(world.view_timeouts(), 0);
    world.commits(0).len()
}

fn for_the_leader_only<P: Play>() {
    let (everybody, alone) = (blocks::<P>(true), blocks::<P>(false));
    assert!(alone * 10 >= everybody * 8, "{alone} blocks instead of {everybody}");
}

mod bodies {
    use super::*;

    pub fn a_backlog_at_the_leader_delays_no_other_command<R: Viewed>() {
        backlog_at_the_leader::<R>();
    }

    pub fn a_backlog_does_not_delay_one_command_of_each_backup<R: Viewed>() {
        backlog_and_a_command_for_each_backup::<R>();
    }

    pub fn a_leader_with_a_full_pool_is_not_replaced<R: Viewed>() {
        full_leader::<R>();
    }

    pub fn a_client_of_one_backup_is_served<R: Viewed>() {
        for_one_backup_only::<R>();
    }

    pub fn a_leader_that_notes_nothing_is_replaced<R: Viewed>() {
        leader_that_notes_nothing::<R>();
    }

    pub fn bundles_for_the_leader_only_delay_no_block<R: Viewed>() {
        for_the_leader_only::<R>();
    }

    pub fn repeated_timeouts_cause_few_empty_blocks<R: Viewed>() {
        let mut world = led_by_r0::<R>(settings::<R>());
        world.run_for(VIEW_TIMEOUT);
        let (before, faulty, ticks) = (world.commits(0).len(), ReplicaId(3), 1000);
        world.oracle.distrust(faulty);
        for _ in 0..ticks {
            let high = world.replica(0).protocol().high().clone();
            let attachment = match R::FACTS.timeouts_carry_certificates {
                true => Attachment::HighCertificate(Box::new(high.clone())),
                false => Attachment::HighView(high.view()),
            };
            let vote = world.keys.vote(faulty, timeout_subject(world.replica(0).view()), attachment);
            let timeout = ViewMessage::Timeout(Timeout { vote, high, evidence: None }.into());
            world.inject(faulty.0, 0, timeout.into());
            world.run_for(TICK);
        }
        let (blocks, timeouts) = (world.commits(0).len() - before, ticks / VIEW_TIMEOUT.as_millis() as usize);
        assert!(blocks > 0, "a replica that lacks a commit gets one");
        assert!(blocks <= 4 * 2 * timeouts, "{blocks} empty blocks in {timeouts} view timeouts");
    }
}
