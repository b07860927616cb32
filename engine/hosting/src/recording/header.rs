//! Headers of recordings.

use quorate_consensus::Config;
use quorate_types::{EpochId, Quorum};
use serde::{Deserialize, Serialize};

/// The only supported format.
pub const FORMAT: u64 = 6;
/// First line of every recording, before the format number and a line feed.
pub(crate) const MAGIC: &str = "quorate recording, format ";
/// Size of a chunk's header, in bytes: length of the payload, its checksum, and the checksum of these two.
pub(crate) const HEAD_BYTES: usize = 12;
/// Maximum length of the first line, in bytes.
pub(crate) const MAX_LINE_BYTES: u64 = 64;
pub(crate) const MAX_HEADER_BYTES: u32 = 4 << 20;

/// All data needed to construct a cluster's replicas, except their identities and salts, which are in
/// [`Begin`](crate::recording::Begin).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of quorate that wrote the recording.
    pub quorate: String,
    /// Epoch named in the replicas' statements.
    pub epoch: EpochId,
    pub replicas: usize,
    pub faults: usize,
    pub consensus: Config,
    /// The parameters that determine a simulated run, in the simulator's format.
    pub simulation: Option<serde_json::Value>,
}

impl Header {
    /// Creates the header for a recording of real replicas by this version.
    pub fn new(epoch: EpochId, quorum: Quorum, consensus: Config) -> Header {
        Header {
            quorate: env!("CARGO_PKG_VERSION").to_owned(),
            epoch,
            replicas: quorum.replicas(),
            faults: quorum.faults(),
            consensus,
            simulation: None,
        }
    }

    /// Returns n and f, which were validated when the header was read.
    ///
    /// # Panics
    /// If n and f are invalid.
    pub fn quorum(&self) -> Quorum {
        Quorum::with_faults(self.replicas, self.faults).expect("a header is validated when it is read")
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Header, String> {
        let header: Header = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Quorum::with_faults(header.replicas, header.faults).map_err(|error| error.to_string())?;
        header.consensus.validate().map_err(|error| error.to_string())?;
        Ok(header)
    }
}
