//! Histograms of latencies.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

/// A histogram as the list of its distinct values with their counts, which loses nothing: all histograms of a load have
/// the same bounds.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Form(Counts);

impl Form {
    fn of(histogram: &Histogram<u64>) -> Form {
        Form(counts(histogram))
    }

    fn histogram(self) -> Histogram<u64> {
        let mut histogram = microseconds();
        self.0.into_iter().for_each(|(value, count)| histogram.saturating_record_n(value, count));
        histogram
    }
}

/// Serialization of a histogram of microseconds.
pub struct AsCounts;

impl AsCounts {
    pub fn serialize<S: Serializer>(histogram: &Histogram<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        Form::of(histogram).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Histogram<u64>, D::Error> {
        Form::deserialize(deserializer).map(Form::histogram)
    }
}

/// Serialization of a histogram of microseconds that may be absent.
pub struct AsOptionalCounts;

impl AsOptionalCounts {
    pub fn serialize<S: Serializer>(histogram: &Option<Histogram<u64>>, serializer: S) -> Result<S::Ok, S::Error> {
        histogram.as_ref().map(Form::of).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Histogram<u64>>, D::Error> {
        Ok(Option::<Form>::deserialize(deserializer)?.map(Form::histogram))
    }
}
