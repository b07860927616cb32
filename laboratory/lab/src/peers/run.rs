//! Runs a peer: starts its script, measures its processes in a window, and reads its output.

use super::lines::since;
use super::recipe::{LATENCIES, VARIABLES};
use super::tree::{self, LOOK_INTERVAL, Member};
use super::{Completed, PeerLoad, Printed, Recipe};
use crate::bench::{Directory, Offspring};
use crate::experiments::figures::label;
use crate::partial::{goes_on, partial};
use crate::text::{figure, line};
use quorate_operator::report::Report;
use quorate_types::Fault;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time for a peer's clients to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a peer to print its results after the measured time.
const RESULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Additional time under load, so that the measured time does not end after it.
const MARGIN: Duration = Duration::from_secs(2);
/// Maximum bytes shown from the end of a peer's output.
const SHOWN_BYTES: usize = 600;
/// File with the output of the script itself.
const SCRIPT_LOG: &str = "script.log";
const US_PER_S: f64 = 1e6;

/// Result of a run of a peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerResult {
    /// Name of its recipe.
    pub system: String,
    /// Revision of its checkout.
    pub revision: String,
    /// Figures by their names in `docs/RESULTS.md`.
    pub figures: BTreeMap<String, f64>,
    /// Caveats for readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Progress of the run when a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
}

impl Report for PeerResult {
    fn to_table(&self) -> String {
        let mut text = line("system", format!("{} {}", self.system, self.revision));
        for (name, value) in &self.figures {
            text.push_str(&line(&label(name), figure(*value)));
        }
        self.warnings.iter().for_each(|warning| text.push_str(&line("warning", warning)));
        self.partial.iter().for_each(|partial| text.push_str(&line("partial", partial)));
        text
    }

    fn failure(&self) -> Option<String> {
        let nothing = self.partial.is_none() && !self.figures.contains_key("throughput_per_s");
        nothing.then(|| "the peer completed no command in the measured time".to_owned())
    }
}

/// Error of a run of a peer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error("{0}")]
    Fault(#[from] Fault),
    #[error("{system}: {what}; its output ends with: {end}")]
    Peer { system: String, what: String, end: String },
    #[error("cannot run {system}: {source}")]
    Io { system: String, source: io::Error },
}

/// CPU time of the peer's processes.
#[derive(Clone, Copy, Default)]
struct Spent {
    clients: Duration,
    all: Duration,
}

/// Runs a peer under a load, from its built checkout.
///
/// # Errors
/// If its source is not there, its processes end early, or no client starts.
pub fn run(recipe: &Recipe, load: &PeerLoad, source: &Path) -> Result<PeerResult, PeerError> {
    load.fit(recipe)?;
    let revision = revision(load, source)?;
    let mut result = PeerResult {
        system: load.system.clone(),
        figures: BTreeMap::new(),
        warnings: Vec::new(),
        partial: None,
        revision,
    };
    if !result.revision.starts_with(&recipe.revision) {
        let warning = format!("the recipe was written for revision {}", recipe.revision);
        result.warnings.push(warning);
    }
    let failed = |error| PeerError::Io { system: load.system.clone(), source: error };
    let logs = Directory::new().map_err(|(_, error)| failed(error))?;
    tree::adopt().map_err(failed)?;
    let window = measure(recipe, load, source, logs.path());
    // Processes that are ended say so.
    let end = last_words(logs.path());
    tree::end();
    let Some((spent, took)) = window.map_err(|error| match error {
        Stopped::Io(error) => failed(error),
        Stopped::Peer(what) => PeerError::Peer { system: load.system.clone(), what, end },
    })?
    else {
        result.partial = partial(|| "before its window was measured".to_owned());
        return Ok(result);
    };
    let texts = texts(logs.path()).map_err(failed)?;
    result.figures = figures_of(recipe, &texts, Duration::from(load.warmup), Duration::from(load.duration));
    if let Some(throughput) = result.figures.get("throughput_per_s").copied().filter(|own| *own > 0.0) {
        let commands = throughput * took.as_secs_f64();
        let per_command = |spent: Duration| spent.as_secs_f64() * US_PER_S / commands;
        result.figures.insert("cpu_us_per_command".to_owned(), per_command(spent.all));
        // A peer whose clients are threads of its replicas has one figure only.
        if !spent.clients.is_zero() && spent.clients < spent.all {
            let replicas = per_command(spent.all - spent.clients);
            result.figures.insert("replica_cpu_us_per_command".to_owned(), replicas);
            result.figures.insert("client_cpu_us_per_command".to_owned(), per_command(spent.clients));
        }
    }
    Ok(result)
}

/// Returns the commit of a peer's checkout.
///
/// # Errors
/// If there is none.
pub fn revision(load: &PeerLoad, source: &Path) -> Result<String, Fault> {
    let fault = |what: &str| {
        let help = format!("call the commands of `quorate peer show {}` in the directory above it", load.system);
        Fault::new(source.display().to_string(), what, help)
    };
    if !source.is_dir() {
        return Err(fault(&format!("is no directory with the source of {}", load.system)));
    }
    let head = Command::new("git").arg("-C").arg(source).args(["rev-parse", "HEAD"]).stdin(Stdio::null()).output();
    let commit = head.ok().filter(|said| said.status.success());
    let commit = commit.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    commit.ok_or_else(|| fault("is no git checkout"))
}

enum Stopped {
    Io(io::Error),
    Peer(String),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Stopped {
        Stopped::Io(error)
    }
}

/// Runs the script, and returns the CPU time of its processes in the window, and the window's length; `None` if a
/// signal ended the run.
fn measure(recipe: &Recipe, load: &PeerLoad, source: &Path, logs: &Path) -> Result<Option<(Spent, Duration)>, Stopped> {
    let (warmup, duration) = (Duration::from(load.warmup), Duration::from(load.duration));
    let mut script = start(recipe, load, source, logs)?;
    let is_client = |member: &Member| member.runs(&recipe.clients);

    let begun = Instant::now();
    while !tree::members().iter().any(is_client) {
        if !goes_on() {
            return Ok(None);
        }
        if let Some(status) = script.try_wait()? {
            return Err(Stopped::Peer(format!("its script ended before a client ran, with {status}")));
        }
        if begun.elapsed() > START_TIMEOUT {
            return Err(Stopped::Peer(format!("no client ran within {} s", START_TIMEOUT.as_secs())));
        }
        thread::sleep(LOOK_INTERVAL);
    }
    if !sleep(warmup) {
        return Ok(None);
    }
    let (begun, before) = (Instant::now(), spent(&is_client));
    if !sleep(duration) {
        return Ok(None);
    }
    let (took, after) = (begun.elapsed(), spent(&is_client));
    if after.all < before.all {
        return Err(Stopped::Peer("processes ended in the measured time".to_owned()));
    }
    if recipe.asks_clients_to_end {
        tree::members().iter().filter(|member| is_client(member)).for_each(|own| tree::signal(own, libc::SIGTERM));
    }
    let asked = Instant::now();
    loop {
        match script.try_wait()? {
            Some(status) if !status.success() => {
                return Err(Stopped::Peer(format!("its script failed with {status}")));
            }
            None if !recipe.asks_clients_to_end || tree::members().iter().any(is_client) => {}
            _ => break,
        }
        if !goes_on() {
            return Ok(None);
        }
        if asked.elapsed() > RESULT_TIMEOUT {
            return Err(Stopped::Peer(format!("it printed no result within {} s", RESULT_TIMEOUT.as_secs())));
        }
        thread::sleep(LOOK_INTERVAL);
    }
    let spent = Spent { clients: after.clients.saturating_sub(before.clients), all: after.all - before.all };
    Ok(Some((spent, took)))
}

/// Starts the script of a recipe.
fn start(recipe: &Recipe, load: &PeerLoad, source: &Path, logs: &Path) -> io::Result<Offspring> {
    let (warmup, duration) = (Duration::from(load.warmup), Duration::from(load.duration));
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &recipe.run]).current_dir(source).stdin(Stdio::null());
    for (key, value) in load.values() {
        let (_, variable) = VARIABLES.iter().find(|(own, _)| *own == key).expect("each key has a variable");
        command.env(variable, value);
    }
    command.env("RUN_SECONDS", (warmup + duration + MARGIN).as_secs().to_string()).env("LOGS", logs);
    let log = File::create(logs.join(SCRIPT_LOG))?;
    command.stdout(log.try_clone()?).stderr(log);
    Offspring::spawn(&mut command)
}

fn sleep(time: Duration) -> bool {
    let start = Instant::now();
    while goes_on() {
        match time.checked_sub(start.elapsed()) {
            Some(left) if !left.is_zero() => thread::sleep(left.min(LOOK_INTERVAL)),
            _ => return true,
        }
    }
    false
}

fn spent(is_client: &dyn Fn(&Member) -> bool) -> Spent {
    let mut spent = Spent::default();
    for member in tree::members() {
        spent.all += member.cpu;
        if is_client(&member) {
            spent.clients += member.cpu;
        }
    }
    spent
}

/// Returns the files of the peer's output, by name.
fn texts(logs: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(logs)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            texts.insert(entry.file_name().to_string_lossy().into_owned(), entry.path());
        }
    }
    Ok(texts)
}

/// Returns the figures in a peer's output, whose files are given by name.
pub fn figures_of(
    recipe: &Recipe,
    files: &BTreeMap<String, PathBuf>,
    warmup: Duration,
    duration: Duration,
) -> BTreeMap<String, f64> {
    let lines_of = |prefix: &str, on_line: &mut dyn FnMut(&str)| {
        for path in files.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, path)| path) {
            let Ok(file) = File::open(path) else { continue };
            // A peer may write bytes that are no text between its results.
            for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
                on_line(&String::from_utf8_lossy(&line));
            }
        }
    };
    let mut figures = BTreeMap::new();
    if let Some(Completed { files: prefix, line }) = &recipe.completed {
        let (name, to_ms) = LATENCIES.iter().find(|(name, _)| line.has(name)).expect("recipes are checked");
        let mut reports: Vec<Completion> = Vec::new();
        lines_of(prefix, &mut |text| {
            let count = if line.has("count") { line.number("count", text) } else { Some(1.0) };
            let (Some(at), Some(latency), Some(count)) = (line.time_of_day(text), line.number(name, text), count)
            else {
                return;
            };
            reports.push(Completion { at, latency_ms: latency * to_ms, count });
        });
        figures.extend(of_reports(&reports, line.has("count"), warmup, duration));
    }
    for Printed { figure, files: prefix, line, factor, added } in &recipe.printed {
        let mut values: Vec<f64> = Vec::new();
        lines_of(prefix, &mut |text| values.extend(line.number("value", text)));
        let sum: f64 = values.iter().sum::<f64>() * factor;
        if !values.is_empty() {
            let value = if *added { sum } else { sum / values.len() as f64 };
            figures.insert(figure.clone(), value);
        }
    }
    figures
}

/// A report of completed commands.
struct Completion {
    /// Time of day in seconds.
    at: f64,
    /// Mean latency of the commands.
    latency_ms: f64,
    /// Number of commands.
    count: f64,
}

/// Returns the throughput and the latencies of the commands that completed in the window, which begins `warmup` after
/// the first report. Reports of several commands (`are_means`) yield no percentiles.
fn of_reports(reports: &[Completion], are_means: bool, warmup: Duration, duration: Duration) -> Vec<(String, f64)> {
    let Some(any) = reports.first() else { return Vec::new() };
    let offset = |report: &Completion| since(any.at, report.at);
    let first = reports.iter().map(offset).fold(f64::INFINITY, f64::min);
    let window = warmup.as_secs_f64()..(warmup + duration).as_secs_f64();
    let mut inside: Vec<&Completion> =
        reports.iter().filter(|own| window.contains(&(offset(own) - first)) && own.count > 0.0).collect();
    if inside.is_empty() {
        return Vec::new();
    }
    inside.sort_by(|a, b| a.latency_ms.total_cmp(&b.latency_ms));
    let count: f64 = inside.iter().map(|own| own.count).sum();
    let mean = inside.iter().map(|own| own.latency_ms * own.count).sum::<f64>() / count;
    let mut figures =
        vec![("throughput_per_s", count / duration.as_secs_f64()), ("completed_commands", count), ("mean_ms", mean)];
    if !are_means {
        let last = inside.len() - 1;
        let at = |quantile: f64| inside[((inside.len() as f64 * quantile) as usize).min(last)].latency_ms;
        figures.extend([("p50_ms", at(0.5)), ("p99_ms", at(0.99))]);
    }
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the end of the script's output, on one line.
fn last_words(logs: &Path) -> String {
    let bytes = fs::read(logs.join(SCRIPT_LOG)).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SHOWN_BYTES)..]).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { "nothing".to_owned() } else { lines.join("; ") }
}
