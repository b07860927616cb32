//! Formats numbers, names and lists for readers.

pub(super) use quorate_lab::experiments::figures::label;
use quorate_lab::experiments::statistics::Summary;
use quorate_lab::figures::vocabulary;
use quorate_types::text;

/// Number of digits shown.
const SIGNIFICANT_DIGITS: i32 = 4;
/// Minimum number with grouped thousands.
const MIN_GROUPED: f64 = 1000.0;
/// Minimum number shown in decimal notation.
const MIN_PLAIN: f64 = 1e-4;
/// Minimum number shown in scientific notation.
const MIN_SCIENTIFIC: f64 = 1e15;

/// Formats a number with four significant digits; whole numbers in full, with grouped thousands.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(MIN_PLAIN..MIN_SCIENTIFIC).contains(&size) {
        return format!("{value:.2e}");
    }
    let sign = if value < 0.0 { "-" } else { "" };
    if size >= MIN_GROUPED {
        return format!("{sign}{}", text::count(size.round() as u64));
    }
    let decimals = (SIGNIFICANT_DIGITS - 1 - size.log10().floor() as i32).max(0) as usize;
    let shown = format!("{value:.decimals$}");
    let shown = if shown.contains('.') { shown.trim_end_matches('0').trim_end_matches('.') } else { &shown };
    shown.to_owned()
}

/// Formats a mean with half the width of its interval, to two significant digits.
pub(super) fn summary(summary: &Summary) -> String {
    match summary.interval {
        Some(interval) if interval.high > interval.low => {
            let half = (interval.high - interval.low) / 2.0;
            let unit = 10f64.powf(half.log10().floor() - 1.0);
            format!("{} ± {}", number(summary.mean), number((half / unit).round() * unit))
        }
        _ => number(summary.mean),
    }
}

/// Converts a name from a file to words: underscores become spaces.
pub(super) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// Returns the unit of a figure.
pub(super) fn unit(name: &str) -> &'static str {
    vocabulary().figure(name).map_or("", |figure| figure.unit)
}

/// Returns the unit of a series.
pub(super) fn series_unit(name: &str) -> &'static str {
    vocabulary().series.iter().find(|series| series.name == name).map_or("", |series| series.unit)
}

/// Returns the label and the unit of a figure: `throughput (commands/s)`.
pub(super) fn title(name: &str) -> String {
    match unit(name) {
        "" => label(name),
        unit => format!("{} ({unit})", label(name)),
    }
}

/// Formats a count with its noun: `1 run`, `2 runs`.
pub(super) fn count(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", text::count(count as u64))
}

/// Replaces line breaks with spaces.
pub(super) fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
