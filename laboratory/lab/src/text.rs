//! Formats values and lines of values.

use quorate_types::text::group;
use std::fmt::Display;

/// Formats a measured value: digits grouped by thousands, and fewer decimals for larger values.
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", group(digits))
}

/// Formats a figure, or a dash for `None`.
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| DASH.to_owned(), figure)
}

/// Returns the note of a partial result as a line of a table.
pub(crate) fn partial_line(partial: Option<&String>) -> String {
    partial.map_or_else(String::new, |text| line("PARTIAL", text))
}

/// Returns a line of a table below the figures.
pub(crate) fn line(name: &str, text: impl Display) -> String {
    format!(" {name:<10}  {text}\n")
}

/// Text of a value, and its unit, which may be empty.
pub(crate) type Shown = (String, &'static str);

/// Fills a template: `{name}` becomes the value with its unit, and `{name:}` the value alone, or a dash if it is
/// absent. A part in brackets is left out if a value in it is absent or 0.
pub(crate) fn fill(template: &str, value: &dyn Fn(&str) -> Option<Shown>) -> String {
    let mut text = String::new();
    for part in template.split_inclusive(']') {
        let (always, optional) = part.strip_suffix(']').and_then(|part| part.split_once('[')).unwrap_or((part, ""));
        let (always, _) = filled(always, value);
        let (optional, is_whole) = filled(optional, value);
        text.push_str(&always);
        text.push_str(if is_whole { &optional } else { "" });
    }
    text
}

/// Fills a part of a template. Returns whether all its values are present and nonzero.
fn filled(template: &str, value: &dyn Fn(&str) -> Option<Shown>) -> (String, bool) {
    let (mut text, mut is_whole) = (String::new(), true);
    for part in template.split_inclusive('}') {
        let Some((before, name)) = part.strip_suffix('}').and_then(|part| part.split_once('{')) else {
            text.push_str(part);
            continue;
        };
        let shown = value(name.trim_end_matches(':'));
        is_whole &= shown.as_ref().is_some_and(|(shown, _)| shown.chars().any(|digit| !matches!(digit, '0' | '.')));
        let (shown, unit) = shown.unwrap_or_else(|| (DASH.to_owned(), ""));
        text.push_str(before);
        text.push_str(&shown);
        if !(unit.is_empty() || name.ends_with(':')) {
            text.extend([" ", unit]);
        }
    }
    (text, is_whole)
}

/// Text of an absent value.
const DASH: &str = "–";
