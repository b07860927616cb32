//! What was charged, by the kind of work.

use quorate_types::meter::Primitive;
use serde::Serialize;

const PS_PER_US: f64 = 1e6;

/// Kinds of work that are charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Work {
    /// Waits for the network.
    Turns,
    /// Waits that put the thread to sleep.
    WakeUps,
    Reads,
    Writes,
    /// Messages decoded.
    Received,
    /// Messages encoded.
    Sent,
    /// Bytes received and sent, once for each destination.
    WireBytes,
    /// Frames that a transport over packets or a channel sent or received.
    Frames,
    HashedBytes,
    /// Signatures made, the clients' included.
    Signatures,
    /// Signatures verified, also as part of a certificate.
    Verifications,
    Steps,
    /// Bundles added to the pool, created by clients or answered.
    Bundles,
    /// Commands created or executed.
    Commands,
    /// Bytes of executed commands.
    CommandBytes,
    /// Replies that clients handled.
    Replies,
    /// Statuses for clients.
    Statuses,
}

impl Work {
    pub const ALL: [Work; 17] = [
        Work::Turns,
        Work::WakeUps,
        Work::Reads,
        Work::Writes,
        Work::Received,
        Work::Sent,
        Work::WireBytes,
        Work::Frames,
        Work::HashedBytes,
        Work::Signatures,
        Work::Verifications,
        Work::Steps,
        Work::Bundles,
        Work::Commands,
        Work::CommandBytes,
        Work::Replies,
        Work::Statuses,
    ];
}

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
#[derive(Clone, PartialEq, Debug, Serialize)]
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
        for work in Work::ALL {
            let Sum { count, picoseconds } = other.work[work as usize];
            self.charge_sum(work, count, picoseconds);
        }
        self.crypto.iter_mut().zip(other.crypto).for_each(|(sum, more)| *sum += more);
    }

    /// Returns what was charged since an earlier reading.
    pub fn since(&self, earlier: &Ledger) -> Ledger {
        let mut since = Ledger::default();
        for work in Work::ALL {
            let (now, then) = (self.work[work as usize], earlier.work[work as usize]);
            since.charge_sum(work, now.count - then.count, now.picoseconds - then.picoseconds);
        }
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
