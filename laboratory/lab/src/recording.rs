//! Recordings of benchmarks.

use crate::spec::BenchSpec;
use quorate_hosting::recording::path_of;
use quorate_node::RecordingConfig;
use quorate_types::ReplicaId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

pub(crate) const MB: u64 = 1_000_000;

impl BenchSpec {
    /// Returns the path of a replica's recording, if it is recorded.
    pub fn recording(&self, replica: ReplicaId) -> Option<PathBuf> {
        let record = self.record.as_ref()?;
        match record.replica {
            None => Some(path_of(Path::new(&record.path), replica)),
            Some(one) => (one == replica).then(|| PathBuf::from(&record.path)),
        }
    }

    /// Returns the paths of all recordings.
    pub fn recordings(&self) -> Vec<PathBuf> {
        (0..self.replicas as u16).filter_map(|replica| self.recording(ReplicaId(replica))).collect()
    }
}

/// Returns the recording section of a replica's configuration.
pub(crate) fn of_replica(spec: &BenchSpec, replica: ReplicaId) -> Option<RecordingConfig> {
    spec.recording(replica).map(|file| RecordingConfig { file, limit_mb: spec.record_limit_mb })
}

/// Creates the directory of the recordings if the command names it, and removes the recordings of an earlier run.
///
/// # Errors
/// The path that cannot be created or cleared, and the I/O error.
pub(crate) fn make_room(spec: &BenchSpec) -> Result<(), (PathBuf, io::Error)> {
    if let Some(record) = spec.record.as_ref().filter(|record| record.replica.is_none()) {
        let path = PathBuf::from(&record.path);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err((path, error));
            }
            _ => {}
        }
    }
    for path in spec.recordings() {
        clear(&path).map_err(|error| (path, error))?;
    }
    Ok(())
}

/// Removes the recordings of an earlier run, including restarts.
///
/// # Errors
/// If a different kind of file has such a name, which is left alone, or a file cannot be removed.
pub(crate) fn clear(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default();
    for file in fs::read_dir(directory)? {
        let file = file?;
        if !is_start_of(name, &file.file_name()) {
            continue;
        }
        if !file.file_type()?.is_file() {
            let why = format!("{} is not a regular file; name a new file", file.path().display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        fs::remove_file(file.path())?;
    }
    Ok(())
}

/// Returns whether a file is a recording of this replica or of one of its restarts: `NAME`, `NAME.1`, `NAME.2`.
fn is_start_of(recording: &std::ffi::OsStr, file: &OsString) -> bool {
    let Some(rest) = file.as_encoded_bytes().strip_prefix(recording.as_encoded_bytes()) else { return false };
    match rest.split_first() {
        None => true,
        Some((dot, number)) => *dot == b'.' && !number.is_empty() && number.iter().all(u8::is_ascii_digit),
    }
}

/// Returns the warnings about recordings that reached their size limit.
pub(crate) fn warnings(spec: &BenchSpec) -> Vec<String> {
    let is_full = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.len() >= spec.record_limit_mb * MB);
    let warning = |path: PathBuf| {
        let limit = spec.record_limit_mb;
        let path = path.display();
        format!("--record: {path} reached its limit before the run ended; help: raise --record-limit-mb above {limit}")
    };
    spec.recordings().into_iter().filter(is_full).map(warning).collect()
}
