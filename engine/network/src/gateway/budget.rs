//! Limits on the client work in one event-loop iteration of a replica.

/// Maximum number of client frames per iteration, so that peers' frames do not wait long behind them.
pub const FRAMES_PER_TURN: usize = 256;
/// Maximum bytes of client frames per iteration; each byte is hashed.
pub const BYTES_PER_TURN: usize = 256 << 10;
/// Maximum number of unverified client batches per verifier thread: the one in progress and the next one. Beyond it
/// clients wait, and their frames accumulate into a larger batch.
pub const MAX_BATCHES_PER_VERIFIER: usize = 2;
/// Maximum number of bundles in one of these batches, about half a millisecond of work, because agreement may have to
/// wait for it.
pub const BUNDLES_PER_BATCH: usize = 64;
/// Maximum work for genuine clients per iteration, in nanoseconds: more than [`FRAMES_PER_TURN`] one-command bundles
/// take.
pub const GENUINE_NS_PER_TURN: u64 = 20_000_000;
/// Maximum work for all other clients per iteration, in nanoseconds.
pub const STRANGERS_NS_PER_TURN: u64 = 2_000_000;
/// Cost of an answer per byte, in nanoseconds: answers are copied, encrypted and sent after the iteration, where their
/// time is not measured.
pub const ANSWER_BYTE_NS: u64 = 10;
/// Number of forged bundles or undecodable frames after which a link is closed.
pub const MAX_FAULTS: u32 = 64;
/// At most 1/N of the time is spent on producing statuses; in between, the last status is sent again.
pub const STATUS_SHARE: u64 = 20;
/// Maximum time budget saved up for statuses, in nanoseconds. Occasional requests always get a new status.
pub const STATUS_SAVED_NS: u64 = 100_000_000;

/// Returns the cost of an answer of `bytes` that took `spent_ns` to produce.
pub fn answer_cost_ns(spent_ns: u64, bytes: usize) -> u64 {
    spent_ns.saturating_add(ANSWER_BYTE_NS.saturating_mul(bytes as u64))
}
