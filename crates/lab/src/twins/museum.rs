//! `quorate museum`: historical bugs, put back one at a time, and what finds them.

use super::options::parse_threads;
use crate::partial;
use crate::result::{Machine, count, version};
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use quorate_consensus::config::ProtocolKind;
use quorate_twins::Complaint;
use quorate_twins::museum::{ABSENT, Absent, Caught, EXHIBITS, Exhibit};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// The name of the threads that play: a panic there is what a bug does, and no bug of the museum.
pub const THREAD_NAME: &str = "exhibit";
/// How often a visit looks whether it is to go on.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
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

/// An exhibit that there is not.
#[derive(Debug, Error)]
pub enum NoSuchExhibit {
    /// There is none of that name.
    #[error("there is no exhibit `{name}`; use one of {known}")]
    Unknown {
        /// As given.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The bug is on the list, and is not shown.
    #[error("exhibit {} is not shown: {}: {}", .0.number, .0.bug, .0.why)]
    Absent(&'static Absent),
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

/// The exhibits of those names.
fn chosen(names: &[String]) -> Result<Vec<&'static Exhibit>, NoSuchExhibit> {
    let is = |exhibit: &Exhibit, name: &String| exhibit.name() == *name || exhibit.number.to_string() == *name;
    if let Some(name) = names.iter().find(|name| !EXHIBITS.iter().any(|exhibit| is(exhibit, name))) {
        if let Some(absent) = ABSENT.iter().find(|absent| absent.number.to_string() == *name) {
            return Err(NoSuchExhibit::Absent(absent));
        }
        let known: Vec<String> = EXHIBITS.iter().map(Exhibit::name).collect();
        return Err(NoSuchExhibit::Unknown { name: name.clone(), known: known.join(", ") });
    }
    let shown = |exhibit: &&Exhibit| names.is_empty() || names.iter().any(|name| is(exhibit, name));
    Ok(EXHIBITS.iter().filter(shown).collect())
}

/// What happens in the scenarios that are known to show the exhibits.
///
/// # Errors
/// If there is no such exhibit.
pub fn transcripts(arguments: &MuseumArgs) -> Result<String, NoSuchExhibit> {
    let exhibits = chosen(&arguments.exhibit)?;
    let text = exhibits.iter().map(|exhibit| {
        // A thread of that name, for what a bug does to whoever plays it.
        let play = || exhibit.transcript(true);
        let ending = thread::scope(|scope| {
            let player = thread::Builder::new().name(THREAD_NAME.into()).spawn_scoped(scope, play);
            player.expect("the system has a thread to spare").join().expect("a panic of a replica is caught")
        });
        let seen = ending
            .complaint
            .map_or_else(|| "nothing was found".into(), |Complaint { law, what }| format!("{law}: {what}"));
        format!("{} {}\n\n{}\n{seen}\n", exhibit.name(), exhibit.bug, ending.transcript)
    });
    Ok(text.collect::<Vec<_>>().join("\n\n"))
}

/// Shows exhibits, on many threads. `heard` is told the name of each that is done.
///
/// # Errors
/// If there is no such exhibit. That one was not found is part of the result.
pub fn visit(arguments: &MuseumArgs, heard: &(dyn Fn(&str) + Sync)) -> Result<MuseumResult, NoSuchExhibit> {
    let exhibits = chosen(&arguments.exhibit)?;
    let cores = || thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = arguments.threads.unwrap_or_else(cores).min(exhibits.len());
    let (start, of) = (Instant::now(), exhibits.len());
    let (next, most_scenarios) = (Arc::new(AtomicUsize::new(0)), arguments.most_scenarios);
    let (sender, results) = mpsc::channel();
    for _ in 0..threads {
        let (next, sender, exhibits) = (next.clone(), sender.clone(), exhibits.clone());
        // Nobody waits for these threads: an exhibit may take a while, and a visit that a signal ends does not.
        let work = move || {
            while let Some(exhibit) = exhibits.get(next.fetch_add(1, Ordering::Relaxed)) {
                let start = Instant::now();
                let caught = exhibit.visit(most_scenarios);
                let result = ExhibitResult::of(exhibit, &caught, start.elapsed().as_secs_f64());
                if sender.send(((exhibit.number, exhibit.name()), result)).is_err() {
                    return;
                }
            }
        };
        let worker = thread::Builder::new().name(THREAD_NAME.into()).spawn(work);
        worker.expect("the system has a thread to spare");
    }
    drop(sender);
    let mut done = Vec::with_capacity(of);
    while done.len() < of && partial::goes_on() {
        match results.recv_timeout(LOOK_INTERVAL) {
            Ok(result) => {
                heard(&result.1.exhibit);
                done.push(result);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("an exhibit's thread has ended in the middle"),
        }
    }
    done.sort_by(|(one, _), (other, _)| one.cmp(other));
    let exhibits: Vec<ExhibitResult> = done.into_iter().map(|(_, result)| result).collect();
    let having = |wrong: fn(&HuntResult) -> bool| exhibits.iter().filter(|one| one.found_by.iter().any(wrong)).count();
    Ok(MuseumResult {
        shown: exhibits.len(),
        partial: partial::partial(|| format!("after {} of {of} exhibits", exhibits.len()))
            .filter(|_| exhibits.len() < of),
        missed: having(|hunt| hunt.found.is_none()),
        unsound: having(|hunt| hunt.without_bug.is_some()),
        absent: ABSENT
            .iter()
            .map(|absent| AbsentResult { number: absent.number, bug: absent.bug, why: absent.why })
            .collect(),
        exhibits,
        wall_seconds: start.elapsed().as_secs_f64(),
        threads,
        machine: Machine::here(),
        version: version(),
    })
}

impl ExhibitResult {
    fn of(exhibit: &Exhibit, caught: &[Caught], seconds: f64) -> ExhibitResult {
        let found = |(scenarios, complaint): &(u64, Complaint)| FoundResult {
            scenarios: *scenarios,
            law: complaint.law.name(),
            what: complaint.what.clone(),
        };
        let hunt = |caught: &Caught| HuntResult {
            hunt: caught.hunt,
            budget: caught.budget,
            found: caught.found.as_ref().map(found),
            without_bug: caught.sound.as_ref().map(found),
        };
        ExhibitResult {
            exhibit: exhibit.name(),
            bug: exhibit.bug,
            source: exhibit.source,
            mutant: exhibit.mutant.map(|mutant| format!("{mutant:?}")),
            protocol: exhibit.protocol,
            passed: caught.iter().all(Caught::passed),
            found_by: caught.iter().map(hunt).collect(),
            seconds,
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
