//! Limits on the work for clients in one turn of a replica.

/// Maximum number of client frames per turn, so that peers do not wait long behind them.
pub const FRAMES_PER_TURN: usize = 256;
/// Maximum bytes of client frames per turn; each byte is hashed.
pub const BYTES_PER_TURN: usize = 256 << 10;
/// Maximum number of clients' unverified batches for each thread that verifies for a replica: one that it works on, and
/// the next one. Beyond it, clients wait, and what they have sent meanwhile makes a larger batch.
pub const MAX_BATCHES_PER_VERIFIER: usize = 2;
/// Maximum number of bundles in one of these batches, about half a millisecond of work: agreement may have to wait for
/// it.
pub const BUNDLES_PER_BATCH: usize = 64;
/// Maximum work for genuine clients per turn, in nanoseconds: more than [`FRAMES_PER_TURN`] one-command bundles take.
pub const GENUINE_NS_PER_TURN: u64 = 20_000_000;
/// Maximum work for all other clients per turn, in nanoseconds.
pub const STRANGERS_NS_PER_TURN: u64 = 2_000_000;
/// Cost of an answer per byte, in nanoseconds: it is copied, encrypted and sent after its turn, where its time is not
/// measured.
pub const ANSWER_BYTE_NS: u64 = 10;
/// A link is cut after this many forged bundles or undecodable frames.
pub const MAX_FAULTS: u32 = 64;
/// At most 1/N of the time is spent on making statuses; in between, the last status is sent again.
pub const STATUS_SHARE: u64 = 20;
/// Maximum saved time for statuses, in nanoseconds. Occasional requests always get a new status.
pub const STATUS_SAVED_NS: u64 = 100_000_000;

/// Returns the cost of an answer of `bytes` that took `spent_ns` to make.
pub fn answer_cost_ns(spent_ns: u64, bytes: usize) -> u64 {
    spent_ns.saturating_add(ANSWER_BYTE_NS.saturating_mul(bytes as u64))
}
