//! A message with a count larger than its content is refused before anything is allocated for the count.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_types::codec::WIRE_VERSION;
use quorate_types::limits::{
    MAX_BLOCK_BUNDLES, MAX_BUNDLE_BYTES, MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES, MAX_PROOF_BYTES, MAX_REPLICAS,
    MAX_TEXT_BYTES,
};
use quorate_types::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which also counts the bytes allocated by each thread.
struct Counting;

fn count(bytes: usize) {
    ALLOCATED_BYTES.with(|allocated| allocated.set(allocated.get().saturating_add(bytes)));
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counter is a plain cell that allocates
// nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the bytes allocated while decoding, and whether decoding succeeded.
fn allocated<T: Wire>(message: Bytes) -> (usize, bool) {
    let before = ALLOCATED_BYTES.get();
    let decoded = decode_message::<T>(message);
    (ALLOCATED_BYTES.get() - before, decoded.is_ok())
}

/// Upper bound on the bytes allocated for a message: a decoded value may be several times as large as its encoding.
fn allowance(message_bytes: usize) -> usize {
    1024 + 32 * message_bytes
}

const CLAIMS: [usize; 10] = [
    u32::MAX as usize,
    1 << 31,
    MAX_BLOCK_BUNDLES,
    MAX_BUNDLE_BYTES,
    MAX_BUNDLE_COMMANDS - 1,
    MAX_PAYLOAD_BYTES,
    MAX_PROOF_BYTES,
    MAX_REPLICAS,
    MAX_TEXT_BYTES,
    0x0101_0101,
];

/// Overwrites every four consecutive bytes of a message with each large count.
fn claims_are_refused<T: Wire>(value: &T) {
    let message = encode_message(value);
    for at in 1..message.len().saturating_sub(3) {
        for claim in CLAIMS {
            let mut bytes = message.to_vec();
            bytes[at..at + 4].copy_from_slice(&(claim as u32).to_le_bytes());
            let (allocated, _) = allocated::<T>(Bytes::from(bytes));
            assert!(allocated <= allowance(message.len()), "{allocated} bytes for the claim of {claim} at byte {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn no_count_is_trusted(
        certificate in crate::common::certificate(),
        vote in crate::common::vote(),
        block in crate::common::block(),
        bundle in crate::common::bundle(),
        results in crate::common::results(),
        request in crate::common::request(),
        reply in crate::common::reply(),
    ) {
        claims_are_refused(&certificate);
        claims_are_refused(&vote);
        claims_are_refused(&block);
        claims_are_refused(&bundle);
        claims_are_refused(&results);
        claims_are_refused(&request);
        claims_are_refused(&reply);
    }
}

/// About twenty bytes that end in a count of 2^32-1 entries.
#[test]
fn short_messages_with_huge_counts_are_refused() {
    let message = |head: &[u8]| Bytes::from([&[WIRE_VERSION], head, &[0xff; 4]].concat());
    let subject = |domain: u8| [&[domain][..], &[0; 48]].concat();
    let certificate = [subject(2), vec![0]].concat();
    let (allocated_bytes, decoded) = allocated::<Bundle>(message(&[]));
    assert!(!decoded && allocated_bytes == 0);
    let refused = [
        allocated::<Bundle>(message(&[&[12, 0, 0, 0][..], &[0; 8]].concat())),
        allocated::<Results>(message(&[0])),
        allocated::<Results>(message(&[1])),
        allocated::<ClientRequest>(message(&[1])),
        allocated::<ClientRequest>(message(&[&[2][..], &[0; 8]].concat())),
        allocated::<ReplicaReply>(message(&[&[3][..], &[0; 16]].concat())),
        allocated::<Certificate>(message(&certificate)),
        allocated::<Vote>(message(&[&subject(2)[..], &[0, 0, 0]].concat())),
        allocated::<Block>(message(&[&[0; 10][..], &certificate, &[0; 8]].concat())),
    ];
    for (at, (allocated, decoded)) in refused.into_iter().enumerate() {
        assert!(!decoded, "message {at} decodes");
        assert!(allocated <= 64, "message {at} costs {allocated} bytes");
    }
}

#[test]
fn the_allocator_counts_bytes() {
    let before = ALLOCATED_BYTES.get();
    drop(std::hint::black_box(vec![1u8; 1 << 20]));
    assert!(ALLOCATED_BYTES.get() - before >= 1 << 20);
}

#[test]
fn many_empty_results_take_no_memory() {
    let (allocated, decoded) = allocated::<Results>(encode_message(&Results::all_empty(MAX_BUNDLE_COMMANDS)));
    assert!(decoded && allocated <= 64, "{allocated} bytes");
    let beyond = encode_message(&Results::all_empty(MAX_BUNDLE_COMMANDS + 1));
    assert!(decode_message::<Results>(beyond).is_err());
}
