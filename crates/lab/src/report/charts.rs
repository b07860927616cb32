//! Charts of the report.

use super::svg::{Axis, Bar, Chart, Hover, Line, Mark};
use crate::result::{BenchResult, Bucket, Second, count, figure};

/// Maximum points per line; longer runs are averaged.
const MAX_POINTS: usize = 600;
/// Events at most this many seconds after the first one share a mark.
const MOMENT_S: f64 = 0.5;
/// Ticks on a vertical axis.
const Y_TICKS: usize = 5;
/// Ticks on a horizontal time axis.
const X_TICKS: usize = 10;
/// Ticks on the percentile axis.
const PERCENTILES: &[f64] = &[0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];

/// Formats a number for an axis: 400k, 1.2M.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    // Three decimals are enough, and hide the error of binary fractions.
    format!("{}{unit}", (scaled * 1000.0).round() / 1000.0)
}

/// Part of the measured time, with its figures.
pub struct Span {
    pub from_s: f64,
    pub to_s: f64,
    /// Commands per second.
    pub rate: f64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

impl Span {
    /// Returns the two ends of a horizontal line: the figure applies to the whole span, and a drop shows where the span
    /// began.
    fn step(&self, value: Option<f64>) -> [(f64, Option<f64>); 2] {
        [(self.from_s, value), (self.to_s, value)]
    }
}

/// Returns the points of the lines over time.
pub fn spans(result: &BenchResult) -> Vec<Span> {
    let duration = result.spec.duration.as_secs_f64();
    let group = result.timeline.len().div_ceil(MAX_POINTS).max(1);
    let span = |seconds: &[Second]| {
        let from_s = f64::from(seconds[0].second);
        let whole = f64::from(seconds[seconds.len() - 1].second) + 1.0;
        // The last second is shorter if the duration is not a whole number of seconds.
        let to_s = if duration > from_s { whole.min(duration) } else { whole };
        let ops: u64 = seconds.iter().map(|second| second.ops).sum();
        let worst = |value: fn(&Second) -> Option<f64>| seconds.iter().filter_map(value).reduce(f64::max);
        Span {
            from_s,
            to_s,
            rate: ops as f64 / (to_s - from_s),
            p50_ms: worst(|s| s.p50_ms),
            p99_ms: worst(|s| s.p99_ms),
        }
    };
    result.timeline.chunks(group).map(span).collect()
}

fn time_axis(result: &BenchResult, spans: &[Span]) -> Axis {
    let end = spans.last().map_or(0.0, |span| span.to_s).max(result.spec.duration.as_secs_f64());
    Axis::exact("seconds", end, X_TICKS, short)
}

/// Marks the events. Nearby events share one mark, because their labels would overlap.
fn event_marks(result: &BenchResult) -> Vec<Mark> {
    let mut moments: Vec<(f64, Vec<usize>)> = Vec::new();
    for (at, event) in result.events.iter().enumerate() {
        let time = event.time_s.max(0.0);
        match moments.last_mut().filter(|(first, _)| (time - *first).abs() <= MOMENT_S) {
            Some((_, events)) => events.push(at),
            None => moments.push((time, vec![at])),
        }
    }
    let mark = |(at, events): &(f64, Vec<usize>)| {
        let (first, last, name) = (events[0] + 1, events[events.len() - 1] + 1, &result.events[events[0]].text);
        let (text, number) = match events.len() {
            1 => (name.clone(), first.to_string()),
            many => (format!("{name} and {} more", many - 1), format!("{first}-{last}")),
        };
        Mark { at: *at, text, number, class: "event" }
    };
    moments.iter().map(mark).collect()
}

/// Formats a latency in milliseconds for an axis.
fn time(ms: f64) -> String {
    match ms {
        ms if ms >= 1000.0 => format!("{} s", short(ms / 1000.0)),
        ms if ms >= 1.0 || ms <= 0.0 => format!("{} ms", short(ms)),
        ms => format!("{} µs", short(ms * 1000.0)),
    }
}

/// Creates a logarithmic latency axis between two powers of ten.
fn latency_axis(least: f64, most: f64) -> Axis {
    let power = |value: f64, round: fn(f64) -> f64| 10f64.powf(round(value.max(f64::MIN_POSITIVE).log10()));
    let (least, most) = (least.clamp(1e-3, 1e6), most.clamp(1e-3, 1e9));
    let (low, high) = (power(least, f64::floor), power(most, f64::ceil));
    let mut axis = Axis::log("", low, high.max(low * 10.0), time);
    // Label only powers of ten if there are several; more labels would overlap.
    if high / low >= 1000.0 {
        axis.ticks.retain(|(value, _)| (value.log10() - value.log10().round()).abs() < 1e-6);
    }
    axis
}

/// Charts the commands completed per second, with the events.
pub fn throughput(result: &BenchResult) -> Chart {
    let spans = spans(result);
    let most = spans.iter().map(|span| span.rate).fold(0.0, f64::max);
    let hover = |span: &Span| Hover {
        range: (span.from_s, span.to_s),
        text: format!("{} to {} s: {} commands/s", short(span.from_s), short(span.to_s), figure(span.rate)),
    };
    Chart {
        summary: format!("Throughput over {}, at most {} commands per second", result.spec.duration, figure(most)),
        x: time_axis(result, &spans),
        y: Axis::linear("commands/s", most * 1.04, Y_TICKS, short),
        lines: vec![Line {
            class: "one",
            area: true,
            points: spans.iter().flat_map(|s| s.step(Some(s.rate))).collect(),
        }],
        bars: Vec::new(),
        marks: event_marks(result),
        hovers: spans.iter().map(hover).collect(),
    }
}

/// Charts the median and 99th percentile over time; `None` without any latency.
pub fn latency_over_time(result: &BenchResult) -> Option<Chart> {
    let spans = spans(result);
    let values = spans.iter().flat_map(|span| [span.p50_ms, span.p99_ms]).flatten();
    let (least, most) = values.fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
    })?;
    let hover = |span: &Span| {
        let ms = |value: Option<f64>| value.map_or_else(|| "none".into(), |value| format!("{} ms", figure(value)));
        let text = format!(
            "{} to {} s: p50 {}, p99 {}",
            short(span.from_s),
            short(span.to_s),
            ms(span.p50_ms),
            ms(span.p99_ms)
        );
        Hover { range: (span.from_s, span.to_s), text }
    };
    Some(Chart {
        summary: format!("Latency over time, at most {} ms at the 99th percentile", figure(most)),
        x: time_axis(result, &spans),
        y: latency_axis(least, most),
        lines: vec![
            Line { class: "two", area: false, points: spans.iter().flat_map(|s| s.step(s.p99_ms)).collect() },
            Line { class: "one", area: false, points: spans.iter().flat_map(|s| s.step(s.p50_ms)).collect() },
        ],
        bars: Vec::new(),
        marks: event_marks(result),
        hovers: spans.iter().map(hover).collect(),
    })
}

/// Charts the latency histogram, with percentiles marked; `None` without commands.
pub fn histogram(result: &BenchResult) -> Option<Chart> {
    let buckets = &result.latency_histogram;
    let (first, last) = (buckets.first()?, buckets.last()?);
    let total = buckets.iter().map(|bucket| bucket.count).sum::<u64>().max(1) as f64;
    let share = |bucket: &Bucket| bucket.count as f64 / total * 100.0;
    let most = buckets.iter().map(share).fold(0.0, f64::max);
    let latency = &result.latency_ms;
    let marks = [("p50", latency.p50), ("p99", latency.p99)];
    let hover = |bucket: &Bucket| Hover {
        range: (bucket.from_ms, bucket.to_ms),
        text: format!(
            "{} to {} ms: {} commands, {} %",
            figure(bucket.from_ms),
            figure(bucket.to_ms),
            count(bucket.count),
            figure(share(bucket))
        ),
    };
    Some(Chart {
        summary: format!("Histogram of latency from {} to {} ms", figure(first.from_ms), figure(last.to_ms)),
        x: Axis::log("logarithmic", first.from_ms, last.to_ms, time),
        y: Axis::linear("%", most, Y_TICKS, |value| format!("{} %", short(value))),
        lines: Vec::new(),
        bars: buckets
            .iter()
            .map(|bucket| Bar { range: (bucket.from_ms, bucket.to_ms), value: share(bucket) })
            .collect(),
        marks: marks
            .into_iter()
            .filter_map(|(name, at)| {
                Some(Mark { at: at?, text: name.into(), number: name.into(), class: "percentile" })
            })
            .collect(),
        hovers: buckets.iter().map(hover).collect(),
    })
}

/// Charts latency by percentile, on an axis that stretches towards 100 % to show the tail; `None` without commands.
pub fn percentiles(result: &BenchResult) -> Option<Chart> {
    let total: u64 = result.latency_histogram.iter().map(|bucket| bucket.count).sum();
    let first = result.latency_histogram.iter().find(|bucket| bucket.count > 0)?;
    let longest = result.latency_ms.max.unwrap_or(f64::INFINITY);
    let nines = |share: f64| -(1.0 - share).log10();
    let end = nines(1.0 - 1.0 / (total.max(10) as f64));
    let mut points = vec![(0.0, Some(first.from_ms))];
    let mut below = 0;
    for bucket in &result.latency_histogram {
        below += bucket.count;
        let at = if below == total { end } else { nines(below as f64 / total as f64).min(end) };
        points.push((at, Some(bucket.to_ms.min(longest))));
    }
    let most = points.iter().filter_map(|(_, value)| *value).fold(0.0, f64::max);
    let ticks = PERCENTILES
        .iter()
        .map(|percent| (nines(percent / 100.0), format!("{percent}")))
        .filter(|(at, _)| *at <= end + 1e-6);
    Some(Chart {
        summary: format!("Latency by percentile, at most {} ms", figure(most)),
        x: Axis { name: "percentile".into(), range: (0.0, end), log: false, ticks: ticks.collect() },
        y: latency_axis(first.from_ms, most),
        lines: vec![Line { class: "one", area: true, points }],
        bars: Vec::new(),
        marks: Vec::new(),
        hovers: Vec::new(),
    })
}
