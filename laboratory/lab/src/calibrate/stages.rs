//! Derives entries of the cost table from the stages of running replicas.
//!
//! Probes report the time of each stage of each message; the simulator reports the amount of work in that stage for the
//! same specification. A stage has at most three kinds of work, whose amounts differ between messages and
//! specifications: a call and a byte, a hash and a byte. So factors on the entries follow from sums of one stage, not
//! of a whole thread.

use super::fit::{Row, Wanted, fit};
use quorate_simulator::CostTable;
use quorate_simulator::costs::{CostSource, SignatureCosts};
use quorate_simulator::probes::Probes;
use quorate_simulator::steps::StepKind;
use quorate_simulator::work::Work;
use quorate_types::stages::{MessageKind, Stage, StageCost};
use std::collections::BTreeMap;

const NS_PER_US: f64 = 1e3;
const PS_PER_US: f64 = 1e6;
/// Weight of the preference for an entry's previous value, relative to one stage of a specification with an error of
/// 100 %. It decides only entries that no stage determines.
const PREFERENCE: f64 = 1e-5;
/// Minimum weight of a stage, as a share of the replicas' time. In shorter stages, the probes' overhead shows.
const MIN_SHARE: f64 = 0.005;
/// Minimum of a factor, so that no cost becomes zero.
const MIN_FACTOR: f64 = 0.1;
/// Initial value of entries without a measurement in isolation, in microseconds: the cost of a short function.
const START_US: f64 = 0.5;

/// Entries of the table that follow from stages, each with its own factor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    WakeUp,
    Round,
    Handle,
    Read,
    ReceivedByte,
    Receive,
    Verify,
    Hash,
    HashedByte,
    Step(StepKind),
    Pool,
    Record,
    Command,
    CommandByte,
    Send,
    Sign,
    Write,
    SentByte,
    Bundle,
}

impl Entry {
    pub fn all() -> Vec<Entry> {
        use Entry::*;
        let others = [
            WakeUp,
            Round,
            Handle,
            Read,
            ReceivedByte,
            Receive,
            Verify,
            Hash,
            HashedByte,
            Pool,
            Record,
            Command,
            CommandByte,
            Send,
            Sign,
            Write,
            SentByte,
            Bundle,
        ];
        others.into_iter().chain(StepKind::ALL.map(Step)).collect()
    }

    /// Returns the kind of work that the entry prices.
    fn work(self) -> Work {
        match self {
            Entry::WakeUp => Work::WakeUps,
            Entry::Round => Work::Rounds,
            Entry::Handle => Work::Handled,
            Entry::Read => Work::Reads,
            Entry::ReceivedByte => Work::ReceivedBytes,
            Entry::Receive => Work::Received,
            Entry::Verify => Work::Verifications,
            Entry::Hash => Work::Hashes,
            Entry::HashedByte => Work::HashedBytes,
            Entry::Step(_) => Work::Steps,
            Entry::Pool => Work::Pooled,
            Entry::Record => Work::Records,
            Entry::Command => Work::Commands,
            Entry::CommandByte => Work::CommandBytes,
            Entry::Send => Work::Sent,
            Entry::Sign => Work::Signatures,
            Entry::Write => Work::Writes,
            Entry::SentByte => Work::SentBytes,
            Entry::Bundle => Work::Bundles,
        }
    }

    /// Returns the charge for this entry and one kind of message, in picoseconds.
    fn charged(self, probes: &Probes, message: MessageKind) -> u64 {
        match self {
            Entry::Step(kind) => probes.step(message, kind),
            _ => probes.charged(message, self.work()),
        }
    }

    /// Returns the paths of its entries in the table, and their source if stages decide them. The runs sign with
    /// Ed25519 only; other schemes get the same factor.
    fn paths(self) -> Vec<(String, CostSource)> {
        let path = match self {
            Entry::WakeUp => "core.wake_us",
            Entry::Round => "core.round_us",
            Entry::Handle => "core.handle_us",
            Entry::Read => "wire.read_call_us",
            Entry::ReceivedByte => "wire.receive_byte_ns",
            Entry::Receive => "wire.receive_us",
            Entry::Verify => {
                let ladders = ["verify_us", "verify_proof_us", "assemble_us"];
                let of_runs = ladders.map(|ladder| (format!("signatures.ed25519.{ladder}"), CostSource::Probe));
                return of_runs.into_iter().chain([("signatures".to_owned(), CostSource::Fitted)]).collect();
            }
            Entry::Hash => "hash.each_us",
            Entry::HashedByte => "hash.byte_ns",
            Entry::Step(kind) => return vec![(format!("steps.{}", kind.key()), CostSource::Probe)],
            Entry::Pool => "core.pool_us",
            Entry::Record => "journal.record_us",
            Entry::Command => "core.command_us",
            Entry::CommandByte => "core.command_byte_ns",
            Entry::Send => "wire.send_us",
            Entry::Sign => "signatures.ed25519.sign_us",
            Entry::Write => "wire.write_call_us",
            Entry::SentByte => "wire.send_byte_ns",
            Entry::Bundle => "core.bundle_us",
        };
        vec![(path.to_owned(), CostSource::Probe)]
    }

    /// Multiplies the entry by a factor.
    fn scale(self, table: &mut CostTable, factor: f64) {
        let CostTable { core, wire, hash, journal, steps, signatures, .. } = table;
        let entry = match self {
            Entry::WakeUp => &mut core.wake_us,
            Entry::Round => &mut core.round_us,
            Entry::Handle => &mut core.handle_us,
            Entry::Read => &mut wire.read_call_us,
            Entry::ReceivedByte => &mut wire.receive_byte_ns,
            Entry::Receive => &mut wire.receive_us,
            Entry::Verify => return signatures.values_mut().for_each(|costs| scale_checks(costs, factor)),
            Entry::Hash => &mut hash.each_us,
            Entry::HashedByte => &mut hash.byte_ns,
            Entry::Step(kind) => return steps.entry(kind).iter_mut().for_each(|us| *us *= factor),
            Entry::Pool => &mut core.pool_us,
            Entry::Record => &mut journal.record_us,
            Entry::Command => &mut core.command_us,
            Entry::CommandByte => &mut core.command_byte_ns,
            Entry::Send => &mut wire.send_us,
            Entry::Sign => return signatures.values_mut().for_each(|costs| costs.sign_us *= factor),
            Entry::Write => &mut wire.write_call_us,
            Entry::SentByte => &mut wire.send_byte_ns,
            Entry::Bundle => &mut core.bundle_us,
        };
        *entry *= factor;
    }
}

fn scale_checks(costs: &mut SignatureCosts, factor: f64) {
    let ladders = [&mut costs.verify_us, &mut costs.verify_proof_us, &mut costs.assemble_us];
    ladders.into_iter().flatten().for_each(|(_, us)| *us *= factor);
    costs.key_addition_us *= factor;
    costs.further_statement_us *= factor;
}

/// Messages whose costs in a stage are added up before the comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Messages {
    /// Work that belongs to no message.
    None,
    Clients,
    Peers,
    One(MessageKind),
}

type Sums = BTreeMap<(Stage, Messages), f64>;

/// Returns the stage and message under which work is compared. One system call moves frames of several kinds, and the
/// table has one entry for the work on replies.
fn place(message: MessageKind, stage: Stage) -> (Stage, Messages) {
    let is_of_clients = matches!(message, MessageKind::Request | MessageKind::Reply | MessageKind::Question);
    let side = if is_of_clients { Messages::Clients } else { Messages::Peers };
    match stage {
        Stage::Receive | Stage::Send => (stage, side),
        Stage::Host if message == MessageKind::None => (stage, Messages::None),
        Stage::Host => (stage, side),
        Stage::Marshal if is_of_clients => (Stage::Host, Messages::Clients),
        Stage::Wait | Stage::Persist => (stage, Messages::None),
        _ => (stage, Messages::One(message)),
    }
}

/// Stages of running replicas, and the simulator's charges for the same specification.
pub struct Compared<'a> {
    pub stages: &'a [StageCost],
    /// Processor time of all replicas per command, in microseconds.
    pub replicas_us: f64,
    pub probes: &'a Probes,
    /// Commands that the simulated replicas executed.
    pub commands: u64,
}

impl Compared<'_> {
    /// Returns the measured times, in microseconds per command. The probes time a sample of the iterations, so only the
    /// stages' shares are theirs; the sum is the threads' CPU time.
    fn measured(&self) -> Sums {
        let mut sums = Sums::new();
        for StageCost { message, stage, nanoseconds, count, .. } in self.stages {
            let ns = nanoseconds.unwrap_or(0.0) * *count as f64;
            *sums.entry(place(*message, *stage)).or_default() += ns / NS_PER_US;
        }
        let sum: f64 = sums.values().sum();
        sums.values_mut().for_each(|part| *part *= self.replicas_us / sum.max(f64::MIN_POSITIVE));
        sums
    }

    /// Returns the charges of the entries and of all other work, in microseconds per command.
    fn charged(&self, entries: &[Entry]) -> BTreeMap<(Stage, Messages), (Vec<f64>, f64)> {
        let us = |picoseconds: u64| picoseconds as f64 / PS_PER_US / self.commands.max(1) as f64;
        let mut rows = BTreeMap::new();
        for message in MessageKind::ALL {
            for work in Work::ALL {
                let all = self.probes.charged(message, work);
                let (parts, known): &mut (Vec<f64>, f64) =
                    rows.entry(place(message, work.stage())).or_insert_with(|| (vec![0.0; entries.len()], 0.0));
                let mut left = all;
                for (part, entry) in parts.iter_mut().zip(entries).filter(|(_, entry)| entry.work() == work) {
                    let own = entry.charged(self.probes, message);
                    (*part, left) = (*part + us(own), left - own);
                }
                *known += us(left);
            }
        }
        rows.retain(|_, (parts, known)| *known + parts.iter().sum::<f64>() > 0.0);
        rows
    }

    /// Returns one row per stage and message, relative to its measured time, so that short stages decide their entries
    /// as well as long ones do. Time measured where nothing is charged is spread over the rest of its stage, or over
    /// everything if nothing of the stage is charged.
    fn rows(&self, entries: &[Entry]) -> Vec<Row> {
        let (measured, charged) = (self.measured(), self.charged(entries));
        let sum_of = |stage: Stage, is_charged: bool| -> f64 {
            let own = measured.iter().filter(|(place, _)| place.0 == stage);
            own.filter(|(place, _)| !is_charged || charged.contains_key(place)).map(|(_, us)| us).sum()
        };
        let spread: BTreeMap<Stage, f64> = Stage::ALL
            .into_iter()
            .filter_map(|stage| {
                let own = sum_of(stage, true);
                (own > 0.0).then(|| (stage, sum_of(stage, false) / own))
            })
            .collect();
        let kept: f64 = spread.keys().map(|stage| sum_of(*stage, false)).sum();
        if kept <= 0.0 {
            return Vec::new();
        }
        let scale = self.replicas_us / kept;
        let row = |(place, (parts, known)): ((Stage, Messages), (Vec<f64>, f64))| {
            let own = measured.get(&place).copied().unwrap_or(0.0);
            let own = own * spread.get(&place.0).copied().unwrap_or(1.0) * scale;
            let of_stage: f64 = measured.iter().filter(|(other, _)| other.0 == place.0).map(|(_, us)| us).sum();
            let of_stage = (of_stage * scale).max(MIN_SHARE * self.replicas_us);
            Row { measured: of_stage, parts, known: known + of_stage - own }
        };
        charged.into_iter().map(row).collect()
    }
}

/// Gives entries without a measurement in isolation a nonzero value, which factors can change.
pub fn start(table: &mut CostTable) {
    for entry in [&mut table.core.round_us, &mut table.core.handle_us, &mut table.journal.record_us] {
        *entry = START_US;
    }
    // Until a stage shows them, kinds of steps that did not occur in the replay cost as much as an average step.
    let average_us = table.core.step_us;
    StepKind::ALL.into_iter().for_each(|kind| _ = table.steps.entry(kind).get_or_insert(average_us));
}

/// Multiplies entries so that the charges of each stage approach the probes' measurements: fully, or by half if `half`
/// is set.
pub fn approach(table: &mut CostTable, runs: &[Compared<'_>], half: bool) {
    let entries = Entry::all();
    let rows: Vec<Row> = runs.iter().flat_map(|run| run.rows(&entries)).collect();
    let wanted = vec![Wanted { so_far: 1.0, preference: PREFERENCE }; entries.len()];
    for (entry, factor) in entries.iter().zip(fit(&rows, &wanted)) {
        entry.scale(table, if half { factor.sqrt() } else { factor }.max(MIN_FACTOR));
    }
    let decided = |at: usize| rows.iter().any(|row| row.parts[at] > 0.0);
    for (_, entry) in entries.iter().enumerate().filter(|(at, _)| decided(*at)) {
        table.sources.extend(entry.paths());
    }
}
