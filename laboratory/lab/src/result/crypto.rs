//! Time spent on cryptography, by primitive.

use super::{ChannelPerCommand, Growth, per};
use crate::record::record;
use quorate_types::meter::{Primitive, Tallies};
use serde::{Deserialize, Serialize};

const NS_PER_US: f64 = 1e3;

/// CPU time of cryptography per committed command.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CryptoPerCommand {
    pub source: CryptoSource,
    /// All replicas: their own threads, and the threads that verify signatures for them.
    pub replicas: Primitives,
    /// The load generator's threads.
    pub clients: Primitives,
}

/// Source of the cryptography times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CryptoSource {
    /// All calls were counted, and a sample was timed with the thread's CPU clock.
    #[default]
    Sampled,
    /// All calls were charged from the simulator's cost table.
    Charged,
}

record! {
    /// CPU time per committed command, by primitive; `null` if nothing committed, or no call was timed.
    #[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct Primitives {
        /// Signatures of votes, proposals and replies, and of clients' bundles.
        pub sign: Option<f64> ["us"],
        /// Signatures verified one at a time, including each vote of an ECDSA or RSA quorum, and BLS votes verified
        /// singly.
        pub verify_single: Option<f64> ["us"],
        /// Ed25519 signatures verified several at once by one equation: votes, certificates, clients' bundles.
        pub verify_batch: Option<f64> ["us"],
        /// BLS aggregates: the votes of a quorum, aggregated and verified once, and the certificates of other replicas.
        pub verify_aggregate: Option<f64> ["us"],
        /// MACs computed and verified: on votes, bundles and replies.
        pub mac: Option<f64> ["us"],
        /// SHA-256 of bundles, blocks, certificates and replies, without the hashing inside signatures and MACs.
        pub hash: Option<f64> ["us"],
    }
}

impl Primitives {
    /// Returns the times per command, given total microseconds by primitive.
    pub fn of(commands: u64, us: impl Fn(Primitive) -> Option<f64>) -> Primitives {
        let each = |primitive| us(primitive).and_then(|us| per(us, commands));
        Primitives {
            sign: each(Primitive::Sign),
            verify_single: each(Primitive::VerifySingle),
            verify_batch: each(Primitive::VerifyBatch),
            verify_aggregate: each(Primitive::VerifyAggregate),
            mac: each(Primitive::Mac),
            hash: each(Primitive::Hash),
        }
    }

    fn of_tallies(work: &Tallies, commands: u64) -> Primitives {
        Primitives::of(commands, |primitive| Some(work.of(primitive).estimated_ns()? / NS_PER_US))
    }
}

impl ChannelPerCommand {
    /// Returns estimates from the counters of replicas and clients, divided by the commands that each completed.
    pub(crate) fn sampled(growth: &Growth<'_>, executed: u64, clients: &Tallies, completed: u64) -> ChannelPerCommand {
        let us = |work: &Tallies, commands| per(work.of(Primitive::Channel).estimated_ns()? / NS_PER_US, commands);
        ChannelPerCommand { replicas: us(&growth.crypto(), executed), clients: us(clients, completed) }
    }
}

impl CryptoPerCommand {
    /// Returns estimates from the counters of replicas and clients, divided by the commands that each completed.
    pub(crate) fn sampled(growth: &Growth<'_>, executed: u64, clients: &Tallies, completed: u64) -> CryptoPerCommand {
        CryptoPerCommand {
            source: CryptoSource::Sampled,
            replicas: Primitives::of_tallies(&growth.crypto(), executed),
            clients: Primitives::of_tallies(clients, completed),
        }
    }
}
