//! The number of a replica's threads, and the assignment of work stages to them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Maximum number of threads of a replica.
pub const MAX_REPLICA_THREADS: u16 = 64;
/// Maximum number of threads that [`ReplicaThreads::Auto`] gives a replica.
pub const MAX_AUTO_REPLICA_THREADS: u16 = 4;
/// Threads that [`ReplicaThreads::Auto`] gives a replica of a chain whose clients sign: the core's thread and a
/// verifier.
const AUTO_THREADS_OF_A_CHAIN: u16 = 2;
/// Minimum number of threads from which protocols with several blocks in flight benefit, if clients do not sign.
const MIN_AUTO_THREADS_WITHOUT_CLIENT_SIGNATURES: u16 = 3;

/// Name of [`ReplicaThreads::Auto`].
const AUTO: &str = "auto";

/// Number of a replica's threads. Written as `auto` or as an integer, in files and flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum ReplicaThreads {
    /// As many threads as its work benefits from, limited by the replica's share of the cores and by
    /// [`MAX_AUTO_REPLICA_THREADS`]; one if replicas outnumber cores.
    Auto,
    /// This many, at least one. With one, everything runs sequentially on the replica's own thread.
    Count(u16),
}

impl Default for ReplicaThreads {
    fn default() -> ReplicaThreads {
        ReplicaThreads::Count(1)
    }
}

impl ReplicaThreads {
    /// Returns the number of threads of each of `replicas` replicas that share `cores` cores.
    ///
    /// # Panics
    /// If there is no replica.
    pub fn of(self, cores: usize, replicas: usize, work: ReplicaWork) -> u16 {
        assert!(replicas > 0, "threads belong to a replica");
        let share = cores / replicas;
        match self {
            ReplicaThreads::Auto => work.useful_threads(share.clamp(1, MAX_AUTO_REPLICA_THREADS.into()) as u16),
            ReplicaThreads::Count(threads) => threads,
        }
    }
}

/// Properties of a cluster that determine how many threads its replicas benefit from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaWork {
    /// Whether clients sign; then verifying their signatures is the largest part of the work.
    pub clients_sign: bool,
    /// Whether several blocks are agreed on concurrently. In a chain, each block waits for the one before, and each
    /// thread that a message passes through lengthens that wait.
    pub blocks_overlap: bool,
}

impl ReplicaWork {
    /// Returns the largest number of threads, at most `available`, that made no load slower than one thread (ADR 085).
    fn useful_threads(self, available: u16) -> u16 {
        match (self.blocks_overlap, self.clients_sign) {
            (true, true) => available,
            (true, false) if available >= MIN_AUTO_THREADS_WITHOUT_CLIENT_SIGNATURES => available,
            (false, true) => available.min(AUTO_THREADS_OF_A_CHAIN),
            (_, false) => 1,
        }
    }
}

/// Stages of a replica's work that have their own threads, in addition to the core's thread, which also executes
/// commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplicaStages {
    /// Whether one thread reads from the network, decodes and hashes, and writes to the network.
    pub network: bool,
    /// Number of threads that verify signatures.
    pub verifiers: u16,
}

impl ReplicaStages {
    /// Returns the assignment of `threads` threads to stages. The second thread verifies if clients sign, since
    /// verifying is then the largest part of the work; otherwise it serves the network. With three or more, one thread
    /// serves the network, and the rest verify.
    ///
    /// # Panics
    /// If there is no thread.
    pub fn of(threads: u16, clients_sign: bool) -> ReplicaStages {
        match threads {
            0 => panic!("a replica has at least one thread"),
            1 => ReplicaStages::default(),
            2 if clients_sign => ReplicaStages { network: false, verifiers: 1 },
            _ => ReplicaStages { network: true, verifiers: threads - 2 },
        }
    }
}

impl fmt::Display for ReplicaThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplicaThreads::Auto => f.write_str(AUTO),
            ReplicaThreads::Count(threads) => write!(f, "{threads}"),
        }
    }
}

/// Text or a number that is not a valid number of replica threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotReplicaThreads;

impl fmt::Display for NotReplicaThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write `{AUTO}`, or a whole number of threads from 1 to {MAX_REPLICA_THREADS}")
    }
}

impl std::error::Error for NotReplicaThreads {}

impl TryFrom<i64> for ReplicaThreads {
    type Error = NotReplicaThreads;

    fn try_from(threads: i64) -> Result<ReplicaThreads, NotReplicaThreads> {
        let is_possible = (1..=i64::from(MAX_REPLICA_THREADS)).contains(&threads);
        if is_possible { Ok(ReplicaThreads::Count(threads as u16)) } else { Err(NotReplicaThreads) }
    }
}

impl FromStr for ReplicaThreads {
    type Err = NotReplicaThreads;

    fn from_str(text: &str) -> Result<ReplicaThreads, NotReplicaThreads> {
        match text {
            AUTO => Ok(ReplicaThreads::Auto),
            _ => text.parse::<i64>().map_err(|_| NotReplicaThreads)?.try_into(),
        }
    }
}

/// Representation of the number in files.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged, expecting = "`auto` or a whole number of threads")]
enum Written {
    Count(i64),
    Text(String),
}

impl TryFrom<Written> for ReplicaThreads {
    type Error = NotReplicaThreads;

    fn try_from(written: Written) -> Result<ReplicaThreads, NotReplicaThreads> {
        match written {
            Written::Count(threads) => threads.try_into(),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<ReplicaThreads> for Written {
    fn from(threads: ReplicaThreads) -> Written {
        match threads {
            ReplicaThreads::Auto => Written::Text(AUTO.to_owned()),
            ReplicaThreads::Count(threads) => Written::Count(threads.into()),
        }
    }
}

impl JsonSchema for ReplicaThreads {
    fn schema_name() -> Cow<'static, str> {
        "ReplicaThreads".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "minimum": 1, "maximum": MAX_REPLICA_THREADS })
    }
}
