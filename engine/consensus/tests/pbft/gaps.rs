//! Lost messages, and replicas that are disconnected for a while or permanently.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::random::Random;
use crate::common::told_pbft::Pbft;
use crate::common::world::World;
use quorate_consensus::Config;
use quorate_consensus::config::ViewDuration;
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::seam::Envelope;
use quorate_types::{Height, Quorum, ReplicaId, Time, View};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn small() -> Config {
    Config { window: 20, checkpoint_interval: 10, retained_blocks: 256, view_timeout_ms: 100, ..config::<Pbft>() }
}

/// Submits this number of commands, one every two milliseconds.
fn load(world: &mut World<Pbft>, commands: u64) {
    for _ in 0..commands {
        world.submit(1);
        world.run_for(Duration::from_millis(2));
    }
}

fn longest_gap(world: &World<Pbft>, replica: u16) -> Duration {
    let times = world.commits(replica).iter().map(|commit| commit.time).chain([world.now]);
    let times: Vec<Time> = times.collect();
    times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default()
}

#[test]
fn silent_primaries_are_replaced() {
    for (n, f, silent) in [(4, 1, 1u16), (5, 1, 1), (6, 1, 1), (7, 2, 2), (11, 2, 2)] {
        let quorum = Quorum::with_faults(n, f).expect("the committee shape is valid");
        let mut world = World::<Pbft>::with_quorum(quorum, small(), 1);
        world.start();
        load(&mut world, 10);
        (0..silent).for_each(|replica| world.kill(replica));
        let command = world.submit(1);
        assert!(world.run_until_done(SECOND, &command), "not ordered with {silent} of {n} primaries silent");
        assert_eq!(world.max_view_timeouts(), u64::from(silent), "{n} replicas: one timeout for each silent primary");
        assert_eq!(world.replica(n as u16 - 1).view(), View(u64::from(silent) + 1));
    }
}

#[test]
fn a_primary_that_crashes_while_sending_is_replaced() {
    for seed in 0..60 {
        let mut world = World::<Pbft>::new(4, Config { pipeline: 1 + seed % 4, ..small() }, seed);
        world.network.jitter = Duration::from_millis(1);
        world.start();
        load(&mut world, 20 + seed % 7);
        world.submit(1);
        world.run_for(Random::new(seed).time_below(Duration::from_millis(4)));
        world.kill_in_mid_sentence(0, 500);
        load(&mut world, 200);
        for replica in world.honest() {
            let gap = longest_gap(&world, replica);
            assert!(gap < Duration::from_millis(250), "seed {seed}: R{replica} executes nothing for {gap:?}");
        }
        assert!(world.max_view_timeouts() <= 2, "seed {seed}: {} views time out", world.max_view_timeouts());
    }
}

#[test]
fn a_crashed_backup_is_not_needed() {
    let mut world = World::<Pbft>::started(4, small(), 1);
    load(&mut world, 10);
    world.kill(2);
    load(&mut world, 60);
    assert_eq!(world.view_timeouts(), 0);
    assert!(longest_gap(&world, 0) < Duration::from_millis(10));
}

#[test]
fn commands_are_ordered_over_unreliable_links() {
    for seed in 0..30 {
        let view_duration = ViewDuration::ALL[seed as usize % 3];
        let mut world = World::<Pbft>::new(4, Config { view_duration, ..small() }, seed);
        world.network.jitter = Duration::from_millis(3);
        world.network.lost_per_mille = 20;
        world.network.doubled_per_mille = 20;
        world.crypto_time = Duration::from_micros(300);
        world.start();
        for number in 0..30 {
            let command = world.submit(1);
            let done = world.run_until_done(Duration::from_secs(10), &command);
            assert!(done, "seed {seed}, {view_duration} views: command {number} is not ordered");
        }
    }
}

#[test]
fn a_backup_that_missed_more_than_the_window_catches_up() {
    for commands in [15, 60, 200] {
        let mut world = World::<Pbft>::started(4, small(), 1);
        world.network.isolate(ReplicaId(3), true);
        for _ in 0..commands {
            let command = world.submit_to(&[0, 1, 2], 1);
            let done = |world: &World<Pbft>| (0..3).all(|replica| world.commit_time(replica, &command).is_some());
            assert!(world.run_until(SECOND, done), "three of four replicas make progress");
        }
        world.network.heal();
        let last = world.submit(1);
        assert!(world.run_until_done(SECOND * 2, &last), "R3 does not catch up with {commands} slots");
        assert_eq!(world.commits(3).len(), commands + 1);
        assert_eq!(world.replica(0).view(), View(1), "the other replicas change no view");
    }
}

#[test]
fn a_backup_that_the_primary_cannot_reach_catches_up() {
    let mut world = World::<Pbft>::new(4, small(), 1);
    world.network.set_cut(ReplicaId(0), ReplicaId(3), true);
    world.start();
    for number in 0..30 {
        let command = world.submit(1);
        assert!(world.run_until_done(SECOND, &command), "R3 does not learn of command {number}");
    }
    assert_eq!(world.replica(1).view(), View(1), "the others keep their primary");
}

#[test]
fn replicas_resume_after_a_blackout() {
    let mut world = World::<Pbft>::started(4, Config { view_timeout_ms: 50, ..small() }, 1);
    world.replicas().into_iter().for_each(|replica| world.network.isolate(replica, true));
    let early = world.submit(1);
    world.run_for(Duration::from_secs(20));
    assert!(world.replica(1).view() <= View(2), "a single replica does not change views");
    world.network.heal();
    assert!(world.run_until_done(SECOND, &early), "the replicas resume where they stopped");
}

/// Museum 11: during the view change only the new primary has links to the others. Their messages to each other are
/// lost, and so is one of its messages to them.
#[test]
fn a_view_change_is_repeated_after_a_partition() {
    for linked in 0..4 {
        let mut world = World::<Pbft>::started(4, small(), 1);
        load(&mut world, 5);
        world.run_for(Duration::from_millis(10));
        for one in world.replicas() {
            for other in world.replicas() {
                let meets = one.0 == linked || other.0 == linked;
                world.network.set_cut(one, other, !meets);
            }
        }
        let command = world.submit(1);
        world.run_for(Duration::from_millis(350));
        world.network.heal();
        assert!(world.run_until_done(SECOND, &command), "with R{linked} linked, the view change does not complete");
    }
}

#[test]
fn every_message_of_a_view_change_may_be_lost_once() {
    for lost in 0..4u16 {
        let mut world = World::<Pbft>::started(4, small(), 1);
        load(&mut world, 5);
        world.kill(0);
        let mut seen = std::collections::BTreeSet::new();
        world.network.filter = Some(Box::new(move |flight| {
            let kind = match flight.letter {
                Letter::Protocol(PbftMessage::ViewChange(_)) => 0,
                Letter::Protocol(PbftMessage::NewView(_)) => 1,
                Letter::Protocol(PbftMessage::Prepare(_)) => 2,
                Letter::Protocol(PbftMessage::Commit(_)) => 3,
                _ => return false,
            };
            kind == lost && seen.insert((flight.from, flight.to))
        }));
        let command = world.submit(1);
        assert!(world.run_until_done(SECOND, &command), "not ordered when kind {lost} is lost once on each link");
    }
}

/// Museum 12: the replicas have checkpoints of different ages at the view change. The low watermark is the highest
/// checkpoint that any of them proves, and replicas below it catch up.
#[test]
fn a_new_view_starts_from_the_highest_checkpoint() {
    for behind in 1..4u16 {
        let mut world = World::<Pbft>::started(4, small(), 1);
        // One replica receives no CHECKPOINT, so its window stays at the beginning. Only one other replica has the
        // second checkpoint.
        let ahead = behind % 3 + 1;
        world.network.filter = Some(Box::new(move |flight| match flight.letter {
            Letter::Checkpoint(vote) => {
                flight.to.0 == behind || (vote.subject.height > Height(10) && flight.to.0 != ahead)
            }
            _ => false,
        }));
        load(&mut world, 20);
        world.run_for(Duration::from_millis(10));
        let low = |world: &World<Pbft>, replica| world.replica(replica).protocol().log().low();
        assert_eq!((low(&world, behind), low(&world, ahead)), (Height(0), Height(20)));
        world.kill(0);
        world.network.filter = Some(Box::new(
            |flight| matches!(flight.letter, Letter::Checkpoint(vote) if vote.subject.height <= Height(20)),
        ));
        let command = world.submit(1);
        assert!(world.run_until_done(SECOND, &command), "no new view with R{behind} behind and R{ahead} ahead");
        assert!(
            (1..4).all(|replica| low(&world, replica) == Height(20)),
            "every replica adopts the highest checkpoint"
        );
        load(&mut world, 40);
        let last = world.submit(1);
        assert!(world.run_until_done(SECOND, &last), "the window moves on");
    }
}

/// A replica that is so far behind that no other keeps the blocks it lacks continues from the state of a checkpoint,
/// without disturbing the others.
#[test]
fn a_backup_too_far_behind_catches_up_by_state_transfer() {
    let mut world = World::<Pbft>::started(4, Config { retained_blocks: 20, ..small() }, 1);
    world.network.isolate(ReplicaId(3), true);
    load(&mut world, 100);
    world.network.heal();
    load(&mut world, 100);
    world.run_for(SECOND);
    assert_eq!((world.commits(0).len(), world.commits(3).len()), (200, 200));
    assert!(world.adopted(3) >= Some(Height(80)), "the blocks below the state were dropped");
    assert_eq!(world.view_timeouts() - world.replica(3).view_timeouts(), 0, "only R3 times out");
}

/// Nobody else sends anything, so the restarted replica has to ask again when the first answers are lost. Once it knows
/// everything, it asks a few times more and then is silent.
#[test]
fn a_replica_restarted_into_an_idle_cluster_catches_up_although_answers_are_lost() {
    for with_journal in [true, false] {
        let mut world = World::<Pbft>::started(4, small(), 1);
        load(&mut world, 15);
        world.run_for(SECOND);
        world.kill(3);
        load(&mut world, 15);
        world.run_for(SECOND * 5);
        let before = world.messages;
        world.run_for(SECOND * 60);
        assert_eq!(world.messages, before, "the cluster is idle");
        let deaf_until = world.now + Duration::from_millis(250);
        world.network.filter = Some(Box::new(move |flight| {
            let answers = matches!(flight.letter, Envelope::Protocol(PbftMessage::Decided { .. }));
            answers && flight.now < deaf_until
        }));
        match with_journal {
            true => world.restart(3, usize::MAX),
            false => world.restart_without_memory(3),
        }
        world.run_for(SECOND * 10);
        let heights = [0, 3].map(|replica| world.replica(replica).committed_height());
        assert_eq!(heights, [Height(30); 2], "R3 stays behind; with its journal: {with_journal}");
        assert!(world.messages - before < 500, "{} messages", world.messages - before);
        let after = world.messages;
        world.run_for(SECOND * 3600);
        assert_eq!(world.messages, after, "a replica that knows everything stops asking");
        assert!(world.is_quiet(), "no timer is armed");
    }
}
