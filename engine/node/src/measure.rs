//! Measurements of the calling thread and the process by the operating system. Missing values are 0.

use std::fs;

/// Returns the time that the calling thread ran or was runnable, in nanoseconds (Linux, `schedstat`).
pub(crate) fn thread_busy_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Returns the peak resident memory of the process, in kilobytes (Linux, `VmHWM`).
pub(crate) fn peak_rss_kb() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Space of a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes that this user may still write.
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// Returns the space of the file system of a path; `None` if the system does not report it.
pub(crate) fn space(path: &std::path::Path) -> Option<Space> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: `statvfs` consists of integers, so all zeros is a valid value.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated, and the kernel writes to a valid `statvfs`.
    let status = unsafe { libc::statvfs(path.as_ptr(), &raw mut about) };
    (status == 0).then(|| Space {
        free_bytes: about.f_bavail as u64 * about.f_frsize as u64,
        total_bytes: about.f_blocks as u64 * about.f_frsize as u64,
    })
}

/// Returns the bytes that this user may still write to the file system of a path; `None` if the system does not report
/// it.
pub(crate) fn free_bytes(path: &std::path::Path) -> Option<u64> {
    space(path).map(|space| space.free_bytes)
}
