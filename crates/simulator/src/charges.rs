//! Cost table in integers, so that sums are the same on every machine.

use crate::costs::{CostTable, SignatureCosts, Steps};
use std::time::Duration;

const PS_PER_US: f64 = 1e6;
const PS_PER_NS: u64 = 1000;
const NS_PER_US: f64 = 1e3;

/// Costs of each kind of work, in picoseconds.
#[derive(Clone, Debug)]
pub struct Charges {
    pub turn: u64,
    pub step: u64,
    pub bundle: u64,
    pub command: u64,
    pub read_call: u64,
    pub write_call: u64,
    pub receive: u64,
    pub send: u64,
    pub receive_byte: u64,
    pub send_byte: u64,
    pub hash_byte: u64,
    pub sign: u64,
    /// Verifying several signatures at once.
    pub verify: Ladder,
    /// Verifying the proof of a certificate, by the number of its signers.
    pub verify_proof: Ladder,
    /// Assembling a proof from verified signatures.
    pub assemble: Ladder,
    pub flush: Duration,
    pub client_command: u64,
    pub client_reply: u64,
    pub status: u64,
    pub status_bytes: u64,
}

impl Charges {
    /// Converts a validated table and the costs of the scheme's signatures.
    pub fn new(table: &CostTable, signatures: &SignatureCosts) -> Charges {
        let us = |value: f64| (value * PS_PER_US) as u64;
        let per_byte = |value: f64| us(value / NS_PER_US);
        let ladder = |steps: &Steps| Ladder(steps.iter().map(|(count, cost)| (u64::from(*count), us(*cost))).collect());
        Charges {
            turn: us(table.core.turn_us),
            step: us(table.core.step_us),
            bundle: us(table.core.bundle_us),
            command: us(table.core.command_us),
            read_call: us(table.wire.read_call_us),
            write_call: us(table.wire.write_call_us),
            receive: us(table.wire.receive_us),
            send: us(table.wire.send_us),
            receive_byte: per_byte(table.wire.receive_byte_ns),
            send_byte: per_byte(table.wire.send_byte_ns),
            hash_byte: per_byte(table.hash.byte_ns),
            sign: us(signatures.sign_us),
            verify: ladder(&signatures.verify_us),
            verify_proof: ladder(&signatures.verify_proof_us),
            assemble: ladder(&signatures.assemble_us),
            flush: Duration::from_nanos(us(table.journal.flush_us) / PS_PER_NS),
            client_command: us(table.client.command_us),
            client_reply: us(table.client.reply_us),
            status: us(table.gateway.status_us),
            status_bytes: u64::from(table.gateway.status_bytes),
        }
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
}

/// Converts picoseconds to nanoseconds, rounding up so that work with a cost takes time.
pub fn nanos(picoseconds: u64) -> u64 {
    picoseconds.div_ceil(PS_PER_NS)
}
