//! Result of `quorate twins run`.

use super::RunArgs;
use crate::record::record;
use crate::result::{Machine, count, line, version};
use quorate_adversary::twins::run::{Finding, Outcome, Shard};
use quorate_adversary::twins::{Entry, Scenario, Shape, Violation};
use quorate_consensus::config::ProtocolKind;
use quorate_operator::report::Report;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum number of findings in the table.
const SHOWN: usize = 10;

record! {
    /// Result of `quorate twins run`.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct TwinsResult {
        /// Protocol of the replicas.
        pub protocol: ProtocolKind,
        /// Shape of the scenarios; null if they come from a file.
        pub shape: Option<ShapeResult>,
        /// File that contains the scenarios.
        pub input: Option<String>,
        /// Number of scenarios drawn; null if they were taken in order.
        pub sample: Option<u64>,
        /// Whether replicas of sampled scenarios restart and lose their disks.
        #[serde(default)]
        pub lost_disks: bool,
        /// Seed of the sample.
        pub seed: Option<u64>,
        /// Part of the selection that was played: K of N.
        pub shard: [u64; 2],
        /// Scenarios of twins and partitions played.
        pub scenarios: u64 ["scenarios" as scenarios],
        /// Scenarios that violated a safety invariant.
        #[serde(rename = "unsafe")]
        pub unsafe_scenarios: u64 ["scenarios" as unsafe_scenarios],
        /// Scenarios after which the replicas made no progress, although all faults had ended.
        pub stalled: u64 ["scenarios" as stalled_scenarios],
        /// Real time of the run.
        pub wall_seconds: f64 ["s"],
        /// Scenarios played per second on all cores.
        pub scenarios_per_second: f64 ["scenarios/s" as scenarios_per_s],
        /// Threads that played the scenarios.
        pub threads: usize ["threads"],
        /// The first scenarios with violations.
        pub findings: Vec<FindingResult>,
        /// File in which the findings were saved.
        pub saved: Option<String>,
        /// Content of that file.
        #[serde(skip)]
        pub found: String,
        /// Progress of the run when a signal ended it; absent if it completed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub partial: Option<String>,
        /// Reason why safety is not guaranteed in these scenarios.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub beyond: Option<String>,
        /// The first unsafe scenario, or else the first stalled one, shrunk.
        pub simplest: Option<Simplest>,
        /// Processor, cores, memory and kernel.
        pub machine: Machine,
        /// Version of the program.
        pub version: String,
    }
}

/// Parameters that define the space of scenarios.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ShapeResult {
    /// Number of replicas, n.
    pub replicas: usize,
    /// Tolerated Byzantine replicas, f.
    pub faults: usize,
    /// Replicas with a second instance.
    pub twins: usize,
    /// Maximum number of groups in a round.
    pub partitions: usize,
    pub rounds: usize,
    /// Whether messages may pass in only one direction between groups.
    pub one_way: bool,
    /// Whether only one of several scenarios that are equal up to renaming was kept.
    pub pruned: bool,
    /// Number of scenarios, in decimal digits.
    pub space: String,
}

/// Scenario with a violation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FindingResult {
    /// Number in the sample, the order or the file, from 0.
    pub number: u64,
    /// `unsafe` or `stalled`.
    pub verdict: String,
    pub property: String,
    pub what: String,
}

/// Shrunk scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Simplest {
    /// Number of the original scenario.
    pub number: u64,
    /// The scenario, in the format of a scenario file.
    pub scenario: serde_json::Value,
    pub transcript: Vec<String>,
}

impl ShapeResult {
    pub(super) fn of(shape: &Shape, space: u128) -> ShapeResult {
        ShapeResult {
            replicas: shape.participants.replicas(),
            faults: shape.participants.quorum().faults(),
            twins: shape.participants.twins(),
            partitions: shape.partitions,
            rounds: shape.rounds,
            one_way: shape.one_way,
            pruned: shape.pruned,
            space: space.to_string(),
        }
    }
}

/// Returns the line of a scenario file for a scenario with a violation.
pub(super) fn entry(protocol: ProtocolKind, scenario: &Scenario, violation: &Violation) -> Entry {
    Entry { scenario: scenario.clone(), protocol: Some(protocol), found: Some(violation.clone()) }
}

impl TwinsResult {
    pub(super) fn new(
        arguments: &RunArgs,
        shape: Option<ShapeResult>,
        outcome: &Outcome,
        threads: usize,
        wall: Duration,
    ) -> TwinsResult {
        let Shard { index, of } = arguments.choice.shard;
        let sample = arguments.choice.sample.filter(|_| shape.is_some());
        let finding = |finding: &Finding| FindingResult {
            number: finding.number,
            verdict: if finding.stalled { "stalled" } else { "unsafe" }.to_owned(),
            property: finding.violation.property.name().to_owned(),
            what: finding.violation.what.clone(),
        };
        let beyond = shape.as_ref().filter(|shape| shape.twins > shape.faults).map(|shape| {
            format!(
                "{} replicas with a twin, but the protocol tolerates f = {}: safety is not guaranteed, and an unsafe \
                 scenario is not a bug",
                shape.twins, shape.faults
            )
        });
        TwinsResult {
            protocol: arguments.protocol,
            beyond,
            shape,
            input: arguments.input.as_ref().map(|path| path.display().to_string()),
            sample,
            lost_disks: sample.is_some() && arguments.choice.lost_disks,
            seed: sample.map(|_| arguments.choice.seed),
            shard: [index, of],
            scenarios: outcome.scenarios,
            unsafe_scenarios: outcome.unsafe_scenarios,
            stalled: outcome.stalled,
            wall_seconds: wall.as_secs_f64(),
            scenarios_per_second: outcome.scenarios as f64 / wall.as_secs_f64().max(f64::MIN_POSITIVE),
            threads,
            findings: outcome.findings.iter().map(finding).collect(),
            saved: None,
            found: String::new(),
            partial: None,
            simplest: None,
            machine: Machine::here(),
            version: version(),
        }
    }
}

impl Report for TwinsResult {
    fn to_table(&self) -> String {
        let what = match &self.shape {
            Some(shape) => format!(
                "{} of {} scenarios: {} replicas, {} twins, {} partitions, {} rounds{}{}",
                count(self.scenarios),
                shape.space,
                shape.replicas,
                shape.twins,
                shape.partitions,
                shape.rounds,
                if shape.one_way { ", one way" } else { "" },
                if self.lost_disks { ", lost disks" } else { "" },
            ),
            None => format!("{} scenarios", count(self.scenarios)),
        };
        let mut text = crate::result::partial_line(self.partial.as_ref());
        text.push_str(&format!(" {}   {what}\n", self.protocol));
        text.push_str(&line("unsafe", count(self.unsafe_scenarios)));
        text.push_str(&line("stalled", count(self.stalled)));
        let rate = count(self.scenarios_per_second as u64);
        let (seconds, threads) = (self.wall_seconds, self.threads);
        text.push_str(&line("time", format!("{seconds:.3} s on {threads} threads, {rate} scenarios/s")));
        text.extend(self.beyond.iter().map(|why| line("beyond f", why)));
        for finding in self.findings.iter().take(SHOWN) {
            let FindingResult { number, verdict, property, what } = finding;
            text.push_str(&line(verdict, format!("{number}: {property}: {what}")));
        }
        if let Some(simplest) = &self.simplest {
            text.push_str(&format!("\n scenario {}, shrunk:\n{}\n\n", simplest.number, simplest.scenario));
            simplest.transcript.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        if let Some(path) = &self.saved {
            text.push_str(&format!("\n{}", line("saved", path)));
            text.push_str(&line("reproduce", format!("quorate twins replay {path}")));
        }
        text
    }

    /// Returns a message if there was a violation, or no scenario was played.
    fn failure(&self) -> Option<String> {
        if self.scenarios == 0 {
            return Some("no scenario was played, so the run shows nothing".into());
        }
        let failed = self.unsafe_scenarios + self.stalled;
        (failed > 0).then(|| {
            let parts = (count(self.unsafe_scenarios), count(self.stalled), count(self.scenarios));
            format!("of {} scenarios {} are unsafe and {} stalled", parts.2, parts.0, parts.1)
        })
    }
}
