//! The table `[signer]` of a configuration.

use quorate_types::settings::With;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Default of `signer.timeout_ms`.
pub const DEFAULT_SIGNER_TIMEOUT_MS: u64 = 500;
/// Maximum of `signer.timeout_ms`: the replica does nothing else meanwhile.
pub const MAX_SIGNER_TIMEOUT_MS: u64 = 10_000;

/// The table `[signer]` of a configuration: another process that signs this replica's votes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SignerConfig {
    /// Unix socket of the process that has the voting key and signs this replica's votes, relative to the
    /// configuration's directory. Absent: none, and the key file has the voting key too.
    #[schemars(example = "/run/quorate-signer/socket")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Maximum time in milliseconds that the replica waits for a signature, and does nothing else. Then it does not
    /// vote until the signer answers again.
    #[schemars(range(min = 1, max = MAX_SIGNER_TIMEOUT_MS))]
    #[schemars(extend("x-with" = With::other("signer.socket", &["absent"])))]
    pub timeout_ms: u64,
}

impl Default for SignerConfig {
    fn default() -> Self {
        SignerConfig { socket: None, timeout_ms: DEFAULT_SIGNER_TIMEOUT_MS }
    }
}
