//! Memory returned to the system after a peak.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use quorate_node::memory::{Held, give_back, held, is_much_free};
use std::fs;

const PIECE_BYTES: usize = 1 << 10;
const PIECES: usize = 256 << 10;
/// One in this many pieces stays allocated, as in any real process; this keeps the allocator from returning pages on
/// its own.
const ONE_STAYS_OF: usize = 512;
const MB: usize = 1 << 20;

/// Returns the resident memory of this process, in bytes.
fn resident_bytes() -> usize {
    let text = fs::read_to_string("/proc/self/status").expect("Linux reports the memory of a process");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the resident set has a line");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number of kilobytes");
    kilobytes << 10
}

#[test]
fn memory_of_a_peak_is_returned() {
    let before = held().expect("the allocator reports its memory");
    let mut pieces: Vec<Option<Box<[u8; PIECE_BYTES]>>> =
        (0..PIECES).map(|_| Some(Box::new([1; PIECE_BYTES]))).collect();
    let at_the_peak = resident_bytes();
    assert!(
        held().expect("the allocator reports its memory").used_bytes >= before.used_bytes + 200 * MB,
        "the pieces are in use"
    );
    for (at, piece) in pieces.iter_mut().enumerate() {
        if at % ONE_STAYS_OF != 0 {
            *piece = None;
        }
    }
    let freed = resident_bytes();
    assert!(
        freed + 64 * MB > at_the_peak,
        "the allocator returned the memory by itself: {} MB of {} MB",
        freed / MB,
        at_the_peak / MB
    );
    give_back();
    let given_back = resident_bytes();
    assert!(given_back + 128 * MB < freed, "{} MB after the peak, then {} MB", freed / MB, given_back / MB);
}

#[test]
fn a_process_under_load_keeps_freed_memory() {
    let is_much = |used_mb, free_mb| is_much_free(Held { used_bytes: used_mb * MB, free_bytes: free_mb * MB });
    assert!(!is_much(10, 30), "too little is free to return it");
    assert!(!is_much(400, 90), "a loaded replica will reuse the memory");
    assert!(is_much(53, 198), "a replica after a peak should return memory");
}
