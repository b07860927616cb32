//! Short time slices for the writer thread, so that it runs as soon as the disk has answered.
//!
//! A thread that wakes up on a busy processor waits until the running thread has used up its slice: up to a scheduler
//! tick, 4 ms at 250 Hz, thirty times the duration of the disk write. Linux 6.12 and later runs a thread first if it
//! requests shorter slices. The thread gets no larger share of the processor and needs no privileges.

/// Time slice of the writer thread in nanoseconds: about the time needed to pass a group to the disk.
#[cfg(target_os = "linux")]
const SLICE_NS: u64 = 100_000;

/// First version of the kernel's `struct sched_attr`.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Time slice of an ordinary thread in nanoseconds.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Requests short slices for the calling thread. Does nothing if the kernel does not support them or the thread has a
/// special policy.
#[cfg(target_os = "linux")]
pub(crate) fn request_short_slices() {
    let size = size_of::<Attributes>() as u32;
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most `size` bytes to `attributes`, which has that size.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if known == 0 && attributes.policy == libc::SCHED_OTHER as u32 {
        (attributes.size, attributes.runtime) = (size, SLICE_NS);
        // SAFETY: the kernel reads `size` bytes from `attributes`, which has that size. Older kernels ignore the slice.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// Does nothing: only Linux supports short slices.
#[cfg(not(target_os = "linux"))]
pub(crate) fn request_short_slices() {}
