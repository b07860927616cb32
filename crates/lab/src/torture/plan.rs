//! What is done to the replicas, drawn from a seed.

use quorate_types::{Quorum, ReplicaId};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use std::fmt;
use std::time::Duration;

/// Calm between two blows, in milliseconds.
const CALM_MS: std::ops::Range<u64> = 200..2_500;
/// How long the victims of a blow are away, in milliseconds.
const AWAY_MS: std::ops::Range<u64> = 0..3_000;
/// Between the restarts of two victims, in milliseconds.
const STAGGER_MS: std::ops::Range<u64> = 0..500;

/// How a blow falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Killed with -9, and started again.
    Kill,
    /// Stopped with SIGSTOP, and continued.
    Pause,
}

/// One misfortune: it falls on all victims at once, and they come back one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blow {
    /// How.
    pub kind: Kind,
    /// On whom, in the order of their return.
    pub victims: Vec<ReplicaId>,
    /// The calm before.
    pub calm: Duration,
    /// How long the first victim is away.
    pub away: Duration,
    /// How much longer each further one.
    pub stagger: Duration,
}

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.kind == Kind::Kill { "kill -9" } else { "pause" };
        let victims: Vec<String> = self.victims.iter().map(ToString::to_string).collect();
        write!(f, "{verb} {} for {:.1} s", victims.join(" "), self.away.as_secs_f64())
    }
}

/// An endless series of blows.
pub struct Plan {
    random: ChaCha12Rng,
    quorum: Quorum,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64, quorum: Quorum) -> Plan {
        Plan { random: ChaCha12Rng::seed_from_u64(seed), quorum }
    }
}

impl Iterator for Plan {
    type Item = Blow;

    /// One victim, f, or all, with equal chances; two of three blows kill.
    fn next(&mut self) -> Option<Blow> {
        let (random, n) = (&mut self.random, self.quorum.replicas());
        let mut victims: Vec<ReplicaId> = (0..n as u16).map(ReplicaId).collect();
        victims.shuffle(random);
        victims.truncate(match random.random_range(0..3) {
            0 => 1,
            1 => self.quorum.faults().max(1),
            _ => n,
        });
        let kind = if random.random_range(0..3) < 2 { Kind::Kill } else { Kind::Pause };
        let mut draw = |range| Duration::from_millis(random.random_range(range));
        Some(Blow { kind, victims, calm: draw(CALM_MS), away: draw(AWAY_MS), stagger: draw(STAGGER_MS) })
    }
}
