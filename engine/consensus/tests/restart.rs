//! Restarts with a journal, between any two actions, of one, some or all replicas at once; and restarts without a
//! journal.
//!
//! The oracles check the same invariants as everywhere, across the restarts of a replica: no two statements of one kind
//! in one view; one chain, executed from the beginning after each restart; and all commands ordered after the recovery.
//!
//! A failure names its seed. `QUORATE_RESTART_SEED=<seed>` runs only that seed, and `QUORATE_RESTART_SEEDS=<count>`
//! runs more seeds.

use crate::common::keys::Keys;
use crate::common::play::Play;
use crate::common::random::Random;
use crate::common::world::World;
use quorate_consensus::config::{BatchSize, Dissemination, LeaderKind};
use quorate_consensus::protocols::chained::engine::Chained;
use quorate_consensus::protocols::chained::rules::Jolteon;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::RecordId;
use quorate_consensus::voting::safety::Promise;
use quorate_consensus::{Config, Input, Mark};
use quorate_types::{Attachment, Block, Certificate, Digest, Domain, EpochId, Quorum, ReplicaId, Time, View};
use std::sync::Arc;
use std::time::Duration;

const SEEDS: u64 = 25;
const VIEW_TIMEOUT_MS: u64 = 50;
const PATIENCE: Duration = Duration::from_millis(VIEW_TIMEOUT_MS * 64 * 4);
/// Upper bound on the number of records in a journal that no message waits for.
const ALL: usize = usize::MAX;

crate::for_all_protocols! {
    /// Crashes between any two actions and restarts at any time, then recovery.
    replicas_recover_from_random_crashes,
    /// All replicas crash at once under load, and every block that was committed anywhere is later committed
    /// everywhere.
    a_crash_of_all_replicas_loses_no_commit,
    /// A replica whose journal was summarized and truncated restarts from the summary.
    a_replica_restarts_from_a_truncated_journal,
    /// A replica that lost its journal sends no statement in views where it may have voted, and takes part again later.
    a_replica_without_its_journal_abstains_and_votes_again,
}

fn config<P: Play>(random: &mut Random) -> Config {
    let config = crate::common::config::<P>();
    let leaders = config.protocol.leaders();
    Config {
        leader: if config.protocol.has_slots() { leaders[0] } else { *random.pick(LeaderKind::ALL) },
        dissemination: *random.pick(Dissemination::ALL),
        view_timeout_ms: VIEW_TIMEOUT_MS,
        min_view_timeout_ms: 30,
        batch: *random.pick(&[BatchSize::Commands(2), BatchSize::Auto]),
        window: 16,
        checkpoint_interval: *random.pick(&[2, 8]),
        ..config
    }
}

fn quiet<P: Play>() -> Config {
    Config { view_timeout_ms: VIEW_TIMEOUT_MS, ..crate::common::config::<P>() }
}

/// Returns the last view in which a replica has made any statement.
fn spoken<P: Play>(world: &World<P>, replica: u16) -> View {
    world.replica(replica).parts().safety.spoke_in()
}

/// A block may have come from a peer or from a state, without the proof of the certificate in it. The replica then
/// continues with the certificate that the journal holds separately, with its proof.
#[test]
fn a_block_without_a_proof_does_not_replace_a_certificate() {
    let (quorum, epoch) = (Quorum::of(4).expect("the committee size is valid"), EpochId::of_name("test"));
    let keys = Keys { epoch, quorum };
    let block = |view, justify| Arc::new(Block::new(View(view), ReplicaId(0), justify, Vec::new(), 0));
    let first = block(1, Certificate::genesis(&epoch));
    let high = keys.certificate(first.subject(Domain::Vote), 0..3);
    let second = block(2, Certificate { proof: Default::default(), ..high.clone() });
    let subject = second.subject(Domain::Vote);
    let promise = Promise { subject, attachment: Attachment::None, lock: high.subject };
    let records = [
        Record::Block(first),
        Record::Certificate(Box::new(high.clone())),
        Record::Block(second),
        Record::Promise(promise),
    ];
    let mut replica = <Chained<Jolteon> as Play>::replica(quiet::<Chained<Jolteon>>(), quorum, epoch, ReplicaId(1), 7);
    for (id, record) in (1..).map(RecordId).zip(records) {
        replica.step(Time(0), Input::Recall { id, record }, &mut Vec::new());
    }
    replica.step(Time(0), Input::Start, &mut Vec::new());
    assert_eq!(*replica.protocol().high(), high);
}

mod bodies {
    use super::*;

    pub fn replicas_recover_from_random_crashes<P: Play>() {
        let number =
            |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("the variable is a number"));
        let seeds = match number("QUORATE_RESTART_SEED") {
            Some(seed) => seed..seed + 1,
            None => 0..number("QUORATE_RESTART_SEEDS").unwrap_or(SEEDS),
        };
        for seed in seeds {
            let result = std::panic::catch_unwind(|| trouble::<P>(seed));
            if let Err(panic) = result {
                eprintln!("{}: reproduce with QUORATE_RESTART_SEED={seed}", P::NAME);
                std::panic::resume_unwind(panic);
            }
        }
    }

    fn trouble<P: Play>(seed: u64) {
        let mut random = Random::new(seed);
        let n = *random.pick(&[4, 4, 4, 7]);
        let mut world = World::<P>::new(n, config::<P>(&mut random), seed);
        world.network.jitter = random.time_below(Duration::from_millis(3));
        world.crypto_time = random.time_below(Duration::from_millis(1));
        world.start();
        let mut commands: Vec<Digest> = Vec::new();
        for _ in 0..40 {
            for replica in 0..n as u16 {
                match random.below(12) {
                    0 if world.is_alive(replica) => world.crash_after(replica, random.below(60)),
                    1 if world.is_alive(replica) && random.below(4) == 0 => world.shorten_journal(replica),
                    2..6 if !world.is_alive(replica) => world.restart(replica, random.below(4) as usize),
                    _ => {}
                }
            }
            if random.below(3) == 0 {
                world.network.lost_per_mille = random.below(100);
            }
            commands.push(world.submit(1 + random.below(3)));
            world.run_for(random.time_below(Duration::from_millis(30)));
        }
        world.network.heal();
        for replica in 0..n as u16 {
            world.crash_after(replica, u64::MAX);
            if !world.is_alive(replica) {
                world.restart(replica, 0);
            }
        }
        // Clients resend bundles that only the crashed replicas had, because they retry until they get an answer.
        commands.iter().for_each(|command| world.submit_again(command));
        let last = world.submit(1);
        commands.push(last);
        let ordered = world.run_until(PATIENCE, |world| commands.iter().all(|command| world.is_done(command)));
        let missing = commands.iter().filter(|command| !world.is_done(command)).count();
        assert!(ordered, "seed {seed}: {missing} of {} commands are not ordered in time", commands.len());
    }

    pub fn a_crash_of_all_replicas_loses_no_commit<P: Play>() {
        for after in [3, 7, 11, 19, 31, 53] {
            let mut world = World::<P>::started(4, quiet::<P>(), after);
            let commands: Vec<Digest> = (0..6)
                .map(|_| {
                    let command = world.submit(2);
                    world.run_for(Duration::from_millis(3));
                    command
                })
                .collect();
            world.run_for(Duration::from_millis(after % 7));
            (0..4).for_each(|replica| world.kill(replica));
            let acknowledged: Vec<Digest> = commands
                .into_iter()
                .filter(|command| (0..4).any(|at| world.commit_time(at, command).is_some()))
                .collect();
            assert!(!acknowledged.is_empty(), "no command was acknowledged: the test is too short");
            world.drop_all_in_flight();
            (0..4).for_each(|replica| world.restart(replica, 0));
            let last = world.submit(1);
            let done = |world: &World<P>| acknowledged.iter().chain([&last]).all(|command| world.is_done(command));
            assert!(world.run_until(PATIENCE, done), "{}: acknowledged commands are ordered", P::NAME);
        }
    }

    pub fn a_replica_restarts_from_a_truncated_journal<P: Play>() {
        let mut world = World::<P>::started(4, quiet::<P>(), 1);
        for round in 0..30 {
            let command = world.submit(1);
            assert!(world.run_until_done(PATIENCE, &command), "round {round}: the command is not ordered");
            let victim = (round % 4) as u16;
            if round % 3 == 2 {
                world.shorten_journal(victim);
                world.kill(victim);
                world.restart(victim, ALL);
            }
        }
    }

    pub fn a_replica_without_its_journal_abstains_and_votes_again<P: Play>() {
        let mut world = World::<P>::started(4, quiet::<P>(), 1);
        for _ in 0..5 {
            let command = world.submit(1);
            assert!(world.run_until_done(PATIENCE, &command));
        }
        let spoke = spoken(&world, 3);
        world.kill(3);
        world.restart_without_memory(3);
        assert_eq!(spoken(&world, 3), View(0));
        let asked = |world: &World<P>| world.marks(3).iter().any(|mark| matches!(mark, Mark::Abstains { .. }));
        assert!(world.run_until(PATIENCE, asked), "the other replicas answer");
        let bound = world.replica(3).parts().safety.abstains();
        assert!(bound >= spoke, "it abstains up to {bound:?} but made a statement in {spoke:?}");
        assert!(bound.0 <= spoke.0 + 3, "{bound:?} is too far above {spoke:?}");
        // The others continue. If it was their leader, their view times out.
        let command = world.submit(1);
        assert!(world.run_until_done(PATIENCE, &command));
        world.network.isolate(ReplicaId(0), true);
        world.network.isolate(ReplicaId(0), false);
        let back = |world: &World<P>| world.marks(3).iter().any(|mark| matches!(mark, Mark::TakesPart { .. }));
        for _ in 0..20 {
            if back(&world) {
                break;
            }
            world.network.isolate(ReplicaId(0), true);
            world.submit(1);
            world.run_for(Duration::from_millis(VIEW_TIMEOUT_MS * 8));
            world.network.heal();
            world.run_for(Duration::from_millis(VIEW_TIMEOUT_MS * 8));
        }
        assert!(back(&world), "{}: the replica votes again", P::NAME);
        let command = world.submit(1);
        assert!(world.run_until_done(PATIENCE, &command));
    }
}
