//! `quorate museum`: historical bugs, put back one at a time, and what finds them. With the feature `museum` only: without it no replica
//! in this program can be given a bug, and nobody gets in.

#[cfg(feature = "museum")]
mod visit;

#[cfg(feature = "museum")]
pub use visit::{transcripts, visit};

use super::options::parse_threads;
use crate::result::{Machine, count};
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use quorate_consensus::config::ProtocolKind;
use serde::Serialize;
use thiserror::Error;

/// The name of the threads that play: a panic there is what a bug does, and no bug of the museum.
pub const THREAD_NAME: &str = "exhibit";
/// The width of the table, in characters.
const TABLE_WIDTH: u16 = 150;

/// All flags of `quorate museum`.
#[derive(Args, Clone, Debug)]
pub struct MuseumArgs {
    /// Show these only: by number, such as 8, or one of several with that number, such as 8b [default: all].
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',')]
    pub exhibit: Vec<String>,
    /// Print what happens in the scenario that is known to show each, and play nothing else.
    #[arg(long, conflicts_with = "json")]
    pub transcript: bool,
    /// Leave out hunts that may take more scenarios than that.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    pub most_scenarios: u64,
    /// Threads [default: all cores].
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// Why nothing is shown.
#[derive(Debug, Error)]
pub enum MuseumError {
    /// The feature is off.
    #[error(
        "the museum of bugs is not in this build: a program whose replicas can be given bugs is not one to run a cluster with; \
         help: cargo run --release --features museum -- museum"
    )]
    NotBuilt,
    /// There is none of that name.
    #[error("there is no exhibit `{name}`; use one of {known}")]
    Unknown {
        /// As given.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The bug is on the list, and is not shown.
    #[error("exhibit {number} is not shown: {bug}: {why}")]
    Absent {
        /// Its number.
        number: u8,
        /// What is wrong.
        bug: &'static str,
        /// Why.
        why: &'static str,
    },
}

/// Everything that `quorate museum` reports.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MuseumResult {
    /// Exhibits that were shown.
    pub shown: usize,
    /// Those that something did not find that has to.
    pub missed: usize,
    /// Those in one of whose scenarios something is wrong without the bug.
    pub unsound: usize,
    /// Each of them.
    pub exhibits: Vec<ExhibitResult>,
    /// How far the visit had come when a signal ended it; none if it came to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// What is on the list and not shown.
    pub absent: Vec<AbsentResult>,
    /// Time that it took.
    pub wall_seconds: f64,
    /// Threads that played.
    pub threads: usize,
    /// Where it was run.
    pub machine: Machine,
    /// The version of quorate.
    pub version: String,
}

/// An exhibit, and what found it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExhibitResult {
    /// Its name, such as 8b.
    pub exhibit: String,
    /// What is wrong.
    pub bug: &'static str,
    /// Who had it, or described it.
    pub source: &'static str,
    /// The mutant; none if what is wrong is a configuration, or not in the replica's core.
    pub mutant: Option<String>,
    /// The protocol that has it.
    pub protocol: ProtocolKind,
    /// Whether everything found it that has to, and nothing else was found.
    pub passed: bool,
    /// Its own scenario, and each hunt.
    pub found_by: Vec<HuntResult>,
    /// Time that all of it took.
    pub seconds: f64,
}

/// What came of a hunt.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HuntResult {
    /// `directed`, `twins`, `mutation`, `random`, `crash-sweep` or `lasso`.
    pub hunt: &'static str,
    /// Within how many scenarios the bug has to be found.
    pub budget: u64,
    /// What was found, and after how many.
    pub found: Option<FoundResult>,
    /// What is wrong in the same scenarios without the bug.
    pub without_bug: Option<FoundResult>,
}

/// Something that must not be.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FoundResult {
    /// In which scenario, from 1.
    pub scenarios: u64,
    /// The law that is broken.
    pub law: &'static str,
    /// What was seen.
    pub what: String,
}

/// A bug that is not shown.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AbsentResult {
    /// Its number.
    pub number: u8,
    /// What is wrong.
    pub bug: &'static str,
    /// Why it is not shown.
    pub why: &'static str,
}

/// What happens in the scenarios that are known to show the exhibits.
///
/// # Errors
/// Always: the feature `museum` is off.
#[cfg(not(feature = "museum"))]
pub fn transcripts(_arguments: &MuseumArgs) -> Result<String, MuseumError> {
    Err(MuseumError::NotBuilt)
}

/// Shows exhibits.
///
/// # Errors
/// Always: the feature `museum` is off.
#[cfg(not(feature = "museum"))]
pub fn visit(_arguments: &MuseumArgs, _heard: &(dyn Fn(&str) + Sync)) -> Result<MuseumResult, MuseumError> {
    Err(MuseumError::NotBuilt)
}

impl HuntResult {
    fn text(&self) -> String {
        let found = match &self.found {
            Some(found) => format!("{} {}", self.hunt, count(found.scenarios)),
            None => format!("MISSED by {} in {}", self.hunt, count(self.budget)),
        };
        match &self.without_bug {
            Some(wrong) => {
                let FoundResult { scenarios, law, what } = wrong;
                format!("{found}, and WITHOUT THE BUG scenario {scenarios} breaks {law}: {what}")
            }
            None => found,
        }
    }
}

impl MuseumResult {
    /// The JSON of `--json`: indented, a line feed at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a result is plain data");
        text.push('\n');
        text
    }

    /// The table for a terminal.
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(TABLE_WIDTH);
        table.set_header(["", "bug", "source", "protocol", "found by, after so many scenarios", "seconds"]);
        for one in &self.exhibits {
            let found: Vec<String> = one.found_by.iter().map(HuntResult::text).collect();
            let (protocol, seconds) = (one.protocol.to_string(), format!("{:.2}", one.seconds));
            table.add_row([&one.exhibit, one.bug, one.source, &protocol, &found.join(", "), &seconds]);
        }
        let mut text = crate::partial::line(self.partial.as_ref());
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push_str("\n not shown\n");
        for absent in &self.absent {
            text.push_str(&format!(" {:<4} {}: {}\n", absent.number, absent.bug, absent.why));
        }
        text.push_str(&format!(
            "\n {} exhibits, {} missed, {} with something wrong without the bug; {:.1} s on {} threads\n",
            self.shown, self.missed, self.unsound, self.wall_seconds, self.threads
        ));
        text
    }

    /// What to say if something was not found that has to be, or something else was.
    pub fn failure(&self) -> Option<String> {
        let (missed, unsound, shown) = (self.missed, self.unsound, self.shown);
        let text =
            || format!("of {shown} exhibits {missed} are missed, and in {unsound} something is wrong without the bug");
        (missed + unsound > 0).then(text)
    }
}
