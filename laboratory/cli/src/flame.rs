//! `bench --flame`: runs the benchmark under `perf`, and draws the sampled call stacks.

use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options as Folding};
use inferno::flamegraph::{self, Options as Drawing};
use quorate_lab::bench::STACKS;
use quorate_node::interrupt;
use quorate_operator::Outcome;
use quorate_operator::output::{Outputs, report};
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus, Stdio};

pub const FLAG: &str = "--flame";
/// Samples per second and CPU. Not a divisor of usual timer rates, so that it never runs in step with a timer.
const SAMPLES_PER_S: u32 = 199;
/// Bytes of stack per sample, from which `perf` finds the callers: the binary has no frame pointers.
const STACK_BYTES: u32 = 16_384;
const HELP: &str = "help: install perf (on Debian the package linux-perf), and let it see the processes of this user \
                    (sysctl kernel.perf_event_paranoid, 2 or less), or leave out --flame";

/// Runs this command under `perf`, without the flag, and draws the samples. The command itself writes its other
/// results.
///
/// # Errors
/// If `perf` cannot run or has no samples, or the graph cannot be written. If the run itself fails, this process exits
/// with the status of the run, which has printed the reason.
pub fn run(outputs: Outputs) -> Outcome {
    let scratch = Scratch::new()?;
    let samples = scratch.0.join("perf.data");
    let status = sample(&samples)?;
    if !status.success() && !samples.exists() {
        return Err(format!("{FLAG}: perf cannot sample ({status}); {HELP}").into());
    }
    if !status.success() {
        drop((scratch, outputs));
        report(&format!("{FLAG}: nothing is drawn of a run that failed"));
        process::exit(status.code().unwrap_or(1));
    }
    let drawing = draw(&samples)?;
    outputs.deliver_only(FLAG, &drawing)
}

/// Directory that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, Box<dyn Error>> {
        let path = env::temp_dir().join(format!("quorate-flame-{}", process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that cannot be removed are left for the system to clear.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the arguments of this command without the flag.
fn arguments() -> Vec<OsString> {
    let mut given = env::args_os().skip(1);
    let mut kept = Vec::new();
    while let Some(argument) = given.next() {
        match argument.to_str() {
            Some(FLAG) => drop(given.next()),
            Some(text) if text.strip_prefix(FLAG).is_some_and(|rest| rest.starts_with('=')) => {}
            _ => kept.push(argument),
        }
    }
    kept
}

/// Runs this command under `perf`, and returns its status.
fn sample(samples: &Path) -> Result<ExitStatus, Box<dyn Error>> {
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--freq", &SAMPLES_PER_S.to_string()]);
    perf.args(["--call-graph", &format!("dwarf,{STACK_BYTES}"), "--output"]).arg(samples).arg("--");
    perf.arg(env::current_exe()?).args(arguments());
    let mut perf = perf.spawn().map_err(|error| format!("{FLAG}: cannot run perf: {error}; {HELP}"))?;
    // A signal to this process alone is forwarded to the run, which then ends with its result so far.
    let process = libc::pid_t::try_from(perf.id())?;
    let _forwarding = interrupt::when_requested(move || {
        // SAFETY: sends a signal to a process that is waited for below, so its ID has not been reused.
        unsafe { libc::kill(process, libc::SIGTERM) };
    });
    Ok(perf.wait()?)
}

/// Draws the samples as SVG.
fn draw(samples: &Path) -> Result<String, Box<dyn Error>> {
    let mut perf = Command::new("perf");
    // Finding inlined functions takes a process per address, and minutes in total.
    perf.args(["script", "--no-inline", "--input"]).arg(samples).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut script = perf.spawn().map_err(|error| format!("{FLAG}: cannot run perf: {error}; {HELP}"))?;
    let stacks = script.stdout.take().expect("it is a pipe");
    let drawing = draw_stacks(BufReader::new(stacks))?;
    script.wait()?;
    drawing.ok_or_else(|| format!("{FLAG}: perf has no samples of the run; {HELP}").into())
}

/// Draws the files of call stacks in a directory, each beside itself.
pub fn draw_all(directory: &Path) -> Outcome {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if !path.to_string_lossy().ends_with(STACKS) {
            continue;
        }
        match draw_stacks(BufReader::new(File::open(&path)?))? {
            Some(drawing) => fs::write(path.with_extension("svg"), drawing)?,
            None => report(&format!("warning: {} has no samples", path.display())),
        }
    }
    Ok(())
}

/// Draws the output of `perf script`; `None` without samples.
fn draw_stacks(stacks: impl BufRead) -> Result<Option<String>, Box<dyn Error>> {
    let (mut folded, mut svg) = (Vec::new(), Vec::new());
    Folder::from(Folding::default()).collapse(stacks, &mut folded)?;
    if folded.is_empty() {
        return Ok(None);
    }
    let mut drawing = Drawing::default();
    drawing.title = "Processor time by thread and call stack".to_owned();
    flamegraph::from_reader(&mut drawing, folded.as_slice(), &mut svg)?;
    Ok(Some(String::from_utf8(svg)?))
}
