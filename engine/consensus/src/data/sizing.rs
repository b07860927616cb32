//! Block size of a leader that sizes its blocks itself.
//!
//! A leader proposes everything pending, up to the limits that voters check, so blocks grow with the load, the distance
//! and the number of replicas. Only one thing can make such a block too large: the commands that the leader itself must
//! send with it. Their limit follows the time that the leader's last blocks took to be certified.

use crate::config::Config;
use quorate_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Initial limit on the commands sent with a leader's block, in bytes. With a 1 Gbit/s network interface, 20 replicas
/// take 40 ms to receive them.
const INITIAL_CARRIED_BYTES: usize = 256 << 10;
/// Minimum of that limit, in bytes.
const MIN_CARRIED_BYTES: usize = 64 << 10;
/// Maximum factor by which the limit grows at a time; it shrinks at most to half.
const MAX_GROWTH: u128 = 4;
/// Maximum number of undecided proposals whose times are recorded. A pipeline with more of them measures fewer.
const MAX_IN_FLIGHT: usize = 64;

/// A proposal that is not certified yet.
struct Sent {
    /// View or slot of the proposal.
    number: u64,
    at: Time,
    carried_bytes: usize,
}

/// Limit on the commands that a leader sends with a block.
pub struct Sizing {
    /// Target for the time from a proposal to its certificate.
    target: Duration,
    max_carried_bytes: usize,
    carried_bytes: usize,
    in_flight: VecDeque<Sent>,
}

impl Sizing {
    pub fn new(config: &Config) -> Sizing {
        let most = config.batch_bytes;
        Sizing {
            target: config.batch_latency(),
            max_carried_bytes: most,
            carried_bytes: INITIAL_CARRIED_BYTES.min(most),
            in_flight: VecDeque::new(),
        }
    }

    /// Returns the maximum bytes of commands that the leader sends with its next block.
    pub fn carried_bytes(&self) -> usize {
        self.carried_bytes
    }

    /// Records a proposal for a view or slot above all earlier ones, sent with this many bytes of commands.
    pub fn on_proposal(&mut self, now: Time, number: u64, carried_bytes: usize) {
        if self.in_flight.len() < MAX_IN_FLIGHT {
            self.in_flight.push_back(Sent { number, at: now, carried_bytes });
        }
    }

    /// Records that all views or slots up to `number` are over, the last one with a certificate.
    pub fn on_certificate(&mut self, now: Time, number: u64) {
        while self.in_flight.front().is_some_and(|sent| sent.number <= number) {
            let sent = self.in_flight.pop_front().expect("the queue was just seen not to be empty");
            if sent.number == number {
                self.learn(sent.carried_bytes, Some(now.since(sent.at)));
            }
        }
    }

    /// Records that undecided proposals timed out.
    pub fn on_timeout(&mut self) {
        let largest = self.in_flight.drain(..).map(|sent| sent.carried_bytes).max();
        self.learn(largest.unwrap_or(0), None);
    }

    /// Scales the limit by the ratio of the target to the time that a block took; `None` if it took too long. A block
    /// far below the limit says little about larger ones, and would not have been smaller under a lower limit.
    fn learn(&mut self, carried_bytes: usize, took: Option<Duration>) {
        if carried_bytes >= self.carried_bytes / 2 {
            let carried = carried_bytes as u128;
            let wanted = took.map_or(0, |took| carried * self.target.as_nanos() / took.as_nanos().max(1));
            let scaled = wanted.clamp(carried / 2, carried * MAX_GROWTH) as usize;
            let least = MIN_CARRIED_BYTES.min(self.max_carried_bytes);
            self.carried_bytes = scaled.clamp(least, self.max_carried_bytes);
        }
    }

    /// Checks the invariants after a step.
    pub fn invariants(&self) {
        assert!(self.carried_bytes <= self.max_carried_bytes, "a leader's own limit does not exceed any voter's limit");
        assert!(self.in_flight.len() <= MAX_IN_FLIGHT, "proposals in flight are bounded");
    }
}
