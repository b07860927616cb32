//! `quorate museum`: historical bugs, reintroduced one at a time, and the tests that find them. Needs the feature
//! `museum`; without it, no replica in this program can have such a bug.

#[cfg(feature = "museum")]
mod visit;

#[cfg(feature = "museum")]
pub use visit::{transcripts, visit};

use super::options::parse_threads;
use crate::record::record;
use crate::result::{Machine, count};
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use quorate_consensus::config::ProtocolKind;
use quorate_operator::report::Report;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Whether replicas of this build can be given bugs.
pub const IS_BUILT: bool = cfg!(feature = "museum");
/// Name of the threads that play exhibits. A panic on such a thread comes from a reintroduced bug, not from the museum
/// itself.
pub const THREAD_NAME: &str = "exhibit";
/// Width of the table, in characters.
const TABLE_WIDTH: u16 = 150;

/// Flags of `quorate museum`.
#[derive(Args, Clone, Debug)]
pub struct MuseumArgs {
    /// Visit only these exhibits: all variants of a number, such as 8, or a single one, such as 8b [default: all].
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',')]
    pub exhibit: Vec<String>,
    /// Print the transcript of each exhibit's own scenario, and play no other.
    #[arg(long, conflicts_with = "json")]
    pub transcript: bool,
    /// Skip hunts that may need more scenarios than this.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    pub max_scenarios: u64,
    /// Threads [default: all cores].
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// Reason why an exhibit cannot be visited.
#[derive(Debug, Error)]
pub enum MuseumError {
    /// The feature is off.
    #[error(
        "the museum of bugs is not in this build, because a program that can add bugs must not run a cluster; \
         help: cargo run --release --features museum -- museum"
    )]
    NotBuilt,
    /// No exhibit has this name.
    #[error("there is no exhibit `{name}`; help: use one of {known}")]
    Unknown { name: String, known: String },
    /// The bug is listed, but has no exhibit.
    #[error("exhibit {number} is not shown: {bug}: {why}")]
    Absent { number: u8, bug: &'static str, why: &'static str },
}

record! {
    /// Result of `quorate museum`.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct MuseumResult {
        /// Exhibits that were visited.
        pub shown: u64 ["exhibits"],
        /// Reintroduced bugs that a search missed within its budget.
        pub missed: u64 ["bugs" as bugs_missed],
        /// Bugs whose scenarios show a violation even without the bug.
        pub unsound: u64 ["bugs" as false_alarms],
        /// The exhibits, with the hunts that found their bugs.
        pub exhibits: Vec<ExhibitResult>,
        /// Progress of the visit when a signal ended it; absent if it completed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub partial: Option<String>,
        /// Bugs that are listed, but have no exhibit.
        pub absent: Vec<AbsentResult>,
        /// Mutants: bugs without a scenario of their own, which measure the checkers. Not played here.
        #[serde(default)]
        pub mutants: Vec<MutantResult>,
        /// Real time of the visit.
        pub wall_seconds: f64 ["s"],
        /// Threads that played the scenarios.
        pub threads: usize ["threads"],
        /// Processor, cores, memory and kernel.
        pub machine: Machine,
        /// Version of the program.
        pub version: String,
    }
}

/// Result of all hunts for one of the museum's bugs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ExhibitResult {
    /// Name, such as 8b.
    pub exhibit: String,
    pub bug: String,
    /// Project or publication with the bug.
    pub source: String,
    /// Mutant; `None` if the bug is a configuration, or outside the replica's core.
    pub mutant: Option<String>,
    pub protocol: ProtocolKind,
    /// Whether every hunt found the bug, and no scenario shows a violation without it.
    pub passed: bool,
    /// The exhibit's own scenario, and each hunt.
    pub found_by: Vec<HuntResult>,
    pub seconds: f64,
}

/// Result of one search method for a bug.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HuntResult {
    /// `directed`, `twins`, `mutation`, `random`, `crash-sweep` or `lasso`.
    pub hunt: String,
    /// Maximum number of scenarios within which the bug must be found.
    pub budget: u64,
    pub found: Option<FoundResult>,
    /// A violation in the same scenarios without the bug.
    pub without_bug: Option<FoundResult>,
}

/// First run in which a hunt found its bug.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FoundResult {
    /// Number of the scenario, from 1.
    pub scenarios: u64,
    pub property: String,
    pub what: String,
}

/// Bug that is listed, but has no exhibit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AbsentResult {
    pub number: u8,
    pub bug: String,
    /// Reason why it has no exhibit.
    pub why: String,
}

/// Bug without a scenario of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MutantResult {
    /// Number in the list of mutants.
    pub number: u8,
    pub bug: String,
    /// Mutant; `None` if an exhibit has the same bug.
    pub mutant: Option<String>,
    /// Exhibit with the same bug.
    pub shown_by: Option<String>,
    /// Checker of `mutation/run.sh` that finds it first; `None` if none does.
    pub found_by: Option<String>,
    /// Property that this checker sees violated; `None` if it misses something else that it expects.
    pub property: Option<String>,
}

/// Stands in for the museum in builds without it.
///
/// # Errors
/// Always: the feature `museum` is off.
#[cfg(not(feature = "museum"))]
pub fn transcripts(_arguments: &MuseumArgs) -> Result<String, MuseumError> {
    Err(MuseumError::NotBuilt)
}

/// Stands in for the museum in builds without it.
///
/// # Errors
/// Always: the feature `museum` is off.
#[cfg(not(feature = "museum"))]
pub fn visit(_arguments: &MuseumArgs, _on_exhibit: &(dyn Fn(&str) + Sync)) -> Result<MuseumResult, MuseumError> {
    Err(MuseumError::NotBuilt)
}

impl MutantResult {
    fn found(&self) -> String {
        match (&self.shown_by, &self.found_by, &self.property) {
            (Some(exhibit), _, _) => format!("exhibit {exhibit}"),
            (None, Some(checker), Some(property)) => format!("{property}, found by {checker}"),
            (None, Some(checker), None) => format!("found by {checker}"),
            (None, None, _) => "found by no checker".to_owned(),
        }
    }
}

impl HuntResult {
    fn text(&self) -> String {
        let found = match &self.found {
            Some(found) => format!("{} {}", self.hunt, count(found.scenarios)),
            None => format!("MISSED by {} in {}", self.hunt, count(self.budget)),
        };
        match &self.without_bug {
            Some(wrong) => {
                let FoundResult { scenarios, property, what } = wrong;
                format!("{found}, and WITHOUT THE BUG scenario {scenarios} violates {property}: {what}")
            }
            None => found,
        }
    }
}

impl Report for MuseumResult {
    fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(TABLE_WIDTH);
        table.set_header(["", "bug", "source", "protocol", "found by, with scenarios needed", "seconds"]);
        for one in &self.exhibits {
            let found: Vec<String> = one.found_by.iter().map(HuntResult::text).collect();
            let (protocol, seconds) = (one.protocol.to_string(), format!("{:.2}", one.seconds));
            table.add_row([&one.exhibit, &one.bug, &one.source, &protocol, &found.join(", "), &seconds]);
        }
        let mut text = crate::result::partial_line(self.partial.as_ref());
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push_str("\n not exhibited\n");
        for absent in &self.absent {
            text.push_str(&format!(" {:<4} {}: {}\n", absent.number, absent.bug, absent.why));
        }
        text.push_str("\n mutants, without a scenario of their own\n");
        for mutant in &self.mutants {
            text.push_str(&format!(" {:<4} {}: {}\n", mutant.number, mutant.bug, mutant.found()));
        }
        text.push_str(&format!(
            "\n {} exhibits, {} missed, {} with a violation without the bug; {:.1} s on {} threads\n",
            self.shown, self.missed, self.unsound, self.wall_seconds, self.threads
        ));
        text
    }

    /// Returns a message if a bug was missed, or a violation occurred without a bug.
    fn failure(&self) -> Option<String> {
        let (missed, unsound, shown) = (self.missed, self.unsound, self.shown);
        let text = || {
            format!(
                "of {shown} exhibits {missed} were missed, and {unsound} show a violation without the \
                               bug"
            )
        };
        (missed + unsound > 0).then(text)
    }
}
