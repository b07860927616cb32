//! Sampled call stacks of a host's replica or clients in the measured time.

use super::super::check::PERF;
use super::shape::path;
use crate::bench::scratch::Offspring;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

/// File of the samples in the run's directory, and of the messages of `perf`.
const SAMPLES: &str = "perf.data";
const MESSAGES: &str = "perf.err";
/// Samples per second and CPU. Not a divisor of usual timer rates, so that it never runs in step with a timer.
const SAMPLES_PER_S: u32 = 199;
/// Bytes of stack per sample, from which `perf` finds the callers: the binary has no frame pointers.
const STACK_BYTES: u32 = 16_384;

/// Samples to take.
pub struct Profile {
    from_ns: i64,
    to_ns: i64,
    state: State,
}

enum State {
    Waits,
    Samples(Offspring),
    Ended,
}

impl Profile {
    /// Takes samples between these times of the host's clock.
    pub fn new(from_ns: i64, to_ns: i64) -> Profile {
        Profile { from_ns, to_ns, state: State::Waits }
    }

    /// Starts `perf` when it is time to. Returns its file, or why there is none, once it has ended.
    pub fn look(&mut self, now_ns: i64, process: Option<u32>) -> Option<Result<String, String>> {
        let ended = match &mut self.state {
            State::Waits if now_ns < self.from_ns => return None,
            State::Waits => match self.start(process) {
                Ok(child) => {
                    self.state = State::Samples(child);
                    return None;
                }
                Err(why) => Err(why),
            },
            State::Samples(child) => match child.try_wait() {
                Ok(None) => return None,
                Ok(Some(status)) if status.success() => Ok(SAMPLES.to_owned()),
                Ok(Some(status)) => Err(format!("{PERF} failed ({status}): {}", last_line())),
                Err(error) => Err(error.to_string()),
            },
            State::Ended => return None,
        };
        self.state = State::Ended;
        Some(ended)
    }

    fn start(&self, process: Option<u32>) -> Result<Offspring, String> {
        let process = process.ok_or("its replica did not run when the measured time began")?;
        let cannot = |error: std::io::Error| format!("cannot run {PERF}: {error}");
        let messages = File::create(MESSAGES).map_err(cannot)?;
        let time = Duration::from_nanos(u64::try_from(self.to_ns - self.from_ns).unwrap_or(0));
        let mut command = Command::new(PERF);
        // Without the cache of binaries, which would stay in the user's home directory.
        command.args(["record", "--quiet", "--no-buildid-cache", "--freq", &SAMPLES_PER_S.to_string()]);
        command.args(["--call-graph", &format!("dwarf,{STACK_BYTES}"), "--output", SAMPLES]);
        command.args(["--pid", &process.to_string(), "--", "sleep", &time.as_secs_f64().to_string()]);
        command.env("PATH", path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        Offspring::spawn(&mut command).map_err(cannot)
    }
}

fn last_line() -> String {
    let text = fs::read_to_string(MESSAGES).unwrap_or_default();
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message").to_owned()
}
