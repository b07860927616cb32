//! Claims without proof: they survive restarts and the loss of one disk after the other, and they end when evidence
//! refutes them. All replicas are honest here. Each scenario also runs with signatures.

use crate::common::config;
use crate::common::network::Letter;
use crate::common::play::Play;
use crate::common::random::Random;
use crate::common::told_pbft::{Pbft, PbftMac};
use crate::common::world::World;
use crate::pbft::chaos::state;
use quorate_consensus::Config;
use quorate_consensus::protocols::pbft::engine::Engine;
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::protocols::pbft::view_change_evidence::ViewChangeEvidence;
use quorate_types::{Domain, ReplicaId, View};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// Number of random stories. `QUORATE_DISKS_SEEDS=<count>` runs more, and `QUORATE_DISKS_SEED=<seed>` runs only one.
const SEEDS: u64 = 300;

fn quick<P: Play>() -> Config {
    Config { view_timeout_ms: 100, min_view_timeout_ms: 50, ..config::<P>() }
}

/// Returns the domain in which a message counts as a vote.
fn vote(letter: &Letter<PbftMessage>) -> Option<Domain> {
    match letter {
        Letter::Protocol(PbftMessage::Prepare(_)) => Some(Domain::Prepare),
        Letter::Protocol(PbftMessage::Commit(_)) => Some(Domain::Commit),
        _ => None,
    }
}

/// Runs until a replica that lost its disk votes again, while no votes arrive.
fn until_it_votes_again<P: Play>(world: &mut World<P>, replica: u16) {
    let back = |world: &World<P>| world.replica(replica).silence().is_none();
    assert!(world.run_until(SECOND * 60, back), "R{replica} votes again in a view that the others begin");
}

fn prepared<P: Play<Engine = Engine<S>>, S: ViewChangeEvidence>(world: &World<P>, replica: u16) -> usize {
    world.replica(replica).protocol().log().prepared().len()
}

fn states<P: Play<Message = PbftMessage, Engine = Engine<S>>, S: ViewChangeEvidence>(world: &World<P>) -> String {
    let of = |replica: &u16| {
        let (silence, claims) = (world.replica(*replica).silence(), P::claims(world.replica(*replica)));
        format!("R{replica}: {}, {silence:?}, claims {claims:?}", state(world, *replica))
    };
    world.honest().iter().map(of).collect::<Vec<_>>().join("\n")
}

fn what_was_taken_survives_a_restart<P: Play<Message = PbftMessage, Engine = Engine<S>>, S: ViewChangeEvidence>() {
    for summed_up in [false, true] {
        let mut world = World::<P>::started(4, quick::<P>(), 1);
        world.network.filter = Some(Box::new(|flight| vote(flight.letter) == Some(Domain::Commit)));
        world.submit(1);
        world.run_for(Duration::from_millis(20));
        assert_eq!(prepared(&world, 2), 1, "{}: the block is prepared", P::NAME);
        world.network.filter = Some(Box::new(|flight| vote(flight.letter).is_some()));
        world.kill(2);
        world.restart_without_memory(2);
        until_it_votes_again(&mut world, 2);
        assert_eq!(
            prepared(&world, 2),
            1,
            "{}: it regards the block that the new view carries over as prepared",
            P::NAME
        );
        if summed_up {
            world.shorten_journal(2);
        }
        world.kill(2);
        world.restart(2, usize::MAX);
        assert_eq!(prepared(&world, 2), 1, "{}: it still does after a restart", P::NAME);
    }
}

#[test]
fn what_was_taken_for_prepared_survives_a_restart_with_macs() {
    what_was_taken_survives_a_restart::<PbftMac, _>();
}

#[test]
fn what_was_taken_for_prepared_survives_a_restart_with_signatures() {
    what_was_taken_survives_a_restart::<Pbft, _>();
}

/// Slot 1 is prepared at R1, R2 and R3, and executed at R1 alone. R2 loses its disk, votes again, and restarts. R3
/// loses its disk. Then R1 is slow.
fn one_disk_after_the_other<P: Play<Message = PbftMessage, Engine = Engine<S>>, S: ViewChangeEvidence>() {
    let mut world = World::<P>::started(4, quick::<P>(), 1);
    world.network.filter = Some(Box::new(|flight| match vote(flight.letter) {
        Some(Domain::Prepare) => flight.to == ReplicaId(0),
        Some(_) => flight.to != ReplicaId(1),
        None => false,
    }));
    let first = world.submit(1);
    world.run_for(Duration::from_millis(20));
    let executed = |world: &World<P>, replica| world.commit_time(replica, &first).is_some();
    assert_eq!([0, 1, 2, 3].map(|replica| executed(&world, replica)), [false, true, false, false]);
    world.network.filter = Some(Box::new(|flight| vote(flight.letter).is_some()));
    world.kill(2);
    world.restart_without_memory(2);
    until_it_votes_again(&mut world, 2);
    world.kill(2);
    world.restart(2, usize::MAX);
    world.kill(3);
    world.restart_without_memory(3);
    let answered = |world: &World<P>| world.replica(3).parts().safety.abstains() < View(1000);
    assert!(world.run_until(SECOND, answered), "R3 knows in which views it may have voted");
    world.network.heal();
    world.network.isolate(ReplicaId(1), true);
    let second = world.submit_to(&[0, 2, 3], 1);
    world.run_for(SECOND * 20);
    world.network.heal();
    // A replica that was disconnected learns from the next command that it has missed something.
    let third = world.submit(1);
    let done = world.run_until_done(SECOND * 60, &third);
    assert!(done && world.is_done(&second), "{}: commands are not ordered\n{}", P::NAME, states(&world));
    assert!(world.is_done(&first), "{}: all execute every block that one replica has executed", P::NAME);
}

#[test]
fn one_disk_after_the_other_with_macs() {
    one_disk_after_the_other::<PbftMac, _>();
}

#[test]
fn one_disk_after_the_other_with_signatures() {
    one_disk_after_the_other::<Pbft, _>();
}

/// In view 1, PREPAREs reach R1 only. R1 is disconnected, and the other PREPAREs are lost until several views have
/// failed. Then the network recovers, but R3 crashes just when R1, which was disconnected, is to lead.
fn a_forgotten_vote<P: Play<Message = PbftMessage, Engine = Engine<S>>, S: ViewChangeEvidence>() {
    let config = Config { view_timeout_ms: 20, min_view_timeout_ms: 10, ..config::<P>() };
    let mut world = World::<P>::started(4, config, 1);
    let only_to_the_first = |view: View| view == View(1);
    world.network.filter = Some(Box::new(move |flight| match vote(flight.letter) {
        Some(Domain::Prepare) => !(flight.to == ReplicaId(1) && flight.view().is_some_and(only_to_the_first)),
        _ => false,
    }));
    let first = world.submit(1);
    world.run_for(Duration::from_millis(5));
    assert_eq!([0, 1, 2, 3].map(|replica| prepared(&world, replica)), [0, 1, 0, 0]);
    world.network.isolate(ReplicaId(1), true);
    let views = |world: &World<P>| [0, 2, 3].iter().all(|replica| world.replica(*replica).view() == View(14));
    assert!(world.run_until(SECOND * 100, views), "the others open views that fail");
    world.network.heal();
    world.kill(3);
    let done = world.run_until_done(SECOND * 60, &first);
    assert!(done, "{}: no view opens\n{}", P::NAME, states(&world));
}

#[test]
fn a_forgotten_vote_stops_no_view_change_with_macs() {
    a_forgotten_vote::<PbftMac, _>();
}

#[test]
fn a_forgotten_vote_stops_no_view_change_with_signatures() {
    a_forgotten_vote::<Pbft, _>();
}

/// A random story of this kind: a block is prepared at most replicas and decided at few; disks are lost one after the
/// other; replicas restart, and one is slow. Then any replica crashes for good.
fn disks_are_lost_in_a_random_order<P: Play<Message = PbftMessage, Engine = Engine<S>>, S: ViewChangeEvidence>() {
    let number =
        |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("the variable is a number"));
    let seeds = match number("QUORATE_DISKS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("QUORATE_DISKS_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let story = || lose_disks::<P, S>(&mut Random::new(seed), seed);
        if let Err(panic) = std::panic::catch_unwind(story) {
            eprintln!(
                "{}: reproduce: QUORATE_DISKS_SEED={seed} cargo test -p quorate-consensus --test tests random_order",
                P::NAME
            );
            std::panic::resume_unwind(panic);
        }
    }
}

fn lose_disks<P: Play<Message = PbftMessage, Engine = Engine<S>>, S: ViewChangeEvidence>(
    random: &mut Random,
    seed: u64,
) {
    let mut world = World::<P>::started(4, quick::<P>(), seed);
    let mut commands = Vec::new();
    for _ in 0..1 + random.below(2) {
        let one = |random: &mut Random| ReplicaId(random.below(4) as u16);
        let (unprepared, informed, votes) = (one(random), one(random), random.below(3));
        world.network.filter = Some(Box::new(move |flight| match vote(flight.letter) {
            Some(Domain::Prepare) => flight.to == unprepared || votes == 0,
            Some(_) => flight.to != informed || votes == 1,
            None => false,
        }));
        commands.push(world.submit(1));
        world.run_for(Duration::from_millis(10 + random.below(100)));
        let first = random.below(4) as u16;
        world.network.filter = Some(Box::new(|flight| vote(flight.letter).is_some()));
        for step in 0..2 + random.below(3) as u16 {
            let victim = (first + step) % 4;
            world.kill(victim);
            world.restart_without_memory(victim);
            if random.per_mille(800) {
                until_it_votes_again(&mut world, victim);
            } else {
                world.run_for(SECOND);
                break;
            }
            if random.per_mille(700) {
                world.kill(victim);
                world.restart(victim, usize::MAX);
            }
        }
        world.network.heal();
        let slow = if random.per_mille(500) { informed } else { one(random) };
        world.network.isolate(slow, true);
        commands.push(world.submit(1));
        world.run_for(SECOND * 5);
        world.network.heal();
        let done = |world: &World<P>| commands.iter().all(|command| world.is_done(command));
        let all = world.run_until(SECOND * 120, done);
        assert!(all, "{} seed {seed}: commands are not ordered\n{}", P::NAME, states(&world));
    }
    world.kill(random.below(4) as u16);
    let last = world.submit(1);
    let done = world.run_until_done(SECOND * 120, &last);
    assert!(done, "{} seed {seed}: no progress with three replicas\n{}", P::NAME, states(&world));
}

#[test]
fn disks_are_lost_in_a_random_order_with_macs() {
    disks_are_lost_in_a_random_order::<PbftMac, _>();
}

#[test]
fn disks_are_lost_in_a_random_order_with_signatures() {
    disks_are_lost_in_a_random_order::<Pbft, _>();
}

/// Each bug is found by the scenario that was written for it, and by a random one: `cargo test -p quorate-consensus
/// --features mutants --test tests lost_disks`.
#[cfg(feature = "mutants")]
mod mutants {
    use super::*;
    use crate::common::by_age::MacByAge;
    use crate::common::mutant::{failure, panic_of};
    use quorate_consensus::mutants::Bug;

    fn is_found(bug: Bug, words: &str, test: fn()) {
        let what = failure(bug, test).unwrap_or_else(|| panic!("{bug:?} is not found"));
        assert!(what.contains(words), "{bug:?} is found, but otherwise: {what}");
    }

    #[test]
    fn forgotten_claims_are_found() {
        let bug = Bug::TakenClaimsForgotten;
        is_found(bug, "it still does after a restart", what_was_taken_survives_a_restart::<PbftMac, _>);
        is_found(bug, "commits", one_disk_after_the_other::<PbftMac, _>);
        is_found(bug, "commits", disks_are_lost_in_a_random_order::<PbftMac, _>);
    }

    #[test]
    fn claims_that_end_by_age_are_found() {
        let what = panic_of(a_forgotten_vote::<MacByAge, _>).expect("it is found");
        assert!(what.contains("no view opens"), "it is found, but otherwise: {what}");
    }
}
