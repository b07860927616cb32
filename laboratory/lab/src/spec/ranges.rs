//! Ranges of the keys that hold a whole number.

use quorate_applications::MAX_EXECUTION_THREADS;
use quorate_client::load::MAX_SAMPLES;
use quorate_consensus::config::{MAX_REPETITIONS, MAX_VIEW_TIMEOUT_MS, MAX_WINDOW};
use quorate_types::limits::{MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES};
/// Maximum number of clients that one machine runs.
pub(super) const MAX_CLIENTS: u64 = 10_000;
/// Maximum number of outstanding commands over all clients; each is remembered until it is answered.
pub(super) const MAX_OUTSTANDING: u64 = 16_000_000;
/// Maximum rate of an open loop, in commands per second.
pub(super) const MAX_RATE: u64 = 100_000_000;
/// Maximum number of records: every replica holds the key-value store in memory.
const MAX_RECORDS: u64 = 10_000_000;
/// Maximum seed: the largest integer of an experiment file.
const MAX_SEED: u64 = i64::MAX as u64;
/// Maximum of `search_p99_ms`: one hour.
const MAX_SEARCH_P99_MS: u64 = 60 * 60 * 1000;
/// Maximum number of simulated cores; a real machine has what it has.
const MAX_CORES: u64 = 1024;
/// Maximum time that a client's command waits for others: a minute.
const MAX_BUNDLE_WAIT_MS: u64 = 60_000;
/// Minimum of the bytes in a block.
const MIN_BATCH_BYTES: u64 = 1024;

/// Minimum and maximum of each key with a whole number; other checks may narrow the range.
const RANGES: &[(&str, u64, u64)] = &[
    ("replicas", 1, quorate_types::limits::MAX_REPLICAS as u64),
    ("batch", 1, quorate_types::limits::MAX_BLOCK_BUNDLES as u64),
    ("batch_bytes", MIN_BATCH_BYTES, quorate_types::limits::MAX_FRAME_BYTES as u64 / 2),
    ("batch_latency_ms", 0, MAX_VIEW_TIMEOUT_MS),
    ("batch_wait_ms", 0, MAX_VIEW_TIMEOUT_MS),
    ("vote_wait_us", 0, MAX_VIEW_TIMEOUT_MS * 1000),
    ("view_timeout_ms", 1, MAX_VIEW_TIMEOUT_MS),
    ("max_queue_ms", 0, MAX_VIEW_TIMEOUT_MS),
    ("window", 1, MAX_WINDOW as u64),
    ("checkpoint_interval", 1, MAX_WINDOW as u64 / 2),
    ("pipeline", 1, MAX_WINDOW as u64),
    ("pre_prepare_repeat", 0, MAX_REPETITIONS as u64),
    ("repeat", 0, MAX_REPETITIONS as u64),
    ("base_port", 0, u16::MAX as u64),
    ("payload", 0, MAX_PAYLOAD_BYTES as u64),
    ("records", 1, MAX_RECORDS),
    ("clients", 1, MAX_CLIENTS),
    ("bundle", 1, MAX_BUNDLE_COMMANDS as u64),
    ("bundle_wait_ms", 0, MAX_BUNDLE_WAIT_MS),
    ("rate", 1, MAX_RATE),
    ("search_p99_ms", 1, MAX_SEARCH_P99_MS),
    ("execution_threads", 1, MAX_EXECUTION_THREADS as u64),
    ("cores", 0, MAX_CORES),
    ("samples", 0, MAX_SAMPLES as u64),
    ("outstanding", 1, MAX_OUTSTANDING),
    ("seed", 0, MAX_SEED),
    ("duration", 1, super::MAX_INTERVAL_MS),
    ("record_limit_mb", 1, quorate_hosting::recording::MAX_LIMIT_MB),
];

/// Returns the minimum and maximum of a key that holds a whole number or a duration in milliseconds.
pub(super) fn range(key: &str) -> Option<(u64, u64)> {
    RANGES.iter().find(|(name, ..)| *name == key).map(|(_, least, most)| (*least, *most))
}

/// Parses the whole number of a flag. Its range is checked later, since the value may also come from a file.
pub(super) fn number<T: TryFrom<u64>>(key: &'static str) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok()).ok_or_else(|| whole(key))
}

/// Returns the help for a key with a whole number.
pub(super) fn whole(key: &str) -> String {
    let range = range(key).map_or_else(String::new, |(least, most)| format!(" from {least} to {most}"));
    format!("write a whole number{range}")
}
