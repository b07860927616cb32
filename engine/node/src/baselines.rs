//! Slower ways of working, for comparison with the usual ones.

use quorate_crypto::{BlsVerification, CertificateCache, ClientVerdicts};
use quorate_types::PayloadPath;
use serde::{Deserialize, Serialize};

/// The table `[baselines]` of a configuration: what experiments compare the defaults with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Baselines {
    /// Whether verified certificates are remembered, `on`, or verified each time they are shown, `off`. Default `on`.
    pub certificate_cache: CertificateCache,
    /// Verification of BLS signatures: each vote on its own, `each`; votes in sums, `aggregate`; or in sums and with a
    /// cached key of all members, `cached`. Without effect in other schemes. Default `cached`.
    pub bls_verification: BlsVerification,
    /// Verification of clients' bundles if several replicas run in one process: once for all of them, `shared`, or by
    /// each replica itself, `own`, as in processes of their own. Default `shared`.
    pub client_verdicts: ClientVerdicts,
    /// Whether byte strings of messages and bundles are slices of the received frame, `shared`, or copied between types
    /// of the wire and of the protocol, on receipt and before sending, `copied`. Default `shared`.
    pub payload_path: PayloadPath,
    /// Whether heap allocations are counted, by a program whose allocator can. Default `false`.
    pub count_allocations: bool,
    /// Whether the cost of each stage of the replica's work is measured, for its status. Default `false`.
    pub stages: bool,
}
