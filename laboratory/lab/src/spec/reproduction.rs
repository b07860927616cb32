//! Switches that reproduce figures of single papers. Nobody should run a cluster with them, so they are no flags: they
//! are keys of the table `[reproduction]` of a file, or words after `--reproduction`.

use super::choices::{BatchPolicy, BlsVerification, CertificateCache, ClientVerdicts, PayloadPath, Remedy, choice};
use super::ranges;
use clap::{Args, FromArgMatches};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Help heading of the switches. No command has flags under it.
pub const REPRODUCTION: &str = "Reproduction";
/// The table of the switches, and the flag that sets one.
pub(crate) const TABLE: &str = "reproduction";
/// Keys that change what replicas send, so that a directory of `quorate testnet` may have them. The others change how a
/// benchmark's replicas work.
const OF_THE_CLUSTER: &[&str] =
    &["batch_policy", "batch_wait_ms", "phases_only", "pre_prepare_repeat", "repeat", "remedy"];

/// The table `[reproduction]` of a specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields)]
pub struct Reproduction {
    /// When a leader proposes a block that is not full, if --batch is a number: at once (eager), after batch_wait_ms
    /// (timed), or only after a quarter of the view timeout (full).
    #[arg(long, help_heading = REPRODUCTION, default_value = "eager", value_parser = choice::<BatchPolicy>())]
    pub batch_policy: BatchPolicy,
    /// Maximum wait for a fuller block under `timed`, in milliseconds.
    #[arg(long, help_heading = REPRODUCTION, value_name = "MS", default_value_t = 5,
          value_parser = ranges::number::<u64>("batch_wait_ms"))]
    pub batch_wait_ms: u64,
    /// PBFT: run only the three phases, without view changes, checkpoints, repairs and retries, to see what lost
    /// messages do to them. A request without enough replies after --view-timeout-ms has failed. Needs --dissemination
    /// leader; the result says how many requests succeeded.
    #[arg(long, help_heading = REPRODUCTION)]
    pub phases_only: bool,
    /// PBFT: copies of each PRE-PREPARE, besides the first, for links that lose messages.
    #[arg(long, help_heading = REPRODUCTION, value_name = "COPIES", default_value_t = 0,
          value_parser = ranges::number::<u32>("pre_prepare_repeat"))]
    pub pre_prepare_repeat: u32,
    /// Copies of each message of the protocol and of each reply, besides the first.
    #[arg(long, help_heading = REPRODUCTION, value_name = "COPIES", default_value_t = 0,
          value_parser = ranges::number::<u32>("repeat"))]
    pub repeat: u32,
    /// PBFT: what replicas do about links that lose messages: nothing, or adapt the number of copies to the loss that
    /// they estimate from the votes that arrive.
    #[arg(long, help_heading = REPRODUCTION, default_value = "none", value_parser = choice::<Remedy>())]
    pub remedy: Remedy,
    /// Whether replicas remember verified certificates: on, or off to verify each certificate whenever it is shown.
    #[arg(long, help_heading = REPRODUCTION, default_value = "on", value_parser = choice::<CertificateCache>())]
    pub certificate_cache: CertificateCache,
    /// Verification of BLS signatures: each vote on its own, votes in sums, or in sums and with a cached key of all
    /// replicas.
    #[arg(long, help_heading = REPRODUCTION, default_value = "cached", value_parser = choice::<BlsVerification>())]
    pub bls_verification: BlsVerification,
    /// Verification of clients' bundles with --host threads: once for all replicas, or by each replica itself, as in
    /// processes of their own. No effect in `sim`.
    #[arg(long, help_heading = REPRODUCTION, default_value = "shared", value_parser = choice::<ClientVerdicts>())]
    pub client_verdicts: ClientVerdicts,
    /// Way of payloads between frames and replicas: shared, or copied into types of the wire and of the protocol, on
    /// receipt and before sending, to measure what such a layer costs.
    #[arg(long, help_heading = REPRODUCTION, default_value = "shared", value_parser = choice::<PayloadPath>())]
    pub payload_path: PayloadPath,
    /// Count the replicas' heap allocations; the result has them per command.
    #[arg(long, help_heading = REPRODUCTION)]
    pub count_allocations: bool,
}

impl Default for Reproduction {
    /// The defaults of the switches, which are written only there.
    fn default() -> Reproduction {
        let command = Reproduction::augment_args(clap::Command::new(TABLE).no_binary_name(true));
        let matches = command.try_get_matches_from::<[&str; 0], &str>([]).expect("no switch is required");
        Reproduction::from_arg_matches(&matches).expect("every default is valid")
    }
}

/// Returns the keys of the table.
pub fn keys_of_reproduction() -> &'static [String] {
    static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let command = Reproduction::augment_args(clap::Command::new(TABLE));
        command.get_arguments().map(|argument| argument.get_id().to_string()).collect()
    });
    &KEYS
}

/// Returns whether a key is one of the table.
pub fn is_of_reproduction(key: &str) -> bool {
    keys_of_reproduction().iter().any(|own| own == key)
}

/// Returns whether a key of the table changes what replicas send.
pub(super) fn is_of_the_cluster(key: &str) -> bool {
    OF_THE_CLUSTER.contains(&key)
}
