//! The replica of a host, as a process of the agent.

use crate::bench::last_words::Words;
use crate::bench::scratch::Offspring;
use quorate_node::DISK_TROUBLE_STATUS;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Directory of the replica in the run's.
pub const HOME: &str = "replica";
/// Prefix of the recordings in the run's directory.
pub const RECORDING: &str = "recording";
/// Time for a replica to stop in order.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The replica, whose directory is below the current one.
pub struct Replica {
    child: Option<Offspring>,
    said: Words,
    starts: u32,
}

impl Replica {
    pub fn new() -> Result<Replica, String> {
        let said = Words::new(Path::new(HOME)).map_err(|error| format!("cannot create the replica's log: {error}"))?;
        Ok(Replica { child: None, said, starts: 0 })
    }

    /// Returns how often it was started.
    pub fn starts(&self) -> u32 {
        self.starts
    }

    /// Returns the ID of its process; `None` if it does not run.
    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Offspring::id)
    }

    pub fn start(&mut self) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("cannot start the replica: {error}");
        let output = self.said.stdio().map_err(cannot)?;
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.args(["node", "--dir", HOME]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        self.child = Some(Offspring::spawn(&mut command).map_err(cannot)?);
        self.starts += 1;
        Ok(())
    }

    pub fn kill(&mut self) -> Result<(), String> {
        match self.child.take() {
            Some(mut child) => child.kill().map_err(|error| format!("cannot kill the replica: {error}")),
            None => Ok(()),
        }
    }

    /// Returns status and last words of a replica that has ended by itself, once.
    pub fn ended(&mut self) -> Option<(String, bool, String)> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        self.child = None;
        let is_disk_trouble = status.code() == Some(i32::from(DISK_TROUBLE_STATUS));
        Some((status.to_string(), is_disk_trouble, self.said.last()))
    }

    /// Stops the replica, and returns its output and the names of its recordings.
    pub fn stop(&mut self) -> (String, Vec<String>) {
        if let Some(mut child) = self.child.take() {
            child.terminate();
            let start = Instant::now();
            while start.elapsed() < STOP_TIMEOUT && matches!(child.try_wait(), Ok(None)) {
                thread::sleep(LOOK_INTERVAL);
            }
            // The drop kills it if it is still there.
        }
        let names = fs::read_dir(".").into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        (self.said.text(), names.filter(|name| name.starts_with(RECORDING)).collect())
    }
}
