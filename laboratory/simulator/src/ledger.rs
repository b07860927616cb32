//! Charges by kind of work.

use crate::probes::Probes;
use crate::steps::StepKind;
use crate::work::{Place, Work};
use quorate_types::meter::Primitive;
use quorate_types::stages::{MessageKind, StageCounts, StageRole};
use serde::{Deserialize, Serialize};

const PS_PER_US: f64 = 1e6;

/// Charges of one kind of work.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sum {
    count: u64,
    picoseconds: u64,
}

/// Charges of one or several threads, without the slowdown of a slow processor.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ledger {
    work: [Sum; Work::ALL.len()],
    /// The part spent on cryptography, in picoseconds.
    crypto: [u64; Primitive::ALL.len()],
    total: u64,
    at: Place,
    /// The same by message; `None` if stages are not needed.
    probes: Option<Box<Probes>>,
}

/// Charges over the measured time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Charged {
    /// Sum over all replicas.
    pub replicas: Ledger,
    pub clients: Ledger,
}

impl Charged {
    /// Returns the charges since an earlier reading.
    pub fn since(&self, earlier: &Charged) -> Charged {
        Charged { replicas: self.replicas.since(&earlier.replicas), clients: self.clients.since(&earlier.clients) }
    }
}

/// Work of one kind, per command.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Share {
    pub work: Work,
    pub count_per_command: f64,
    pub us_per_command: f64,
}

impl Ledger {
    /// Charges `count` units of work at `each` picoseconds.
    pub fn charge(&mut self, work: Work, count: u64, each: u64) {
        self.charge_sum(work, count, count * each);
    }

    /// Charges `count` units of work with this total cost in picoseconds.
    pub fn charge_sum(&mut self, work: Work, count: u64, picoseconds: u64) {
        let charged = &mut self.work[work as usize];
        charged.count += count;
        charged.picoseconds += picoseconds;
        self.total += picoseconds;
        if let Some(probes) = &mut self.probes {
            probes.charge(&mut self.at, work, picoseconds);
        }
    }

    /// Charges one step of the state machine.
    pub fn charge_step(&mut self, kind: StepKind, picoseconds: u64) {
        self.charge(Work::Steps, 1, picoseconds);
        if let Some(probes) = &mut self.probes {
            probes.split_step(self.at.message, kind, picoseconds);
        }
    }

    /// Returns a ledger that also records the stages of a replica's work.
    pub fn with_probes() -> Ledger {
        Ledger { probes: Some(Box::default()), ..Ledger::default() }
    }

    /// Begins an iteration of a host: following charges belong to it.
    pub fn begin_turn(&mut self, role: StageRole) {
        self.at = Place { role, ..Place::default() };
        if let Some(probes) = &mut self.probes {
            probes.turns += 1;
        }
    }

    /// Begins the work on messages of a kind. Returns the interrupted place, for [`Ledger::leave`].
    pub fn enter(&mut self, message: MessageKind, messages: usize) -> Place {
        let inner = Place { message, messages: messages as u64, seen: 0, ..self.at };
        std::mem::replace(&mut self.at, inner)
    }

    /// Moves to the place of another thread of the replica. Returns the previous place.
    pub fn go(&mut self, place: Place) -> Place {
        std::mem::replace(&mut self.at, place)
    }

    /// Returns to the place interrupted by [`Ledger::enter`].
    pub fn leave(&mut self, place: Place) {
        self.at = place;
    }

    /// Returns the present place.
    pub fn place(&self) -> Place {
        self.at
    }

    /// Records a received frame of the current message.
    pub fn received(&mut self, bytes: u64) {
        if let Some(probes) = &mut self.probes {
            probes.moved(&self.at, false, 1, bytes);
        }
    }

    /// Records sent frames of the current message, with `bytes` bytes in total.
    pub fn sent(&mut self, frames: u64, bytes: u64) {
        if let Some(probes) = &mut self.probes {
            probes.moved(&self.at, true, frames, bytes);
        }
    }

    /// Returns the stages, in cycles of a counter with this frequency in Hz; `None` if they are not recorded.
    pub fn stages(&self, counter_hz: f64) -> Option<StageCounts> {
        self.probes.as_ref().map(|probes| probes.counts(counter_hz, self.total))
    }

    /// Returns the charges by message; `None` if they are not recorded.
    pub fn probes(&self) -> Option<&Probes> {
        self.probes.as_deref()
    }

    /// Charges `count` units of work of one primitive with this total cost in picoseconds.
    pub fn charge_crypto(&mut self, work: Work, primitive: Primitive, count: u64, picoseconds: u64) {
        self.charge_sum(work, count, picoseconds);
        self.crypto[primitive as usize] += picoseconds;
    }

    /// Returns the cost of a primitive in microseconds.
    pub fn crypto_us(&self, primitive: Primitive) -> f64 {
        self.crypto[primitive as usize] as f64 / PS_PER_US
    }

    /// Returns the total of all charges, in picoseconds.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of units of a kind of work.
    pub fn count(&self, work: Work) -> u64 {
        self.work[work as usize].count
    }

    /// Returns the cost of a kind of work in microseconds.
    pub fn us(&self, work: Work) -> f64 {
        self.work[work as usize].picoseconds as f64 / PS_PER_US
    }

    pub fn add(&mut self, other: &Ledger) {
        for (sum, more) in self.work.iter_mut().zip(other.work) {
            *sum = Sum { count: sum.count + more.count, picoseconds: sum.picoseconds + more.picoseconds };
        }
        self.total += other.total;
        self.crypto.iter_mut().zip(other.crypto).for_each(|(sum, more)| *sum += more);
        if let Some(more) = &other.probes {
            self.probes.get_or_insert_default().add(more);
        }
    }

    /// Returns the charges since an earlier reading.
    pub fn since(&self, earlier: &Ledger) -> Ledger {
        let mut since = Ledger::default();
        for work in Work::ALL {
            let (now, then) = (self.work[work as usize], earlier.work[work as usize]);
            since.charge_sum(work, now.count - then.count, now.picoseconds - then.picoseconds);
        }
        since.probes = self.probes.as_ref().map(|now| match &earlier.probes {
            Some(then) => Box::new(now.since(then)),
            None => now.clone(),
        });
        since.crypto = Primitive::ALL.map(|kind| self.crypto[kind as usize] - earlier.crypto[kind as usize]);
        since
    }

    /// Returns the kinds of work that occurred, per command; empty without commands.
    pub fn shares(&self, commands: u64) -> Vec<Share> {
        let occurred = Work::ALL.into_iter().filter(|work| commands > 0 && self.count(*work) > 0);
        let share = |work: Work| Share {
            work,
            count_per_command: self.count(work) as f64 / commands as f64,
            us_per_command: self.us(work) / commands as f64,
        };
        occurred.map(share).collect()
    }
}
