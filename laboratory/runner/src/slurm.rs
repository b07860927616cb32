//! Runs experiments as an array of Slurm jobs (`sbatch --array`) that share the directory of results.

use crate::error::RunnerError;
use quorate_types::Fault;
use quorate_types::text::quote;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Script of the jobs, in the directory of results.
const SCRIPT_FILE: &str = "slurm.sh";
/// Directory of the jobs' outputs, in the directory of results.
const LOGS_DIR: &str = "jobs";

/// Writes the script of the jobs, each running `program` with `words`, its arguments, until no run is left.
/// Returns its path.
///
/// # Errors
/// If the directory cannot be written.
pub fn script(program: &Path, words: &[String], dir: &Path, jobs: usize) -> Result<PathBuf, RunnerError> {
    let logs = dir.join(LOGS_DIR);
    fs::create_dir_all(&logs).map_err(RunnerError::write(&logs))?;
    let path = dir.join(SCRIPT_FILE);
    let command: Vec<String> =
        std::iter::once(program.display().to_string()).chain(shared(words)).map(|word| quote(&word)).collect();
    let here = std::env::current_dir().map_err(RunnerError::read(Path::new(".")))?;
    let text = format!(
        "#!/bin/sh\n#SBATCH --job-name=quorate-lab\n#SBATCH --array=1-{jobs}\n#SBATCH --output={}/%A-%a.log\n\
         cd {} && exec {}\n",
        logs.display(),
        quote(&here.display().to_string()),
        command.join(" "),
    );
    fs::write(&path, text).map_err(RunnerError::write(&path))?;
    Ok(path)
}

/// Replaces the place in the words of a command line by a shared directory.
pub(crate) fn shared(words: &[String]) -> Vec<String> {
    let mut all = Vec::with_capacity(words.len());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--on" => {
                words.next();
                all.extend(["--on".to_owned(), "shared".to_owned()]);
            }
            word if word.starts_with("--on=") => all.push("--on=shared".to_owned()),
            word => all.push(word.to_owned()),
        }
    }
    all
}

/// Submits a script. Returns the answer of `sbatch`.
///
/// # Errors
/// If there is no `sbatch`, or it refuses the script.
pub fn submit(script: &Path) -> Result<String, RunnerError> {
    let output = Command::new("sbatch").arg(script).output();
    let place = format!("sbatch {}", script.display());
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Ok(output) => {
            let what = format!("failed: {}", String::from_utf8_lossy(&output.stderr).trim());
            Err(Fault::new(place, what, "change the script, and submit it yourself").into())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let help = "run this on a machine that submits to Slurm, or submit the script there";
            Err(Fault::new(place, "cannot start: there is no `sbatch`", help).into())
        }
        Err(source) => Err(RunnerError::Start { program: PathBuf::from("sbatch"), source }),
    }
}
