//! Runs one cell as a process: a crash or a hang affects only the cell, not the experiment.

use crate::error::RunnerError;
use quorate_lab::bench::Offspring;
use quorate_node::interrupt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks of the process.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Time for a process to end by itself after SIGTERM.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a result, in bytes.
const MAX_RESULT_BYTES: u64 = 256 << 20;
/// Maximum bytes shown from the end of standard error.
const SHOWN_BYTES: usize = 600;
/// Maximum bytes kept from the end of standard error.
pub const KEPT_BYTES: usize = 64 << 10;

/// Ending of a process.
pub enum Ending {
    /// Ended with a result on standard output: its JSON.
    Result(String),
    /// Ended without a result, for this reason.
    Failed(String),
    /// Ended because a signal asked this program, or only the process, to end. Its result would belong to a shorter
    /// run.
    Interrupted,
    /// The host of the process no longer takes part, for this reason.
    Lost(String),
}

/// An ended process: how, and the end of its standard error.
pub struct Ended {
    pub ending: Ending,
    pub said: String,
}

/// Files for the output of a process, removed on drop.
struct Outputs {
    out: PathBuf,
    err: PathBuf,
}

impl Drop for Outputs {
    fn drop(&mut self) {
        for path in [&self.out, &self.err] {
            // A file that cannot be removed is overwritten by the next run of the cell.
            let _ = fs::remove_file(path);
        }
    }
}

/// Runs `quorate` with these arguments and reads its JSON output. `scratch` is the prefix of temporary files.
///
/// # Errors
/// If the process cannot be started or watched. Everything that happens to it is an [`Ending`].
pub fn run(program: &Path, arguments: &[String], limit: Duration, scratch: &Path) -> Result<Ended, RunnerError> {
    let place = |extension: &str| scratch.with_extension(extension);
    let outputs = Outputs { out: place("out"), err: place("err") };
    let create = |path: &Path| File::create(path).map_err(RunnerError::write(path));
    let mut command = Command::new(program);
    command.args(arguments).args(["--json", "-"]).stdin(Stdio::null());
    command.stdout(create(&outputs.out)?).stderr(create(&outputs.err)?);
    let failed = |source| RunnerError::Start { program: program.to_owned(), source };
    let mut child = Offspring::spawn(&mut command).map_err(failed)?;
    let start = Instant::now();
    let ended = |ending| Ok(Ended { ending, said: tail(&fs::read(&outputs.err).unwrap_or_default(), KEPT_BYTES) });
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if interrupt::requested().is_some() {
            end(&mut child).map_err(failed)?;
            return ended(Ending::Interrupted);
        }
        if start.elapsed() > limit {
            end(&mut child).map_err(failed)?;
            return ended(late(limit));
        }
        thread::sleep(LOOK_INTERVAL);
    };
    if interrupt::requested().is_some() {
        return ended(Ending::Interrupted);
    }
    let mut text = String::new();
    let read = File::open(&outputs.out).and_then(|file| file.take(MAX_RESULT_BYTES).read_to_string(&mut text));
    let said = tail(&fs::read(&outputs.err).unwrap_or_default(), KEPT_BYTES);
    let ending = match (ending(status, text, &said), read) {
        (Ending::Result(_), Err(error)) => Ending::Failed(error.to_string()),
        (ending, _) => ending,
    };
    Ok(Ended { ending, said })
}

/// Returns the ending of a process that ran longer than its limit.
pub fn late(limit: Duration) -> Ending {
    Ending::Failed(format!("no result within {} s", limit.as_secs()))
}

/// Asks the process to end, so that it can remove its files, and kills it if it does not.
fn end(child: &mut Offspring) -> std::io::Result<()> {
    // SAFETY: sends a signal to a child that has not been waited for, so its id is not reused.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let start = Instant::now();
    while start.elapsed() < END_TIMEOUT {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        thread::sleep(LOOK_INTERVAL);
    }
    child.kill()
}

/// Returns whether a signal to end ended the process, either before it handled signals or in an orderly way.
fn was_asked_to_end(status: ExitStatus) -> bool {
    let asks = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    asks.iter().any(|signal| status.signal() == Some(*signal) || status.code() == Some(128 + signal))
}

/// Returns the ending of a process with this standard output and the end of its standard error.
pub fn ending(status: ExitStatus, out: String, said: &str) -> Ending {
    if was_asked_to_end(status) {
        return Ending::Interrupted;
    }
    // A run that found a violation fails, but has a result.
    let is_missing = !out.trim_end().ends_with('}');
    match is_missing && !status.success() {
        true => Ending::Failed(format!("{status}: {}", last_words(said))),
        false => Ending::Result(out),
    }
}

/// Returns the last bytes of an output as text.
pub fn tail(bytes: &[u8], most: usize) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(most)..]).into_owned()
}

/// Returns the end of the process's standard error, on one line.
fn last_words(said: &str) -> String {
    let text = tail(said.as_bytes(), SHOWN_BYTES);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let errors: Vec<&str> = lines.iter().copied().filter(|line| !line.starts_with("stage: ")).collect();
    if errors.is_empty() { "no output".to_owned() } else { errors.join("; ") }
}
