//! What a recording is of.

use quorate_consensus::Config;
use quorate_types::{ClusterId, Quorum};
use serde::{Deserialize, Serialize};

/// The format that is written, and the only one that is read.
pub const FORMAT: u64 = 3;
/// The first line of every recording is this, the format, and a line feed.
pub(crate) const MAGIC: &str = "quorate recording, format ";
/// Bytes of a chunk's head: length of the payload, its checksum, checksum of these two.
pub(crate) const HEAD_BYTES: usize = 12;
/// Most bytes of the first line.
pub(crate) const MAX_LINE_BYTES: u64 = 64;
/// Most bytes of a header.
pub(crate) const MAX_HEADER_BYTES: u32 = 4 << 20;

/// All that makes a cluster's replicas, but for the identity and the salt of each, which a [`Begin`](crate::Begin) tells.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of quorate that recorded.
    pub quorate: String,
    /// The cluster.
    pub cluster: ClusterId,
    /// n.
    pub replicas: usize,
    /// f.
    pub faults: usize,
    /// The consensus core's settings, the protocol among them.
    pub consensus: Config,
    /// Of a simulated run: everything that decides it, in the words of whoever simulated it.
    pub simulation: Option<serde_json::Value>,
}

impl Header {
    /// The header of a recording that this quorate makes of real replicas.
    pub fn new(cluster: ClusterId, quorum: Quorum, consensus: Config) -> Header {
        Header {
            quorate: env!("CARGO_PKG_VERSION").to_owned(),
            cluster,
            replicas: quorum.replicas(),
            faults: quorum.faults(),
            consensus,
            simulation: None,
        }
    }

    /// n and f; they were checked where the header was read.
    ///
    /// # Panics
    /// If such a committee cannot be.
    pub fn quorum(&self) -> Quorum {
        Quorum::with_faults(self.replicas, self.faults).expect("a header is checked when it is read")
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Header, String> {
        let header: Header = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Quorum::with_faults(header.replicas, header.faults).map_err(|error| error.to_string())?;
        header.consensus.validate().map_err(|error| error.to_string())?;
        Ok(header)
    }
}
