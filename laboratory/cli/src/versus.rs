//! `quorate lab versus` and `quorate lab instructions`: compare the speed of two builds.

use crate::Outcome;
use crate::running::{COMMIT, Live};
use clap::Args;
use quorate_lab::experiments::{Instrument, Profile};
use quorate_lab::spec::choice;
use quorate_lab::twins::museum::IS_BUILT;
use quorate_node::interrupt;
use quorate_operator::output::{self, Outputs};
use quorate_operator::shell::RUSTC;
use quorate_runner::compare::{MAIN_FIGURES, check_figures, compare};
use quorate_runner::instructions::{Counts, FIGURE as INSTRUCTIONS};
use quorate_runner::turns::Turns;
use quorate_runner::{Here, Run, Store, callgrind, catalogue, report};
use quorate_types::Fault;
use std::path::{Path, PathBuf};

/// Default directory of the results of both programs.
const VERSUS_DIR: &str = "quorate-versus";
/// Default directory of counted runs.
const INSTRUCTIONS_DIR: &str = "quorate-instructions";
/// Default of [`VersusArgs::limit_percent`]: a change that costs more needs a reason.
const LIMIT_PERCENT: f64 = 3.0;
/// Experiments that measure speed.
const PERFORMANCE: &str = "performance";
/// Experiment whose instructions are counted.
const PATHS: &str = "performance/paths";

/// Flags of `quorate lab versus`.
#[derive(Args)]
pub struct VersusArgs {
    /// Program `quorate` of the earlier build.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// Experiments to run: a file, PAPER/ID or PAPER.
    #[arg(value_name = "FILE|PAPER/ID|PAPER", default_value = PERFORMANCE)]
    experiment: String,
    /// Extent: quick runs each real cell twice for a second, full five times for three seconds.
    #[arg(long, default_value = "quick", value_parser = choice::<Profile>())]
    profile: Profile,
    /// Run only on this instrument; may be repeated [default: the experiment's].
    #[arg(long, value_parser = choice::<Instrument>())]
    instrument: Vec<Instrument>,
    /// Directory with the results of the earlier build in `before`, and of this one in `after`.
    #[arg(long, value_name = "DIR", default_value = VERSUS_DIR)]
    dir: PathBuf,
    /// Figure to compare; may be repeated [default: throughput, latency, and CPU and instructions per command].
    #[arg(long, value_name = "FIGURE")]
    figure: Vec<String>,
    /// Fail if a command takes significantly more CPU or instructions, by more than this.
    #[arg(long, value_name = "PERCENT", default_value_t = LIMIT_PERCENT)]
    limit_percent: f64,
    /// Write the comparison as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

/// Flags of `quorate lab instructions`.
#[derive(Args)]
pub struct InstructionsArgs {
    /// Simulated experiment: a file or PAPER/ID.
    #[arg(value_name = "FILE|PAPER/ID", default_value = PATHS)]
    experiment: String,
    /// Compare with these counts, and fail if a path takes over 2 % more.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Write the counts to this file.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Directory of the runs.
    #[arg(long, value_name = "DIR", default_value = INSTRUCTIONS_DIR)]
    dir: PathBuf,
    /// Write the comparison as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

/// Runs the experiments with both programs, and compares the rows.
pub fn run(arguments: &VersusArgs) -> Outcome {
    check_figures(&arguments.figure)?;
    let figures: Vec<String> = match arguments.figure.is_empty() {
        true => MAIN_FIGURES.iter().chain([&INSTRUCTIONS]).map(|name| (*name).to_owned()).collect(),
        false => arguments.figure.clone(),
    };
    let found = catalogue::find(&arguments.experiment)?;
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &[])?;
    let run = |here: Here, name: &str| Run {
        profile: arguments.profile,
        instruments: (!arguments.instrument.is_empty()).then(|| arguments.instrument.clone()),
        counts_instructions: figures.iter().any(|name| name == INSTRUCTIONS),
        ..counted(here, &arguments.dir.join(name))
    };
    let before = run(Here::of_other(arguments.program.clone())?, "before");
    let turns = Turns { before, after: run(this_program()?, "after") };
    let mut locks = Vec::new();
    for run in [&turns.before, &turns.after] {
        run.store.create()?;
        locks.push(run.store.lock(false)?);
    }
    let mut live = Live::new();
    for (source, experiment) in &found {
        let plan = experiment.plan(arguments.profile, turns.after.instruments.as_deref())?;
        if turns.after.counts_instructions && plan.instruments.contains(&Instrument::Simulated) {
            callgrind::check()?;
        }
        let whole = turns.run(source, &mut live);
        live.clear();
        if !whole? {
            break;
        }
    }
    let compared = compare(&report::read(&turns.before.store)?, &report::read(&turns.after.store)?, &figures);
    outputs.show(&compared, &[])?;
    if compared.comparisons.is_empty() {
        return Err("no cell has a successful run with both programs, so there is nothing to compare".into());
    }
    let worse = compared.worse(arguments.limit_percent);
    if worse.is_empty() || interrupt::requested().is_some() {
        return Ok(());
    }
    let worse: Vec<String> = worse.iter().map(|own| format!("{} ({})", own.label(), own.figure)).collect();
    Err(format!("more than {} % worse: {}", arguments.limit_percent, worse.join("; ")).into())
}

/// Counts the instructions of an experiment's simulations.
pub fn count(arguments: &InstructionsArgs) -> Outcome {
    let before = arguments.against.as_deref().map(Counts::read).transpose()?;
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &[])?;
    callgrind::check()?;
    let run = Run { instruments: Some(vec![Instrument::Simulated]), ..counted(this_program()?, &arguments.dir) };
    run.store.create()?;
    let _lock = run.store.lock(false)?;
    let mut live = Live::new();
    let mut rows = Vec::new();
    for (source, _) in catalogue::find(&arguments.experiment)? {
        let judged = run.experiment_with(&source, &mut live);
        live.clear();
        rows.extend(judged?.rows);
    }
    if let Some(signal) = interrupt::requested() {
        return Err(format!("ended by {signal} before all paths were counted").into());
    }
    let counts = Counts::of(&rows, build());
    if counts.instructions_per_command.is_empty() {
        let help = "name an experiment with simulated cells";
        return Err(Fault::<String>::new(arguments.experiment.as_str(), "has no counted run", help).into());
    }
    if let Some(path) = &arguments.write {
        counts.write(path)?;
        output::report(&format!("wrote {}", path.display()));
    }
    outputs.show(&counts.since(before.as_ref()), &[])
}

fn this_program() -> Result<Here, Box<dyn std::error::Error>> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program's file: {error}"))?;
    Ok(Here::new(program, COMMIT, None)?)
}

/// Returns runs whose simulations are counted, one for each core at a time.
fn counted(here: Here, dir: &Path) -> Run {
    Run {
        here,
        store: Store::at(dir),
        profile: Profile::Quick,
        instruments: None,
        seed: None,
        slots: std::thread::available_parallelism().map_or(1, usize::from),
        workers: None,
        until: None,
        only_claims: false,
        shared: false,
        counts_instructions: true,
    }
}

/// Describes everything besides the source on which the instructions of this build depend.
fn build() -> String {
    let profile = if cfg!(debug_assertions) { env!("QUORATE_DEBUG_BUILD") } else { "release" };
    let museum = if IS_BUILT { " with the museum" } else { "" };
    format!("{profile}{museum}, rustc {RUSTC}, {}, {}", library(), vectors())
}

/// Returns the C library, whose functions choose their instructions.
#[cfg(target_env = "gnu")]
fn library() -> String {
    // SAFETY: returns a static string that ends with a zero byte.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

#[cfg(not(target_env = "gnu"))]
fn library() -> String {
    "another C library".to_owned()
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> &'static str {
    if is_x86_feature_detected!("avx2") { "with AVX2" } else { "without AVX2" }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> &'static str {
    std::env::consts::ARCH
}
