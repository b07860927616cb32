//! Cost table in integers, so that sums are the same on every machine.

use crate::costs::{CostTable, FrameCosts, SignatureCosts, Steps};
use crate::ledger::Ledger;
use crate::steps::StepKind;
use crate::work::Work;
use quorate_crypto::{Effort, FEW_SIGNATURES, MacKeys, SchemeKind};
use quorate_types::Domain;
use quorate_types::meter::Primitive;
use std::time::Duration;

const PS_PER_US: f64 = 1e6;
const PS_PER_NS: u64 = 1000;
const NS_PER_US: f64 = 1e3;

/// Costs of each kind of work, in picoseconds.
#[derive(Clone, Debug)]
pub struct Charges {
    pub turn: u64,
    /// Additional cost of a turn of a thread that slept; `None` if it did not.
    wake_up: Option<u64>,
    /// Steps by the position of their kind in [`StepKind::ALL`].
    pub steps: [u64; StepKind::ALL.len()],
    pub pool: u64,
    /// The host's work of each turn, beside messages.
    pub round: u64,
    /// Passing one message of a peer through the host.
    pub handle: u64,
    /// One record of the journal.
    pub record: u64,
    pub bundle: u64,
    pub command: u64,
    pub command_byte: u64,
    pub read_call: u64,
    pub write_call: u64,
    pub receive: u64,
    pub send: u64,
    pub receive_byte: u64,
    pub send_byte: u64,
    /// Frames of a transport over packets, or of a channel.
    frames: Option<FrameCharges>,
    pub hash_byte: u64,
    hash_each: u64,
    signatures: SignatureCharges,
    /// For the votes that carry codes instead of signatures.
    macs: Option<SignatureCharges>,
    /// For the seals on replies, if they have any.
    pub seals: Option<SignatureCharges>,
    pub flush: Duration,
    /// For bundles: clients' signatures, or their codes.
    pub clients: SignatureCharges,
    pub client_command: u64,
    pub client_reply: u64,
    pub client_bundle: u64,
    /// One write to each replica after the first in a turn.
    pub client_further_write: u64,
    pub client_send_byte: u64,
    /// Time for which a thread with work keeps its core although others wait.
    pub slice: Duration,
    /// Whether a thread that wakes up may take the core of one that has had more time.
    pub preempts: bool,
    pub idle_delay: Duration,
    pub balance: Duration,
    /// Work of others on each core: mean times between two of a class, and their lengths.
    pub interruptions: Vec<(Duration, Duration)>,
    pub status: u64,
    pub status_bytes: u64,
}

/// Additional charges of frames.
#[derive(Clone, Copy, Debug)]
struct FrameCharges {
    send: u64,
    receive: u64,
    send_byte: u64,
    receive_byte: u64,
}

/// Charges of a scheme, in a committee of some size.
#[derive(Clone, Debug)]
pub struct SignatureCharges {
    kind: SchemeKind,
    members: usize,
    sign: u64,
    /// Verifying several signatures at once.
    verify: Ladder,
    /// Verifying the proof of a certificate, by the number of its signers.
    verify_proof: Ladder,
    /// Assembling a proof from verified signatures.
    assemble: Ladder,
    key_addition: u64,
    further_statement: u64,
}

impl SignatureCharges {
    /// Converts costs. A signature has `parts` parts, each for a recipient of its own.
    fn new(kind: SchemeKind, costs: &SignatureCosts, members: usize, parts: usize) -> SignatureCharges {
        let us = |value: f64| (value * PS_PER_US) as u64;
        let ladder = |steps: &Steps| Ladder(steps.iter().map(|(count, cost)| (u64::from(*count), us(*cost))).collect());
        SignatureCharges {
            kind,
            members,
            sign: parts as u64 * us(costs.sign_us),
            verify: ladder(&costs.verify_us),
            verify_proof: ladder(&costs.verify_proof_us),
            assemble: ladder(&costs.assemble_us),
            key_addition: us(costs.key_addition_us),
            further_statement: us(costs.further_statement_us),
        }
    }

    /// Returns whether these are signatures, which everybody can verify.
    pub fn are_signatures(&self) -> bool {
        self.kind.profile().has_public_keys_only()
    }

    /// Charges for one signature.
    pub fn sign(&self, ledger: &mut Ledger) {
        ledger.charge_crypto(Work::Signatures, self.kind.signs_by(), 1, self.sign);
    }

    /// Returns what verifying this many signatures together takes.
    pub fn verify(&self, signatures: u64) -> Checks {
        Checks::of(self.kind.verifies_by(signatures as usize, false), signatures, self.verify.cost(signatures))
    }

    /// Returns what it takes to verify the proof of a certificate, by the number of signers of each statement.
    pub fn verify_proof(&self, groups: &[usize]) -> Checks {
        let signers = groups.iter().sum::<usize>();
        let cost = match self.kind.profile().aggregatable {
            true => self.verify_proof.cost_of_sum(signers as u64) + self.of_groups(groups),
            false => self.verify_proof.cost(signers as u64),
        };
        Checks::of(self.kind.verifies_by(signers, true), signers as u64, cost)
    }

    /// Returns what it takes to assemble a certificate, if `checked` signatures were verified together. Those that
    /// spoil a sum are checked again.
    pub fn assemble(&self, groups: &[usize], checked: u64, is_assembled: bool) -> Checks {
        let signers = groups.iter().sum::<usize>() as u64;
        let verified = match self.kind.scheme().adds_up_votes() && checked > 1 {
            true => self.verify.cost_of_sum(checked) + self.of_groups(groups),
            false => self.verify.cost(checked),
        };
        let assembled = if is_assembled { self.assemble.cost(signers) } else { 0 };
        Checks::of(self.kind.verifies_by(checked as usize, false), checked, verified + assembled)
    }

    /// Returns what is beside the pairings of one statement: additions of keys, and pairings of further statements.
    fn of_groups(&self, groups: &[usize]) -> u64 {
        let Effort { key_additions, .. } = self.effort(groups);
        key_additions * self.key_addition + groups.len().saturating_sub(1) as u64 * self.further_statement
    }

    /// Returns the operations that verify such a proof.
    pub fn effort(&self, groups: &[usize]) -> Effort {
        self.kind.scheme().effort_of_proof(self.members, groups)
    }
}

impl Charges {
    /// Converts a validated table and the costs of the scheme's signatures, in a cluster of `replicas`. Clients sign
    /// with Ed25519.
    pub fn new(table: &CostTable, scheme: SchemeKind, signatures: &SignatureCosts, replicas: usize) -> Charges {
        let free = SignatureCosts::free();
        let of_clients = table.signatures.get(SchemeKind::ED25519.name()).unwrap_or(&free);
        let us = |value: f64| (value * PS_PER_US) as u64;
        let per_byte = |value: f64| us(value / NS_PER_US);
        Charges {
            turn: us(table.core.turn_us),
            wake_up: None,
            steps: StepKind::ALL.map(|kind| us(table.steps.of(kind).unwrap_or(table.core.step_us))),
            pool: us(table.core.pool_us),
            round: us(table.core.round_us),
            handle: us(table.core.handle_us),
            record: us(table.journal.record_us),
            bundle: us(table.core.bundle_us),
            command: us(table.core.command_us),
            command_byte: per_byte(table.core.command_byte_ns),
            read_call: us(table.wire.read_call_us),
            write_call: us(table.wire.write_call_us),
            receive: us(table.wire.receive_us),
            send: us(table.wire.send_us),
            receive_byte: per_byte(table.wire.receive_byte_ns),
            send_byte: per_byte(table.wire.send_byte_ns),
            frames: None,
            hash_byte: per_byte(table.hash.byte_ns),
            hash_each: us(table.hash.each_us),
            signatures: SignatureCharges::new(scheme, signatures, replicas, 1),
            macs: None,
            seals: None,
            flush: Duration::from_nanos(us(table.journal.flush_us) / PS_PER_NS),
            clients: SignatureCharges::new(SchemeKind::ED25519, of_clients, replicas, 1),
            client_command: us(table.client.command_us),
            client_reply: us(table.client.reply_us),
            client_bundle: us(table.client.bundle_us),
            client_further_write: us(table.client.further_write_us),
            client_send_byte: per_byte(table.client.send_byte_ns),
            slice: Duration::from_nanos(us(table.scheduler.slice_us) / PS_PER_NS),
            preempts: table.scheduler.preempts,
            idle_delay: Duration::from_nanos(us(table.scheduler.idle_delay_us) / PS_PER_NS),
            balance: Duration::from_nanos(us(table.scheduler.balance_us) / PS_PER_NS),
            interruptions: interruptions(&table.scheduler.interruptions),
            status: us(table.gateway.status_us),
            status_bytes: u64::from(table.gateway.status_bytes),
        }
    }

    /// Adds the charges of votes with codes of a scheme, in a cluster of `replicas`.
    pub fn with_macs(self, scheme: SchemeKind, macs: &SignatureCosts, replicas: usize) -> Charges {
        Charges { macs: Some(SignatureCharges::new(scheme, macs, replicas, replicas)), ..self }
    }

    /// Replaces the charges of clients' signatures by those of codes, one for each of `replicas`.
    pub fn with_client_codes(self, scheme: SchemeKind, macs: &SignatureCosts, replicas: usize) -> Charges {
        Charges { clients: SignatureCharges::new(scheme, macs, replicas, replicas), ..self }
    }

    /// Adds the charges of seals on replies. A code is for one client.
    pub fn with_seals(self, scheme: SchemeKind, seals: &SignatureCosts, replicas: usize) -> Charges {
        Charges { seals: Some(SignatureCharges::new(scheme, seals, replicas, 1)), ..self }
    }

    /// Adds the charges of frames.
    pub fn with_frames(self, costs: &FrameCosts) -> Charges {
        let ps = |us: f64| (us * PS_PER_US) as u64;
        let frames = FrameCharges {
            send: ps(costs.send_us),
            receive: ps(costs.receive_us),
            send_byte: ps(costs.send_byte_ns / NS_PER_US),
            receive_byte: ps(costs.receive_byte_ns / NS_PER_US),
        };
        Charges { frames: Some(frames), ..self }
    }

    /// Charges for frames that are sent, with this many bytes in all, beyond what messages and bytes cost.
    pub fn send_frames(&self, ledger: &mut Ledger, frames: u64, bytes: u64) {
        if let Some(costs) = &self.frames {
            ledger.charge_sum(Work::SentFrames, frames, frames * costs.send + bytes * costs.send_byte);
        }
    }

    /// Charges for a frame that is received.
    pub fn receive_frame(&self, ledger: &mut Ledger, bytes: u64) {
        if let Some(costs) = &self.frames {
            ledger.charge_sum(Work::ReceivedFrames, 1, costs.receive + bytes * costs.receive_byte);
        }
    }

    /// Returns the charges of the signatures, or codes, of statements in a domain.
    pub fn signatures(&self, domain: Domain) -> &SignatureCharges {
        self.macs.as_ref().filter(|_| MacKeys::authenticate(domain)).unwrap_or(&self.signatures)
    }

    /// Charges for hashes of this many bytes in all.
    pub fn hash(&self, ledger: &mut Ledger, hashes: usize, bytes: u64) {
        let hashes = hashes as u64;
        ledger.charge_crypto(Work::Hashes, Primitive::Hash, hashes, hashes * self.hash_each);
        ledger.charge_crypto(Work::HashedBytes, Primitive::Hash, bytes, bytes * self.hash_byte);
    }

    /// Charges what each turn costs.
    pub fn begin_turn(&self, ledger: &mut Ledger) {
        ledger.charge(Work::Turns, 1, self.turn);
        if let Some(wake_up) = self.wake_up {
            ledger.charge(Work::WakeUps, 1, wake_up);
        }
    }

    /// Returns the charges of a turn with caches that another thread has filled.
    fn cold(self, factor: f64) -> Charges {
        let cold = |value: u64| (value as f64 * factor) as u64;
        Charges {
            steps: self.steps.map(cold),
            pool: cold(self.pool),
            round: cold(self.round),
            handle: cold(self.handle),
            record: cold(self.record),
            bundle: cold(self.bundle),
            command: cold(self.command),
            receive: cold(self.receive),
            send: cold(self.send),
            client_command: cold(self.client_command),
            client_reply: cold(self.client_reply),
            client_bundle: cold(self.client_bundle),
            ..self
        }
    }
}

/// Returns the mean times between two interruptions of each class, and their lengths.
fn interruptions(classes: &[(f64, f64)]) -> Vec<(Duration, Duration)> {
    let some = classes.iter().filter(|(per_second, us)| *per_second > 0.0 && *us > 0.0);
    some.map(|(per_second, us)| (Duration::from_secs_f64(1.0 / per_second), Duration::from_secs_f64(us * 1e-6)))
        .collect()
}

/// Charges by what precedes a turn.
pub struct Tariffs([Charges; 4]);

impl Tariffs {
    /// Derives them from the charges of a turn that follows another one of the same thread at once.
    pub fn new(charges: &Charges, table: &CostTable) -> Tariffs {
        let (wake, factor) = ((table.core.wake_us * PS_PER_US) as u64, table.memory.cold_factor);
        let woken = Charges { wake_up: Some(wake), ..charges.clone() };
        Tariffs([charges.clone(), charges.clone().cold(factor), woken.clone(), woken.cold(factor)])
    }

    /// Returns the charges of a turn of a thread that slept before (`woken`), on a core that last ran another one
    /// (`cold`).
    pub fn of(&self, woken: bool, cold: bool) -> &Charges {
        &self.0[usize::from(woken) * 2 + usize::from(cold)]
    }
}

/// Costs by count: interpolated between two entries, proportional beyond the last, and 0 for 0.
#[derive(Clone, Debug)]
pub struct Ladder(Vec<(u64, u64)>);

impl Ladder {
    pub fn cost(&self, count: u64) -> u64 {
        if count == 0 {
            return 0;
        }
        let Ladder(steps) = self;
        match steps.iter().position(|(known, _)| *known >= count) {
            Some(0) => steps[0].1,
            Some(at) => {
                let ((low, cheap), (high, dear)) = (steps[at - 1], steps[at]);
                cheap + (dear - cheap) * (count - low) / (high - low)
            }
            None => {
                let (most, cost) = steps[steps.len() - 1];
                cost * count / most
            }
        }
    }

    /// Returns the cost of verifying a sum: the same for any number of signers beyond the last entry.
    fn cost_of_sum(&self, count: u64) -> u64 {
        self.cost(count.min(self.0[self.0.len() - 1].0))
    }
}

/// Codes that a replica verifies itself, although it has other threads: as in the node's tasks.
const QUICK_CODES: u64 = 32;

/// Signatures that were verified, and the cost by primitive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks {
    pub signatures: u64,
    pub picoseconds: u64,
    by_primitive: [u64; Primitive::ALL.len()],
}

impl Checks {
    fn of(primitive: Primitive, signatures: u64, picoseconds: u64) -> Checks {
        let mut by_primitive = [0; Primitive::ALL.len()];
        by_primitive[primitive as usize] = picoseconds;
        Checks { signatures, picoseconds, by_primitive }
    }

    pub fn add(&mut self, other: Checks) {
        self.signatures += other.signatures;
        self.picoseconds += other.picoseconds;
        self.by_primitive.iter_mut().zip(other.by_primitive).for_each(|(sum, more)| *sum += more);
    }

    /// Returns whether they are a few codes, which take less time than a hand-over to another thread.
    pub fn are_quick(&self) -> bool {
        self.signatures <= QUICK_CODES && self.by_primitive[Primitive::Mac as usize] == self.picoseconds
    }

    /// Returns whether a core with time to spare verifies them itself: as in the node's tasks.
    pub fn are_few(&self) -> bool {
        self.signatures <= FEW_SIGNATURES as u64 && self.by_primitive[Primitive::VerifyAggregate as usize] == 0
    }

    /// Charges for them.
    pub fn charge(&self, ledger: &mut Ledger) {
        ledger.charge_sum(Work::Verifications, self.signatures, 0);
        for primitive in Primitive::ALL {
            ledger.charge_crypto(Work::Verifications, primitive, 0, self.by_primitive[primitive as usize]);
        }
    }
}

/// Converts picoseconds to nanoseconds, rounding up so that work with a cost takes time.
pub fn nanos(picoseconds: u64) -> u64 {
    picoseconds.div_ceil(PS_PER_NS)
}
