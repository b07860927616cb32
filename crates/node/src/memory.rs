//! Memory that was needed for a while, given back to the system.
//!
//! What is freed stays with the process: the allocator keeps it for the next peak, which after an attack may never come
//! ([ADR 024](https://github.com/quorate/quorate/blob/main/docs/adr/024-the-systems-allocator.md)). A thread looks now and then, and
//! has the allocator return its free pages when there are many of them beside what is in use.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long from one look at the memory to the next.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Free memory below this is not worth a look at what is in use.
const MIN_FREE_BYTES: usize = 64 << 20;
/// Of what is in use a replica under load has less than one part in so many free.
const FREE_PART: usize = 4;

/// What the allocator holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Bytes that the process uses.
    pub used_bytes: usize,
    /// Bytes that were freed, whether or not their pages are back at the system.
    pub free_bytes: usize,
}

/// Asks the allocator what it holds; `None` where it does not say.
pub fn held() -> Option<Held> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: it takes nothing, locks what it reads, and returns numbers.
        let about = unsafe { libc::mallinfo2() };
        Some(Held { used_bytes: about.uordblks + about.hblkhd, free_bytes: about.fordblks })
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

/// Returns the pages to the system that hold nothing any more.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it touches free memory only, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Whether there is so much free memory that it is time to give it back: a process under load uses again what it frees, and would have
/// to fetch the pages anew.
pub fn is_much_free(held: Held) -> bool {
    held.free_bytes >= MIN_FREE_BYTES && held.free_bytes >= held.used_bytes / FREE_PART
}

/// Gives memory back now and then, as long as it lives.
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
            // It panics in nothing that it does; if it did, the replica has ended all the same.
            thread.join().ok();
        }
    }
}
