//! What a replica spends on its clients in one turn.

/// Most frames of clients in one turn, so that peers do not wait long behind them.
pub const FRAMES_PER_TURN: usize = 256;
/// Most bytes of clients' frames in one turn: each byte is hashed.
pub const BYTES_PER_TURN: usize = 256 << 10;
/// Most work for genuine clients in one turn, in nanoseconds: more than [`FRAMES_PER_TURN`] bundles of one command take.
pub const GENUINE_NS_PER_TURN: u64 = 20_000_000;
/// Most work for all other clients in one turn, in nanoseconds.
pub const STRANGERS_NS_PER_TURN: u64 = 2_000_000;
/// A link is cut with so many forged bundles or frames that are no message.
pub const MOST_FAULTS: u32 = 64;
/// A status is made anew for at most one part in so many of the time; in between the last one is sent again.
pub const STATUS_SHARE: u64 = 20;
/// So much time for statuses is saved up, in nanoseconds: a client that asks now and then always gets a new one.
pub const STATUS_SAVED_NS: u64 = 100_000_000;
