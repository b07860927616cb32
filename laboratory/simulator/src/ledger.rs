//! What was charged, by the kind of work.

use crate::probes::Probes;
use crate::steps::StepKind;
use crate::work::{Place, Work};
use quorate_types::meter::Primitive;
use quorate_types::stages::{MessageKind, StageCounts, StageRole};
use serde::{Deserialize, Serialize};

const PS_PER_US: f64 = 1e6;

/// Work of one kind.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sum {
    count: u64,
    picoseconds: u64,
}

/// Sum of what was charged to a thread or to several, without the slowdown of a slow processor.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ledger {
    work: [Sum; Work::ALL.len()],
    /// The part of it that is cryptography, in picoseconds.
    crypto: [u64; Primitive::ALL.len()],
    total: u64,
    at: Place,
    /// The same by message; `None` if nobody asks for the stages.
    probes: Option<Box<Probes>>,
}

/// What was charged over the measured time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Charged {
    /// The sum of all replicas.
    pub replicas: Ledger,
    pub clients: Ledger,
}

impl Charged {
    /// Returns what was charged since an earlier reading.
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
    /// Charges `count` pieces of work at `each` picoseconds.
    pub fn charge(&mut self, work: Work, count: u64, each: u64) {
        self.charge_sum(work, count, count * each);
    }

    /// Charges `count` pieces of work that together cost this many picoseconds.
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

    /// Returns a ledger that also keeps the stages of a replica's work.
    pub fn with_probes() -> Ledger {
        Ledger { probes: Some(Box::default()), ..Ledger::default() }
    }

    /// Begins a turn.
    pub fn begin_turn(&mut self, role: StageRole) {
        self.at = Place { role, ..Place::default() };
        if let Some(probes) = &mut self.probes {
            probes.turns += 1;
        }
    }

    /// Begins the work on messages of a kind. Returns what [`Ledger::leave`] returns to.
    pub fn enter(&mut self, message: MessageKind, messages: usize) -> Place {
        let inner = Place { message, messages: messages as u64, seen: 0, ..self.at };
        std::mem::replace(&mut self.at, inner)
    }

    /// Begins the work on what another thread of the replica works on.
    pub fn go(&mut self, place: Place) -> Place {
        std::mem::replace(&mut self.at, place)
    }

    /// Returns to what was interrupted by [`Ledger::enter`].
    pub fn leave(&mut self, place: Place) {
        self.at = place;
    }

    /// Returns what it works on.
    pub fn place(&self) -> Place {
        self.at
    }

    /// Notes a frame that was received, of the current message.
    pub fn received(&mut self, bytes: u64) {
        if let Some(probes) = &mut self.probes {
            probes.moved(&self.at, false, 1, bytes);
        }
    }

    /// Notes frames that are sent, of the current message, with this many bytes in all.
    pub fn sent(&mut self, frames: u64, bytes: u64) {
        if let Some(probes) = &mut self.probes {
            probes.moved(&self.at, true, frames, bytes);
        }
    }

    /// Returns the stages, in cycles of a counter with this rate; `None` if they are not kept.
    pub fn stages(&self, counter_hz: f64) -> Option<StageCounts> {
        self.probes.as_ref().map(|probes| probes.counts(counter_hz, self.total))
    }

    /// Returns what was charged by message; `None` if it is not kept.
    pub fn probes(&self) -> Option<&Probes> {
        self.probes.as_deref()
    }

    /// Charges `count` pieces of work of one primitive that together cost this many picoseconds.
    pub fn charge_crypto(&mut self, work: Work, primitive: Primitive, count: u64, picoseconds: u64) {
        self.charge_sum(work, count, picoseconds);
        self.crypto[primitive as usize] += picoseconds;
    }

    /// Returns what a primitive cost, in microseconds.
    pub fn crypto_us(&self, primitive: Primitive) -> f64 {
        self.crypto[primitive as usize] as f64 / PS_PER_US
    }

    /// Returns everything that was charged, in picoseconds.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of pieces of a kind.
    pub fn count(&self, work: Work) -> u64 {
        self.work[work as usize].count
    }

    /// Returns what a kind cost, in microseconds.
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

    /// Returns what was charged since an earlier reading.
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

    /// Returns the kinds that occurred, per command; none without commands.
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
