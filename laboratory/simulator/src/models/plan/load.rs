//! Work of PBFT's leader for a batch, and the link capacity in batches.
//!
//! The pipeline paper prints two limits for 15 replicas, 10 Gbit/s and no batches, without the overhead of TCP/IP:
//! "just above 80 Kops/s" with 512 B values and 19 Kops/s with 4096 B (section 5). 10 Gbit/s are 1.25e9 B/s, so an
//! operation takes at most 15,625 B and about 65,789 B. Their difference is 50,164 B, and 14 * (4096 - 512) is 50,176
//! B: the leader sends the value to 14 replicas, and about 8,450 B do not depend on it.
//!
//! These are headers and authentication. The leader sends n-1 PRE-PREPAREs with the client's request in each, n-1
//! PREPAREs (in the paper's code, unlike in its text, the leader sends them too), n-1 COMMITs, and a reply. A request
//! inside a PRE-PREPARE has a header of its own, which makes 4 * 14 + 1 = 57 headers of 148 B: [`HEADER_BYTES`]. The
//! limits are then 80,108/s and 19,003/s.

use super::positive;
use crate::models::committee::MAX_REPLICAS;
use quorate_types::{Fault, choice};

/// Mean size of a message's header with its authentication, in bytes; derived above.
pub const HEADER_BYTES: u32 = 148;
/// Maximum size of a value, in bytes.
pub const MAX_VALUE_BYTES: u32 = 1 << 20;
/// Maximum number of requests in a batch.
pub const MAX_BATCH: u32 = 100_000;
/// Maximum size of a header, in bytes.
pub const MAX_HEADER_BYTES: u32 = 1 << 16;
/// Payload of a full Ethernet packet with TCP/IP, in bytes: an MTU of 1500 without two headers of 20.
const SEGMENT_BYTES: f64 = 1460.0;
/// Time of this packet on the wire, in bytes: with preamble (8), header (14), checksum (4) and gap (12).
const SEGMENT_WIRE_BYTES: f64 = 1538.0;
pub(crate) const BITS_PER_BYTE: f64 = 8.0;

choice!(
    /// Authentication of messages (section 4.1). Clients sign their requests in all profiles.
    Profile, "authentication profile",
    /// Signatures on all messages: the paper's off-the-shelf variant.
    Pk = "pk",
    /// MACs between replicas; replies are signed: the paper's algorithmic optimisation.
    Mac = "mac",
    /// MACs between replicas and on replies: the paper's domain-optimised variant.
    Domain = "domain",
);

choice!(
    /// Overhead on the link besides messages.
    Framing, "framing",
    /// Nothing, as in the paper's limits.
    None = "none",
    /// Full Ethernet packets of 1500 B with TCP/IP: 1460 of 1538 bytes are payload.
    Ethernet = "ethernet",
);

/// A group of replicas and its requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// Number of replicas, n.
    pub replicas: usize,
    /// Size of a value in bytes.
    pub value_bytes: u32,
    /// Requests in a batch.
    pub batch: u32,
    /// Size of a header with its authentication, in bytes; applies to each message, and to a request in a PRE-PREPARE.
    pub header_bytes: u32,
    pub framing: Framing,
    pub profile: Profile,
    /// Operations between signed checkpoints; `None` if checkpoints have MACs, or there are none.
    pub checkpoint_interval: Option<u32>,
}

/// Work of the leader for one batch, without faults.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    /// Bytes sent, on the wire.
    pub bytes_out: f64,
    /// Bytes received, on the wire.
    pub bytes_in: f64,
    pub messages_out: f64,
    pub messages_in: f64,
    /// SHA-256 blocks of all hashes: one hash per received message, and one per sent message regardless of its
    /// recipients.
    pub hash_blocks: f64,
    /// Clients' signatures and, in the profile `pk`, replicas' signatures.
    pub verifications: f64,
    pub signatures: f64,
    /// MACs computed and verified.
    pub macs: f64,
}

impl Load {
    /// Refuses invalid loads.
    ///
    /// # Errors
    /// The invalid flag, with a remedy.
    pub fn validate(&self) -> Result<(), Fault> {
        if !(2..=MAX_REPLICAS).contains(&self.replicas) {
            let what = format!("{} is no group to plan for", self.replicas);
            return Err(Fault::new("--replicas", what, format!("use 2 to {MAX_REPLICAS}")));
        }
        let bounds = [
            ("--value", self.value_bytes, 0, MAX_VALUE_BYTES, "bytes"),
            ("--batch", self.batch, 1, MAX_BATCH, "requests"),
            ("--header-bytes", self.header_bytes, 1, MAX_HEADER_BYTES, "bytes"),
            ("--checkpoint-interval", self.checkpoint_interval.unwrap_or(1), 1, u32::MAX, "operations"),
        ];
        match bounds.into_iter().find(|(_, value, least, most, _)| !(least..=most).contains(&value)) {
            None => Ok(()),
            Some((flag, value, least, most, unit)) => {
                Err(Fault::new(flag, format!("is {value}"), format!("use {least} to {most} {unit}")))
            }
        }
    }

    /// Returns f, the largest number with n > 3f.
    pub fn faults(&self) -> usize {
        (self.replicas - 1) / 3
    }

    /// Returns the leader's work for one batch.
    pub fn work(&self) -> Work {
        let others = (self.replicas - 1) as f64;
        let (batch, header) = (f64::from(self.batch), f64::from(self.header_bytes));
        let request = f64::from(self.value_bytes) + header;
        let proposal = batch * request + header;
        let votes = 2.0 * others;
        let (signed, macs) = match self.profile {
            Profile::Pk => (3.0 + batch, 0.0),
            Profile::Mac => (batch, 3.0 * others + votes),
            Profile::Domain => (0.0, 3.0 * others + votes + batch),
        };
        let checkpoints = self.checkpoint_interval.map_or(0.0, |interval| batch / f64::from(interval));
        let voted = if self.profile == Profile::Pk { votes } else { 0.0 };
        Work {
            bytes_out: self.framing.on_the_wire(others * proposal + votes * header + batch * header),
            bytes_in: self.framing.on_the_wire(batch * request + votes * header),
            messages_out: 3.0 * others + batch,
            messages_in: batch + votes,
            hash_blocks: batch * blocks(request) + blocks(proposal) + (votes + 2.0 + batch) * blocks(header),
            verifications: batch + voted,
            signatures: signed + checkpoints,
            macs,
        }
    }

    /// Returns the batches per second at link capacity, in the direction that saturates first.
    ///
    /// # Errors
    /// If the link rate is not a positive number.
    pub fn batches_per_s(&self, line_rate_bits_per_s: f64) -> Result<f64, Fault> {
        positive("--line-rate", line_rate_bits_per_s, "bits per second")?;
        let work = self.work();
        Ok(line_rate_bits_per_s / BITS_PER_BYTE / work.bytes_out.max(work.bytes_in))
    }

    /// Returns the operations per second at link capacity.
    ///
    /// # Errors
    /// As [`Load::batches_per_s`].
    pub fn operations_per_s(&self, line_rate_bits_per_s: f64) -> Result<f64, Fault> {
        Ok(self.batches_per_s(line_rate_bits_per_s)? * f64::from(self.batch))
    }
}

impl Framing {
    /// Returns the bytes on the wire for this payload. Packets are full, since a stream does not wait at line rate.
    fn on_the_wire(self, bytes: f64) -> f64 {
        match self {
            Framing::None => bytes,
            Framing::Ethernet => bytes * SEGMENT_WIRE_BYTES / SEGMENT_BYTES,
        }
    }
}

/// Returns the SHA-256 blocks of a message: its bytes, a bit and an 8-byte length, in blocks of 64.
pub(crate) fn blocks(bytes: f64) -> f64 {
    ((bytes + 9.0) / 64.0).ceil()
}
