//! A processor for the thread that writes, as soon as the disk has answered.
//!
//! A thread that wakes up on a busy processor waits until the one that runs has had its slice: up to a tick of the scheduler, 4 ms at
//! 250 Hz, thirty times as long as the disk took. Linux (6.12 and later) lets a thread that asks for shorter slices go first. It gets no
//! more of the processor than before, and needs no privileges.

/// How long the thread that writes runs at a time, in nanoseconds: about as long as it takes to hand a group to the disk.
#[cfg(target_os = "linux")]
const SLICE_NS: u64 = 100_000;

/// The kernel's `struct sched_attr`, in its first version.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Of an ordinary thread, its slice in nanoseconds.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for short slices for the calling thread. Where that is not to be had, or the thread is no ordinary one, nothing changes.
#[cfg(target_os = "linux")]
pub(crate) fn ask_for_short_ones() {
    let size = size_of::<Attributes>() as u32;
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes no more than `size` bytes to a place that holds as many.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if known == 0 && attributes.policy == libc::SCHED_OTHER as u32 {
        (attributes.size, attributes.runtime) = (size, SLICE_NS);
        // SAFETY: the kernel reads `size` bytes from a place that holds as many. An older kernel ignores the slice.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// Asks for short slices for the calling thread: not to be had here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ask_for_short_ones() {}
