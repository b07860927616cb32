//! `quorate twins`: generates, plays, replays and shrinks scenarios of twins and partitions.

pub mod museum;
mod options;
mod result;

pub use options::{
    ChoiceArgs, ConvertArgs, EntryArgs, GenerateArgs, ReplayArgs, RunArgs, ShapeArgs, ShrinkArgs, TwinsCommand,
    TwinsError,
};
pub use result::{FindingResult, ShapeResult, Simplest, TwinsResult};

use crate::spec::ProtocolKind;
use crate::{input, partial};
use quorate_adversary::twins::foreign::{FileFormat, format as foreign_file, parse as parse_foreign};
use quorate_adversary::twins::play::{player, replay as play_once};
use quorate_adversary::twins::run::{Finding, Source};
use quorate_adversary::twins::scenario::ScenarioError;
use quorate_adversary::twins::{Entry, Scenario, Space, Verdict, shrink as shrink_scenario};
use result::entry;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Instant;

/// Maximum size of a file of another implementation, in bytes.
const MAX_FOREIGN_BYTES: u64 = 256 << 20;
/// Name that stands for standard input or output.
const STANDARD: &str = "-";

/// Writes scenarios to `place`, one per line, and returns their number.
///
/// # Errors
/// If the shape is invalid, or `place` cannot be written.
pub fn generate(arguments: &GenerateArgs, place: &mut dyn Write) -> Result<u64, TwinsError> {
    let space = arguments.shape.space()?;
    let source = Source::Space(&space, arguments.choice.of(&space)?);
    let mut written = 0;
    for scenario in source.part(arguments.choice.shard) {
        let line = Entry::from(scenario).to_line();
        writeln!(place, "{line}").map_err(|source| TwinsError::Write { path: arguments.out.clone(), source })?;
        written += 1;
    }
    Ok(written)
}

/// Returns the space of scenarios of a shape.
///
/// # Errors
/// If the shape is invalid.
pub fn space_of(shape: &ShapeArgs) -> Result<Space, TwinsError> {
    shape.space()
}

/// Plays scenarios. Reports the number played and the total to `on_progress` from time to time.
///
/// # Errors
/// If there is nothing to play. A violation is part of the result, not an error.
pub fn run(arguments: &RunArgs, on_progress: &(dyn Fn(u64, u64) + Sync)) -> Result<TwinsResult, TwinsError> {
    let threads =
        arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()));
    let (space, choice, entries);
    let source = match &arguments.input {
        Some(path) => {
            entries = read_entries(path)?;
            space = None;
            Source::List(&entries)
        }
        None => {
            let of_shape = arguments.shape.space()?;
            choice = arguments.choice.of(&of_shape)?;
            space = Some(of_shape);
            Source::Space(space.as_ref().expect("it was just set"), choice)
        }
    };
    let shard = arguments.choice.shard;
    let total = shard.share(source.len());
    let start = Instant::now();
    let outcome = quorate_adversary::twins::run::run_while(
        arguments.protocol,
        &source,
        shard,
        threads,
        &|done| on_progress(done, total),
        partial::goes_on,
    );
    let wall = start.elapsed();
    let shape = space.as_ref().map(|space| ShapeResult::of(space.shape(), space.count()));
    let mut result = TwinsResult::new(arguments, shape, &outcome, threads, wall);
    result.partial = partial::partial(|| format!("after {} of {total} scenarios", outcome.scenarios))
        .filter(|_| outcome.scenarios < total);
    if let Some(worst) = outcome.findings.iter().min_by_key(|finding| (finding.stalled, finding.number)) {
        let simplest = simplest(arguments.protocol, worst);
        result.found = lines(arguments, &simplest, &outcome.findings);
        let (_, transcript) = play_once(arguments.protocol, &simplest.scenario);
        result.saved = Some(arguments.save.display().to_string());
        result.simplest = Some(Simplest {
            number: worst.number,
            scenario: serde_json::from_str(&simplest.to_line()).expect("a line is JSON"),
            transcript: transcript.lines().map(str::to_owned).collect(),
        });
    }
    Ok(result)
}

/// Shrinks a finding to the simplest scenario with the same violation.
fn simplest(protocol: ProtocolKind, finding: &Finding) -> Entry {
    let (scenario, verdict) = simplify(protocol, &finding.scenario).expect("a scenario has the same verdict each time");
    entry(protocol, &scenario, verdict.violation().expect("it violates the same invariant"))
}

/// Shrinks a scenario to the simplest one that violates the same invariant; `None` if it violates none.
fn simplify(protocol: ProtocolKind, scenario: &Scenario) -> Option<(Scenario, Verdict)> {
    let mut play = player(protocol);
    let property = play(scenario).violation()?.property;
    let simplest = shrink_scenario::shrink(scenario, |simpler| {
        play(simpler).violation().is_some_and(|found| found.property == property)
    });
    let verdict = play(&simplest);
    Some((simplest, verdict))
}

/// Returns the findings as lines of a scenario file, the simplest first.
fn lines(arguments: &RunArgs, simplest: &Entry, findings: &[Finding]) -> String {
    let found = findings.iter().map(|finding| entry(arguments.protocol, &finding.scenario, &finding.violation));
    let lines: Vec<String> = std::iter::once(simplest.to_line()).chain(found.map(|found| found.to_line())).collect();
    lines.join("\n") + "\n"
}

/// Result of a replay.
pub struct Replayed {
    pub protocol: ProtocolKind,
    pub verdict: Verdict,
    pub transcript: String,
}

/// Replays a scenario of a file, and records a transcript.
///
/// # Errors
/// If the file lacks the scenario.
pub fn replay(arguments: &ReplayArgs) -> Result<Replayed, TwinsError> {
    let (protocol, entry) = read_entry(&arguments.entry)?;
    let (verdict, transcript) = play_once(protocol, &entry.scenario);
    Ok(Replayed { protocol, verdict, transcript })
}

/// Shrinks a scenario of a file.
///
/// # Errors
/// If the file lacks the scenario, or it violates no invariant.
pub fn shrink(arguments: &ShrinkArgs) -> Result<Entry, TwinsError> {
    let (protocol, read) = read_entry(&arguments.entry)?;
    let (scenario, verdict) = simplify(protocol, &read.scenario).ok_or(TwinsError::Safe(protocol))?;
    Ok(entry(protocol, &scenario, verdict.violation().expect("it violates the same invariant")))
}

/// Returns the scenarios of a file in another format. Protocols and findings are left out by formats that lack them.
///
/// # Errors
/// If the file is invalid, or the other format cannot express a scenario.
pub fn convert(arguments: &ConvertArgs) -> Result<String, TwinsError> {
    let path = arguments.file.display().to_string();
    let foreign = |source| TwinsError::Foreign { path: path.clone(), source };
    if arguments.from == FileFormat::Quorate {
        let entries = read_entries(&arguments.file)?;
        if arguments.to == FileFormat::Quorate {
            return Ok(entries.iter().map(|entry| entry.to_line() + "\n").collect());
        }
        let scenarios: Vec<Scenario> = entries.into_iter().map(|entry| entry.scenario).collect();
        return foreign_file(&scenarios, arguments.to).map_err(foreign);
    }
    let unreadable = |source| TwinsError::Read { path: path.clone(), source };
    let source: Box<dyn Read> = match arguments.file.as_os_str() == STANDARD {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(&arguments.file).map_err(unreadable)?),
    };
    let mut text = String::new();
    source.take(MAX_FOREIGN_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FOREIGN_BYTES {
        return Err(unreadable(io::Error::other(format!("it is larger than {MAX_FOREIGN_BYTES} bytes; split it"))));
    }
    let scenarios = parse_foreign(&text, arguments.from).map_err(foreign)?;
    foreign_file(&scenarios, arguments.to).map_err(foreign)
}

fn read_entry(arguments: &EntryArgs) -> Result<(ProtocolKind, Entry), TwinsError> {
    let mut entries = read_entries(&arguments.file)?;
    let scenarios = entries.len();
    let at = usize::try_from(arguments.line - 1).unwrap_or(usize::MAX);
    if at >= scenarios {
        let path = arguments.file.display().to_string();
        return Err(TwinsError::NoSuchLine { path, line: arguments.line, scenarios });
    }
    let entry = entries.swap_remove(at);
    Ok((arguments.protocol.or(entry.protocol).unwrap_or(ProtocolKind::Jolteon), entry))
}

fn read_entries(path: &Path) -> Result<Vec<Entry>, TwinsError> {
    let name = || path.display().to_string();
    let unreadable = |source| TwinsError::Read { path: name(), source };
    let source: Box<dyn Read> = if path.as_os_str() == STANDARD {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(unreadable)?)
    };
    let mut entries = Vec::new();
    let read = input::each_line(source, |line, text| {
        let entry = Entry::from_line(text).map_err(|source| Bad::Line(line, source))?;
        entries.push(entry);
        Ok(())
    });
    match read {
        Ok(()) => Ok(entries),
        Err(Bad::Source(source)) => Err(unreadable(source)),
        Err(Bad::Line(line, source)) => Err(TwinsError::Line { path: name(), line, source }),
    }
}

/// Reason why reading a scenario file stopped early.
enum Bad {
    Source(io::Error),
    Line(usize, ScenarioError),
}

impl From<io::Error> for Bad {
    fn from(source: io::Error) -> Bad {
        Bad::Source(source)
    }
}
