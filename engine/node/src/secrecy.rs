//! Keeps a process's memory, which holds private keys, to itself.

use std::io;

/// Forbids core dumps, and with them that other processes of this user attach to this one or read its memory. Programs
/// that this one starts have neither core dumps, unless they raise the limit, nor the other restriction.
///
/// # Errors
/// If the system refuses.
pub fn forbid_core_dumps() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads one `rlimit` from a valid place.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // A handler of core dumps that is a program would get one in spite of the limit.
    // SAFETY: it takes no pointer.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
