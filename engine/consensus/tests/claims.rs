//! Everything that a replica tells others about its past is a function of its journal: the statements that bind it and,
//! in PBFT, the claims of its view changes (P and Q) and their checkpoint. A restart at any moment changes none of
//! this, regardless of earlier losses.
//!
//! `QUORATE_CLAIMS_SEED=<seed>` runs only one seed, and `QUORATE_CLAIMS_SEEDS=<count>` runs more seeds.

use crate::common::play::Play;
use crate::common::random::Random;
use crate::common::world::World;
use quorate_consensus::config::{BatchSize, Dissemination, LeaderKind};
use quorate_consensus::voting::safety::Promise;
use quorate_consensus::{Config, Protocol, Replica};
use quorate_types::{Attachment, Certificate, Digest, Height, Quorum, ReplicaId, Subject, View};
use std::time::Duration;

const SEEDS: u64 = 12;
const VIEW_TIMEOUT_MS: u64 = 50;
/// Time within which at least one more command is ordered. A view after many timeouts lasts up to 64 view timeouts, and
/// a crashed replica may lead the next one.
const PATIENCE: Duration = Duration::from_millis(VIEW_TIMEOUT_MS * 64 * 4);

crate::for_all_protocols! {
    /// A restart at any moment of a random run changes no claim. All journals are lost, one after the other.
    claims_are_a_function_of_the_journal,

    /// All disks are lost, at most f at a time, and replicas never disagree. Afterwards any f replicas crash for good,
    /// and the others still order commands.
    disks_are_lost_in_turn,
}

fn config<P: Play>(random: &mut Random) -> Config {
    let config = crate::common::config::<P>();
    let leaders = config.protocol.leaders();
    let interval = *random.pick(&[2, 8]);
    Config {
        leader: if config.protocol.has_slots() { leaders[0] } else { *random.pick(LeaderKind::ALL) },
        dissemination: *random.pick(Dissemination::ALL),
        view_timeout_ms: VIEW_TIMEOUT_MS,
        min_view_timeout_ms: 30,
        batch: *random.pick(&[BatchSize::Commands(2), BatchSize::Auto]),
        pipeline: *random.pick(&[1, 2, 4]),
        window: 16,
        checkpoint_interval: interval,
        ..config
    }
}

/// Part of a replica's state that others rely on.
#[derive(PartialEq, Debug)]
struct Past {
    /// Statements that bind the replica, each with the attachment that the journal keeps.
    promises: Vec<(Subject, Attachment)>,
    /// Whether the replica lost its journal and does not vote yet, and the last view in which it may have voted.
    away: Option<View>,
    claims: Vec<Subject>,
}

fn past<P: Play>(replica: &Replica<P::Engine>) -> Past {
    let safety = &replica.parts().safety;
    let absences = replica.parts().store.absence.signed().map(|subject| (*subject, Attachment::None));
    let promises = safety.promises().into_iter().map(|Promise { subject, attachment, .. }| (subject, attachment));
    let mut promises: Vec<(Subject, Attachment)> = promises.chain(absences).collect();
    promises.sort_by_key(|(subject, _)| (subject.domain as u8, subject.height, subject.view));
    Past { promises, away: safety.is_away().then(|| safety.abstains()), claims: P::claims(replica) }
}

fn check<P: Play>(world: &World<P>, replica: u16) {
    let (copy, new) = world.restarted_copy(replica);
    let (mut after, before) = (past::<P>(&copy), past::<P>(world.replica(replica)));
    after.promises.retain(|(subject, _)| !new.contains(subject));
    assert_eq!(after, before, "{}: R{replica} after and before a restart", P::NAME);
    let shown = copy.protocol().standing(copy.parts()).certificates.iter().map(Certificate::view).max();
    let lock = copy.parts().safety.lock().view;
    assert!(lock <= shown.unwrap_or_default(), "{}: R{replica} is locked in {lock:?} and shows {shown:?}", P::NAME);
    let (after, before) = (&copy.parts().safety, &world.replica(replica).parts().safety);
    let returned_unheard = !before.is_away() && before.spoke_in() <= before.abstains();
    if returned_unheard && before.abstains() > View(0) && before.lock().view > View(0) {
        assert!(after.lock().view > View(0), "{}: R{replica} forgets that it locked when it returned", P::NAME);
    }
}

/// Runs a scenario for many seeds, and prints how to repeat a seed that fails.
fn for_seeds<P: Play>(test: &str, seeds: u64, run: fn(u64)) {
    let number =
        |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("the variable is a number"));
    let seeds = match number("QUORATE_CLAIMS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("QUORATE_CLAIMS_SEEDS").unwrap_or(seeds),
    };
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!(
                "{}: reproduce: QUORATE_CLAIMS_SEED={seed} cargo test -p quorate-consensus --test tests {test}",
                P::NAME
            );
            std::panic::resume_unwind(panic);
        }
    }
}

/// Disk losses: at most f at a time, all disks in turn.
struct Disks {
    quorum_faults: usize,
    /// Replicas that lost their disks and do not vote again yet, and the height that each of them has to reach.
    away: Vec<(u16, Height)>,
    next: u16,
}

impl Disks {
    fn new(faults: usize) -> Disks {
        Disks { quorum_faults: faults, away: Vec::new(), next: 0 }
    }

    /// Removes replicas that have recovered: they vote, and have executed what the others had executed when they
    /// returned. Checks that a crash does not undo this.
    fn recovered<P: Play>(&mut self, world: &World<P>) {
        self.away.retain(|(replica, height)| {
            let state = world.replica(*replica);
            if state.silence().is_some() || state.committed_height() < *height || !world.is_alive(*replica) {
                return true;
            }
            let copy = world.copy_after_a_crash(*replica);
            let votes = !copy.parts().safety.is_away();
            assert!(votes, "{}: a crash of R{replica} takes back that it returned", P::NAME);
            let kept = copy.committed_height();
            assert!(kept >= *height, "{}: a crash of R{replica} takes it back to {kept:?} of {height:?}", P::NAME);
            false
        });
    }

    fn describe<P: Play>(&self, world: &World<P>) -> String {
        let state = |replica: &ReplicaId| {
            let state = world.replica(replica.0);
            let (view, silence, executed) = (state.view(), state.silence(), state.committed_height());
            let (alive, dropped) = (world.is_alive(replica.0), state.dropped());
            format!(
                "\n{replica:?} (alive: {alive}) in {view:?} has executed {executed:?}, {silence:?}, drops {dropped:?}"
            )
        };
        format!("away {:?}{}", self.away, world.replicas().iter().map(state).collect::<String>())
    }

    /// Deletes the next disk, if fewer than f replicas have lost theirs.
    fn lose<P: Play>(&mut self, world: &mut World<P>) {
        self.recovered(world);
        if self.away.len() >= self.quorum_faults {
            return;
        }
        let (n, victim) = (world.replicas().len() as u16, self.next);
        self.next = (victim + 1) % n;
        if self.away.iter().any(|(replica, _)| *replica == victim) {
            return;
        }
        if world.is_alive(victim) {
            world.kill(victim);
        }
        let height = (0..n).filter(|other| *other != victim).map(|other| world.replica(other).committed_height()).max();
        self.away.push((victim, height.unwrap_or_default()));
        world.restart_without_memory(victim);
    }
}

/// Disturbs links for a while, so that views fail halfway, each at other replicas.
fn disturb<P: Play>(world: &mut World<P>, random: &mut Random, n: u64) {
    let mut replica = || ReplicaId(random.below(n) as u16);
    let (one, other) = (replica(), replica());
    match random.below(8) {
        0 => world.network.isolate(one, true),
        1 => world.network.silence(one, true),
        2 | 3 => world.network.set_cut(one, other, true),
        4 => world.network.lost_per_mille = random.below(400),
        5 => world.network.isolate(one, false),
        _ => world.network.heal(),
    }
}

mod bodies {
    use super::*;

    pub fn claims_are_a_function_of_the_journal<P: Play>() {
        for_seeds::<P>("claims_are_a_function_of_the_journal", SEEDS, |seed| {
            let mut random = Random::new(seed);
            let n = *random.pick(&[4, 4, 4, 7]);
            let mut world = World::<P>::new(n, config::<P>(&mut random), seed);
            world.network.jitter = random.time_below(Duration::from_millis(3));
            world.start();
            let mut disks = Disks::new((n - 1) / 3);
            for round in 0..60 {
                disturb(&mut world, &mut random, n as u64);
                if random.below(3) == 0 {
                    disks.lose(&mut world);
                }
                for replica in 0..n as u16 {
                    match random.below(16) {
                        0 if world.is_alive(replica) => world.crash_after(replica, random.below(60)),
                        1 if world.is_alive(replica) => world.shorten_journal(replica),
                        2..12 if !world.is_alive(replica) => world.restart(replica, random.below(4) as usize),
                        _ => {}
                    }
                }
                world.submit(1 + random.below(3));
                for _ in 0..3 {
                    world.run_for(random.time_below(Duration::from_millis(20)));
                    (0..n as u16).filter(|replica| world.is_alive(*replica)).for_each(|replica| check(&world, replica));
                }
                if round % 8 == 7 {
                    world.network.heal();
                    world.run_for(Duration::from_millis(VIEW_TIMEOUT_MS * 8));
                }
            }
        });
    }

    pub fn disks_are_lost_in_turn<P: Play>() {
        for_seeds::<P>("disks_are_lost_in_turn", SEEDS * 2, |seed| {
            let mut random = Random::new(seed);
            let (n, f) = *random.pick(&[(4, 1), (4, 1), (4, 1), (7, 2)]);
            let (config, quorum) = (config::<P>(&mut random), Quorum::of(n).expect("the size is valid"));
            let mut world = World::<P>::new(n, config.clone(), seed);
            world.network.jitter = random.time_below(Duration::from_millis(3));
            world.start();
            let mut disks = Disks::new(f);
            let mut commands: Vec<Digest> = Vec::new();
            for round in 0..80 {
                disturb(&mut world, &mut random, n as u64);
                disks.lose(&mut world);
                for replica in 0..n as u16 {
                    match random.below(10) {
                        0 if world.is_alive(replica) => world.crash_after(replica, random.below(60)),
                        1 if world.is_alive(replica) && random.below(4) == 0 => world.shorten_journal(replica),
                        2..8 if !world.is_alive(replica) => world.restart(replica, random.below(4) as usize),
                        _ => {}
                    }
                }
                commands.push(world.submit(1 + random.below(3)));
                world.run_for(random.time_below(Duration::from_millis(60)));
                if round % 8 == 7 {
                    world.network.heal();
                    world.run_for(Duration::from_millis(VIEW_TIMEOUT_MS * 8));
                }
            }
            world.network.heal();
            for replica in 0..n as u16 {
                world.crash_after(replica, u64::MAX);
                if !world.is_alive(replica) {
                    world.restart(replica, 0);
                }
            }
            let recovered = |disks: &mut Disks, world: &World<P>| {
                disks.recovered(world);
                disks.away.is_empty()
            };
            for _ in 0..20 {
                if recovered(&mut disks, &world) {
                    break;
                }
                // A replica without a memory waits for a view change.
                world.network.isolate(ReplicaId(random.below(n as u64) as u16), true);
                world.submit(1);
                world.run_for(Duration::from_millis(VIEW_TIMEOUT_MS * 8));
                world.network.heal();
                world.run_for(PATIENCE / 8);
            }
            let back = recovered(&mut disks, &world);
            assert!(back, "seed {seed}: {}", disks.describe(&world));
            let first = random.below(n as u64) as usize;
            let crashed: Vec<ReplicaId> = (0..f).map(|crashed| ReplicaId(((first + crashed) % n) as u16)).collect();
            if config.stalls_with_silent(quorum, &crashed).is_none() {
                crashed.iter().for_each(|replica| world.kill(replica.0));
            }
            commands.iter().for_each(|command| world.submit_again(command));
            commands.push(world.submit(1));
            let open = |world: &World<P>| commands.iter().filter(|command| !world.is_done(command)).count();
            while open(&world) > 0 {
                let before = open(&world);
                let progresses = world.run_until(PATIENCE, |world| open(world) < before);
                let state = disks.describe(&world);
                assert!(progresses, "seed {seed}: {before} of {} commands are not ordered, {state}", commands.len());
            }
        });
    }
}
