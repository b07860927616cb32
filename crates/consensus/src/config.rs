//! The settings of the consensus core, and the check that refuses combinations which cannot work.

pub use crate::protocols::registry::ProtocolKind;
pub use quorate_types::{Dissemination, UnknownName};

use crate::protocols::facts::Shape;
use quorate_types::{Fault, Quorum, ReplicaId, choice};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// This file: what it says of the settings is what configuration files and their documentation say.
pub const SOURCE: &str = include_str!("config.rs");
/// Which share of a view timeout a leader waits at most. A backup's clock of a view may start when the first command comes, and
/// runs until the next view's proposal: two waits and three hops must fit.
pub const MAX_WAIT_DIVISOR: u32 = 4;

choice!(
    /// Who leads a view.
    LeaderKind, "leader election",
    /// One leader for as long as its views succeed; each view that times out hands on to the next replica.
    Fixed = "fixed",
    /// Replica `view mod n`.
    RoundRobin = "round-robin",
    /// In turn, those who lately signed certificates and did not let a view time out.
    Reputation = "reputation",
);

choice!(
    /// To whom votes go in a chained protocol. In the others the phases say it.
    VotesTo, "receiver of votes",
    /// To the leader of the next view, who builds on their certificate.
    Collector = "collector",
    /// To all, who each make the certificate: none is lost with a silent leader, for n times the votes.
    All = "all",
);

choice!(
    /// How long a view may last.
    ViewDuration, "view duration",
    /// Always `view_timeout_ms`.
    Fixed = "fixed",
    /// `view_timeout_ms`, doubled for each view that timed out since the last commit, but for the first 2f: f faulty replicas alone
    /// make so many fail.
    Exponential = "exponential",
    /// A multiple of the measured duration of views, at most `view_timeout_ms`, doubled as above.
    Adaptive = "adaptive",
);

choice!(
    /// When a leader has enough commands to propose.
    BatchPolicy, "batch policy",
    /// With `batch` commands, or a quarter of a view timeout after it could have proposed.
    Full = "full",
    /// With `batch` commands, or `batch_wait_ms` after the first one waited.
    Timed = "timed",
    /// With what there is, as soon as the previous certificate has formed.
    Eager = "eager",
    /// With as many as arrive during one view at the measured rate, or when that view is over.
    Adaptive = "adaptive",
);

/// The consensus core's settings. Times are in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The protocol. Default `jolteon`.
    pub protocol: ProtocolKind,
    /// Who leads. Default `fixed`.
    pub leader: LeaderKind,
    /// To whom votes go in a chained protocol. Default `collector`.
    pub votes: VotesTo,
    /// Most commands in a block of several bundles. Replicas vote for no larger one: the same on every replica. Default 400.
    pub batch: usize,
    /// Most bytes of bundles in a block. Replicas vote for no larger block: the same on every replica. Default 8 MiB.
    pub batch_bytes: usize,
    /// When a leader proposes. Default `eager`.
    pub batch_policy: BatchPolicy,
    /// Longest wait of a command for company under `timed`. Default 5.
    pub batch_wait_ms: u64,
    /// How commands reach replicas. Default `client`.
    pub dissemination: Dissemination,
    /// How long a view may last. Default `exponential`.
    pub view_duration: ViewDuration,
    /// The base of view timeouts. Default 1000.
    pub view_timeout_ms: u64,
    /// The shortest view timeout that `adaptive` may choose. Default 50.
    pub min_view_timeout_ms: u64,
    /// Longest time that a message between honest replicas is expected to take: Δ of the papers. If the protocol asks for it, a
    /// leader whose view began by timeouts waits this long for a higher certificate, but at most a quarter of the view.
    /// Default 100.
    pub max_delay_ms: u64,
    /// Most bundles' bytes that wait for a proposal; further ones are refused. A proposal is not voted for while twice as many wait for
    /// execution. Default 256 MiB.
    pub pool_bytes: usize,
    /// Most bundles that wait for a proposal; further ones are refused. Default 1,000,000.
    pub pool_bundles: usize,
    /// Executed blocks kept for replicas that lag behind. The same on every replica: with `retained_bytes` it decides at which
    /// checkpoints the state is kept, after half as many. Default 16,384.
    pub retained_blocks: usize,
    /// Most bytes of bundles in them, with 256 for the keeping of each. The same on every replica. Default 64 MiB.
    pub retained_bytes: usize,
    /// How long a missing block or bundle may still arrive by itself before it is asked for. Default 10.
    pub fetch_delay_ms: u64,
    /// When another replica is asked for what the last one did not send. Default 100.
    pub fetch_retry_ms: u64,
    /// Most bytes of answers to one peer in a second: blocks, bundles, states, and what is said again to one who fell behind. A message
    /// counts as 4 KiB at least. Default 64 MiB.
    pub answer_bytes_per_second: usize,
    /// PBFT: how many slots above the last stable checkpoint may be in use; at least twice `checkpoint_interval`. In every protocol others'
    /// votes on checkpoints further ahead are not counted. Default 1000.
    pub window: u64,
    /// After how many blocks replicas vouch for what they have executed; in PBFT older votes are then forgotten. The same on every
    /// replica. Default 128.
    pub checkpoint_interval: u64,
    /// PBFT: how many slots a primary has in flight at most. While so many are, commands wait and fill the next block. Default 4.
    pub pipeline: u64,
    /// PBFT: whether a primary that lets commands wait is replaced, and whatever was lost is repaired. Without, what remains is the
    /// three phases alone: a slot is decided or it is not, and nobody waits for it. Default true.
    pub view_changes: bool,
    /// PBFT: how many times a primary repeats its PRE-PREPARE, for links that lose messages. Default 0.
    pub repeat_pre_prepare: usize,
}

/// Most slots in a window: a view change tells of every one.
pub const MAX_WINDOW: usize = 16_384;
/// Most repetitions of one message.
pub const MAX_REPETITIONS: usize = 16;

impl Default for Config {
    fn default() -> Self {
        Config {
            protocol: ProtocolKind::Jolteon,
            leader: LeaderKind::Fixed,
            votes: VotesTo::Collector,
            batch: 400,
            batch_bytes: 8 << 20,
            batch_policy: BatchPolicy::Eager,
            batch_wait_ms: 5,
            dissemination: Dissemination::Client,
            view_duration: ViewDuration::Exponential,
            view_timeout_ms: 1000,
            min_view_timeout_ms: 50,
            max_delay_ms: 100,
            pool_bytes: 256 << 20,
            pool_bundles: 1_000_000,
            retained_blocks: 16_384,
            retained_bytes: 64 << 20,
            fetch_delay_ms: 10,
            fetch_retry_ms: 100,
            answer_bytes_per_second: 64 << 20,
            window: 1000,
            checkpoint_interval: 128,
            pipeline: 4,
            view_changes: true,
            repeat_pre_prepare: 0,
        }
    }
}

/// A setting that cannot work: its key, what is wrong and what to set instead.
pub type ConfigError = Fault<&'static str>;

impl Config {
    /// The base view timeout.
    pub fn view_timeout(&self) -> Duration {
        Duration::from_millis(self.view_timeout_ms)
    }

    /// How long a message between honest replicas takes at most.
    pub fn max_delay(&self) -> Duration {
        Duration::from_millis(self.max_delay_ms)
    }

    /// Refuses settings that cannot work, by name.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("batch", self.batch as u64),
            ("batch_bytes", self.batch_bytes as u64),
            ("view_timeout_ms", self.view_timeout_ms),
            ("min_view_timeout_ms", self.min_view_timeout_ms),
            ("pool_bytes", self.pool_bytes as u64),
            ("pool_bundles", self.pool_bundles as u64),
            ("retained_blocks", self.retained_blocks as u64),
            ("fetch_retry_ms", self.fetch_retry_ms),
            ("answer_bytes_per_second", self.answer_bytes_per_second as u64),
            ("window", self.window),
            ("checkpoint_interval", self.checkpoint_interval),
            ("pipeline", self.pipeline),
        ];
        if let Some((key, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::new(*key, "is 0", "set at least 1"));
        }
        let slots = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let most = [
            ("batch", self.batch, quorate_types::limits::MAX_BLOCK_BUNDLES),
            ("batch_bytes", self.batch_bytes, quorate_types::limits::MAX_FRAME_BYTES / 2),
            ("window", slots(self.window), MAX_WINDOW),
            ("checkpoint_interval", slots(self.checkpoint_interval), MAX_WINDOW / 2),
            ("pipeline", slots(self.pipeline), MAX_WINDOW),
            ("repeat_pre_prepare", self.repeat_pre_prepare, MAX_REPETITIONS),
        ];
        for (key, value, limit) in most {
            if value > limit {
                return Err(ConfigError::new(key, format!("is {value}"), format!("set at most {limit}")));
            }
        }
        if self.batch_policy == BatchPolicy::Timed
            && self.batch_wait_ms > self.view_timeout_ms / u64::from(MAX_WAIT_DIVISOR)
        {
            return Err(ConfigError {
                place: "batch_wait_ms",
                what: format!(
                    "is {}, more than a quarter of the view timeout of {}",
                    self.batch_wait_ms, self.view_timeout_ms
                ),
                help: "a leader that waits so long is taken for faulty: lower it or raise view_timeout_ms".into(),
            });
        }
        if self.min_view_timeout_ms > self.view_timeout_ms && self.view_duration == ViewDuration::Adaptive {
            return Err(ConfigError {
                place: "min_view_timeout_ms",
                what: format!("is {}, above view_timeout_ms of {}", self.min_view_timeout_ms, self.view_timeout_ms),
                help: "set it below".into(),
            });
        }
        self.validate_leaders()?;
        match self.protocol.has_slots() {
            true => self.validate_slots(),
            false if self.view_changes => Ok(()),
            false => Err(ConfigError {
                place: "view_changes",
                what: format!("is false, and {} cannot do without", self.protocol),
                help: "leave it true, or use `pbft`".into(),
            }),
        }
    }

    fn validate_leaders(&self) -> Result<(), ConfigError> {
        if self.votes != VotesTo::Collector && !self.protocol.is_chained() {
            return Err(ConfigError {
                place: "votes",
                what: format!("is `{}`, and the phases of {} say to whom votes go", self.votes, self.protocol),
                help: "leave it out, or choose a chained protocol".into(),
            });
        }
        let known = self.protocol.leaders();
        if known.contains(&self.leader) {
            return Ok(());
        }
        let names: Vec<String> = known.iter().map(|kind| format!("`{kind}`")).collect();
        Err(ConfigError {
            place: "leader",
            what: format!("is `{}`, and the views of {} are not led so", self.leader, self.protocol),
            help: format!("set {}, or another protocol", names.join(" or ")),
        })
    }

    fn validate_slots(&self) -> Result<(), ConfigError> {
        if self.window / 2 < self.checkpoint_interval {
            return Err(ConfigError {
                place: "window",
                what: format!("is {}, with a checkpoint every {} slots", self.window, self.checkpoint_interval),
                help: "set at least twice checkpoint_interval, or no slot is free while a checkpoint is agreed on"
                    .into(),
            });
        }
        if self.pipeline > self.window {
            return Err(ConfigError {
                place: "pipeline",
                what: format!("is {}, above the window of {}", self.pipeline, self.window),
                help: "set it below".into(),
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

    /// Whether this configuration can commit while the named replicas are silent, and if not, why and what would help.
    ///
    /// Under round-robin with votes to the next leader only, the block of view v is certified just when the leaders of v and
    /// v+1 both speak; k certified blocks in consecutive views therefore need k+1 consecutive live leaders, and k where votes go to all.
    /// Where a view's own leader collects the votes of all its phases, that one is enough.
    pub fn stalls_with_silent(&self, quorum: Quorum, silent: &[ReplicaId]) -> Option<String> {
        let n = quorum.replicas();
        let live = |replica: usize| !silent.contains(&ReplicaId((replica % n) as u16));
        let count = (0..n).filter(|replica| live(*replica)).count();
        if count < quorum.quorum() {
            return Some(format!(
                "{count} of {n} replicas speak and a quorum is {}: nothing can be committed",
                quorum.quorum()
            ));
        }
        if self.leader != LeaderKind::RoundRobin || count == n {
            return None;
        }
        let needed = self.protocol.live_leaders_in_a_row(self.votes);
        let longest = (0..n).map(|start| (start..start + n).take_while(|at| live(*at)).count()).max().unwrap_or(0);
        (longest < needed).then(|| {
            let to_all = self.votes == VotesTo::Collector
                && self.protocol.live_leaders_in_a_row(VotesTo::All) <= longest;
            let to_all = if to_all { "votes to `all`, " } else { "" };
            let two_chains = ProtocolKind::ALL.iter().filter(|kind| kind.facts().shape == Shape::Chain(2));
            let two_chains: Vec<String> = two_chains.map(|kind| format!("`{kind}`")).collect();
            format!(
                "{} with round-robin leaders commits after {} certified blocks in consecutive views, which takes {needed} live leaders \
                 in a row; with {:?} silent the longest row of {n} is {longest}, so nothing will ever be committed. \
                 Use {to_all}leader `reputation` or `fixed`, or a two-chain protocol ({})",
                self.protocol,
                self.protocol.chain_length(),
                silent,
                two_chains.join(", ")
            )
        })
    }
}
