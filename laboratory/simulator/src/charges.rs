//! Cost table as integers, so that sums are the same on every machine.

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
    /// Additional cost of an iteration after the thread slept; `None` if it did not.
    wake_up: Option<u64>,
    /// Cost of a step, by the index of its kind in [`StepKind::ALL`].
    pub steps: [u64; StepKind::ALL.len()],
    pub pool: u64,
    /// The host's work in each iteration, besides messages.
    pub round: u64,
    /// Host overhead per message of a peer.
    pub handle: u64,
    /// Cost of one journal record.
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
    /// Frames of a packet transport, or of a channel.
    frames: Option<FrameCharges>,
    pub hash_byte: u64,
    hash_each: u64,
    signatures: SignatureCharges,
    /// Charges for votes with MACs instead of signatures.
    macs: Option<SignatureCharges>,
    /// Charges for the authentication of replies, if any.
    pub seals: Option<SignatureCharges>,
    pub flush: Duration,
    /// Charges for bundles: clients' signatures, or their MACs.
    pub clients: SignatureCharges,
    pub client_command: u64,
    pub client_reply: u64,
    pub client_bundle: u64,
    /// Writes to further replicas, after the first replica of an iteration.
    pub client_further_write: u64,
    pub client_send_byte: u64,
    /// Maximum time that a busy thread keeps its core while others wait.
    pub slice: Duration,
    /// Whether a waking thread may preempt a thread that has had more time.
    pub preempts: bool,
    pub idle_delay: Duration,
    pub balance: Duration,
    /// Other work on each core: mean time between interruptions of each class, and their length.
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

/// Charges of a scheme in a committee of a given size.
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
    /// Converts costs. A signature has `parts` parts, one per recipient.
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

    /// Returns whether these are signatures, which anyone can verify, rather than MACs.
    pub fn are_signatures(&self) -> bool {
        self.kind.profile().has_public_keys_only()
    }

    /// Charges for one signature.
    pub fn sign(&self, ledger: &mut Ledger) {
        ledger.charge_crypto(Work::Signatures, self.kind.signs_by(), 1, self.sign);
    }

    /// Returns the charge for verifying this many signatures together.
    pub fn verify(&self, signatures: u64) -> Checks {
        Checks::of(self.kind.verifies_by(signatures as usize, false), signatures, self.verify.cost(signatures))
    }

    /// Returns the charge for verifying a certificate's proof, by the number of signers of each statement.
    pub fn verify_proof(&self, groups: &[usize]) -> Checks {
        let signers = groups.iter().sum::<usize>();
        let cost = match self.kind.profile().aggregatable {
            true => self.verify_proof.cost_of_sum(signers as u64) + self.of_groups(groups),
            false => self.verify_proof.cost(signers as u64),
        };
        Checks::of(self.kind.verifies_by(signers, true), signers as u64, cost)
    }

    /// Returns the charge for assembling a certificate after `checked` signatures were verified together. If their sum
    /// is invalid, they are checked again one by one.
    pub fn assemble(&self, groups: &[usize], checked: u64, is_assembled: bool) -> Checks {
        let signers = groups.iter().sum::<usize>() as u64;
        let verified = match self.kind.scheme().adds_up_votes() && checked > 1 {
            true => self.verify.cost_of_sum(checked) + self.of_groups(groups),
            false => self.verify.cost(checked),
        };
        let assembled = if is_assembled { self.assemble.cost(signers) } else { 0 };
        Checks::of(self.kind.verifies_by(checked as usize, false), checked, verified + assembled)
    }

    /// Returns the charge besides the first statement's pairings: additions of keys, and pairings of further
    /// statements.
    fn of_groups(&self, groups: &[usize]) -> u64 {
        let Effort { key_additions, .. } = self.effort(groups);
        key_additions * self.key_addition + groups.len().saturating_sub(1) as u64 * self.further_statement
    }

    /// Returns the number of operations that verify such a proof.
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

    /// Adds the charges for votes with MACs, in a cluster of `replicas`.
    pub fn with_macs(self, scheme: SchemeKind, macs: &SignatureCosts, replicas: usize) -> Charges {
        Charges { macs: Some(SignatureCharges::new(scheme, macs, replicas, replicas)), ..self }
    }

    /// Replaces the charges for clients' signatures by MACs, one per replica.
    pub fn with_client_macs(self, scheme: SchemeKind, macs: &SignatureCosts, replicas: usize) -> Charges {
        Charges { clients: SignatureCharges::new(scheme, macs, replicas, replicas), ..self }
    }

    /// Adds the charges for the authentication of replies. A MAC authenticates to one client.
    pub fn with_seals(self, scheme: SchemeKind, seals: &SignatureCosts, replicas: usize) -> Charges {
        Charges { seals: Some(SignatureCharges::new(scheme, seals, replicas, 1)), ..self }
    }

    /// Adds the charges for frames.
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

    /// Charges for sent frames with `bytes` bytes in total, in addition to messages and bytes.
    pub fn send_frames(&self, ledger: &mut Ledger, frames: u64, bytes: u64) {
        if let Some(costs) = &self.frames {
            ledger.charge_sum(Work::SentFrames, frames, frames * costs.send + bytes * costs.send_byte);
        }
    }

    /// Charges for a received frame.
    pub fn receive_frame(&self, ledger: &mut Ledger, bytes: u64) {
        if let Some(costs) = &self.frames {
            ledger.charge_sum(Work::ReceivedFrames, 1, costs.receive + bytes * costs.receive_byte);
        }
    }

    /// Returns the charges for signatures, or MACs, on statements of a domain.
    pub fn signatures(&self, domain: Domain) -> &SignatureCharges {
        self.macs.as_ref().filter(|_| MacKeys::authenticate(domain)).unwrap_or(&self.signatures)
    }

    /// Charges for hashes of `bytes` bytes in total.
    pub fn hash(&self, ledger: &mut Ledger, hashes: usize, bytes: u64) {
        let hashes = hashes as u64;
        ledger.charge_crypto(Work::Hashes, Primitive::Hash, hashes, hashes * self.hash_each);
        ledger.charge_crypto(Work::HashedBytes, Primitive::Hash, bytes, bytes * self.hash_byte);
    }

    /// Charges the fixed cost of an iteration.
    pub fn begin_turn(&self, ledger: &mut Ledger) {
        ledger.charge(Work::Turns, 1, self.turn);
        if let Some(wake_up) = self.wake_up {
            ledger.charge(Work::WakeUps, 1, wake_up);
        }
    }

    /// Returns the charges of an iteration with caches that another thread has filled.
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

/// Returns the mean time between interruptions of each class, and their length.
fn interruptions(classes: &[(f64, f64)]) -> Vec<(Duration, Duration)> {
    let some = classes.iter().filter(|(per_second, us)| *per_second > 0.0 && *us > 0.0);
    some.map(|(per_second, us)| (Duration::from_secs_f64(1.0 / per_second), Duration::from_secs_f64(us * 1e-6)))
        .collect()
}

/// Charges, by the state before an iteration.
pub struct Tariffs([Charges; 4]);

impl Tariffs {
    /// Derives all charges from the charges of an iteration that directly follows another one of the same thread.
    pub fn new(charges: &Charges, table: &CostTable) -> Tariffs {
        let (wake, factor) = ((table.core.wake_us * PS_PER_US) as u64, table.memory.cold_factor);
        let woken = Charges { wake_up: Some(wake), ..charges.clone() };
        Tariffs([charges.clone(), charges.clone().cold(factor), woken.clone(), woken.cold(factor)])
    }

    /// Returns the charges of an iteration, given whether the thread slept before (`woken`), and whether another thread
    /// ran last on its core (`cold`).
    pub fn of(&self, woken: bool, cold: bool) -> &Charges {
        &self.0[usize::from(woken) * 2 + usize::from(cold)]
    }
}

/// Costs by count: interpolated between entries, proportional beyond the last, and 0 for 0.
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

    /// Returns the cost of verifying an aggregate: constant beyond the last entry.
    fn cost_of_sum(&self, count: u64) -> u64 {
        self.cost(count.min(self.0[self.0.len() - 1].0))
    }
}

/// Maximum number of MACs that a replica verifies itself although it has other threads, as in the node's tasks.
const QUICK_MACS: u64 = 32;

/// Number of verified signatures, and the cost by primitive.
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

    /// Returns whether these are only a few MACs, which take less time than a hand-over to another thread.
    pub fn are_quick(&self) -> bool {
        self.signatures <= QUICK_MACS && self.by_primitive[Primitive::Mac as usize] == self.picoseconds
    }

    /// Returns whether an idle core verifies them itself, as in the node's tasks.
    pub fn are_few(&self) -> bool {
        self.signatures <= FEW_SIGNATURES as u64 && self.by_primitive[Primitive::VerifyAggregate as usize] == 0
    }

    pub fn charge(&self, ledger: &mut Ledger) {
        ledger.charge_sum(Work::Verifications, self.signatures, 0);
        for primitive in Primitive::ALL {
            ledger.charge_crypto(Work::Verifications, primitive, 0, self.by_primitive[primitive as usize]);
        }
    }
}

/// Converts picoseconds to nanoseconds, rounding up so that work with a nonzero cost takes time.
pub fn nanos(picoseconds: u64) -> u64 {
    picoseconds.div_ceil(PS_PER_NS)
}
