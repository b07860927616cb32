//! Spec of a `quorate bench` run: every flag of the command line and every key of an experiment file, defined once.
//!
//! [`BenchSpec`] holds the settings of the engine, the load and the run. A key declared with a [`Flag`] is both the
//! flag (`--batch-bytes`) and the key of files and results (`batch_bytes`), in the [flat] form; its doc comment is the
//! help. In [`BenchArgs`], explicit flags override the keys of `--spec FILE.toml`, which override the defaults.

mod check;
mod choices;
mod defaults;
mod error;
mod fault;
pub(crate) mod flat;
mod idle;
mod profile;
mod resolve;
pub(crate) mod timeouts;
mod torture;
mod values;

pub use choices::{
    AuthProfile, BatchPolicy, BatchSize, BlsVerification, CertificateCache, ChannelKind, Choice, ClientAuthentication,
    ClientVerdicts, Dissemination, Fsync, Host, JournalKind, LeaderKind, LinkProfile, PayloadPath, ProtocolKind,
    QuicVotes, Remedy, ReplicaThreads, ReplyAuthentication, ReplyMode, RetransmissionProfile, SchemeKind,
    TransportKind, ViewDuration, VotesTo, choice, nearest,
};
pub use defaults::{DEFAULT_TESTNET_CHANNEL, DEFAULT_TESTNET_CLIENT_AUTHENTICATION, DEFAULT_TESTNET_PORT};
pub use error::{Problem, SpecError};
pub use fault::{DEFAULT_AWAY, Fault, Misbehaviour, When};
pub use flat::{heading_of, is_of_reproduction, keys_of_flags, keys_of_reproduction};
pub use idle::IdleKey;
pub use profile::{DEFAULT_DOUBLING_STEPS, LoadProfile, RAMP_ROWS};
pub use quorate_client::workload::WorkloadKind;
pub use quorate_node::Reproduction;
pub use quorate_operator::{BadValue, Interval, MAX_INTERVAL_MS};
pub use quorate_types::settings::{CLUSTER, LOAD, OUTPUT, REPRODUCTION, RUN};
pub use quorate_types::text::quote;
pub use resolve::{BenchArgs, ClusterArgs, LoadArgs, Setting, TortureArgs};
pub use torture::{DEFAULT_TORTURE_CHECKPOINT_INTERVAL, DEFAULT_TORTURE_WINDOW, Retention};
pub use values::{Rate, Record};

use quorate_applications::ApplicationKind;
use quorate_client::load::MAX_SAMPLES;
use quorate_consensus::config::{Config, MAX_WINDOW};
use quorate_hosting::recording::{DEFAULT_LIMIT_MB, MAX_LIMIT_MB};
use quorate_node::NodeConfig;
use quorate_types::command::BUNDLE_OVERHEAD_BYTES;
use quorate_types::limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES, MAX_REPLICAS};
use quorate_types::settings::{Flag, With};
use quorate_types::{Certificate, Quorum, ReplicaId, ReplicaWork};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Help heading of the flags for most runs, in `bench` and `sim`.
pub const COMMON: &str = "Common";

/// Outstanding commands per client if neither `outstanding` nor `rate` is given.
pub const DEFAULT_OUTSTANDING: u32 = 1600;

/// Default of `search_p99_ms`, in milliseconds.
pub const DEFAULT_SEARCH_P99_MS: u64 = 100;

/// First rate of a search if `rate` is not given, in commands per second.
pub const DEFAULT_SEARCH_RATE: u64 = 1000;

/// Unit of a journal's segment size.
const SEGMENT_UNIT_BYTES: u64 = 512;
/// Maximum number of clients per machine.
const MAX_CLIENTS: u64 = 10_000;
/// Maximum number of outstanding commands over all clients; each takes memory until it is answered.
const MAX_OUTSTANDING: u64 = 16_000_000;
/// Maximum rate of an open loop, in commands per second.
const MAX_RATE: u64 = 100_000_000;
/// Maximum number of records: every replica holds the key-value store in memory.
const MAX_RECORDS: u64 = 10_000_000;
/// Maximum seed: the largest integer in an experiment file.
const MAX_SEED: u64 = i64::MAX as u64;
/// Maximum of `search_p99_ms`: one hour.
const MAX_SEARCH_P99_MS: u64 = 60 * 60 * 1000;
/// Maximum number of simulated cores.
const MAX_CORES: u64 = 1024;
/// Maximum of `bundle_wait_ms`: one minute.
const MAX_BUNDLE_WAIT_MS: u64 = 60_000;

/// Maximum size of an encoded command without its payload: identifiers, lengths, a key, an operation.
const COMMAND_OVERHEAD_BYTES: usize = 64;

/// Specification of one benchmark.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct BenchSpec {
    /// Settings of every replica, as in `config.toml`, completed by [`BenchSpec::template`].
    pub node: NodeConfig,
    /// Number of replicas, n.
    #[schemars(range(min = 1, max = MAX_REPLICAS), extend("x-flag" = Flag::under(CLUSTER).value("N").common()))]
    pub replicas: u32,
    /// Bounds of the retransmission timeout and of the delay of acknowledgements. Default: `auto`; with `tcp` the
    /// kernel's own, or the network file's. With `tcp` only in emulated and simulated networks.
    #[schemars(extend("x-flag" = Flag::under(CLUSTER).rare()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-with" = With::one("transport", &["tcp", "rudp", "sctp", "sctp-kernel"])))]
    pub retransmission: Option<RetransmissionProfile>,
    /// First of the ports that the replicas listen on; 0 lets the system choose.
    #[schemars(extend("x-flag" = Flag::under(CLUSTER).value("PORT").rare()))]
    #[schemars(extend("x-real" = true))]
    pub base_port: u16,

    /// Workload of the clients: `fixed`, `ycsb-a`, `ycsb-b`, `ycsb-c`, `ycsb-f` or `file:PATH`.
    #[schemars(with = "String", extend("x-flag" = Flag::under(LOAD)))]
    pub workload: WorkloadKind,
    /// Bytes in each command (fixed), or in each value written (ycsb).
    #[schemars(range(max = MAX_PAYLOAD_BYTES), extend("x-flag" = Flag::under(LOAD).value("BYTES").common()))]
    pub payload: u32,
    /// Records in the key-value store that the ycsb workloads read and write.
    #[schemars(range(min = 1, max = MAX_RECORDS), extend("x-flag" = Flag::under(LOAD).value("KEYS").rare()))]
    #[schemars(extend("x-with" = With::one("workload", &["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f"])))]
    pub records: u64,
    /// Number of clients.
    #[schemars(range(min = 1, max = MAX_CLIENTS), extend("x-flag" = Flag::under(LOAD).value("CLIENTS").common()))]
    pub clients: u32,
    /// Closed loop: outstanding commands per client. The default is lower if commands are large.
    #[schemars(range(min = 1, max = MAX_OUTSTANDING))]
    #[schemars(extend("x-flag" = Flag::under(LOAD).value("COMMANDS").common()))]
    pub outstanding: Option<u32>,
    /// Open loop: commands per second over all clients, instead of `outstanding`. Latency counts from the intended send
    /// time.
    #[schemars(range(min = 1, max = MAX_RATE), extend("x-flag" = Flag::under(LOAD).value("PER_SECOND").common()))]
    pub rate: Option<u64>,
    /// Load that changes over the measured time, instead of `rate` or `outstanding`. Rates: `ramp:1000..50000/30s`
    /// (evenly over 30 s), `steps:1000,2000,4000/10s` (10 s each), `double-rate:1000/5s`. Commands outstanding per
    /// client: `double:20/5s`, `double:20..640/5s`. Sets `duration` unless given; the result has a row per step.
    #[schemars(with = "Option<String>", extend("x-flag" = Flag::under(LOAD).value("PROFILE").rare()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_profile: Option<LoadProfile>,
    /// Search for saturation: the highest rate of an open loop that completes within 5 % of the offered rate, with a
    /// p99 of at most `search_p99_ms`. Runs the load several times, first with `rate`, or 1000 commands per second.
    #[schemars(extend("x-flag" = Flag::under(LOAD).rare()))]
    pub search: bool,
    /// Maximum 99th percentile of the latency in a search, in milliseconds.
    #[schemars(range(min = 1, max = MAX_SEARCH_P99_MS), extend("x-flag" = Flag::under(LOAD).value("MS").rare()))]
    pub search_p99_ms: u64,
    /// Maximum number of commands in one message of a client.
    #[schemars(range(min = 1, max = MAX_BUNDLE_COMMANDS), extend("x-flag" = Flag::under(LOAD).value("COMMANDS")))]
    pub bundle: u32,
    /// Open loop: maximum time that a due command waits for others to fill its message, in milliseconds. The wait is
    /// part of its latency. With 0, commands leave in bursts at most 1 ms apart, or immediately below 9,000 per second.
    #[schemars(range(max = MAX_BUNDLE_WAIT_MS), extend("x-flag" = Flag::under(LOAD).value("MS").rare()))]
    pub bundle_wait_ms: u64,
    /// Time under load before measuring begins: `500ms`, `2s`, `1m`.
    #[schemars(with = "String", extend("x-flag" = Flag::under(LOAD).value("TIME")))]
    pub warmup: Interval,
    /// Measured time: `500ms`, `10s`, `1m`.
    #[schemars(with = "String", extend("x-flag" = Flag::under(LOAD).value("TIME").common()))]
    pub duration: Interval,
    /// Number of requests to list in the result, drawn at random from the whole measured time.
    #[schemars(range(max = MAX_SAMPLES), extend("x-flag" = Flag::under(LOAD).value("REQUESTS").rare()))]
    pub samples: u32,
    /// Seed of all randomness in the load.
    #[schemars(range(max = MAX_SEED), extend("x-flag" = Flag::under(LOAD)))]
    pub seed: u64,

    /// Where the replicas run: threads of this process; one process each; one process each in an emulated network
    /// (docs/EMULATION.md), which needs root; or one process each on the machines of `--hosts` (docs/HOSTS.md).
    #[schemars(extend("x-flag" = Flag::under(RUN)))]
    #[schemars(extend("x-real" = true))]
    pub host: Host,
    /// Where replicas keep their journals: in files below the temporary directory (`TMPDIR`), or in memory, where a
    /// killed replica loses its journal for good. Default: `memory` for threads, `file` for others.
    #[schemars(extend("x-flag" = Flag::under(RUN)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-real" = true))]
    pub journal: Option<JournalKind>,
    /// Cores that all replicas and clients share; 0: all cores of this machine in a benchmark, and in a simulation a
    /// machine for each replica and for the clients.
    #[schemars(range(max = MAX_CORES), extend("x-flag" = Flag::under(RUN).value("CORES")))]
    pub cores: u32,
    /// Fault to inject; may be repeated. Replicas misbehave (`silent:3`, `slow=50:0..4`, `equivocate:0+2@4s`, and
    /// `slow:1@0s+15s/30s` for 15 s of every 30 s; docs/BYZANTINE.md lists the kinds), one is killed (`crash:2@4s`), or
    /// killed and restarted (`restart:1@4s+500ms`, with `--host processes`). Replicas count from 0; a range excludes
    /// its end. Time counts from the end of the warm-up.
    #[schemars(with = "Vec<String>", extend("x-flag" = Flag::under(RUN).value("FAULT")))]
    pub fault: Vec<Fault>,
    /// Record every input of the replicas for `quorate replay`. `bench` writes one file per replica into the directory
    /// DIR, or with R:FILE only replica R's to FILE; `sim` writes a single file.
    #[schemars(with = "Option<String>", extend("x-flag" = Flag::under(RUN).value("DIR|R:FILE")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// Maximum size of each recording in MB; beyond it the run continues without recording.
    #[schemars(range(min = 1, max = MAX_LIMIT_MB), extend("x-flag" = Flag::under(RUN).value("MB").rare()))]
    #[schemars(extend("x-with" = With::other("record", &["absent"])))]
    pub record_limit_mb: u64,
    /// Rate of the leader's link in bits per second, with K, M, G or T, for its utilization and its maximum commands
    /// per second in the result.
    #[schemars(with = "String", extend("x-flag" = Flag::under(OUTPUT).value("BITS_PER_S").rare()))]
    pub line_rate: Rate,
    /// Write the result as JSON to this file; `-` is standard output.
    #[schemars(extend("x-flag" = Flag::under(OUTPUT).value("PATH")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// Write the report, one offline HTML page, to this file; `-` is standard output.
    #[schemars(extend("x-flag" = Flag::under(OUTPUT).value("PATH")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// Pacing of the clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// Each client keeps this many commands outstanding.
    Closed {
        /// Commands per client.
        outstanding: u32,
    },
    /// Commands are sent at this rate, independently of the answers.
    Open {
        /// Commands per second, over all clients.
        rate: u64,
    },
}

impl Default for BenchSpec {
    fn default() -> BenchSpec {
        let node = NodeConfig { client_authentication: ClientAuthentication::None, ..NodeConfig::template("quorate") };
        BenchSpec {
            node,
            replicas: 4,
            retransmission: None,
            base_port: 0,
            workload: WorkloadKind::Fixed,
            payload: 0,
            records: 10_000,
            clients: 4,
            outstanding: Some(DEFAULT_OUTSTANDING),
            rate: None,
            load_profile: None,
            search: false,
            search_p99_ms: DEFAULT_SEARCH_P99_MS,
            bundle: 100,
            bundle_wait_ms: 0,
            warmup: Interval::from_millis(2_000),
            duration: Interval::from_millis(10_000),
            samples: 0,
            seed: 1,
            host: Host::Threads,
            journal: None,
            cores: 0,
            fault: Vec::new(),
            record: None,
            record_limit_mb: DEFAULT_LIMIT_MB,
            line_rate: Rate(10e9),
            json: None,
            report: None,
        }
    }
}

impl BenchSpec {
    /// Returns closed or open loop, with the first pace of a changing load. [`BenchSpec::validate`] refuses a spec that
    /// sets several of them.
    pub fn pacing(&self) -> Pacing {
        match (&self.load_profile, self.rate, self.outstanding) {
            (Some(profile), ..) => profile.first(),
            (None, Some(rate), _) => Pacing::Open { rate },
            (None, None, Some(outstanding)) => Pacing::Closed { outstanding },
            (None, None, None) if self.search => Pacing::Open { rate: DEFAULT_SEARCH_RATE },
            (None, None, None) => Pacing::Closed { outstanding: DEFAULT_OUTSTANDING },
        }
    }

    /// Returns the fastest pace.
    pub fn most_pacing(&self) -> Pacing {
        self.load_profile.as_ref().map_or_else(|| self.pacing(), LoadProfile::most)
    }

    /// Returns the shape of the committee.
    ///
    /// # Panics
    /// If the spec was not validated and the committee is impossible.
    pub fn quorum(&self) -> Quorum {
        check::quorum(self).expect("a validated spec has a possible committee")
    }

    /// Returns the properties that determine the useful number of threads per replica.
    pub fn replica_work(&self) -> ReplicaWork {
        ReplicaWork {
            clients_sign: self.node.client_authentication == ClientAuthentication::Ed25519,
            blocks_overlap: self.node.consensus.protocol.has_slots(),
        }
    }

    /// Returns whether slots of the protocol may fail, and a request with them: nothing repairs losses.
    pub fn fails_slots(&self) -> bool {
        !self.node.consensus.protocol.facts().repairs_losses
    }

    /// Returns the size of a quorum's certificate in bytes, without attachments and without its statement.
    pub fn certificate_bytes(&self) -> u64 {
        let quorum = self.quorum();
        Certificate::bytes_of_quorum(self.node.scheme.profile().shape(quorum.replicas()), &quorum) as u64
    }

    /// Returns the maximum number of commands in one message of a client: `bundle`, limited by the block's commands,
    /// the outstanding commands, and the largest block's bytes.
    pub fn bundle_commands(&self) -> usize {
        let outstanding = match self.most_pacing() {
            Pacing::Closed { outstanding } => outstanding,
            Pacing::Open { .. } => u32::MAX,
        };
        let most = self.consensus().batch_bytes.min(MAX_BUNDLE_BYTES);
        let by_bytes = most.saturating_sub(BUNDLE_OVERHEAD_BYTES) / self.command_bytes();
        let commands = (self.bundle.min(outstanding) as usize).min(self.node.consensus.batch.max_commands());
        commands.min(by_bytes).clamp(1, MAX_BUNDLE_COMMANDS)
    }

    /// Returns an upper bound for the size of one encoded command in bytes.
    fn command_bytes(&self) -> usize {
        self.payload as usize + COMMAND_OVERHEAD_BYTES
    }

    /// Returns the settings of every replica, completed from the rest of the specification: the application, the
    /// journal, and the retained blocks, which a new view of PBFT needs because it may propose any slot of the window
    /// again.
    pub fn template(&self) -> NodeConfig {
        let mut node = self.node.clone();
        node.application = if self.workload.is_key_value() { ApplicationKind::KEY_VALUE } else { ApplicationKind::LOG };
        node.retransmission.profile = self.retransmission.unwrap_or(node.retransmission.profile);
        let consensus = &mut node.consensus;
        consensus.retained_blocks = consensus.retained_blocks.max(consensus.window.min(MAX_WINDOW as u64) as usize);
        // A segment holds two of the largest blocks.
        let segment_bytes = (2 * consensus.batch_bytes as u64).next_multiple_of(SEGMENT_UNIT_BYTES);
        node.journal.kind = self.journal();
        node.journal.segment_bytes = node.journal.segment_bytes.max(segment_bytes);
        node
    }

    /// Returns the settings of the consensus core.
    pub fn consensus(&self) -> Config {
        self.template().consensus
    }

    /// Returns the kind of the replicas' journals.
    pub fn journal(&self) -> JournalKind {
        self.journal.unwrap_or(match self.host {
            Host::Threads => JournalKind::Memory,
            Host::Processes | Host::Emulated | Host::Deployed => JournalKind::File,
        })
    }

    /// Returns the replicas that are silent from the start.
    pub fn silent(&self) -> Vec<ReplicaId> {
        let silent = self.fault.iter().filter(|fault| fault.never_speaks());
        silent.flat_map(|fault| fault.replicas().iter().collect::<Vec<_>>()).collect()
    }

    /// Returns the replicas that are killed without a restart, with their times.
    pub fn crashes(&self) -> Vec<(ReplicaId, Interval)> {
        let crash = |fault: &Fault| match *fault {
            Fault::Crash(replica, at) => Some((replica, at)),
            _ => None,
        };
        self.fault.iter().filter_map(crash).collect()
    }
}
