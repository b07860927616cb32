//! Plays many scenarios on all cores.

use crate::twins::checker::Violation;
use crate::twins::play::{Verdict, player};
use crate::twins::scenario::{Entry, Scenario};
use crate::twins::space::Space;
use quorate_consensus::config::ProtocolKind;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Maximum number of scenarios reported individually; all are counted.
pub const MAX_FINDINGS: usize = 1000;
/// Number of scenarios that a thread takes at a time.
const BATCH: u64 = 64;
/// A replica loses its disk in one in this many rounds, if this leads to at most f faults.
const LOST_DISK_ONE_IN: u128 = 2;
/// A replica restarts from its journal in one in this many rounds.
const RESTART_ONE_IN: u128 = 2;

/// One part of a run that is distributed over several machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Number of this part, from 1.
    pub index: u64,
    pub of: u64,
}

impl Shard {
    /// The whole run as a single part.
    pub const WHOLE: Shard = Shard { index: 1, of: 1 };

    /// Returns the number of scenarios in this part of `total`: every `of`-th one.
    pub fn share(self, total: u64) -> u64 {
        (total + self.of - self.index) / self.of
    }

    /// Converts a number within this part to a number within the whole.
    fn whole(self, number: u64) -> u64 {
        number * self.of + self.index - 1
    }
}

/// Selection of scenarios from a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// This many from the beginning, in the order of their numbers.
    First(u64),
    /// A uniform sample with replacement. Equal seeds draw equal samples.
    Sample {
        /// Size of the sample.
        scenarios: u64,
        seed: u64,
    },
    /// The same sample, with replicas that also restart and lose their disks.
    SampleLosingDisks {
        /// Size of the sample.
        scenarios: u64,
        seed: u64,
    },
}

/// Source of scenarios.
pub enum Source<'a> {
    Space(&'a Space, Choice),
    List(&'a [Entry]),
}

impl Source<'_> {
    /// Returns the number of scenarios.
    pub fn len(&self) -> u64 {
        match self {
            Source::Space(space, Choice::First(first)) => u64::try_from(space.count()).unwrap_or(u64::MAX).min(*first),
            Source::Space(_, Choice::Sample { scenarios, .. } | Choice::SampleLosingDisks { scenarios, .. }) => {
                *scenarios
            }
            Source::List(entries) => entries.len() as u64,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn scenario(&self, number: u64) -> Scenario {
        match self {
            Source::Space(space, Choice::First(_)) => space.scenario(number.into()),
            Source::Space(space, Choice::Sample { seed, .. }) => space.scenario(draw(*seed, number, space.count())),
            Source::Space(space, Choice::SampleLosingDisks { seed, .. }) => {
                let mut random = random(*seed, number);
                let mut scenario = space.scenario(below(&mut random, space.count()));
                draw_restarts(&mut scenario, &mut random);
                scenario
            }
            Source::List(entries) => entries[number as usize].scenario.clone(),
        }
    }

    /// Returns the scenarios of a part, in order.
    pub fn part(&self, shard: Shard) -> impl Iterator<Item = Scenario> {
        (0..shard.share(self.len())).map(move |number| self.scenario(shard.whole(number)))
    }
}

/// Returns the number-th random number below `limit`, uniformly distributed.
pub(crate) fn draw(seed: u64, number: u64, limit: u128) -> u128 {
    below(&mut random(seed, number), limit)
}

/// Returns the random numbers of the number-th scenario.
fn random(seed: u64, number: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number);
    random
}

/// Draws the replicas that restart, with or without their disks; at most one of each kind per round.
fn draw_restarts(scenario: &mut Scenario, random: &mut ChaCha8Rng) {
    assert!(scenario.participants.may_lose_disks(), "twins are fewer than the faults");
    let honest: Vec<usize> = scenario.participants.honest().map(|replica| replica.index()).collect();
    let mut drawn = |one_in: u128| match below(random, one_in) {
        0 => 1 << honest[below(random, honest.len() as u128) as usize],
        _ => 0,
    };
    for round in &mut scenario.rounds {
        (round.lost_disks, round.restarts) = (drawn(LOST_DISK_ONE_IN), drawn(RESTART_ONE_IN));
        round.restarts &= !round.lost_disks;
    }
}

/// Returns the next random number below `limit`, uniformly distributed.
fn below(random: &mut ChaCha8Rng, limit: u128) -> u128 {
    let excess = (u128::MAX % limit + 1) % limit;
    loop {
        let drawn = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        // Reject the highest numbers, which would make some remainders more likely.
        if drawn <= u128::MAX - excess {
            return drawn % limit;
        }
    }
}

/// Scenario with a violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Number of the scenario in the source.
    pub number: u64,
    pub scenario: Scenario,
    pub violation: Violation,
    /// Whether it violated only liveness.
    pub stalled: bool,
}

/// Result of a run.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Scenarios played.
    pub scenarios: u64,
    /// Scenarios that violated safety.
    pub unsafe_scenarios: u64,
    /// Scenarios that only violated liveness after the network healed.
    pub stalled: u64,
    /// The first scenarios with a violation by number, at most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
}

impl Outcome {
    fn add(&mut self, number: u64, scenario: Scenario, verdict: Verdict) {
        self.scenarios += 1;
        let stalled = matches!(verdict, Verdict::Stalled(_));
        let (Verdict::Unsafe(violation) | Verdict::Stalled(violation)) = verdict else { return };
        *(if stalled { &mut self.stalled } else { &mut self.unsafe_scenarios }) += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding { number, scenario, violation, stalled });
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.scenarios += other.scenarios;
        self.unsafe_scenarios += other.unsafe_scenarios;
        self.stalled += other.stalled;
        self.findings.extend(other.findings);
    }
}

/// Plays a part of a source on `threads` threads. The result does not depend on the number of threads. Calls `heard`
/// regularly with the number of completed scenarios.
pub fn run(
    protocol: ProtocolKind,
    source: &Source<'_>,
    shard: Shard,
    threads: usize,
    heard: &(dyn Fn(u64) + Sync),
) -> Outcome {
    run_while(protocol, source, shard, threads, heard, || true)
}

/// Plays a part of a source like [`run`], until `goes_on` returns false. Started batches are completed.
pub fn run_while(
    protocol: ProtocolKind,
    source: &Source<'_>,
    shard: Shard,
    threads: usize,
    heard: &(dyn Fn(u64) + Sync),
    goes_on: fn() -> bool,
) -> Outcome {
    let (next, done, share) = (AtomicU64::new(0), AtomicU64::new(0), shard.share(source.len()));
    let work = || {
        let (mut play, mut outcome) = (player(protocol), Outcome::default());
        loop {
            let start = next.fetch_add(BATCH, Ordering::Relaxed);
            let end = share.min(start.saturating_add(BATCH));
            if start >= end || !goes_on() {
                return outcome;
            }
            for number in (start..end).map(|number| shard.whole(number)) {
                let scenario = source.scenario(number);
                let verdict = play(&scenario);
                outcome.add(number, scenario, verdict);
            }
            heard(done.fetch_add(end - start, Ordering::Relaxed) + end - start);
        }
    };
    let mut whole = Outcome::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            whole.merge(worker.join().expect("a panic of a replica is a verdict; the runner has none of its own"));
        }
    });
    whole.findings.sort_unstable_by_key(|finding| finding.number);
    whole.findings.truncate(MAX_FINDINGS);
    whole
}
