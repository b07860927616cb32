//! Histograms of latencies.

use hdrhistogram::Histogram;

/// Highest latency distinguished by a histogram: one hour.
pub const MAX_LATENCY_US: u64 = 3_600_000_000;
/// Significant decimal digits of a recorded latency.
pub const LATENCY_DIGITS: u8 = 3;

/// Distinct values of a histogram with their counts.
pub type Counts = Vec<(u64, u64)>;

/// Returns an empty histogram of microseconds.
pub fn microseconds() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_US, LATENCY_DIGITS).expect("the bounds are in order")
}

/// Returns the distinct values of a histogram with their counts.
pub fn counts(histogram: &Histogram<u64>) -> Counts {
    let values = histogram.iter_recorded();
    values.map(|value| (value.value_iterated_to(), value.count_since_last_iteration())).collect()
}
