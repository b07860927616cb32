//! Counts of heap allocations, by thread.
//!
//! A program whose global allocator is [`CountingAllocator`] counts from the first call of [`count`] on.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether allocations are counted. If not, an allocation costs one additional load and branch.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Allocations of this thread, and their bytes. Has no destructor, so that threads can allocate while they end.
    static COUNTS: Cell<Allocations> = const { Cell::new(Allocations { count: 0, bytes: 0 }) };
}

/// Heap allocations of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allocations {
    /// Calls that allocate or grow memory.
    pub count: u64,
    /// Bytes requested by them. A reallocation counts its whole new size.
    pub bytes: u64,
}

/// The system's allocator, which counts after [`count`] was called.
pub struct CountingAllocator;

/// Starts counting on all threads.
pub fn count() {
    IS_COUNTING.store(true, Ordering::Relaxed);
}

/// Returns the counts of the calling thread.
pub fn of_this_thread() -> Allocations {
    COUNTS.get()
}

#[inline]
fn add(bytes: usize) {
    if IS_COUNTING.load(Ordering::Relaxed) {
        let Allocations { count, bytes: sum } = COUNTS.get();
        COUNTS.set(Allocations { count: count + 1, bytes: sum + bytes as u64 });
    }
}

// SAFETY: every call is forwarded to the system's allocator unchanged; the counters are plain cells without destructors
// and do not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        add(bytes);
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
