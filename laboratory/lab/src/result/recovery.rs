//! Throughput after misbehaviour, relative to the throughput before it.

use crate::spec::{BenchSpec, Fault};
use quorate_client::load::INTERVAL;

/// Returns the throughput after the end of all misbehaviour, in percent of the throughput before its first start.
///
/// `intervals` are the commands completed in each [`INTERVAL`] of the measured time. Intervals that overlap with
/// misbehaviour count on neither side. `None` unless both sides have a whole interval, and something completed before.
pub(crate) fn recovery_percent(spec: &BenchSpec, intervals: &[u64]) -> Option<f64> {
    let length_ms = INTERVAL.as_millis() as u64;
    let end_ms = intervals.len() as u64 * length_ms;
    let spans: Vec<(u64, Option<u64>)> = (spec.fault.iter())
        .filter_map(|fault| if let Fault::Misbehave(_, _, when) = fault { Some(*when) } else { None })
        .filter(|when| when.at.is_some())
        .flat_map(|when| when.spans_ms(end_ms))
        .collect();
    let first_ms = spans.iter().map(|(start, _)| *start).min()?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (at, completed) in intervals.iter().enumerate() {
        let (from, to) = (at as u64 * length_ms, (at as u64 + 1) * length_ms);
        if to <= first_ms {
            before.push(*completed as f64);
        } else if spans.iter().all(|(start, end)| to <= *start || end.is_some_and(|end| end <= from)) {
            after.push(*completed as f64);
        }
    }
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let percent = mean(&after) / mean(&before) * 100.0;
    percent.is_finite().then_some(percent)
}
