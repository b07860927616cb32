//! Cells of experiments that an agent runs, each as a process.

use super::super::protocol::{CellCall, CellOutput, RemoteFile};
use super::files::write_files;
use crate::bench::scratch::Offspring;
use crate::noise::Meter;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

/// Maximum size of a result, in bytes.
const MAX_RESULT_BYTES: u64 = 200 << 20;
/// Maximum size of the messages of a process, in bytes; more end it.
const MAX_ERRORS_BYTES: u64 = 4 << 20;

/// Running processes.
#[derive(Default)]
pub struct Cells(Vec<Running>);

struct Running {
    number: u64,
    child: Offspring,
    out: JoinHandle<String>,
    err: JoinHandle<String>,
    meter: Meter,
}

impl Cells {
    /// Starts a cell in the run's directory, where it also keeps its temporary files.
    pub fn start(&mut self, call: CellCall, directory: &Path) -> Result<(), String> {
        // Their paths contain their digests, so that a file that is there is the same.
        let lacking: Vec<RemoteFile> =
            call.files.iter().filter(|file| !directory.join(&file.path).exists()).cloned().collect();
        write_files(directory, &lacking)?;
        let cannot = |error: std::io::Error| format!("cannot start a run: {error}");
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.args(&call.words).current_dir(directory).env("TMPDIR", directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let meter = Meter::start();
        let mut child = Offspring::spawn(&mut command).map_err(cannot)?;
        let (Some(out), Some(err)) = (child.take_pipes().1, child.take_errors()) else {
            unreachable!("both are pipes")
        };
        let (out, err) =
            (reader(out, MAX_RESULT_BYTES).map_err(cannot)?, reader(err, MAX_ERRORS_BYTES).map_err(cannot)?);
        self.0.push(Running { number: call.number, child, out, err, meter });
        Ok(())
    }

    /// Kills a process, which then has no result.
    pub fn end(&mut self, number: u64) {
        self.0.retain(|running| running.number != number);
    }

    /// Returns the processes that have ended since the last call.
    pub fn ended(&mut self) -> Vec<(u64, CellOutput)> {
        let mut ended = Vec::new();
        let mut left = Vec::new();
        for mut running in self.0.drain(..) {
            match running.child.try_wait() {
                Ok(None) | Err(_) => left.push(running),
                Ok(Some(status)) => {
                    let noise = running.meter.noise(&[]);
                    // A reader that panicked has lost its text, so the run has no result.
                    let [out, err] = [running.out, running.err].map(|reader| reader.join().unwrap_or_default());
                    ended.push((running.number, CellOutput { status: status.into_raw(), out, err, noise }));
                }
            }
        }
        self.0 = left;
        ended
    }
}

/// Reads a pipe to its end in a thread. Bytes that are no UTF-8 are replaced.
fn reader(pipe: impl Read + Send + 'static, limit: u64) -> std::io::Result<JoinHandle<String>> {
    thread::Builder::new().name("output".into()).spawn(move || {
        let mut bytes = Vec::new();
        // After an error, the bytes before it are shown.
        let _ = pipe.take(limit).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
