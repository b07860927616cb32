//! CPU time that threads spend on cryptography, by primitive, and on encrypting and decrypting a channel's traffic.
//!
//! All work is counted, and a sample of it is timed, because reading a thread's clock costs as much as a short MAC. The
//! total is extrapolated from the sample. Each thread counts separately. Nothing is timed before [`time_with`] is
//! called, and only reports read these figures.

use crate::stages::{self, Stage};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::OnceLock;

/// Kinds of cryptographic work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Primitive {
    /// Creating a signature.
    Sign,
    /// Verifying signatures one by one.
    VerifySingle,
    /// Verifying several signatures with one equation.
    VerifyBatch,
    /// Adding up signatures and their keys, and verifying the sum.
    VerifyAggregate,
    /// Creating and verifying MACs.
    Mac,
    /// SHA-256, except within signatures and MACs.
    Hash,
    /// Encrypting and decrypting the records and packets of an encrypted channel, after its handshake.
    Channel,
}

impl Primitive {
    pub const ALL: [Primitive; 7] = [
        Primitive::Sign,
        Primitive::VerifySingle,
        Primitive::VerifyBatch,
        Primitive::VerifyAggregate,
        Primitive::Mac,
        Primitive::Hash,
        Primitive::Channel,
    ];

    /// Sampling interval: one of this many calls is timed. Primes, to avoid resonance with periodic work. Two clock
    /// readings take about 0.5 us, a signature at least 5 us, a packet at least 0.3 us, a MAC or a short hash 0.1 us.
    const fn timed_one_in(self) -> u64 {
        match self {
            Primitive::Sign | Primitive::VerifySingle | Primitive::VerifyBatch | Primitive::VerifyAggregate => 7,
            Primitive::Mac | Primitive::Channel => 61,
            Primitive::Hash => 127,
        }
    }
}

/// Work of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Calls of the primitive.
    pub calls: u64,
    /// Signatures or MACs; or bytes hashed, encrypted or decrypted, plus an allowance per call.
    pub items: u64,
    /// Items of the timed calls, and the CPU time of these calls.
    pub timed_items: u64,
    pub timed_ns: u64,
}

impl Tally {
    const NOTHING: Tally = Tally { calls: 0, items: 0, timed_items: 0, timed_ns: 0 };

    /// Estimates the time of all items, in nanoseconds; `None` if there are items and none was timed.
    pub fn estimated_ns(&self) -> Option<f64> {
        match (self.items, self.timed_items) {
            (0, _) => Some(0.0),
            (_, 0) => None,
            (items, timed) => Some(self.timed_ns as f64 * items as f64 / timed as f64),
        }
    }

    fn plus(self, other: Tally) -> Tally {
        Tally {
            calls: self.calls + other.calls,
            items: self.items + other.items,
            timed_items: self.timed_items + other.timed_items,
            timed_ns: self.timed_ns + other.timed_ns,
        }
    }

    fn since(self, earlier: Tally) -> Tally {
        Tally {
            calls: self.calls.saturating_sub(earlier.calls),
            items: self.items.saturating_sub(earlier.items),
            timed_items: self.timed_items.saturating_sub(earlier.timed_items),
            timed_ns: self.timed_ns.saturating_sub(earlier.timed_ns),
        }
    }
}

/// Work of all kinds, in the order of [`Primitive::ALL`]. Kinds unknown to another release count as unused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Tally>")]
pub struct Tallies([Tally; Primitive::ALL.len()]);

impl From<Vec<Tally>> for Tallies {
    fn from(known: Vec<Tally>) -> Tallies {
        Tallies(Primitive::ALL.map(|primitive| known.get(primitive as usize).copied().unwrap_or_default()))
    }
}

impl Tallies {
    pub fn of(&self, primitive: Primitive) -> Tally {
        self.0[primitive as usize]
    }

    /// Returns the work since an earlier reading.
    pub fn since(&self, earlier: &Tallies) -> Tallies {
        Tallies(Primitive::ALL.map(|primitive| self.of(primitive).since(earlier.of(primitive))))
    }
}

impl std::ops::AddAssign for Tallies {
    fn add_assign(&mut self, other: Tallies) {
        *self = Tallies(Primitive::ALL.map(|primitive| self.of(primitive).plus(other.of(primitive))));
    }
}

/// Returns the CPU time of the calling thread, in nanoseconds.
pub type ThreadClock = fn() -> u64;

static CLOCK: OnceLock<(ThreadClock, u64)> = OnceLock::new();

thread_local! {
    static TALLIES: [Cell<Tally>; Primitive::ALL.len()] =
        const { [const { Cell::new(Tally::NOTHING) }; Primitive::ALL.len()] };
}

/// Number of readings by which the cost of a clock reading is measured.
const TRIAL_READINGS: usize = 32;

/// Samples the times of this process from now on. Only the first clock is used.
pub fn time_with(clock: ThreadClock) {
    CLOCK.get_or_init(|| {
        let between = (0..TRIAL_READINGS).map(|_| {
            let before = clock();
            clock().saturating_sub(before)
        });
        (clock, between.min().unwrap_or(0))
    });
}

/// Returns the work of the calling thread so far.
pub fn of_this_thread() -> Tallies {
    TALLIES.with(|tallies| Tallies(Primitive::ALL.map(|primitive| tallies[primitive as usize].get())))
}

/// Timer of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    clock: ThreadClock,
    /// Cost of a clock reading.
    reading_ns: u64,
}

impl Timer {
    /// Runs `work` and adds its time to `spent_ns`.
    pub fn time<T>(self, spent_ns: &mut u64, work: impl FnOnce() -> T) -> T {
        let before = (self.clock)();
        let outcome = work();
        *spent_ns += (self.clock)().saturating_sub(before).saturating_sub(self.reading_ns);
        outcome
    }
}

/// Returns a timer if the next call of a primitive is to be timed.
#[inline]
pub(crate) fn timer(primitive: Primitive) -> Option<Timer> {
    let calls = TALLIES.with(|tallies| tallies[primitive as usize].get().calls);
    if !calls.is_multiple_of(primitive.timed_one_in()) {
        return None;
    }
    CLOCK.get().map(|(clock, reading_ns)| Timer { clock: *clock, reading_ns: *reading_ns })
}

/// Counts a call, and its time if it was timed.
#[inline]
pub(crate) fn count(primitive: Primitive, items: u64, timed_ns: Option<u64>) {
    TALLIES.with(|tallies| {
        let tally = &tallies[primitive as usize];
        let timed_items = if timed_ns.is_some() { items } else { 0 };
        tally.set(tally.get().plus(Tally { calls: 1, items, timed_items, timed_ns: timed_ns.unwrap_or(0) }));
    });
}

/// Fixed cost of a record or packet, as the number of bytes processed in the same time.
const CHANNEL_BYTES_FOR_EACH: usize = 256;

/// Returns the items of a call of [`Primitive::Channel`] that encrypts or decrypts this many bytes.
#[inline]
pub fn channel_items(bytes: usize) -> usize {
    bytes + CHANNEL_BYTES_FOR_EACH
}

/// Runs `work`, which applies a primitive to this many signatures or MACs, and counts it.
pub fn measured<T>(primitive: Primitive, items: usize, work: impl FnOnce() -> T) -> T {
    let _stage = match primitive {
        Primitive::Sign => Some(stages::enter(Stage::Sign)),
        Primitive::VerifySingle | Primitive::VerifyBatch | Primitive::VerifyAggregate => {
            Some(stages::enter(Stage::Authenticate))
        }
        Primitive::Mac => stages::enter_mac(),
        // Belongs to receiving or sending.
        Primitive::Channel => None,
        Primitive::Hash => Some(stages::enter(Stage::Hash)),
    };
    let Some(timer) = timer(primitive) else {
        let outcome = work();
        count(primitive, items as u64, None);
        return outcome;
    };
    let mut spent_ns = 0;
    let outcome = timer.time(&mut spent_ns, work);
    count(primitive, items as u64, Some(spent_ns));
    outcome
}
