//! Plays many scenarios on all cores.

use crate::judge::Complaint;
use crate::play::{Verdict, player};
use crate::scenario::{Entry, Scenario};
use crate::space::Space;
use quorate_consensus::config::ProtocolKind;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Most scenarios that are reported one by one; all are counted.
pub const MAX_FINDINGS: usize = 1000;
/// Scenarios that a thread takes at a time.
const BATCH: u64 = 64;

/// A part of a run, for several machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Which, from 1.
    pub index: u64,
    /// Of how many.
    pub of: u64,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Shard = Shard { index: 1, of: 1 };

    /// How many of `total` are in this part: every `of`-th.
    pub fn share(self, total: u64) -> u64 {
        (total + self.of - self.index) / self.of
    }

    /// The number in the whole of one in this part.
    fn whole(self, number: u64) -> u64 {
        number * self.of + self.index - 1
    }
}

/// Which scenarios of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// So many from the beginning, in the order of their numbers.
    First(u64),
    /// So many, each drawn from all alike. Equal seeds draw the same.
    Sample {
        /// How many.
        scenarios: u64,
        /// What decides.
        seed: u64,
    },
}

/// Where scenarios come from.
pub enum Source<'a> {
    /// Out of a space.
    Space(&'a Space, Choice),
    /// Out of a file.
    List(&'a [Entry]),
}

impl Source<'_> {
    /// How many scenarios there are.
    pub fn len(&self) -> u64 {
        match self {
            Source::Space(space, Choice::First(first)) => u64::try_from(space.count()).unwrap_or(u64::MAX).min(*first),
            Source::Space(_, Choice::Sample { scenarios, .. }) => *scenarios,
            Source::List(entries) => entries.len() as u64,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
    pub fn scenario(&self, number: u64) -> Scenario {
        match self {
            Source::Space(space, Choice::First(_)) => space.scenario(number.into()),
            Source::Space(space, Choice::Sample { seed, .. }) => space.scenario(draw(*seed, number, space.count())),
            Source::List(entries) => entries[number as usize].scenario.clone(),
        }
    }

    /// Those of a part, in order.
    pub fn part(&self, shard: Shard) -> impl Iterator<Item = Scenario> {
        (0..shard.share(self.len())).map(move |number| self.scenario(shard.whole(number)))
    }
}

/// The number-th draw from 0 to below `limit`, all alike.
pub(crate) fn draw(seed: u64, number: u64, limit: u128) -> u128 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number);
    let excess = (u128::MAX % limit + 1) % limit;
    loop {
        let drawn = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        // The highest numbers, of which there is not the same amount for each remainder, do not count.
        if drawn <= u128::MAX - excess {
            return drawn % limit;
        }
    }
}

/// A scenario that broke a law.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Its number in the source.
    pub number: u64,
    /// The script.
    pub scenario: Scenario,
    /// What was seen.
    pub complaint: Complaint,
    /// Whether it only stalled.
    pub stalled: bool,
}

/// What came of a run.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Scenarios that were played.
    pub scenarios: u64,
    /// Those that broke a law that must hold whatever happens.
    pub unsafe_scenarios: u64,
    /// Those in which nothing was executed for too long when all was healed.
    pub stalled: u64,
    /// The first of them, in the order of their numbers: [`MAX_FINDINGS`] at most.
    pub findings: Vec<Finding>,
}

impl Outcome {
    fn add(&mut self, number: u64, scenario: Scenario, verdict: Verdict) {
        self.scenarios += 1;
        let stalled = matches!(verdict, Verdict::Stalled(_));
        let (Verdict::Unsafe(complaint) | Verdict::Stalled(complaint)) = verdict else { return };
        *(if stalled { &mut self.stalled } else { &mut self.unsafe_scenarios }) += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding { number, scenario, complaint, stalled });
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.scenarios += other.scenarios;
        self.unsafe_scenarios += other.unsafe_scenarios;
        self.stalled += other.stalled;
        self.findings.extend(other.findings);
    }
}

/// Plays a part of a source on so many threads; what comes of it does not depend on how many. `heard` is told now and then how many
/// are done.
pub fn run(
    protocol: ProtocolKind,
    source: &Source<'_>,
    shard: Shard,
    threads: usize,
    heard: &(dyn Fn(u64) + Sync),
) -> Outcome {
    run_while(protocol, source, shard, threads, heard, || true)
}

/// The same, as long as `goes_on` says so: scenarios that have begun are still played.
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
