//! Protection of a process's memory, which contains private keys.

use std::io;

/// Forbids core dumps, and prevents other processes of this user from attaching to this one or reading its memory.
/// Child programs have no core dumps either, unless they raise the limit, but are not protected from other processes.
///
/// # Errors
/// If a system call fails.
pub fn forbid_core_dumps() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads one `rlimit` from a valid location.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // A core dump handler that is a program would get one in spite of the limit. SAFETY: it takes no pointer.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
