//! What the operating system says of the calling thread and of the process. A figure that it does not give is 0.

use std::fs;

/// Time for which the calling thread ran or waited for a processor, in nanoseconds (Linux, `schedstat`).
pub(crate) fn thread_busy_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Highest resident memory of the process, in kilobytes (Linux, `VmHWM`).
pub(crate) fn peak_rss_kb() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Bytes that this user may still write to the file system of a path; none where the system does not tell.
pub(crate) fn free_bytes(path: &std::path::Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: a `statvfs` is numbers, for which zeros are a value.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero, and the kernel writes to a place of the right size.
    let status = unsafe { libc::statvfs(path.as_ptr(), &raw mut about) };
    (status == 0).then(|| about.f_bavail as u64 * about.f_frsize as u64)
}
