//! Slower modes that reproduce figures of single papers.

#[cfg(feature = "laboratory")]
use quorate_adversary::copies::CopyRules;
use quorate_crypto::{BlsVerification, CertificateCache, ClientVerdicts};
use quorate_types::PayloadPath;
use quorate_types::settings::{Flag, REPRODUCTION, With};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The table `[reproduction]` of a configuration, which the operators' program does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reproduction {
    /// Whether verified certificates are remembered, `on`, or verified each time they are shown, `off`.
    #[schemars(extend("x-flag" = Flag::under(REPRODUCTION)))]
    pub certificate_cache: CertificateCache,
    /// Verification of BLS signatures: each vote on its own, `each`; votes in sums, `aggregate`; or in sums and with a
    /// cached key of all members, `cached`.
    #[schemars(extend("x-flag" = Flag::under(REPRODUCTION)))]
    #[schemars(extend("x-with" = With::one("scheme", &["bls12-381"])))]
    pub bls_verification: BlsVerification,
    /// Verification of clients' bundles if several replicas run in one process: once for all of them, `shared`, or by
    /// each replica itself, `own`, as in processes of their own. Without effect in simulations.
    #[schemars(extend("x-flag" = Flag::under(REPRODUCTION)))]
    #[schemars(extend("x-with" = With::one("host", &["threads"]), "x-real" = true))]
    pub client_verdicts: ClientVerdicts,
    /// Whether byte strings of messages and bundles are slices of the received frame, `shared`, or copied between types
    /// of the wire and of the protocol, on receipt and before sending, `copied`, to measure what such a layer costs.
    #[schemars(extend("x-flag" = Flag::under(REPRODUCTION)))]
    #[schemars(extend("x-real" = true))]
    pub payload_path: PayloadPath,
    /// Whether heap allocations are counted, by a program whose allocator can. A result has them per command.
    #[schemars(extend("x-flag" = Flag::under(REPRODUCTION)))]
    #[schemars(extend("x-real" = true))]
    pub count_allocations: bool,
    /// Copies of messages, for links that lose some of them.
    #[cfg(feature = "laboratory")]
    pub copies: CopyRules,
}
