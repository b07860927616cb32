//! Reading of a journal that a replica may be writing at the same time.
//!
//! Segments are read one after the other, while the replica appends to the last, adds new ones and removes the first.
//! The result may look damaged, but unlike real damage, it looks different a moment later. Nothing is written or
//! locked.

use crate::directory::{Directory, LOCK_FILE};
use crate::error::JournalError;
use crate::repair::{Inspection, inspect_medium};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum number of attempts to read a journal that looks damaged differently each time; then the last result is
/// returned.
const MAX_READINGS: usize = 20;

/// Reads the journal in `directory`. `visit` receives the value created by `begin` and the records up to the first
/// damage, ascending by id. If the journal changes meanwhile so that its parts do not match, starts over with a new
/// `begin`.
///
/// # Errors
/// If a system call fails, or a segment has a different format, cluster or replica than those before it.
pub fn read<T>(
    directory: &Path,
    mut begin: impl FnMut() -> T,
    mut visit: impl FnMut(&mut T, u64, &[u8]),
) -> Result<(T, Inspection), JournalError> {
    let (medium, mut wrong_before, mut readings) = (Directory::look(directory), None, 0);
    loop {
        let mut taken = begin();
        let found = inspect_medium(&medium, &mut |id, record| visit(&mut taken, id, record));
        readings += 1;
        let wrong = match &found {
            Ok(Inspection { damage, .. }) => damage.as_ref().map(JournalError::to_string),
            Err(error) => Some(error.to_string()),
        };
        if wrong.is_none() || wrong == wrong_before || readings == MAX_READINGS {
            return found.map(|found| (taken, found));
        }
        wrong_before = wrong;
    }
}

/// Returns the id of the process that has opened the journal in `directory` for writing, if the operating system
/// reports it.
pub fn holder(directory: &Path) -> Option<u32> {
    let file = fs::metadata(directory.join(LOCK_FILE)).ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let of_file = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", process, place, ..] = fields[..] else { return None };
        (place.rsplit(':').next() == Some(&file)).then(|| process.parse().ok()).flatten()
    };
    locks.lines().find_map(of_file)
}
