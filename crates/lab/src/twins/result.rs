//! What `quorate twins run` reports.

use super::RunArgs;
use crate::result::{Machine, count, version};
use quorate_consensus::config::ProtocolKind;
use quorate_twins::run::{Finding, Outcome, Shard};
use quorate_twins::{Complaint, Entry, Scenario, Shape};
use serde::Serialize;
use std::time::Duration;

/// Findings that a table shows.
const SHOWN: usize = 10;

/// Everything that `quorate twins run` reports.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TwinsResult {
    /// The protocol.
    pub protocol: ProtocolKind,
    /// What the scenarios have in common; none if they come from a file.
    pub shape: Option<ShapeResult>,
    /// The file that they come from.
    pub input: Option<String>,
    /// Scenarios that were drawn; none if they were taken in order.
    pub sample: Option<u64>,
    /// What decided the sample.
    pub seed: Option<u64>,
    /// Which part of them: K of N.
    pub shard: [u64; 2],
    /// Scenarios that were played.
    pub scenarios: u64,
    /// Those that broke a law that must hold whatever happens.
    #[serde(rename = "unsafe")]
    pub unsafe_scenarios: u64,
    /// Those in which nothing was executed for too long when all was healed.
    pub stalled: u64,
    /// Time that it took.
    pub wall_seconds: f64,
    /// Scenarios for each second of it.
    pub scenarios_per_second: f64,
    /// Threads that played.
    pub threads: usize,
    /// The first scenarios that broke a law.
    pub findings: Vec<FindingResult>,
    /// Where they were saved.
    pub saved: Option<String>,
    /// What is saved there.
    #[serde(skip)]
    pub found: String,
    /// How far the run had come when a signal ended it; none if it came to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Why nothing is promised about these scenarios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<String>,
    /// The first unsafe one, or else the first that stalled, made as simple as can be.
    pub simplest: Option<Simplest>,
    /// Where it was run.
    pub machine: Machine,
    /// The version of quorate.
    pub version: String,
}

/// What scenarios have in common.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ShapeResult {
    /// n.
    pub replicas: usize,
    /// f.
    pub faults: usize,
    /// Replicas that have a second instance.
    pub twins: usize,
    /// Most groups in a round.
    pub partitions: usize,
    /// Rounds.
    pub rounds: usize,
    /// Whether messages may pass one way between groups.
    pub one_way: bool,
    /// Whether of scenarios that are equal up to a renaming one was kept.
    pub pruned: bool,
    /// How many scenarios there are, in decimal digits.
    pub space: String,
}

/// A scenario that broke a law.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FindingResult {
    /// Its number in the sample, the order or the file, from 0.
    pub number: u64,
    /// `unsafe` or `stalled`.
    pub verdict: &'static str,
    /// The law.
    pub law: &'static str,
    /// What was seen.
    pub what: String,
}

/// A scenario made simple.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Simplest {
    /// Of which it was made.
    pub number: u64,
    /// It, as in a file of scenarios.
    pub scenario: serde_json::Value,
    /// What happens in it, line by line.
    pub transcript: Vec<String>,
}

impl ShapeResult {
    pub(super) fn of(shape: &Shape, space: u128) -> ShapeResult {
        ShapeResult {
            replicas: shape.cast.replicas(),
            faults: shape.cast.quorum().faults(),
            twins: shape.cast.twins(),
            partitions: shape.partitions,
            rounds: shape.rounds,
            one_way: shape.one_way,
            pruned: shape.pruned,
            space: space.to_string(),
        }
    }
}

/// The line of a file of scenarios for one that broke a law.
pub(super) fn entry(protocol: ProtocolKind, scenario: &Scenario, complaint: &Complaint) -> Entry {
    Entry { scenario: scenario.clone(), protocol: Some(protocol), found: Some(complaint.clone()) }
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
            verdict: if finding.stalled { "stalled" } else { "unsafe" },
            law: finding.complaint.law.name(),
            what: finding.complaint.what.clone(),
        };
        let beyond = shape.as_ref().filter(|shape| shape.twins > shape.faults).map(|shape| {
            format!(
                "{} with a twin, and the protocol bears f = {}: nothing is promised, and an unsafe scenario is no bug",
                shape.twins, shape.faults
            )
        });
        TwinsResult {
            protocol: arguments.protocol,
            beyond,
            shape,
            input: arguments.input.as_ref().map(|path| path.display().to_string()),
            sample,
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

    /// The JSON of `--json`: indented, a line feed at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a result is plain data");
        text.push('\n');
        text
    }

    /// The table for a terminal.
    pub fn to_table(&self) -> String {
        let what = match &self.shape {
            Some(shape) => format!(
                "{} of {} scenarios: {} replicas, {} twins, {} partitions, {} rounds{}",
                count(self.scenarios),
                shape.space,
                shape.replicas,
                shape.twins,
                shape.partitions,
                shape.rounds,
                if shape.one_way { ", one way" } else { "" },
            ),
            None => format!("{} scenarios", count(self.scenarios)),
        };
        let mut text = format!(
            " {}   {what}\n unsafe     {}\n stalled    {}\n time       {:.3} s on {} threads, {} scenarios/s\n",
            self.protocol,
            count(self.unsafe_scenarios),
            count(self.stalled),
            self.wall_seconds,
            self.threads,
            count(self.scenarios_per_second as u64),
        );
        text.insert_str(0, &crate::partial::line(self.partial.as_ref()));
        text.extend(self.beyond.iter().map(|why| format!(" beyond f   {why}\n")));
        for finding in self.findings.iter().take(SHOWN) {
            text.push_str(&format!(" {:<10} {}: {}: {}\n", finding.verdict, finding.number, finding.law, finding.what));
        }
        if let Some(simplest) = &self.simplest {
            text.push_str(&format!(
                "\n scenario {} made as simple as can be:\n{}\n\n",
                simplest.number, simplest.scenario
            ));
            simplest.transcript.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        if let Some(path) = &self.saved {
            text.push_str(&format!("\n saved      {path}; replay the first with\n   quorate twins replay {path}\n"));
        }
        text
    }

    /// What to say if a law was broken.
    pub fn failure(&self) -> Option<String> {
        if self.scenarios == 0 {
            return Some("no scenario was played, so that nothing was shown".into());
        }
        let broken = self.unsafe_scenarios + self.stalled;
        (broken > 0).then(|| {
            let parts = (count(self.unsafe_scenarios), count(self.stalled), count(self.scenarios));
            format!("of {} scenarios {} are unsafe and {} stalled", parts.2, parts.0, parts.1)
        })
    }
}
