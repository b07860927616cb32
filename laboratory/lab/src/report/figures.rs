//! Figures of the report.

use crate::result::{BenchResult, Bucket, Second, count};
use quorate_plots::{Axis, Block, Event, Figure, Hover, Panel, Plot, Point, Series, check_figure};

/// Maximum points per line; longer runs are averaged over time.
const MAX_POINTS: usize = 600;
/// Maximum distance, in seconds, of events that share a mark with the first one.
const MOMENT_S: f64 = 0.5;

/// Part of the measured time, with its figures.
struct Span {
    from_s: f64,
    to_s: f64,
    /// Commands per second.
    rate: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

impl Span {
    /// Returns a step of a line: the value applies to the whole span, and drops become visible at its start.
    fn step(&self, value: f64) -> Point {
        Point { x_interval: Some((self.from_s, self.to_s)), ..Point::new(self.from_s, value) }
    }
}

fn spans(result: &BenchResult) -> Vec<Span> {
    let duration = result.spec.duration.as_secs_f64();
    let group = result.timeline.len().div_ceil(MAX_POINTS).max(1);
    let span = |seconds: &[Second]| {
        let from_s = f64::from(seconds[0].second);
        let whole = f64::from(seconds[seconds.len() - 1].second) + 1.0;
        // The last second is shorter if the duration is not a whole number.
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

/// Returns the events within the measured time as marks. Nearby events share a mark, because their labels would
/// overlap.
fn moments(result: &BenchResult, end_s: f64) -> Vec<Event> {
    let mut moments: Vec<(f64, &str, usize)> = Vec::new();
    for event in &result.events {
        // `max` also turns NaN into 0.
        let at = event.time_s.max(0.0).min(end_s);
        match moments.last_mut().filter(|(first, ..)| (at - *first).abs() <= MOMENT_S) {
            Some((.., others)) => *others += 1,
            None => moments.push((at, &event.text, 0)),
        }
    }
    let mark = |(from, text, others): (f64, &str, usize)| {
        // Only the kind; the list of events has the rest.
        let text = text.split_once(": ").map_or(text, |(kind, _)| kind);
        let label = if others == 0 { text.to_owned() } else { format!("{text} and {others} more") };
        Event { from, to: None, label }
    };
    moments.into_iter().map(mark).collect()
}

fn line(name: &str, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), points, ..Series::default() }
}

/// Returns a figure as a block of the page, or a paragraph with the reason why it cannot be drawn.
fn block(figure: Figure) -> Block {
    match check_figure(&figure) {
        Ok(()) => Block::Figure(Box::new(figure)),
        Err(error) => Block::Paragraph(format!("{} cannot be drawn: {error}.", figure.title)),
    }
}

/// Draws throughput and latency over time, with the events.
pub fn over_time(result: &BenchResult) -> Block {
    let spans = spans(result);
    let end_s = spans.last().map_or_else(|| result.spec.duration.as_secs_f64(), |span| span.to_s);
    let rate = line("throughput", spans.iter().map(|span| span.step(span.rate)).collect());
    let mut panels =
        vec![Panel { y: Some(Axis::from_zero("completed", "commands/s")), ..Panel::new("Throughput", vec![rate]) }];
    // A second without completions has no latency, so the line has a gap.
    let latency = |of: fn(&Span) -> Option<f64>| -> Vec<Point> {
        spans.iter().filter_map(|span| Some(span.step(of(span).filter(|value| *value > 0.0)?))).collect()
    };
    let (median, high) = (latency(|span| span.p50_ms), latency(|span| span.p99_ms));
    if !median.is_empty() {
        let lines = vec![line("median latency", median), line("99th percentile of the latency", high)];
        panels.push(Panel { y: Some(Axis::log("latency", "ms")), ..Panel::new("Latency", lines) });
    }
    block(Figure {
        id: "seconds".to_owned(),
        title: "Throughput and latency over time".to_owned(),
        caption: match spans.first().is_some_and(|first| first.to_s - first.from_s > 1.0) {
            true => "Throughput is averaged over several seconds, latencies are the highest among them.".to_owned(),
            false => String::new(),
        },
        x: Axis::new("time", "s"),
        y: Axis::new("", ""),
        plot: Plot::Time { panels, events: moments(result, end_s) },
    })
}

/// Draws the commands by latency, with percentiles marked; `None` without commands.
pub fn histogram(result: &BenchResult) -> Option<Block> {
    let buckets = &result.latency_histogram;
    let (first, last) = (buckets.first()?, buckets.last()?);
    let total = buckets.iter().map(|bucket| bucket.count).sum::<u64>().max(1) as f64;
    let point = |bucket: &Bucket| {
        let hover = Hover { rows: vec![("commands".to_owned(), count(bucket.count))], command: None };
        let share = bucket.count as f64 / total * 100.0;
        Point { x_interval: Some((bucket.from_ms, bucket.to_ms)), hover, ..Point::new(bucket.from_ms, share) }
    };
    let latency = &result.latency_ms;
    let mark = |(label, at): (&str, Option<f64>)| {
        Some(Event { from: at?.clamp(first.from_ms, last.to_ms), to: None, label: label.to_owned() })
    };
    let marks = [("p50", latency.p50), ("p99", latency.p99)].into_iter().filter_map(mark).collect();
    Some(block(Figure {
        id: "histogram".to_owned(),
        title: "Latency histogram".to_owned(),
        caption: String::new(),
        x: Axis::log("latency", "ms"),
        y: Axis::new("share of the commands", "%"),
        plot: Plot::Histogram {
            panels: vec![Panel::new("", vec![line("", buckets.iter().map(point).collect())])],
            marks,
        },
    }))
}

/// Draws the complementary distribution of latencies, which shows the tail; `None` without commands.
pub fn tail(result: &BenchResult) -> Option<Block> {
    let total: u64 = result.latency_histogram.iter().map(|bucket| bucket.count).sum();
    let first = result.latency_histogram.iter().find(|bucket| bucket.count > 0)?;
    let longest = result.latency_ms.max.unwrap_or(f64::INFINITY);
    let point = |latency_ms: f64, longer: u64| {
        let share = longer as f64 / total as f64 * 100.0;
        let hover = Hover { rows: vec![("percentile".to_owned(), percentile(longer, total))], command: None };
        Point::new(latency_ms, share).hover(hover)
    };
    let mut points = vec![point(first.from_ms, total)];
    let mut longer = total;
    for bucket in &result.latency_histogram {
        longer -= bucket.count;
        // The curve ends at the last command: none took longer, and a logarithmic axis cannot show zero.
        points.push(point(bucket.to_ms.min(longest).max(first.from_ms), longer.max(1)));
        if longer == 0 {
            break;
        }
    }
    Some(block(Figure {
        id: "tail".to_owned(),
        title: "Commands that took longer".to_owned(),
        caption: String::new(),
        x: Axis::log("latency", "ms"),
        y: Axis::log("commands that took longer", "%"),
        plot: Plot::Curve(vec![Panel::new("", vec![line("", points)])]),
    }))
}

/// Formats the percentile above which `longer` of `total` commands lie, with as many digits as necessary.
fn percentile(longer: u64, total: u64) -> String {
    let share = longer as f64 / total as f64;
    let decimals = (-share.log10()).ceil().max(1.0) as usize - 1;
    format!("{:.decimals$}", (1.0 - share) * 100.0)
}
