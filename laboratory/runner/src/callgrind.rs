//! Counts the instructions of a process with Valgrind's Callgrind.

use crate::error::RunnerError;
use quorate_types::Fault;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that counts.
const VALGRIND: &str = "valgrind";
/// Text in Callgrind's log before the number of executed instructions.
const COLLECTED: &str = "Collected :";

/// A program to be run by Callgrind, whose log is removed on drop.
pub(crate) struct Counted {
    /// Arguments of [`VALGRIND`].
    pub arguments: Vec<String>,
    log: PathBuf,
}

impl Drop for Counted {
    fn drop(&mut self) {
        // A log that cannot be removed is overwritten by the next run of the cell.
        let _ = fs::remove_file(&self.log);
    }
}

impl Counted {
    /// Returns the call of a program with these arguments. `scratch` is the prefix of temporary files.
    pub fn new(program: &Path, arguments: &[String], scratch: &Path) -> Counted {
        let log = scratch.with_extension("callgrind");
        let mut words = vec![
            "--tool=callgrind".to_owned(),
            // Only the total is needed, not the profile.
            "--callgrind-out-file=/dev/null".to_owned(),
            format!("--log-file={}", log.display()),
            program.display().to_string(),
        ];
        words.extend_from_slice(arguments);
        Counted { arguments: words, log }
    }

    pub fn program(&self) -> &'static Path {
        Path::new(VALGRIND)
    }

    /// Returns the number of instructions that the process has executed.
    ///
    /// # Errors
    /// If Callgrind has not written it.
    pub fn instructions(&self) -> Result<u64, String> {
        let log = fs::read_to_string(&self.log).map_err(|error| format!("no log of callgrind: {error}"))?;
        let number = log.lines().find_map(|line| Some(line.split_once(COLLECTED)?.1.trim().parse().ok()));
        number.flatten().ok_or_else(|| format!("the log of callgrind has no line \"{COLLECTED}\""))
    }
}

/// Checks that instructions can be counted here.
///
/// # Errors
/// If Valgrind does not run.
pub fn check() -> Result<(), RunnerError> {
    let mut command = Command::new(VALGRIND);
    let status = command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Fault::new(VALGRIND, "does not run, so instructions cannot be counted", "install valgrind").into()),
    }
}
