//! Spec of a `quorate bench` run: every flag of the command line and every key of an experiment file, defined once.
//!
//! [`BenchSpec`] is both the serde form of `bench.toml` and the clap form of the flags: a field's name is the key
//! (`batch_bytes`) and the flag (`--batch-bytes`), its doc comment is the help, and its `default_value` is the
//! default of both. In [`BenchArgs`], explicit flags override the keys of `--spec FILE.toml`, which override the
//! defaults.

mod check;
mod choices;
mod defaults;
mod error;
mod fault;
mod idle;
mod profile;
mod ranges;
pub(crate) mod reproduction;
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
pub use profile::{DEFAULT_DOUBLING_STEPS, LoadProfile, RAMP_ROWS};
pub use quorate_client::workload::WorkloadKind;
pub use quorate_operator::{BadValue, Interval, MAX_INTERVAL_MS};
pub use quorate_types::text::quote;
pub use reproduction::{REPRODUCTION, Reproduction, is_of_reproduction, keys_of_reproduction};
pub use resolve::{BenchArgs, ClusterArgs, LoadArgs, Setting, TortureArgs, heading_of};
pub use torture::{DEFAULT_TORTURE_CHECKPOINT_INTERVAL, DEFAULT_TORTURE_WINDOW, Retention};
pub use values::{Rate, Record};

use clap::{Args, FromArgMatches};
use quorate_consensus::config::MAX_WINDOW;
use quorate_hosting::recording::DEFAULT_LIMIT_MB;
use quorate_types::command::BUNDLE_OVERHEAD_BYTES;
use quorate_types::limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_COMMANDS};
use quorate_types::{Certificate, Quorum, ReplicaId, ReplicaWork};
use serde::{Deserialize, Serialize};

/// Help heading of the flags that most runs need, in `bench` and `sim`.
pub const COMMON: &str = "Common";
/// Help heading of the flags that shape the cluster; `quorate testnet` takes these too.
pub const CLUSTER: &str = "Cluster";
/// Help heading of the flags that shape the load; `quorate client load` takes these too.
pub const LOAD: &str = "Load";
/// Help heading of the flags that shape the run on this machine.
pub const RUN: &str = "Run";
/// Help heading of the flags for output files; `quorate client load` takes these too.
pub const OUTPUT: &str = "Output";

/// Outstanding commands per client if neither `outstanding` nor `rate` is given.
pub const DEFAULT_OUTSTANDING: u32 = 1600;

/// Default of `search_p99_ms`, in milliseconds.
pub const DEFAULT_SEARCH_P99_MS: u64 = 100;

/// First rate of a search if `rate` is not given, in commands per second.
pub const DEFAULT_SEARCH_RATE: u64 = 1000;

/// Maximum bytes of an encoded command without its payload: identifiers, lengths, a key, an operation.
const COMMAND_OVERHEAD_BYTES: usize = 64;

/// Complete specification of one benchmark.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields)]
pub struct BenchSpec {
    /// Protocol that orders the commands.
    #[arg(long, help_heading = CLUSTER, default_value = "jolteon", value_parser = choice::<ProtocolKind>())]
    pub protocol: ProtocolKind,
    /// Number of replicas, n.
    #[arg(long, help_heading = CLUSTER, value_name = "N", default_value_t = 4,
          value_parser = ranges::number::<u32>("replicas"))]
    pub replicas: u32,
    /// Byzantine replicas to tolerate, f [default: as many as n allows, (n-1)/3].
    #[arg(long, help_heading = CLUSTER, value_name = "F", value_parser = resolve::parse_faults)]
    pub faults: Option<u32>,
    /// Signature scheme of votes and certificates.
    #[arg(long, help_heading = CLUSTER, default_value = "ed25519", value_parser = choice::<SchemeKind>())]
    pub scheme: SchemeKind,
    /// What authenticates which messages: signatures on votes (pk), or codes on votes and signatures on what is shown
    /// to third parties (mac and domain).
    #[arg(long, help_heading = CLUSTER, default_value = "pk", value_parser = choice::<AuthProfile>())]
    pub auth_profile: AuthProfile,
    /// Scheme of the codes in the profiles mac and domain.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, default_value = "hmac-sha256",
          value_parser = choice::<SchemeKind>())]
    pub mac_scheme: SchemeKind,
    /// Allow a scheme that is too weak for a cluster that has to be safe, such as rsa-1024.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER)]
    pub accept_weak_scheme: bool,
    /// Client authentication: a signature on each bundle, a code for each replica (with --auth-profile mac), or none.
    #[arg(long, help_heading = CLUSTER, default_value = "none", value_parser = choice::<ClientAuthentication>())]
    pub client_authentication: ClientAuthentication,
    /// Authentication of replies: by the channel alone, by one signature on all replies that leave to a client
    /// together, or by a code for the client.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, default_value = "channel",
          value_parser = choice::<ReplyAuthentication>())]
    pub reply_authentication: ReplyAuthentication,
    /// Transport of messages.
    #[arg(long, help_heading = CLUSTER, default_value = "tcp", value_parser = choice::<TransportKind>())]
    pub transport: TransportKind,
    /// Channel that protects messages in transit.
    #[arg(long, help_heading = CLUSTER, default_value = "plain", value_parser = choice::<ChannelKind>())]
    pub channel: ChannelKind,
    /// Bounds of the retransmission timeout and delay of acknowledgements [default: auto; with tcp the kernel's own, or
    /// what the network file says]. With tcp only in emulated and simulated networks.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_parser = choice::<RetransmissionProfile>())]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmission: Option<RetransmissionProfile>,
    /// Links between replicas with bounds of their own, such as 0-3=s50. Transports rudp and sctp only.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "A-B=PROFILE", num_args = 1..,
          value_delimiter = ',')]
    pub link_retransmission: Vec<LinkProfile>,
    /// Send at the rate at which packets arrive instead of all at once. Transport rudp only.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER)]
    pub pacing: bool,
    /// Longest IP packet of the transports over UDP, in bytes; 0: what the kernel says of the route, 1500 in sim.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, default_value_t = 0)]
    pub mtu_bytes: u32,
    /// How votes travel between replicas: on a stream, or in datagrams, which wait for no lost packet and are not sent
    /// again. Transport quic only.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, default_value = "stream",
          value_parser = choice::<QuicVotes>())]
    pub quic_votes: QuicVotes,
    /// Leader election: one replica until it fails, all replicas in turn, or all in turn except recently silent ones.
    #[arg(long, help_heading = CLUSTER, default_value = "fixed", value_parser = choice::<LeaderKind>())]
    pub leader: LeaderKind,
    /// Recipient of votes in a chained protocol: the collector, which leads the next view, or all replicas. In
    /// simple-moonshot always all.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, default_value = "collector",
          value_parser = choice::<VotesTo>())]
    pub votes: VotesTo,
    /// Size of blocks: auto, by what leaders measure, or a maximum number of commands.
    #[arg(long, help_heading = CLUSTER, value_name = "auto|COMMANDS", default_value_t = BatchSize::Auto)]
    pub batch: BatchSize,
    /// Maximum bytes of the bundles in a block, whatever its number of commands.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "BYTES", default_value_t = 8_388_608,
          value_parser = ranges::number::<u32>("batch_bytes"))]
    pub batch_bytes: u32,
    /// Latency that a leader may add with --batch auto to fill its blocks, in milliseconds. It holds commands back at
    /// most this long, and at most 3.5 ms. If it sends the commands itself, it aims at blocks that are certified within
    /// this time, or within three quarters of the view timeout.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "MS", default_value_t = 1000,
          value_parser = ranges::number::<u64>("batch_latency_ms"))]
    pub batch_latency_ms: u64,
    /// Time that a leader waits for late votes once a quorum has voted, in microseconds. BLS certificates that more
    /// replicas have signed are a little cheaper to verify.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "US", default_value_t = 0,
          value_parser = ranges::number::<u64>("vote_wait_us"))]
    pub vote_wait_us: u64,
    /// How commands reach the replicas: clients send them to all (client); the leader's proposals carry them (leader);
    /// or clients send them to one replica, which spreads them (replicas), and only those that a quorum has stored are
    /// proposed (replicas-certified). Proposals carry digests, except those of `leader`.
    #[arg(long, help_heading = CLUSTER, default_value = "client", value_parser = choice::<Dissemination>())]
    pub dissemination: Dissemination,
    /// Time without progress after which a view times out, in milliseconds.
    #[arg(long, help_heading = CLUSTER, value_name = "MS", default_value_t = 1000,
          value_parser = ranges::number::<u64>("view_timeout_ms"))]
    pub view_timeout_ms: u64,
    /// Longest time that a client's command should wait for its execution, in milliseconds; or one and a half
    /// times the shortest time measured, if that is longer. Beyond it, replicas refuse commands of the
    /// clients that send the most; 0: never, as always with the disseminations client and leader. Default:
    /// 250 with replicas, 500 with replicas-certified.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "MS",
          value_parser = ranges::number::<u64>("max_queue_ms"))]
    pub max_queue_ms: Option<u64>,
    /// View timeout: fixed, doubled after each failed view, or adapted to the duration of views.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, default_value = "exponential",
          value_parser = choice::<ViewDuration>())]
    pub view_duration: ViewDuration,
    /// Longest delay of a message between correct replicas, in milliseconds. A leader of hotstuff-2 or simple-moonshot
    /// waits twice this long for a higher certificate after a failed view, but at most a quarter of the view timeout.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "MS", default_value_t = 100,
          value_parser = ranges::number::<u64>("max_delay_ms"))]
    pub max_delay_ms: u64,
    /// PBFT: maximum number of slots in use above the last stable checkpoint.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "SLOTS", default_value_t = 1000,
          value_parser = ranges::number::<u64>("window"))]
    pub window: u64,
    /// Blocks from one checkpoint to the next; PBFT forgets the votes before a checkpoint.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "BLOCKS", default_value_t = 128,
          value_parser = ranges::number::<u64>("checkpoint_interval"))]
    pub checkpoint_interval: u64,
    /// PBFT: maximum number of slots that the primary has in flight; further commands wait for the next block.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "SLOTS", default_value_t = 4,
          value_parser = ranges::number::<u64>("pipeline"))]
    pub pipeline: u64,
    /// Threads that each replica works on: a number from 1 to 64, or auto, its share of the cores, up to 4. With 2, the
    /// second verifies signatures if clients sign, and otherwise drives the network. With more, one drives the network,
    /// and the rest verify. In a simulation each has a core of its own, and auto is 1.
    #[arg(long, help_heading = CLUSTER, value_name = "auto|THREADS", default_value_t = ReplicaThreads::Count(1))]
    pub replica_threads: ReplicaThreads,
    /// First of the ports that the replicas listen on; 0 lets the system choose.
    #[arg(long, hide_short_help = true, help_heading = CLUSTER, value_name = "PORT", default_value_t = 0,
          value_parser = ranges::number::<u16>("base_port"))]
    pub base_port: u16,

    /// Workload of the clients: fixed, ycsb-a, ycsb-b, ycsb-c, ycsb-f or file:PATH.
    #[arg(long, help_heading = LOAD, default_value = "fixed")]
    pub workload: WorkloadKind,
    /// Bytes in each command (fixed), or in each value written (ycsb).
    #[arg(long, help_heading = LOAD, value_name = "BYTES", default_value_t = 0,
          value_parser = ranges::number::<u32>("payload"))]
    pub payload: u32,
    /// Records in the key-value store that the ycsb workloads read and write.
    #[arg(long, hide_short_help = true, help_heading = LOAD, value_name = "KEYS", default_value_t = 10_000,
          value_parser = ranges::number::<u64>("records"))]
    pub records: u64,
    /// Number of clients.
    #[arg(long, help_heading = LOAD, value_name = "CLIENTS", default_value_t = 4,
          value_parser = ranges::number::<u32>("clients"))]
    pub clients: u32,
    /// Closed loop: outstanding commands per client.
    #[arg(long, help_heading = LOAD, value_name = "COMMANDS", default_value = DEFAULT_OUTSTANDING.to_string(),
          value_parser = ranges::number::<u32>("outstanding"))]
    #[serde(default)]
    pub outstanding: Option<u32>,
    /// Open loop: commands per second over all clients, instead of --outstanding; latency counts from the intended send
    /// time.
    #[arg(long, help_heading = LOAD, value_name = "PER_SECOND", value_parser = ranges::number::<u64>("rate"))]
    pub rate: Option<u64>,
    /// Load that changes over the measured time, instead of --rate or --outstanding. Rates: ramp:1000..50000/30s
    /// (evenly over 30 s), steps:1000,2000,4000/10s (10 s each), double-rate:1000/5s. Commands outstanding per client:
    /// double:20/5s, double:20..640/5s. Sets --duration unless that is given; the result has a row for each step.
    #[arg(long, hide_short_help = true, help_heading = LOAD, value_name = "PROFILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_profile: Option<LoadProfile>,
    /// Search for saturation: the highest rate of an open loop that completes within 5 % of the offered rate, with a
    /// p99 of at most --search-p99-ms. Runs the load several times, first with --rate, or 1000 commands per second.
    #[arg(long, hide_short_help = true, help_heading = LOAD)]
    pub search: bool,
    /// Maximum 99th percentile of the latency in a search, in milliseconds.
    #[arg(long, hide_short_help = true, help_heading = LOAD, value_name = "MS",
          default_value_t = DEFAULT_SEARCH_P99_MS, value_parser = ranges::number::<u64>("search_p99_ms"))]
    pub search_p99_ms: u64,
    /// Maximum number of commands in one message of a client.
    #[arg(long, help_heading = LOAD, value_name = "COMMANDS", default_value_t = 100,
          value_parser = ranges::number::<u32>("bundle"))]
    pub bundle: u32,
    /// Open loop: how long a command that is due waits for others to fill its message, in milliseconds. The wait counts
    /// in its latency. With 0, commands leave in bursts at most 1 ms apart, or at once below 9,000 per second.
    #[arg(long, hide_short_help = true, help_heading = LOAD, value_name = "MS", default_value_t = 0,
          value_parser = ranges::number::<u64>("bundle_wait_ms"))]
    pub bundle_wait_ms: u64,
    /// Whether replicas answer each command, or only order it.
    #[arg(long, help_heading = LOAD, default_value = "each", value_parser = choice::<ReplyMode>())]
    pub reply: ReplyMode,
    /// Time under load before measuring begins: 500ms, 2s, 1m.
    #[arg(long, help_heading = LOAD, value_name = "TIME", default_value = "2s")]
    pub warmup: Interval,
    /// Time measured: 500ms, 10s, 1m.
    #[arg(long, help_heading = LOAD, value_name = "TIME", default_value = "10s")]
    pub duration: Interval,
    /// Number of single requests that the result lists, drawn at random from all of the measured time.
    #[arg(long, hide_short_help = true, help_heading = LOAD, value_name = "REQUESTS", default_value_t = 0,
          value_parser = ranges::number::<u32>("samples"))]
    pub samples: u32,
    /// Seed of all randomness in the load.
    #[arg(long, help_heading = LOAD, default_value_t = 1, value_parser = ranges::number::<u64>("seed"))]
    pub seed: u64,

    /// Where the replicas run: threads of this process; one process each; or one process each in an emulated network
    /// (docs/EMULATION.md), which needs root.
    #[arg(long, help_heading = RUN, default_value = "threads", value_parser = choice::<Host>())]
    pub host: Host,
    /// Where replicas keep their journals: in files below the temporary directory (TMPDIR), or in memory, where a
    /// killed replica loses its journal for good [default: memory for threads, file for others].
    #[arg(long, help_heading = RUN, value_parser = choice::<JournalKind>())]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalKind>,
    /// Whether journals in files are flushed to the disk before a replica relies on them; `never` is for experiments.
    #[arg(long, hide_short_help = true, help_heading = RUN, default_value = "always", value_parser = choice::<Fsync>())]
    pub fsync: Fsync,
    /// Threads of each replica that execute commands: costly ones of a block that do not conflict are prepared at the
    /// same time. Results are the same with any number. No effect in `sim`.
    #[arg(long, hide_short_help = true, help_heading = RUN, value_name = "THREADS", default_value_t = 1,
          value_parser = ranges::number::<u16>("execution_threads"))]
    pub execution_threads: u16,
    /// Measure what each stage of the replicas' work costs, such as decoding and hashing, for every kind of message at
    /// the leader and at backups.
    #[arg(long, hide_short_help = true, help_heading = RUN)]
    pub stages: bool,
    /// Cores that all replicas and clients share; 0: all cores of this machine in a benchmark, and in a simulation a
    /// machine for each replica and for the clients.
    #[arg(long, help_heading = RUN, value_name = "CORES", default_value_t = 0,
          value_parser = ranges::number::<u32>("cores"))]
    pub cores: u32,
    /// Fault to inject; may be repeated. Replicas misbehave (silent:3, slow=50:0..4, equivocate:0+2@4s, and
    /// slow:1@0s+15s/30s for 15 s of every 30 s; docs/BYZANTINE.md lists the kinds), one is killed (crash:2@4s), or
    /// killed and restarted (restart:1@4s+500ms, with --host processes). Replicas count from 0; a range excludes its
    /// end. Time counts from the end of the warm-up.
    #[arg(long, help_heading = RUN, value_name = "FAULT", num_args = 1.., value_delimiter = ',')]
    pub fault: Vec<Fault>,
    /// Record every input of the replicas for `quorate replay`. `bench` writes one file per replica into the directory
    /// DIR, or with R:FILE only that of replica R to FILE; `sim` writes a single file.
    #[arg(long, help_heading = RUN, value_name = "DIR|R:FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// Maximum size of each recording in MB; beyond it the run continues without recording.
    #[arg(long, hide_short_help = true, help_heading = RUN, value_name = "MB", default_value_t = DEFAULT_LIMIT_MB,
          value_parser = ranges::number::<u64>("record_limit_mb"))]
    pub record_limit_mb: u64,
    /// Rate of the leader's line in bits per second, with K, M, G or T: the result says how much of it the leader used,
    /// and how many commands per second it would carry.
    #[arg(long, hide_short_help = true, help_heading = OUTPUT, value_name = "BITS_PER_S", default_value = "10G",
          allow_hyphen_values = true)]
    pub line_rate: Rate,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, help_heading = OUTPUT, value_name = "PATH")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// Write the report, one offline HTML page, to this file; - is standard output.
    #[arg(long, help_heading = OUTPUT, value_name = "PATH")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    #[command(flatten)]
    pub reproduction: Reproduction,
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
    /// The defaults of `quorate bench`. They are the defaults of the flags, which are written only there.
    fn default() -> BenchSpec {
        let command = BenchSpec::augment_args(clap::Command::new("bench").no_binary_name(true));
        let matches = command.try_get_matches_from::<[&str; 0], &str>([]).expect("no flag is required");
        BenchSpec::from_arg_matches(&matches).expect("every default is valid")
    }
}

impl BenchSpec {
    /// Returns closed or open loop, with the first pace if it changes. [`BenchSpec::validate`] refuses a spec that sets
    /// several of them.
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

    /// Returns what decides how many threads its replicas gain from.
    pub fn replica_work(&self) -> ReplicaWork {
        ReplicaWork {
            clients_sign: self.client_authentication == ClientAuthentication::Ed25519,
            blocks_overlap: self.protocol.has_slots(),
        }
    }

    /// Returns the bytes of a certificate by a quorum without attachments, without its statement.
    pub fn certificate_bytes(&self) -> u64 {
        let quorum = self.quorum();
        Certificate::bytes_of_quorum(self.scheme.profile().shape(quorum.replicas()), &quorum) as u64
    }

    /// Returns the maximum number of commands in one message of a client: `bundle`, limited by the commands of a block,
    /// the outstanding commands, and the largest block's bytes.
    pub fn bundle_commands(&self) -> usize {
        let outstanding = match self.most_pacing() {
            Pacing::Closed { outstanding } => outstanding,
            Pacing::Open { .. } => u32::MAX,
        };
        let most = self.consensus().batch_bytes.min(MAX_BUNDLE_BYTES);
        let by_bytes = most.saturating_sub(BUNDLE_OVERHEAD_BYTES) / self.command_bytes();
        let commands = (self.bundle.min(outstanding) as usize).min(self.batch.max_commands());
        commands.min(by_bytes).clamp(1, MAX_BUNDLE_COMMANDS)
    }

    /// Returns an upper bound for the size of one encoded command in bytes.
    fn command_bytes(&self) -> usize {
        self.payload as usize + COMMAND_OVERHEAD_BYTES
    }

    /// Returns the settings of the consensus core: those of the spec, and the core's defaults for all others.
    pub fn consensus(&self) -> quorate_consensus::config::Config {
        let defaults = quorate_consensus::config::Config::default();
        quorate_consensus::config::Config {
            protocol: self.protocol,
            leader: self.leader,
            votes: self.votes,
            batch: self.batch,
            batch_bytes: self.batch_bytes as usize,
            batch_latency_ms: self.batch_latency_ms,
            batch_policy: self.reproduction.batch_policy,
            batch_wait_ms: self.reproduction.batch_wait_ms,
            vote_wait_us: self.vote_wait_us,
            dissemination: self.dissemination,
            view_duration: self.view_duration,
            view_timeout_ms: self.view_timeout_ms,
            max_queue_ms: self.max_queue_ms,
            max_delay_ms: self.max_delay_ms,
            window: self.window,
            checkpoint_interval: self.checkpoint_interval,
            pipeline: self.pipeline,
            phases_only: self.reproduction.phases_only,
            pre_prepare_repeat: self.reproduction.pre_prepare_repeat as usize,
            repeat: self.reproduction.repeat as usize,
            remedy: self.reproduction.remedy,
            // A new view may propose any slot of the window again.
            retained_blocks: defaults.retained_blocks.max(self.window.min(MAX_WINDOW as u64) as usize),
            ..defaults
        }
    }

    /// Returns where replicas keep their promises.
    pub fn journal(&self) -> JournalKind {
        self.journal.unwrap_or(match self.host {
            Host::Threads => JournalKind::Memory,
            Host::Processes | Host::Emulated => JournalKind::File,
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
