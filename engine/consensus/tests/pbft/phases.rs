//! The three phases alone: failed slots, and the slots after them.

use crate::common::config;
use crate::common::network::{Flight, Letter};
use crate::common::told_pbft::Phases;
use crate::common::world::World;
use quorate_consensus::Config;
use quorate_consensus::config::{BatchSize, Dissemination};
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_types::{Height, ReplicaId};
use std::time::Duration;

type Drops = fn(&Flight<'_, PbftMessage>) -> bool;

fn settings() -> Config {
    let (dissemination, batch) = (Dissemination::Leader, BatchSize::Commands(1));
    Config { dissemination, batch, pipeline: 2, ..config::<Phases>() }
}

fn slot(letter: &Letter<PbftMessage>) -> Option<Height> {
    match letter {
        Letter::Protocol(PbftMessage::PrePrepare(message)) => Some(message.block.height),
        Letter::Protocol(PbftMessage::Prepare(vote) | PbftMessage::Commit(vote)) => Some(vote.subject.height),
        _ => None,
    }
}

/// Returns a cluster whose links drop some messages, and the number of messages that do not belong to the phases.
fn world(drops: Drops) -> World<Phases> {
    let mut world = World::<Phases>::new(4, settings(), 1);
    world.network.filter = Some(Box::new(move |flight| {
        assert!(slot(flight.letter).is_some(), "only the three phases speak");
        drops(&flight)
    }));
    world.start();
    world
}

/// Returns the numbers of bundles that a replica executed, by height.
fn executed(world: &World<Phases>, replica: u16) -> Vec<usize> {
    world.commits(replica).iter().map(|committed| committed.block.payload.len()).collect()
}

#[test]
fn a_slot_without_commits_fails_and_the_next_one_succeeds() {
    let mut world = world(|flight| {
        slot(flight.letter) == Some(Height(1)) && matches!(flight.letter, Letter::Protocol(PbftMessage::Commit(_)))
    });
    let failed = world.submit_to(&[0], 1);
    world.run_for(Duration::from_secs(100));
    assert!((0..4).all(|replica| world.commits(replica).is_empty()), "nobody waits for a slot, and nobody repairs it");
    assert!(world.is_quiet());
    let next = world.submit_to(&[0], 1);
    assert!(world.run_until_done(Duration::from_secs(1), &next));
    assert!(!world.is_done(&failed));
    assert!(
        (0..4).all(|replica| executed(&world, replica) == [0, 1]),
        "a null block takes the place of the first slot"
    );
    world.run_for(Duration::from_secs(100));
    assert!(!world.is_done(&failed), "its commands are not proposed again");
}

#[test]
fn a_replica_without_the_pre_prepare_takes_no_part_in_a_slot() {
    let mut world = world(|flight| {
        let is_pre_prepare = matches!(flight.letter, Letter::Protocol(PbftMessage::PrePrepare(_)));
        assert!(flight.from != ReplicaId(3) || slot(flight.letter) != Some(Height(1)), "replica 3 is silent in slot 1");
        is_pre_prepare && flight.to == ReplicaId(3) && slot(flight.letter) == Some(Height(1))
    });
    world.submit_to(&[0], 1);
    world.run_for(Duration::from_secs(1));
    assert_eq!((executed(&world, 0), executed(&world, 3)), (vec![1], vec![]));
    world.submit_to(&[0], 1);
    world.run_for(Duration::from_secs(1));
    assert_eq!((executed(&world, 0), executed(&world, 3)), (vec![1, 1], vec![0, 1]));
}

#[test]
fn a_full_pipeline_waits_for_the_time_of_its_oldest_slot() {
    let mut world = world(|flight| slot(flight.letter).is_some_and(|slot| slot <= Height(2)));
    let all: Vec<_> = (0..3).map(|_| world.submit_to(&[0], 1)).collect();
    let timeout = settings().view_timeout();
    world.run_for(timeout - Duration::from_millis(10));
    assert!(executed(&world, 0).is_empty(), "two slots are in flight, and the third command waits");
    world.run_for(Duration::from_millis(100));
    assert_eq!(executed(&world, 0), [0, 0, 1], "the first slot was given up, then the second for the third");
    assert!(!world.is_done(&all[0]) && !world.is_done(&all[1]));
}

#[test]
fn votes_may_overtake_the_pre_prepare() {
    let mut world = world(|_| false);
    world.network.set_delay(ReplicaId(0), ReplicaId(3), Duration::from_millis(50));
    world.submit_to(&[0], 1);
    world.run_for(Duration::from_millis(40));
    assert_eq!(executed(&world, 0), [1]);
    assert!(executed(&world, 3).is_empty(), "a quorum of PREPAREs and COMMITs is here, but no PRE-PREPARE");
    world.run_for(Duration::from_secs(1));
    assert_eq!(executed(&world, 3), [1]);
}

#[test]
fn hundreds_of_failed_slots_do_not_fill_the_window() {
    let mut world = World::<Phases>::new(4, Config { window: 8, checkpoint_interval: 4, ..settings() }, 1);
    world.network.lost_per_mille = 300;
    world.start();
    for _ in 0..300 {
        world.submit_to(&[0], 1);
        world.run_for(settings().view_timeout());
    }
    for replica in 0..4 {
        let (done, all) = (executed(&world, replica).iter().sum::<usize>(), executed(&world, replica).len());
        assert!(done > 20 && all > 250, "replica {replica} executed {done} of {all} slots");
    }
}

#[test]
fn a_replica_that_restarts_goes_on() {
    let mut world = world(|_| false);
    let before = world.submit_to(&[0], 1);
    assert!(world.run_until_done(Duration::from_secs(1), &before));
    world.kill(3);
    world.submit_to(&[0], 1);
    world.run_for(Duration::from_secs(1));
    world.restart(3, usize::MAX);
    world.run_for(Duration::from_secs(1));
    let after = world.submit_to(&[0], 1);
    assert!(world.run_until_done(Duration::from_secs(1), &after));
    world.run_for(Duration::from_secs(1));
    assert_eq!((executed(&world, 0), executed(&world, 3)), (vec![1, 1, 1], vec![1, 0, 1]));
}
