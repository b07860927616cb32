//! Runs of cells on other hosts.

use crate::call::Call;
use crate::error::RunnerError;
use crate::process::{Ended, Ending, KEPT_BYTES, ending, late, tail};
use quorate_lab::bench::{CellEnd, CellOutput, RemoteFile, Workers};
use quorate_lab::experiments::row::Noise;
use quorate_types::digest::encode_hex;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Directory of the files that a cell reads, in the directory of runs on a host.
const INPUTS: &str = "inputs";

/// Runs a call on a host, which gets the files that the call reads. Returns the activity of the rest of the host, too.
///
/// # Errors
/// If such a file cannot be read.
pub(crate) fn run(
    workers: &Workers,
    host: usize,
    call: &Call,
    limit: Duration,
) -> Result<(Ended, Option<Noise>), RunnerError> {
    let (call, files) = moved(call)?;
    let words = call.arguments().into_iter().chain(["--json".to_owned(), "-".to_owned()]).collect();
    let nothing = |ending| Ok((Ended { ending, said: String::new() }, None));
    match workers.run(host, words, files, limit) {
        CellEnd::Ran(CellOutput { status, out, err, noise }) => {
            let said = tail(err.as_bytes(), KEPT_BYTES);
            Ok((Ended { ending: ending(ExitStatus::from_raw(status), out, &said), said }, noise))
        }
        CellEnd::Late => nothing(late(limit)),
        CellEnd::Lost(why) => nothing(Ending::Lost(why)),
        CellEnd::Interrupted => nothing(Ending::Interrupted),
    }
}

/// Returns the call with the paths that its files get on a host, and these files. Equal files have equal paths, so that
/// cells which run at the same time do not change each other's.
fn moved(call: &Call) -> Result<(Call, Vec<RemoteFile>), RunnerError> {
    let (mut files, mut paths) = (Vec::new(), BTreeMap::new());
    for path in call.files() {
        let bytes = fs::read(&path).map_err(RunnerError::read(&path))?;
        let name = path.file_name().map(|name| name.display().to_string()).unwrap_or_default();
        let there = format!("{INPUTS}/{}/{name}", crate::here::digest_of(&bytes));
        files.push(RemoteFile { path: there.clone(), hex: encode_hex(&bytes) });
        paths.insert(path, PathBuf::from(there));
    }
    Ok((call.with_files(&|path| paths[path].clone()), files))
}
