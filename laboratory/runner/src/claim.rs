//! Locks with which several processes, on one machine or on several, share a directory of results.
//!
//! All of them are `flock` locks, which end with their process. Linux passes them on to the server of a network file
//! system, so machines that mount one directory see each other's.

use crate::error::RunnerError;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Right to run one repetition of a cell. Ends when it is dropped, or with the process.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    /// Locked.
    _file: File,
}

impl Claim {
    /// Claims the repetition that the file stands for; `None` if somebody else has claimed it.
    ///
    /// # Errors
    /// If the file cannot be created or locked.
    pub(crate) fn on(path: PathBuf) -> Result<Option<Claim>, RunnerError> {
        loop {
            let file = open(&path)?;
            if !lock(&file, libc::LOCK_EX | libc::LOCK_NB).map_err(RunnerError::write(&path))? {
                return Ok(None);
            }
            // The last holder may have removed the file between the two calls. Its successors lock another one.
            if is_at(&file, &path) {
                return Ok(Some(Claim { path, _file: file }));
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A file that stays is locked by the next holder.
        let _ = fs::remove_file(&self.path);
    }
}

/// Share of a machine. A run that is measured has the machine alone, so that no other run disturbs it.
#[derive(Debug)]
pub struct Share(#[allow(dead_code, reason = "the lock ends when the file is closed")] File);

impl Share {
    /// Takes a share of the machine, or the whole machine; `None` if somebody else has taken too much of it.
    ///
    /// # Errors
    /// If the file cannot be created or locked.
    pub(crate) fn of(path: &Path, whole: bool) -> Result<Option<Share>, RunnerError> {
        let file = open(path)?;
        let kind = if whole { libc::LOCK_EX } else { libc::LOCK_SH };
        Ok(lock(&file, kind | libc::LOCK_NB).map_err(RunnerError::write(path))?.then_some(Share(file)))
    }
}

pub(crate) fn open(path: &Path) -> Result<File, RunnerError> {
    let options = File::options().read(true).write(true).create(true).truncate(false).open(path);
    options.map_err(RunnerError::write(path))
}

/// Locks a file. Returns false if another process holds a lock that excludes this one.
pub(crate) fn lock(file: &File, operation: libc::c_int) -> io::Result<bool> {
    // SAFETY: the descriptor is open during the call, and flock does not access our memory.
    if unsafe { libc::flock(file.as_raw_fd(), operation) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |about: &fs::Metadata| (about.dev(), about.ino());
    matches!((file.metadata(), fs::metadata(path)), (Ok(own), Ok(there)) if identity(&own) == identity(&there))
}
