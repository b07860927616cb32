//! The settings of the consensus core, and the check that refuses combinations which cannot work.

pub use crate::facts::ProtocolKind;
pub use quorate_types::{BatchSize, Dissemination, UnknownName};

use crate::facts::Shape;
use quorate_types::command::{BUNDLE_OVERHEAD_BYTES, COMMAND_OVERHEAD_BYTES};
use quorate_types::limits::MAX_FRAME_BYTES;
#[cfg(feature = "laboratory")]
use quorate_types::settings::REPRODUCTION;
use quorate_types::settings::{self, CLUSTER, Flag, With};
use quorate_types::{Fault, Quorum, ReplicaId, choice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::time::Duration;

/// A leader waits at most 1/N of the view timeout for a fuller block. A backup's view timer may start when the first
/// command arrives, and runs until the next view's proposal: two waits and three hops must fit.
pub const MAX_WAIT_DIVISOR: u32 = 4;
thread_local! {
    /// The settings that this thread has found valid last. Twins creates replicas by the million with the same ones.
    static VALID: RefCell<Option<Config>> = const { RefCell::new(None) };
}

/// Certificates of a view with separate phases: prepare, pre-commit and commit.
const PHASES: u64 = 3;

choice!(
    LeaderKind, "leader election",
    /// One leader for as long as its views succeed. After a view times out, the next replica leads.
    Fixed = "fixed",
    /// Replica `view mod n`.
    RoundRobin = "round-robin",
    /// In turn, the replicas that recently signed certificates and did not let a view time out.
    Reputation = "reputation",
);

choice!(
    /// Recipients of votes in a chained protocol. In other protocols the phases determine them.
    VotesTo, "receiver of votes",
    /// The leader of the next view, who builds on their certificate.
    Collector = "collector",
    /// All replicas. Each forms the certificate, so a silent leader loses none, and n times as many votes are sent.
    All = "all",
);

choice!(
    /// Length of view timeouts.
    ViewDuration, "view duration",
    /// Always `view_timeout_ms`.
    Fixed = "fixed",
    /// `view_timeout_ms`, doubled for each view that timed out since the last commit, except for the first 2f: f faulty
    /// replicas alone can make 2f views fail.
    Exponential = "exponential",
    /// A multiple of the measured duration of views, at most `view_timeout_ms`, doubled as above.
    Adaptive = "adaptive",
);

choice!(
    /// When a leader with blocks of a fixed size has enough commands to propose.
    BatchPolicy, "batch policy",
    /// With `batch` commands, or a quarter of a view timeout after it could have proposed.
    Full = "full",
    /// With `batch` commands, or `batch_wait_ms` after the first one waited.
    Timed = "timed",
    /// With any commands, as soon as the previous certificate has formed.
    Eager = "eager",
);

/// The consensus core's settings. Times are in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Consensus protocol.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).common()))]
    pub protocol: ProtocolKind,
    /// Leader election.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).common()))]
    pub leader: LeaderKind,
    /// Recipients of votes in a chained protocol. With optimistic proposals (`simple-moonshot`), votes always go to
    /// all.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).rare()))]
    pub votes: VotesTo,
    /// `auto`: leaders size their blocks by what they measure, and replicas vote for blocks of any size. A number:
    /// maximum number of commands in a block of several bundles; replicas do not vote for larger blocks.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).value("auto|COMMANDS").common()))]
    pub batch: BatchSize,
    /// Maximum latency that filling its blocks may cost under `auto`, in milliseconds. A leader holds commands back for
    /// a fuller block at most this long, and at most 3.5 ms. One that sends the commands with its proposals aims at
    /// blocks that are certified within this time, or within three quarters of `view_timeout_ms` if that is shorter.
    #[schemars(range(max = MAX_VIEW_TIMEOUT_MS))]
    #[schemars(extend("x-reported" = true, "x-with" = With::one("consensus.batch", &["auto"])))]
    pub batch_latency_ms: u64,
    /// Maximum bytes of bundles in a block. Replicas do not vote for larger blocks.
    #[schemars(range(min = MIN_BATCH_BYTES, max = MAX_FRAME_BYTES / 2))]
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).value("BYTES").rare()))]
    pub batch_bytes: usize,
    /// When a leader has enough commands to propose, if `batch` is a number.
    #[cfg(feature = "laboratory")]
    #[schemars(extend("x-reported" = true, "x-flag" = Flag::under(REPRODUCTION).rare()))]
    #[schemars(extend("x-with" = With::other("consensus.batch", &["auto"])))]
    pub batch_policy: BatchPolicy,
    /// Maximum time that a command waits for others under `timed`, in milliseconds.
    #[cfg(feature = "laboratory")]
    #[schemars(range(max = MAX_VIEW_TIMEOUT_MS))]
    #[schemars(extend("x-reported" = true, "x-flag" = Flag::under(REPRODUCTION).value("MS").rare()))]
    #[schemars(extend("x-with" = With::one("consensus.batch_policy", &["timed"])))]
    pub batch_wait_ms: u64,
    /// Time that a leader waits for late votes once a quorum has voted, in microseconds. Its certificate then names all
    /// replicas that have voted: with BLS signatures it is a little cheaper to verify, with others it is larger and
    /// dearer. At most a quarter of `view_timeout_ms`, or a twelfth for `basic-hotstuff`. Refused with PBFT, with
    /// `simple-moonshot` and with votes to `all`, where no leader collects votes.
    #[schemars(range(max = MAX_VIEW_TIMEOUT_MS * 1000))]
    #[schemars(extend("x-reported" = true, "x-flag" = Flag::under(CLUSTER).value("US").rare()))]
    pub vote_wait_us: u64,
    /// How commands reach replicas. With `leader` and a `leader` other than `fixed`, the `dissemination` of clients has
    /// to be `client`.
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER)))]
    pub dissemination: Dissemination,
    /// Length of view timeouts.
    #[schemars(extend("x-reported" = true, "x-flag" = Flag::under(CLUSTER).rare()))]
    pub view_duration: ViewDuration,
    /// Base of view timeouts, in milliseconds.
    #[schemars(range(min = 1, max = MAX_VIEW_TIMEOUT_MS))]
    #[schemars(extend("x-reported" = true, "x-flag" = Flag::under(CLUSTER).value("MS")))]
    pub view_timeout_ms: u64,
    /// Shortest view timeout that `adaptive` may choose, in milliseconds. A value below four times as long as leaders
    /// wait counts as that: for higher certificates (`hotstuff-2`, `simple-moonshot`: two `max_delay_ms`), for votes
    /// (`vote_wait_us`), or for commands. A value above `view_timeout_ms` counts as that one.
    #[schemars(range(min = 1, max = MAX_VIEW_TIMEOUT_MS))]
    pub min_view_timeout_ms: u64,
    /// Upper bound on the delay of a message between honest replicas, in milliseconds: Δ in the papers. If the protocol
    /// requires it (`hotstuff-2`, `simple-moonshot`), a leader whose view began with timeouts waits twice this long for
    /// a higher certificate, but at most a quarter of the view: set at most an eighth of `view_timeout_ms`.
    #[schemars(extend("x-cluster" = true))]
    pub max_delay_ms: u64,
    /// Maximum difference between the wall clocks of two honest replicas, in milliseconds. A replica does not vote for
    /// a new block whose time is further ahead of its own clock, or behind it by more than that and three view
    /// timeouts. Keep the clocks of all replicas synchronized, for example by NTP.
    #[schemars(range(min = 1, max = MAX_VIEW_TIMEOUT_MS))]
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).value("MS").rare()))]
    pub max_clock_skew_ms: u64,
    /// Maximum bytes of bundles that wait to be proposed; further ones are refused. While twice as many bytes wait for
    /// execution, replicas do not vote for proposals.
    #[schemars(range(min = 1))]
    pub pool_bytes: usize,
    /// Maximum number of bundles that wait to be proposed; further ones are refused.
    #[schemars(range(min = 1))]
    pub pool_bundles: usize,
    /// Longest time that a client's command should wait for its execution, in milliseconds; or one and a half times the
    /// shortest time measured, if that is longer. Beyond it, the host refuses bundles of the clients that send the
    /// most, and tells them when to return. 0: only `pool_bytes` and `pool_bundles` limit the clients, as always with
    /// the disseminations `client` and `leader`: there each replica would refuse other bundles, and those that only
    /// some hold delay blocks. Default 250 with `replicas`, 500 with `replicas-certified`, 0 otherwise.
    #[schemars(range(max = MAX_VIEW_TIMEOUT_MS))]
    #[schemars(extend("x-reported" = true, "x-flag" = Flag::under(CLUSTER).value("MS").rare()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queue_ms: Option<u64>,
    /// Maximum number of executed blocks kept for replicas that lag behind. The same on every replica, because it also
    /// determines at which checkpoints the state is kept: after about half as many blocks, or half of `retained_bytes`.
    #[schemars(range(min = 1), extend("x-cluster" = true))]
    pub retained_blocks: usize,
    /// Maximum bytes of bundles in these blocks, plus 256 bytes of overhead for each bundle.
    #[schemars(extend("x-cluster" = true))]
    pub retained_bytes: usize,
    /// Minimum time to wait for a missing block or bundle before it is requested, in milliseconds: it may be on its
    /// way. Where the bundles of proposals come later, replicas wait for them as long as they measure, at most ten
    /// times this and at most a quarter of the shortest view timeout.
    pub fetch_delay_ms: u64,
    /// Time to wait for the answer to a request before another replica is asked, in milliseconds.
    #[schemars(range(min = 1))]
    pub fetch_retry_ms: u64,
    /// Maximum bytes of answers to one peer per second: blocks, bundles, states, and messages repeated for a peer that
    /// fell behind. A message counts as at least 4 KiB.
    #[schemars(range(min = 1))]
    pub answer_bytes_per_second: usize,
    /// PBFT: number of slots above the last stable checkpoint that may be in use; at least twice `checkpoint_interval`.
    /// In every protocol, peers' votes on checkpoints further ahead are not counted.
    #[schemars(range(min = 1, max = MAX_WINDOW))]
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).value("SLOTS").rare()))]
    pub window: u64,
    /// Number of blocks between two checkpoints, at which replicas vote on the executed state; in PBFT, older votes are
    /// then forgotten.
    #[schemars(range(min = 1, max = MAX_WINDOW / 2))]
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).value("BLOCKS").rare()))]
    pub checkpoint_interval: u64,
    /// PBFT: maximum number of slots that a primary has in flight. At this maximum, further commands wait and fill the
    /// next block.
    #[schemars(range(min = 1, max = MAX_WINDOW))]
    #[schemars(extend("x-reported" = true, "x-flag" = Flag::under(CLUSTER).value("SLOTS").rare()))]
    #[schemars(extend("x-with" = With::one("consensus.protocol", &["pbft", "pbft-mac", "pbft-phases"])))]
    pub pipeline: u64,
}

/// Minimum of `batch_bytes`: a bundle with one command without payload.
const MIN_BATCH_BYTES: usize = BUNDLE_OVERHEAD_BYTES + COMMAND_OVERHEAD_BYTES;
/// Maximum view timeout, in milliseconds: one hour.
pub const MAX_VIEW_TIMEOUT_MS: u64 = 60 * 60 * 1000;
/// Maximum number of slots in a window: a view change lists them all.
pub const MAX_WINDOW: usize = 16_384;
/// Default of `max_queue_ms` where clients send to one replica, in milliseconds.
pub const DEFAULT_MAX_QUEUE_MS: u64 = 250;
/// Default of `max_queue_ms` if bundles wait for certificates, which takes up to two round trips more.
pub const DEFAULT_MAX_QUEUE_OF_CERTIFIED_MS: u64 = 500;

impl Default for Config {
    fn default() -> Self {
        Config {
            protocol: ProtocolKind::Jolteon,
            leader: LeaderKind::Fixed,
            votes: VotesTo::Collector,
            batch: BatchSize::Auto,
            batch_latency_ms: 1000,
            batch_bytes: 8 << 20,
            #[cfg(feature = "laboratory")]
            batch_policy: BatchPolicy::Eager,
            #[cfg(feature = "laboratory")]
            batch_wait_ms: 5,
            vote_wait_us: 0,
            dissemination: Dissemination::Client,
            view_duration: ViewDuration::Adaptive,
            view_timeout_ms: 1000,
            min_view_timeout_ms: 50,
            max_delay_ms: 100,
            max_clock_skew_ms: 500,
            pool_bytes: 256 << 20,
            pool_bundles: 1_000_000,
            max_queue_ms: None,
            retained_blocks: 16_384,
            retained_bytes: 64 << 20,
            fetch_delay_ms: 10,
            fetch_retry_ms: 100,
            answer_bytes_per_second: 64 << 20,
            window: 1000,
            checkpoint_interval: 128,
            pipeline: 4,
        }
    }
}

/// Invalid setting: its key, what is wrong and what to set instead.
pub type ConfigError = Fault<&'static str>;

impl Config {
    pub fn view_timeout(&self) -> Duration {
        Duration::from_millis(self.view_timeout_ms)
    }

    /// Longest time that a leader with blocks of its own size aims at, from a proposal to its certificate: short enough
    /// that its view does not time out.
    pub fn batch_latency(&self) -> Duration {
        Duration::from_millis(self.batch_latency_ms).min(self.view_timeout() * 3 / 4)
    }

    /// When a leader with blocks of a fixed size has enough commands, and how long it waits for more. Only laboratories
    /// choose another policy than the eager one.
    pub fn batch_policy(&self) -> (BatchPolicy, Duration) {
        #[cfg(feature = "laboratory")]
        return (self.batch_policy, Duration::from_millis(self.batch_wait_ms));
        #[cfg(not(feature = "laboratory"))]
        (BatchPolicy::Eager, Duration::ZERO)
    }

    /// Time that a leader waits for late votes once a quorum has voted.
    pub fn vote_wait(&self) -> Duration {
        Duration::from_micros(self.vote_wait_us)
    }

    /// Longest time that a leader whose view began with timeouts waits for a higher certificate; zero if the protocol
    /// does not require it.
    pub fn awaited(&self) -> Duration {
        self.max_delay() * self.protocol.facts().awaited_delays
    }

    /// Longest time that a leader with blocks of a fixed size waits for more commands.
    fn batch_patience(&self) -> Duration {
        match self.batch_policy() {
            _ if self.batch.is_auto() => Duration::ZERO,
            (BatchPolicy::Eager, _) => Duration::ZERO,
            (BatchPolicy::Full, _) => self.view_timeout() / MAX_WAIT_DIVISOR,
            (BatchPolicy::Timed, wait) => wait,
        }
    }

    /// Shortest timeout of a view, before any doubling. In a view shorter than [`MAX_WAIT_DIVISOR`] times as long as
    /// its leader has to wait, the leader would wait less, and not hear of the highest lock, or the view would time out
    /// while the leader waits for votes or commands.
    pub fn shortest_view_timeout(&self) -> Duration {
        match self.view_duration {
            ViewDuration::Adaptive => {
                let waits = self.awaited().max(self.batch_patience()).max(self.vote_wait());
                let least = Duration::from_millis(self.min_view_timeout_ms).max(waits * MAX_WAIT_DIVISOR);
                least.min(self.view_timeout())
            }
            ViewDuration::Fixed | ViewDuration::Exponential => self.view_timeout(),
        }
    }

    fn validate_vote_wait(&self) -> Result<(), ConfigError> {
        let place = "vote_wait_us";
        if self.vote_wait_us == 0 {
            return Ok(());
        }
        let facts = self.protocol.facts();
        if self.protocol.has_slots() || facts.optimistic_proposals || self.votes != VotesTo::Collector {
            let votes = if self.votes == VotesTo::Collector { "" } else { ", with votes to `all`" };
            return Err(ConfigError {
                place,
                what: format!("is {}, but in {}{votes} no leader collects the votes", self.vote_wait_us, self.protocol),
                help: "leave it out, or use a protocol whose leaders collect votes, such as `jolteon`".into(),
            });
        }
        let certificates = if facts.shape == Shape::Phases { PHASES } else { 1 };
        let most = self.view_timeout_ms.saturating_mul(1000) / u64::from(MAX_WAIT_DIVISOR) / certificates;
        if self.vote_wait_us > most {
            return Err(ConfigError {
                place,
                what: format!("is {}, too long for a view timeout of {} ms", self.vote_wait_us, self.view_timeout_ms),
                help: format!("set at most {most}, or raise view_timeout_ms: or else views time out"),
            });
        }
        Ok(())
    }

    /// Dissemination that clients have to be configured with. If leaders carry the commands and take turns, clients
    /// send to all replicas: whichever leads next then has them. Sent to one, they would wait until that one leads,
    /// while the others have nothing to propose (ADR 095).
    pub fn client_dissemination(&self) -> Dissemination {
        match self.dissemination {
            Dissemination::Leader if self.leader != LeaderKind::Fixed => Dissemination::Client,
            other => other,
        }
    }

    /// Longest time that a client's command should wait for its execution; zero: any time, as always if clients
    /// send to several replicas.
    pub fn max_queue(&self) -> Duration {
        let default = match self.dissemination {
            Dissemination::Replicas => DEFAULT_MAX_QUEUE_MS,
            Dissemination::ReplicasCertified => DEFAULT_MAX_QUEUE_OF_CERTIFIED_MS,
            Dissemination::Client | Dissemination::Leader => return Duration::ZERO,
        };
        Duration::from_millis(self.max_queue_ms.unwrap_or(default))
    }

    fn validate_queue(&self) -> Result<(), ConfigError> {
        let set = self.max_queue_ms.unwrap_or(0);
        if set == 0 || self.max_queue() > Duration::ZERO {
            return Ok(());
        }
        Err(ConfigError {
            place: "max_queue_ms",
            what: format!("is {set}, but has no effect with the dissemination `{}`", self.dissemination),
            help: "leave it out, or set the dissemination `replicas` or `replicas-certified`".into(),
        })
    }

    /// Upper bound on the delay of a message between honest replicas.
    pub fn max_delay(&self) -> Duration {
        Duration::from_millis(self.max_delay_ms)
    }

    /// Maximum difference between the wall clocks of two honest replicas.
    pub fn max_clock_skew(&self) -> Duration {
        Duration::from_millis(self.max_clock_skew_ms)
    }

    /// Checks the settings. The error names the first invalid one.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if VALID.with_borrow(|valid| valid.as_ref() == Some(self)) {
            return Ok(());
        }
        self.check()?;
        VALID.set(Some(self.clone()));
        Ok(())
    }

    fn check(&self) -> Result<(), ConfigError> {
        settings::check_ranges(self)?;
        let (policy, wait) = self.batch_policy();
        if policy == BatchPolicy::Timed && !self.batch.is_auto() && wait > self.view_timeout() / MAX_WAIT_DIVISOR {
            let what =
                format!("is {}, more than a quarter of the view timeout of {}", wait.as_millis(), self.view_timeout_ms);
            let help = "lower it or raise view_timeout_ms: replicas time out of a leader that waits longer";
            return Err(ConfigError::new("batch_wait_ms", what, help));
        }
        self.validate_leaders()?;
        self.validate_queue()?;
        self.validate_vote_wait()?;
        if self.protocol.has_slots() { self.validate_slots() } else { Ok(()) }
    }

    fn validate_leaders(&self) -> Result<(), ConfigError> {
        if self.votes != VotesTo::Collector && !self.protocol.is_chained() {
            return Err(ConfigError {
                place: "votes",
                what: format!("is `{}`, but the phases of {} determine who receives votes", self.votes, self.protocol),
                help: "leave it out, or use a chained protocol".into(),
            });
        }
        let known = self.protocol.leaders();
        if known.contains(&self.leader) {
            return Ok(());
        }
        let names: Vec<String> = known.iter().map(|kind| format!("`{kind}`")).collect();
        Err(ConfigError {
            place: "leader",
            what: format!("is `{}`, which {} does not support", self.leader, self.protocol),
            help: format!("set {}, or use another protocol", names.join(" or ")),
        })
    }

    fn validate_slots(&self) -> Result<(), ConfigError> {
        if !self.protocol.facts().repairs_losses && self.dissemination != Dissemination::Leader {
            return Err(ConfigError {
                place: "dissemination",
                what: format!("is `{}`, but in {} nobody asks for missing commands", self.dissemination, self.protocol),
                help: "set `leader`, so that each PRE-PREPARE carries its commands".into(),
            });
        }
        if self.window / 2 < self.checkpoint_interval {
            return Err(ConfigError {
                place: "window",
                what: format!("is {}, with a checkpoint every {} slots", self.window, self.checkpoint_interval),
                help: "set at least twice checkpoint_interval: slots must be free while a checkpoint is agreed on"
                    .into(),
            });
        }
        if self.pipeline > self.window {
            return Err(ConfigError {
                place: "pipeline",
                what: format!("is {}, above the window of {}", self.pipeline, self.window),
                help: "set at most window".into(),
            });
        }
        if (self.retained_blocks as u64) < self.window {
            return Err(ConfigError {
                place: "retained_blocks",
                what: format!("is {}, below the window of {}", self.retained_blocks, self.window),
                help: "set at least window: a new view may propose any slot in it again".into(),
            });
        }
        Ok(())
    }

    /// Returns why this configuration cannot commit while the named replicas are silent, and what would help; `None` if
    /// it can.
    ///
    /// Under round-robin with votes to the next leader only, the block of view v is certified if and only if the
    /// leaders of v and v+1 are both live. So k certified blocks in consecutive views need k+1 consecutive live
    /// leaders, or k if votes go to all. If the leader of a view collects the votes of all its phases, one live leader
    /// is enough.
    pub fn stalls_with_silent(&self, quorum: Quorum, silent: &[ReplicaId]) -> Option<String> {
        let n = quorum.replicas();
        let live = |replica: usize| !silent.contains(&ReplicaId((replica % n) as u16));
        let count = (0..n).filter(|replica| live(*replica)).count();
        if count < quorum.quorum() {
            return Some(format!(
                "{count} of {n} replicas are live and a quorum is {}: nothing can be committed",
                quorum.quorum()
            ));
        }
        if self.leader != LeaderKind::RoundRobin || count == n {
            return None;
        }
        let needed = self.protocol.live_leaders_in_a_row(self.votes);
        let longest = (0..n).map(|start| (start..start + n).take_while(|at| live(*at)).count()).max().unwrap_or(0);
        (longest < needed).then(|| {
            let to_all =
                self.votes == VotesTo::Collector && self.protocol.live_leaders_in_a_row(VotesTo::All) <= longest;
            let to_all = if to_all { "votes to `all`, " } else { "" };
            let two_chains = ProtocolKind::ALL.iter().filter(|kind| kind.facts().shape == Shape::Chain(2));
            let two_chains: Vec<String> = two_chains.map(|kind| format!("`{kind}`")).collect();
            format!(
                "{} with round-robin leaders commits after {} certified blocks in consecutive views, which needs \
                 {needed} live leaders in a row; with {:?} silent the longest row of {n} is {longest}, so nothing \
                 will ever be committed. Use {to_all}leader `reputation` or `fixed`, or a two-chain protocol ({})",
                self.protocol,
                self.protocol.chain_length(),
                silent,
                two_chains.join(", ")
            )
        })
    }
}

impl ProtocolKind {
    /// Returns the leader elections that the protocol supports. In PBFT, replica `v - 1 mod n` is the primary for all
    /// of view `v`.
    pub fn leaders(self) -> &'static [LeaderKind] {
        if self.has_slots() { &[LeaderKind::Fixed] } else { LeaderKind::ALL }
    }

    /// Returns how many consecutive views need live leaders before anything commits. In a chain whose votes go to the
    /// next leader, that is one more than the blocks to certify; with votes to all, it equals that number. One view is
    /// enough if all phases of a block belong to it.
    pub fn live_leaders_in_a_row(self, votes: VotesTo) -> usize {
        match votes {
            VotesTo::Collector if self.is_chained() && !self.facts().optimistic_proposals => self.chain_length() + 1,
            _ => self.chain_length(),
        }
    }
}
