//! Sequence of faults, drawn from a seed.

use quorate_types::{Quorum, ReplicaId};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use std::fmt;
use std::time::Duration;

/// Range of the pause before a fault, in milliseconds.
const CALM_MS: std::ops::Range<u64> = 200..2_500;
/// Range of the victims' downtime, in milliseconds.
const AWAY_MS: std::ops::Range<u64> = 0..3_000;
/// Range of the time between two victims' returns, in milliseconds.
const STAGGER_MS: std::ops::Range<u64> = 0..500;

/// Kind of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Killed with SIGKILL and restarted.
    Kill,
    /// Paused with SIGSTOP and continued.
    Pause,
}

/// Fault that hits all victims at once; they return one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Injection {
    pub kind: Kind,
    /// Victims, in the order of their return.
    pub victims: Vec<ReplicaId>,
    /// Pause before the fault.
    pub calm: Duration,
    /// Downtime of the first victim.
    pub away: Duration,
    /// Additional downtime of each further victim.
    pub stagger: Duration,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.kind == Kind::Kill { "kill -9" } else { "pause" };
        let victims: Vec<String> = self.victims.iter().map(ToString::to_string).collect();
        write!(f, "{verb} {} for {:.1} s", victims.join(" "), self.away.as_secs_f64())
    }
}

/// Endless sequence of faults.
pub struct Plan {
    random: ChaCha12Rng,
    quorum: Quorum,
}

impl Plan {
    pub fn new(seed: u64, quorum: Quorum) -> Plan {
        Plan { random: ChaCha12Rng::seed_from_u64(seed), quorum }
    }
}

impl Iterator for Plan {
    type Item = Injection;

    /// Draws one victim, f or all, with equal probability. Two thirds of the faults are kills.
    fn next(&mut self) -> Option<Injection> {
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
        Some(Injection { kind, victims, calm: draw(CALM_MS), away: draw(AWAY_MS), stagger: draw(STAGGER_MS) })
    }
}
