//! Results of one benchmark, in the units that the keys name.
//!
//! Figures per committed command or block, and all latencies, are `null` if nothing committed.

use crate::experiments::statistics::Fences;
use crate::record::{describe, measured, record};
use crate::spec::flat::entry;
use crate::spec::{BenchSpec, LOAD, OUTPUT, heading_of};
use hdrhistogram::Histogram;
use quorate_applications::compare_histories;
use quorate_simulator::models::latency::Percentiles;
use quorate_types::line::UDP_HEADER_BYTES;
use quorate_types::stages::StageCost;
use quorate_types::{Height, Status};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

mod crypto;
mod deployment;
mod emulation;
mod growth;
mod line;
mod loaded;
mod machine;
mod measured;
mod notes;
mod recovery;
mod replies;
mod round_trips;
mod samples;
mod searched;
mod seconds;
mod stages;
mod threads;
mod words;

pub use crate::text::{figure, optional};
pub(crate) use crate::text::{line, partial_line};
pub use crypto::{CryptoPerCommand, CryptoSource, Primitives};
pub use deployment::{DeploymentResult, HostResult, HostRole};
pub use emulation::{AddedTime, EmulationResult};
pub(crate) use growth::Growth;
pub use line::LineFigures;
pub use loaded::Loaded;
pub use machine::Machine;
pub(crate) use measured::{Measured, OfHost};
use measured::{measured_intervals, steps, timeline};
pub(crate) use notes::{BUSY_FRACTION, evidence, hearsay, note_counts};
pub use quorate_types::text::count;
use recovery::recovery_percent;
pub use replies::RequestFigures;
pub use round_trips::RoundTripFigures;
pub use samples::Sample;
pub use searched::{Probe, Search};
pub(crate) use seconds::Frontier;
pub use stages::StageClock;
use stages::stages;
pub(crate) use stages::tables;
pub use threads::{StageThreads, ThreadLoads};
pub use words::{
    UNKNOWN, describe_bottleneck, describe_cluster, describe_load, describe_memory, describe_settings, shown_evidence,
};
pub(crate) use words::{describe_journal, first_of};

/// Buckets of [`BenchResult::latency_histogram`] per factor of ten.
pub const BUCKETS_PER_DECADE: i32 = 20;

const US_PER_MS: f64 = 1000.0;

measured! {
    /// Result of `quorate bench`. Each field is declared once: its JSON key, unit, meaning, figure, and the closure
    /// that derives it.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct BenchResult of Measured<'_> {
        /// Specification of the run, with every key written out.
        pub spec: BenchSpec = |run| run.spec.clone(),
        /// Commands completed per second of the measured time; 0 if none completed. A command completes when its client
        /// has f+1 equal replies; without replies, when it commits.
        pub throughput_ops: f64 ["commands/s" as throughput_per_s] = |run| run.throughput(),
        /// Latency from the (intended) send time of a command to its completion.
        pub latency_ms: Latency ["ms"] = |run| run.load.map(|load| Latency::of(&load.latency_us)).unwrap_or_default(),
        /// The same without outliers, that is, without latencies outside of Q1 - 1.5 IQR to Q3 + 1.5 IQR.
        #[serde(default)]
        pub latency_within_fences_ms: Latency ["ms"] =
            |run| run.load.map(|load| Latency::within_fences(&load.latency_us)).unwrap_or_default(),
        /// Commands completed in the measured time.
        pub committed_commands: u64 ["commands" as completed_commands] =
            |run| run.load.map_or(0, |load| load.completed),
        /// Commands executed in the measured time by the replica that executed the most.
        #[serde(default)]
        pub executed_commands: u64 ["commands" as executed_commands] = |run| run.executed(),
        /// Open-loop commands, due in the measured time, that overloaded replicas refused, or that were not sent
        /// because the replicas had requested a pause. They have no latency.
        #[serde(default)]
        pub refused_commands: u64 ["commands" as refused_commands] = |run| run.load.map_or(0, |load| load.busy),
        /// Blocks committed in the measured time, at one replica.
        pub committed_blocks: u64 ["blocks" as committed_blocks] = |run| run.blocks(),
        /// Views entered in the measured time, at one replica.
        pub views: u64 ["views" as views] = |run| run.growth.views(),
        /// Views that timed out in the measured time, at one replica.
        pub view_timeouts: u64 ["timeouts" as view_timeouts] = |run| run.growth.most(|status| status.view_timeouts),
        /// Longest time without any completion in the measured time.
        pub longest_gap_ms: Option<f64> ["ms" as longest_gap_ms in table "without any completion"] =
            |run| run.longest_gap_ms(),
        /// Throughput after the end of all misbehaviour, relative to the throughput before its first start; present if
        /// misbehaviour starts after the start of the measured time and ends before its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub recovery_percent: Option<f64> ["%" as recovery_percent] =
            |run| run.load.and_then(|load| recovery_percent(run.spec, measured_intervals(load))),
        /// CPU time (user and system) per committed command.
        pub cpu_us_per_command: CpuPerCommand ["us"] = |run| run.cpu(),
        /// Part of the CPU time spent on cryptography, by primitive.
        #[serde(default)]
        pub crypto_us_per_command: CryptoPerCommand ["us"] = |run| run.own.crypto.clone(),
        /// Part of the CPU time that the channel spent encrypting and decrypting; absent in simulations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub channel_us_per_command: Option<ChannelPerCommand> ["us"] = |run| run.own.channel,
        /// Utilization of a replica's threads, at the replica with the busiest one; absent if replicas do not report
        /// it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub threads: Option<ThreadLoads> =
            |run| ThreadLoads::of(&run.growth, run.window_ns(), run.executed()),
        /// Cost of each stage of the replicas' work per message, by role and message; present if measured.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub stages: Vec<StageCost> = |run| stages(&run.growth).map(|(costs, _)| costs).unwrap_or_default(),
        /// Timing method of the stages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub stage_clock: Option<StageClock> = |run| stages(&run.growth).map(|(_, clock)| clock),
        /// Bytes sent by all replicas and clients per committed command.
        pub bytes_per_command: Option<f64> ["B" as bytes_per_command] =
            |run| Some(run.per_command(|status| status.bytes_sent)? + run.own.sent_by_clients?),
        /// Bytes sent by a replica in the measured time; mean over all replicas.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub bytes_per_replica: Option<f64> ["B" as bytes_per_replica in table "mean of all replicas"] =
            |run| per(run.growth.sum(|status| status.bytes_sent) as f64, run.spec.replicas.into()),
        /// Messages sent by the leader, and the share of its link that they occupy; absent if nothing committed or
        /// packets are not counted, as in simulated packet transports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub line: Option<LineFigures> = |run| run.line(),
        /// Packets of a packet transport in the measured time; absent for streams, and in simulations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub packets: Option<PacketFigures> = |run| PacketFigures::of(&run.growth).filter(|_| !run.own.is_simulated),
        /// Smoothed round trips between replicas at the end of the measured time; absent in simulations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub smoothed_rtt_ms: Option<RoundTripFigures> ["ms"] =
            |run| RoundTripFigures::of(&run.growth).filter(|_| !run.own.is_simulated),
        /// Signatures verified by all replicas per committed block.
        pub verifications_per_block: Option<f64> ["signatures" as verifications_per_block] =
            |run| run.per_block(|status| status.verifications),
        /// Mean number of public keys added or subtracted to verify a peer's certificate; present in schemes with
        /// aggregates, if replicas verified any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub key_additions_per_certificate: Option<f64> ["additions" as key_additions_per_certificate] =
            |run| run.growth.key_additions_per_certificate(run.spec.node.scheme),
        /// Messages between replicas per committed block.
        pub messages_per_block: Option<f64> ["messages" as messages_per_block] =
            |run| run.per_block(|status| status.messages_sent),
        /// Bytes sent by replicas per committed block, including replies to clients.
        pub bytes_per_block: Option<f64> ["B" as bytes_per_block] = |run| run.per_block(|status| status.bytes_sent),
        /// Size of a quorum's certificate without attachments and without its statement.
        #[serde(default)]
        pub certificate_bytes: u64 ["B" as certificate_bytes] = |run| run.spec.certificate_bytes(),
        /// Peak resident memory of all processes, in MB of 1,000,000 bytes; 0 in simulations.
        pub peak_rss_mb: f64 ["MB"] = |run| run.own.peak_rss_mb,
        /// Heap allocations of all replicas' core threads per committed command; present with `count_allocations`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub allocations_per_command: Option<f64> ["allocations" as allocations_per_command] =
            |run| run.per_command(|status| status.allocations).filter(|count| *count > 0.0),
        /// Bytes of these allocations; a reallocation counts with its full new size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub allocated_bytes_per_command: Option<f64> ["B" as allocated_bytes_per_command] =
            |run| run.per_command(|status| status.allocated_bytes).filter(|bytes| *bytes > 0.0),
        /// Whether the clients, not the cluster, were the bottleneck.
        pub client_bound: bool = |run| run.own.client_bound,
        /// Whether all replicas executed the same commands in the same order: true, the first difference, or the reason
        /// why it was not checked.
        pub agreement: Agreement = |run| run.agreement.clone(),
        /// Requests by their number of replies; present if only PBFT's three phases ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub requests: Option<RequestFigures> = |run| run.load.and_then(|load| RequestFigures::of(run.spec, load)),
        /// One entry per second of the measured time.
        pub timeline: Vec<Second> = |run| run.load.map(|load| timeline(load, run.frontier)).unwrap_or_default(),
        /// One entry per step of a changing load.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub steps: Vec<Step> = |run| run.load.map(|load| steps(run.spec, load)).unwrap_or_default(),
        /// Requests sampled from the measured time, ordered by intended send time: as many as `samples` of the
        /// specification, or all if there are fewer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub samples: Vec<Sample> = |run| run.load.map(Sample::all).unwrap_or_default(),
        /// Rates tried by a search; the other figures are from the run at the rate found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub search: Option<Search> = |_| None,
        /// Commands by latency, in logarithmic buckets.
        pub latency_histogram: Vec<Bucket> =
            |run| run.load.map(|load| log_buckets(&load.latency_us)).unwrap_or_default(),
        /// Injected faults and observations, with their times.
        pub events: Vec<Event> = |run| run.own.events.clone(),
        /// Proofs of misbehaviour kept by the replicas, one line each.
        pub evidence: Vec<String> = |run| run.own.evidence.clone(),
        /// Contradictions reported by replicas that are no proof to third parties, one line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub hearsay: Vec<String> = |run| run.own.hearsay.clone(),
        /// Caveats for readers of the figures.
        pub warnings: Vec<String> = |run| run.own.warnings.clone(),
        /// Progress of the run when a signal ended it; absent if it completed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub partial: Option<String> = |run| run.own.partial.clone(),
        /// Processor, cores, memory and kernel.
        pub machine: Machine = |_| Machine::here(),
        /// Present if the run put load on an already running cluster.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub loaded: Option<Loaded> = |_| None,
        /// Present if the run was in an emulated network.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub emulation: Option<EmulationResult> = |_| None,
        /// Present if the run was on other machines.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub deployment: Option<DeploymentResult> = |_| None,
        /// Command that reproduces the run.
        pub command: String = |run| run.spec.command_line(),
        /// Version of the program.
        pub version: String = |_| version(),
    }
}

impl Latency {
    /// Converts the mean and the percentiles computed by formulas.
    pub(crate) fn of_formulas(own: &Percentiles) -> Latency {
        Latency { mean: own.mean, p50: own.p50, p90: own.p90, p99: own.p99, p999: None, max: None }
    }
}

/// Latencies from the intended sending to the answer, in milliseconds; `None` without answers.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    pub max: Option<f64>,
}

impl Latency {
    /// Summarizes a histogram of microseconds.
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

    /// Summarizes the non-outliers, by [`Fences`], of a histogram of microseconds.
    pub fn within_fences(microseconds: &Histogram<u64>) -> Latency {
        let counts: Vec<(u64, u64)> = microseconds
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_since_last_iteration()))
            .collect();
        let numbers: Vec<(f64, u64)> = counts.iter().map(|(value, count)| (*value as f64, *count)).collect();
        let Some(fences) = Fences::of_counts(&numbers) else { return Latency::default() };
        let mut kept = Histogram::new_from(microseconds);
        for (value, count) in counts.into_iter().filter(|(value, _)| fences.contain(*value as f64)) {
            kept.saturating_record_n(value, count);
        }
        Latency::of(&kept)
    }

    /// Returns names and values; percentiles in ascending order.
    pub fn rows(&self) -> [(&'static str, Option<f64>); 6] {
        let Latency { mean, p50, p90, p99, p999, max } = *self;
        [("mean", mean), ("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999), ("max", max)]
    }
}

record! {
    /// CPU time per committed command, in microseconds.
    #[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct CpuPerCommand {
        /// CPU time of all replicas and clients, and of everything else in their processes, per committed command.
        pub total: Option<f64> ["us" as cpu_us_per_command],
        /// CPU time of all replicas per committed command.
        pub replicas: Option<f64> ["us" as replica_cpu_us_per_command],
        /// CPU time of all clients per committed command.
        pub clients: Option<f64> ["us" as client_cpu_us_per_command],
    }
}

record! {
    /// CPU time of channels per committed command, in microseconds, estimated from a sample; `null` if nothing
    /// committed, or no call was timed. 0 for a channel that leaves bytes unchanged.
    #[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct ChannelPerCommand {
        /// CPU time of all replicas' channels per committed command.
        pub replicas: Option<f64> ["us"],
        /// CPU time of all clients' channels per committed command.
        pub clients: Option<f64> ["us"],
    }
}

record! {
    /// Packets of all replicas' packet transports.
    #[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct PacketFigures {
        /// Packets given to the operating system, including retransmissions.
        pub sent: u64 ["packets"],
        /// Bytes of these packets, including IPv4 and UDP headers.
        pub bytes_on_wire: u64 ["B"],
        /// Packets retransmitted; 0 with `udp`, which does not retransmit.
        pub retransmissions: u64 ["packets"],
        /// Expired retransmission timeouts; null with `udp`, which has none, and with `quic`, whose library does not
        /// count them.
        pub rto_events: Option<u64> ["timeouts"],
        /// Mean duration of a handshake between replicas, from its first packet, since the start of the replicas;
        /// packet transports only.
        pub handshake_ms: Option<f64> ["ms" as handshake_ms],
    }
}

impl PacketFigures {
    /// Returns the figures of a measured time; `None` if no packets were sent.
    pub(crate) fn of(growth: &Growth<'_>) -> Option<PacketFigures> {
        let sent = growth.sum(|status| status.packets_sent);
        let (handshakes, us) = (growth.total(|status| status.handshakes), growth.total(|status| status.handshakes_us));
        (sent > 0).then(|| PacketFigures {
            sent,
            bytes_on_wire: growth.sum(|status| status.bytes_sent) + UDP_HEADER_BYTES * sent,
            retransmissions: growth.sum(|status| status.retransmissions),
            rto_events: growth
                .any(|status| status.retransmission_timeouts.is_some())
                .then(|| growth.sum(|status| status.retransmission_timeouts.unwrap_or(0))),
            handshake_ms: per(us as f64 / 1e3, handshakes),
        })
    }
}

/// Returns `quantity / count`, or `None` if `count` is 0.
pub fn per(quantity: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| quantity / count as f64)
}

record! {
    /// Figures of one second of the measured time.
    #[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct Second {
        /// Start of this second, from the start of the measured time; 0 is the first.
        pub second: u32 ["s"],
        /// Commands completed, that is, committed and answered to their clients.
        pub ops: u64 ["commands/s" as completed_per_s],
        /// Commands executed, at the replica that has executed the most; null if the replicas did not report.
        #[serde(default)]
        pub executed_commands: Option<u64> ["commands/s" as executed_per_s],
        /// Views entered, at the replica in the highest view; null if the replicas did not report.
        #[serde(default)]
        pub views: Option<u64> ["views/s"],
        /// Views that timed out, at the replica with the most timeouts; null if the replicas did not report.
        #[serde(default)]
        pub view_timeouts: Option<u64> ["timeouts/s" as timeouts_per_s],
        /// Median latency of the commands completed in this second, from their intended send time; null without
        /// commands.
        pub p50_ms: Option<f64> ["ms" as p50_ms],
        /// 99th percentile of this latency.
        pub p99_ms: Option<f64> ["ms" as p99_ms],
    }
}

record! {
    /// Figures of one step of a changing load.
    #[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
    pub struct Step {
        /// Start of the step, from the start of the measured time.
        pub from_s: f64 ["s"],
        /// End of the step.
        pub to_s: f64 ["s"],
        /// Open loop: mean rate of due commands over the step.
        pub rate: Option<f64> ["commands/s"],
        /// Closed loop: commands outstanding per client.
        pub outstanding: Option<u64> ["commands"],
        /// Commands completed per second.
        pub throughput_ops: f64 ["commands/s"],
        /// Median latency of the commands due in this step, from the intended send time.
        pub p50_ms: Option<f64> ["ms"],
        /// 99th percentile of this latency.
        pub p99_ms: Option<f64> ["ms"],
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(
            self,
            "{from_s:} to {to_s}: [{rate} offered][{outstanding} outstanding each], {throughput_ops} completed, \
             p50 {p50_ms}, p99 {p99_ms}",
        ))
    }
}

/// Bucket of the latency histogram.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bucket {
    /// Lower bound, inclusive.
    pub from_ms: f64,
    /// Upper bound, exclusive.
    pub to_ms: f64,
    pub count: u64,
}

/// Returns the counts of a histogram of microseconds in logarithmic buckets, [`BUCKETS_PER_DECADE`] per factor of ten,
/// without gaps from the first non-empty bucket to the last.
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

/// Event of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Seconds from the start of the measured time; negative in the warm-up.
    pub time_s: f64,
    pub text: String,
}

/// Result of comparing the replicas' executed histories at the end.
#[derive(Clone, PartialEq, Debug)]
pub enum Agreement {
    /// Of any two replicas, one executed a prefix of the other's commands. `true` in JSON.
    Agreed,
    /// Two replicas executed different commands: safety is violated. An object in JSON.
    Differs(Difference),
    /// The comparison was impossible, for this reason. A string in JSON.
    Unknown(String),
}

impl Agreement {
    /// Returns the result of a comparison in a run. With only PBFT's three phases, each replica executes its own
    /// decisions, so none is made.
    pub(crate) fn in_run(spec: &BenchSpec, compare: impl FnOnce() -> Agreement) -> Agreement {
        if spec.fails_slots() {
            return Agreement::Unknown(
                "only the three phases ran, and each replica passes over what failed there".into(),
            );
        }
        compare()
    }

    /// Compares the histories of all replicas that reported one.
    pub(crate) fn of(statuses: &[Option<Status>]) -> Agreement {
        let reported = statuses.iter().flatten();
        let histories: Vec<_> = reported.map(|status| (status.replica, status.history.clone())).collect();
        match compare_histories(&histories) {
            Ok(Height(0)) => Agreement::Unknown("the replicas' histories have no height in common".into()),
            Ok(_) => Agreement::Agreed,
            Err(divergence) => {
                let side = |at: usize| &divergence.sides[at];
                Agreement::Differs(Difference {
                    height: divergence.height.0,
                    replicas: [side(0).1[0].0, side(1).1[0].0],
                    blocks: [side(0).0.to_hex(), side(1).0.to_hex()],
                })
            }
        }
    }
}

/// First difference between the histories of two replicas.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The lowest height at which they differ.
    pub height: u64,
    pub replicas: [u16; 2],
    /// Hexadecimal digests of their blocks at this height, in the same order.
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
            Agreement::Differs(difference) => write!(f, "VIOLATED: {difference}"),
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
                Err(D::Error::custom("`agreement` is true or the first difference, never false"))
            }
            AgreementForm::Reason(why) => Ok(Agreement::Unknown(why)),
            AgreementForm::Difference(difference) => Ok(Agreement::Differs(difference)),
        }
    }
}

impl BenchResult {
    /// Returns the result of a run without measurements.
    pub fn empty(spec: &BenchSpec) -> BenchResult {
        let (growth, frontier, own) = (Growth::of([]), &Frontier::default(), OfHost::default());
        let agreement = Agreement::Unknown("there were no replicas".to_owned());
        BenchResult::of(&Measured { spec, load: None, growth, frontier, agreement, own })
    }

    /// Returns whether the value of a key of the spec is known. The settings of a running cluster are known only if its
    /// replicas report them.
    pub fn knows(&self, key: &str) -> bool {
        let Some(Loaded { settings }) = &self.loaded else { return true };
        let of_client = ["replicas", "faults", "client_authentication", "reply_authentication"].contains(&key);
        let reported = key == "journal" || entry(key).is_some_and(|entry| entry.key.is_reported());
        of_client || [LOAD, OUTPUT].contains(&heading_of(key)) || settings.is_some() && reported
    }
}

/// Returns the version of this build.
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_string()
}
