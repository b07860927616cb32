//! What one benchmark measured, in the units that the keys name.
//!
//! A figure that is a ratio over what was committed, and any latency, is absent (`null`) when nothing was committed.

use crate::bench::Loaded;
use crate::spec::{BenchSpec, CLUSTER, LOAD, OUTPUT, heading_of};
use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

mod growth;
mod machine;
mod table;

pub(crate) use growth::Growth;
pub use machine::Machine;
pub use quorate_types::text::count;
pub use table::{
    UNKNOWN, describe_cluster, describe_limit, describe_load, describe_memory, describe_settings, figure, optional,
    shown_evidence,
};

/// Buckets of [`BenchResult::latency_histogram`] in each factor of ten.
pub const BUCKETS_PER_DECADE: i32 = 20;

/// Microseconds in a millisecond.
const US_PER_MS: f64 = 1000.0;

/// Everything that `quorate bench` reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BenchResult {
    /// What was run, every key written out.
    pub spec: BenchSpec,
    /// Commands completed a second, over the measured time: answered to their client with f+1 equal replies, or, where nothing
    /// is replied, committed.
    pub throughput_ops: f64,
    /// From the (intended) sending of a command to its completion.
    pub latency_ms: Latency,
    /// Commands completed in the measured time.
    pub committed_commands: u64,
    /// Blocks committed in the measured time, as one replica counts them.
    pub committed_blocks: u64,
    /// Views entered in the measured time, as one replica counts them.
    pub views: u64,
    /// Views that ended by timeout in the measured time, as one replica counts them.
    pub view_timeouts: u64,
    /// The longest time between two completions, from the start of the measured time to its end.
    pub longest_gap_ms: Option<f64>,
    /// Processor time, user and system, for each committed command.
    pub cpu_us_per_command: CpuPerCommand,
    /// Bytes that all replicas and clients wrote to sockets, for each committed command.
    pub bytes_per_command: Option<f64>,
    /// Signatures that all replicas verified, for each committed block.
    pub verifications_per_block: Option<f64>,
    /// Messages that the replicas sent to each other, for each committed block.
    pub messages_per_block: Option<f64>,
    /// Bytes that the replicas wrote to sockets, answers to clients included, for each committed block.
    pub bytes_per_block: Option<f64>,
    /// The most memory resident at once, all processes together, in MB of 1,000,000 bytes.
    pub peak_rss_mb: f64,
    /// Whether the clients, not the cluster, were the limit.
    pub client_bound: bool,
    /// Whether all replicas executed the same commands in the same order.
    pub agreement: Agreement,
    /// One entry for each second of the measured time.
    pub timeline: Vec<Second>,
    /// How many commands took how long; see [`log_buckets`].
    pub latency_histogram: Vec<Bucket>,
    /// What happened on purpose, or was noticed, at a time.
    pub events: Vec<Event>,
    /// Proofs of misbehaviour that the replicas kept, one line each.
    pub evidence: Vec<String>,
    /// What a reader of the figures should know.
    pub warnings: Vec<String>,
    /// How far the run had come when a signal ended it; none if it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Where it was measured.
    pub machine: Machine,
    /// That a running cluster was loaded; none if the cluster was started for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<Loaded>,
    /// The command that runs it again.
    pub command: String,
    /// The version of quorate.
    pub version: String,
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90 % took no longer.
    pub p90: Option<f64>,
    /// 99 % took no longer.
    pub p99: Option<f64>,
    /// 99.9 % took no longer.
    pub p999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Latency {
    /// From a histogram of microseconds.
    pub fn of(microseconds: &Histogram<u64>) -> Latency {
        if microseconds.is_empty() {
            return Latency::default();
        }
        let at = |quantile| Some(microseconds.value_at_quantile(quantile) as f64 / US_PER_MS);
        Latency {
            mean: Some(microseconds.mean() / US_PER_MS),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: Some(microseconds.max() as f64 / US_PER_MS),
        }
    }

    /// The names and values, in rising order of the percentiles.
    pub fn rows(&self) -> [(&'static str, Option<f64>); 6] {
        let Latency { mean, p50, p90, p99, p999, max } = *self;
        [("mean", mean), ("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999), ("max", max)]
    }
}

/// Processor microseconds for each committed command.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CpuPerCommand {
    /// Replicas, clients and everything else in their processes.
    pub total: Option<f64>,
    /// The replicas' share.
    pub replicas: Option<f64>,
    /// The clients' share.
    pub clients: Option<f64>,
}

/// `quantity` for each one of `count`, when there is any.
pub fn per(quantity: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| quantity / count as f64)
}

/// One second of the measured time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Second {
    /// From the start of the measured time, 0 first.
    pub second: u32,
    /// Commands completed in it.
    pub ops: u64,
    /// Their median latency in milliseconds.
    pub p50_ms: Option<f64>,
    /// Their 99th percentile in milliseconds.
    pub p99_ms: Option<f64>,
}

/// Commands whose latency was in a range.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bucket {
    /// From this, in milliseconds, inclusive.
    pub from_ms: f64,
    /// To this, exclusive.
    pub to_ms: f64,
    /// Commands.
    pub count: u64,
}

/// The counts of a histogram of microseconds in buckets of equal ratio, [`BUCKETS_PER_DECADE`] to a factor of ten: without gaps
/// from the first bucket that holds something to the last.
pub fn log_buckets(microseconds: &Histogram<u64>) -> Vec<Bucket> {
    let index = |value: u64| ((value.max(1) as f64).log10() * f64::from(BUCKETS_PER_DECADE)).floor() as i32;
    let edge_ms = |index: i32| 10f64.powf(f64::from(index) / f64::from(BUCKETS_PER_DECADE)) / US_PER_MS;
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut first = 0;
    for value in microseconds.iter_recorded() {
        let at = index(value.value_iterated_to());
        if buckets.is_empty() {
            first = at;
        }
        for next in first + buckets.len() as i32..=at {
            buckets.push(Bucket { from_ms: edge_ms(next), to_ms: edge_ms(next + 1), count: 0 });
        }
        buckets[(at - first) as usize].count += value.count_since_last_iteration();
    }
    buckets
}

/// Something that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Seconds from the start of the measured time; negative in the warm-up.
    pub time_s: f64,
    /// What, in a few words.
    pub text: String,
}

/// What comparing the replicas' executed prefixes at the end said.
#[derive(Clone, PartialEq, Debug)]
pub enum Agreement {
    /// Of any two replicas, one executed a prefix of what the other did. In JSON: `true`.
    Agreed,
    /// They did not: safety is broken. In JSON: an object.
    Differs(Difference),
    /// The comparison could not be made, for this reason. In JSON: a text.
    Unknown(String),
}

/// The first difference between the histories of two replicas.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The lowest height at which they differ.
    pub height: u64,
    /// The two replicas.
    pub replicas: [u16; 2],
    /// The digests of their blocks there, in hexadecimal, in the same order.
    pub blocks: [String; 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([a, b], [of_a, of_b]) = (&self.replicas, &self.blocks);
        write!(f, "at height {} replica {a} executed block {of_a}, replica {b} block {of_b}", self.height)
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Agreement::Agreed => f.write_str("all replicas executed the same prefix"),
            Agreement::Differs(difference) => write!(f, "BROKEN: {difference}"),
            Agreement::Unknown(why) => write!(f, "not checked: {why}"),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum AgreementForm {
    Flag(bool),
    Reason(String),
    Difference(Difference),
}

impl Serialize for Agreement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Agreement::Agreed => serializer.serialize_bool(true),
            Agreement::Unknown(why) => serializer.serialize_str(why),
            Agreement::Differs(difference) => difference.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Agreement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match AgreementForm::deserialize(deserializer)? {
            AgreementForm::Flag(true) => Ok(Agreement::Agreed),
            AgreementForm::Flag(false) => {
                Err(D::Error::custom("`agreement` is true, or the first difference; never false"))
            }
            AgreementForm::Reason(why) => Ok(Agreement::Unknown(why)),
            AgreementForm::Difference(difference) => Ok(Agreement::Differs(difference)),
        }
    }
}

impl BenchResult {
    /// What to say of a run in which nothing was done, which shows nothing.
    pub fn failure(&self) -> Option<String> {
        let nothing = self.committed_commands == 0 && self.partial.is_none();
        nothing.then(|| "no command was completed in the measured time, so that the figures show nothing".to_owned())
    }

    /// The JSON of `--json`: indented, keys in the order above, a line feed at the end.
    pub fn to_json(&self) -> String {
        let mut text = match self.loaded {
            None => serde_json::to_string_pretty(self),
            Some(_) => {
                let mut json = serde_json::to_value(self).expect("a result is plain data");
                if let Some(spec) = json["spec"].as_object_mut() {
                    spec.retain(|key, _| self.knows(key));
                }
                serde_json::to_string_pretty(&json)
            }
        }
        .expect("a result is plain data");
        text.push('\n');
        text
    }

    /// Whether a key of the spec says something true: of a cluster that somebody else runs only what its replicas told is known.
    pub fn knows(&self, key: &str) -> bool {
        let Some(Loaded { settings }) = &self.loaded else { return true };
        let heading = heading_of(key);
        let of_client = ["replicas", "faults", "client_authentication"].contains(&key);
        let told = heading == CLUSTER && key != "base_port" || ["journal", "fsync"].contains(&key);
        of_client || [LOAD, OUTPUT].contains(&heading.as_str()) || settings.is_some() && told
    }

    /// The table for a terminal.
    pub fn to_table(&self) -> String {
        table::render(self, table::describe_journal(self))
    }

    /// The same for a simulated run, which has no files.
    pub(crate) fn to_table_of_simulation(&self) -> String {
        table::render(self, "simulated disks".to_owned())
    }
}

/// The version of this build of quorate.
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_string()
}
