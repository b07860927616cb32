//! Descriptors for the disk when the process has none left.
//!
//! A replica cannot do without its files, and whoever opens connections can use up the descriptors of its process. So a few are kept
//! in reserve for the disk, and an operation that finds none takes one of these or waits until there is one again: that the process
//! is out of descriptors says nothing about the disk.

use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Descriptors kept in reserve: the journal and the snapshots open at most a few files at a time.
const RESERVE: usize = 8;
/// How long an operation waits for a descriptor.
const MOST_WAIT: Duration = Duration::from_secs(10);
/// How long until it looks again.
const WAIT: Duration = Duration::from_millis(10);

static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Whether the process, or the whole machine, has no descriptor left.
pub fn are_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Fills the reserve as far as there are descriptors.
pub(crate) fn reserve() {
    let mut reserved = RESERVED.lock().expect("nothing panics while it holds this lock");
    while reserved.len() < RESERVE {
        match File::open("/dev/null") {
            Ok(spare) => reserved.push(spare),
            Err(_) => return,
        }
    }
}

/// Does what needs a descriptor. While there is none it takes one from the reserve and tries again, or waits for up to 10 s.
///
/// # Errors
/// Those of the operation; that there is no descriptor only after that time.
pub fn with_descriptor<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut result = operation();
    let Err(error) = &result else { return result };
    if !are_exhausted(error) {
        return result;
    }
    let start = Instant::now();
    while result.as_ref().is_err_and(are_exhausted) && start.elapsed() < MOST_WAIT {
        let spare = RESERVED.lock().expect("nothing panics while it holds this lock").pop();
        if spare.is_none() {
            thread::sleep(WAIT);
        }
        drop(spare);
        result = operation();
    }
    reserve();
    result
}
