//! Return of freed memory to the system.
//!
//! A thread checks periodically, and makes the allocator release free pages if they are many compared with the memory
//! in use. Otherwise the allocator would keep them for the next peak, which may never come after an attack: [ADR
//! 024](https://github.com/quorate/quorate/blob/main/docs/adr/024-the-systems-allocator.md).

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time between two checks.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum free memory that is returned, in bytes.
const MIN_FREE_BYTES: usize = 64 << 20;
/// Under load, a replica's free memory is less than 1/`FREE_PART` of the memory in use.
const FREE_PART: usize = 4;

/// Memory held by the allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Bytes in use by the process.
    pub used_bytes: usize,
    /// Bytes freed, whether or not their pages were returned to the system.
    pub free_bytes: usize,
}

/// Returns the memory held by the allocator; `None` if it does not report it.
pub fn held() -> Option<Held> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: takes no arguments, locks everything that it reads, and returns integers.
        let about = unsafe { libc::mallinfo2() };
        Some(Held { used_bytes: about.uordblks + about.hblkhd, free_bytes: about.fordblks })
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

/// Returns free pages to the system.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: touches only free memory, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns whether enough memory is free to return it. A process under load reuses freed memory, and would have to
/// fault the pages in again.
pub fn is_much_free(held: Held) -> bool {
    held.free_bytes >= MIN_FREE_BYTES && held.free_bytes >= held.used_bytes / FREE_PART
}

/// Thread that returns memory periodically until this is dropped.
pub(crate) struct Returning {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Returning {
    pub fn start() -> io::Result<Returning> {
        let (stop, stopped) = channel();
        let look = move || {
            while stopped.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if held().is_some_and(is_much_free) {
                    give_back();
                }
            }
        };
        let thread = thread::Builder::new().name("memory".into()).spawn(look)?;
        Ok(Returning { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread's code does not panic; even if it did, the replica has already stopped.
            thread.join().ok();
        }
    }
}
