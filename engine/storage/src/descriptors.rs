//! File descriptors for the disk when the process has run out of them.
//!
//! Strangers who open connections can use up a process's descriptors, but a replica cannot work without its files. So a
//! few descriptors are reserved for the disk. An operation that gets no descriptor takes or waits for a reserved one:
//! running out of descriptors is not a disk failure.

use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Number of reserved descriptors: the journal and the snapshots open only a few files at a time.
const RESERVE: usize = 8;
/// Maximum wait of one operation for a descriptor.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const WAIT: Duration = Duration::from_millis(10);

static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Returns whether `error` means that the process, or the whole machine, has run out of descriptors.
pub fn are_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Refills the reserve as far as possible.
pub(crate) fn reserve() {
    let mut reserved = RESERVED.lock().expect("nothing panics while it holds this lock");
    while reserved.len() < RESERVE {
        match File::open("/dev/null") {
            Ok(spare) => reserved.push(spare),
            Err(_) => return,
        }
    }
}

/// Runs an operation that needs a descriptor. If none is available, retries for up to 10 s, freeing a reserved one each
/// time.
///
/// # Errors
/// The errors of the operation; running out of descriptors only if it lasts these 10 s.
pub fn with_descriptor<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut result = operation();
    let Err(error) = &result else { return result };
    if !are_exhausted(error) {
        return result;
    }
    let start = Instant::now();
    while result.as_ref().is_err_and(are_exhausted) && start.elapsed() < MAX_WAIT {
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
