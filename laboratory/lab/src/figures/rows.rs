//! Rows of the terminal's table, built from declared figures.

use super::{DECLARED, Run};
use crate::experiments::figures::label;
use crate::record::Record;
use crate::result::BenchResult;
use crate::text::{figure, fill, optional};
use quorate_types::text::count;

/// A row: label, figure, text after the unit, and alternative notes. The first note whose values are all present is
/// shown. Notes name figures and [`WORDS`] in braces.
struct Row {
    label: &'static str,
    figure: &'static str,
    after: &'static str,
    notes: &'static [&'static str],
}

/// Declares rows before and after the fields marked `in table`.
macro_rules! rows {
    ($($label:literal, $figure:literal $after:literal: $($note:literal)|+;)*) => {
        &[$(Row { label: $label, figure: $figure, after: $after, notes: &[$($note),+] }),*]
    };
}

const FIRST: &[Row] = rows! {
    "throughput", "throughput_per_s" "": "{completed_commands:} {time}";
    "refused", "refused_commands" "": "{refused_percent} of those offered, for load";
    "latency", "p50_ms" " median": "mean {mean_ms:}";
    "", "p99_ms" " p99": "p90 {p90_ms:}, p99.9 {p999_ms:}, max {max_ms:}";
};

const LAST: &[Row] = rows! {
    "cpu", "cpu_us_per_command" "/command": "replicas {replica_cpu_us_per_command:}, clients \
        {client_cpu_us_per_command:}[, channel {channel_us_per_command:}]";
    "network", "bytes_per_command" "/command": "{packets}, {retransmissions:} again[, {rto_events}]" |
        "all replicas and clients";
    "leader", "leader_bytes_per_command" "/command": "replica {leader}: {line_bytes_per_command:} with headers\
        [, values {leader_values_percent}]; goodput {goodput_mbit_per_s}; the line is {line_used_percent} used and \
        carries {line_limit_per_s:}/s";
    "blocks", "committed_blocks" " committed": "{commands_per_block} each";
    "", "messages_per_block" "/block": "{verifications_per_block:} verifications";
    "views", "views" " entered": "{view_timeouts:} timed out";
    "memory", "peak_rss_mb" "": "peak, all processes";
};

/// Rows to leave out if their figure is absent or 0.
const RARE: &[&str] = &["refused_commands", "leader_bytes_per_command"];

/// Gets a word of a note.
type Word = fn(&BenchResult) -> Option<String>;

/// Words that notes may name, besides figures.
const WORDS: &[(&str, Word)] = &[
    ("time", |bench| {
        Some(bench.partial.as_ref().map_or_else(|| format!("in {}", bench.spec.duration), |_| "so far".to_owned()))
    }),
    ("leader", |bench| Some(bench.line?.replica.to_string())),
];

/// Returns the rows of a run's table: label, value, unit and note.
pub fn rows(run: &Run) -> Vec<[String; 4]> {
    let Some(bench) = run.bench() else { return Vec::new() };
    let mut rows: Vec<[String; 4]> = FIRST.iter().filter_map(|row| row.of(run, bench)).collect();
    for field in BenchResult::FIELDS.iter().filter(|field| !field.note.is_empty()) {
        let Some((own, of)) = field.figure() else { continue };
        rows.push([label(own.name), optional(of(bench)), own.unit.to_owned(), field.note.to_owned()]);
    }
    rows.extend(LAST.iter().filter_map(|row| row.of(run, bench)));
    rows
}

impl Row {
    fn of(&self, run: &Run, bench: &BenchResult) -> Option<[String; 4]> {
        let value = |name: &str| -> Option<(String, &'static str)> {
            if let Some((_, of)) = WORDS.iter().find(|(word, _)| *word == name) {
                return Some((of(bench)?, ""));
            }
            let declared = DECLARED.iter().find(|own| own.figure.name == name).expect("rows name figures");
            let value = (declared.of)(run)?;
            let text = if declared.figure.whole { count(value as u64) } else { figure(value) };
            Some((text, declared.figure.unit))
        };
        if RARE.contains(&self.figure) && value(self.figure).is_none_or(|(text, _)| text == count(0)) {
            return None;
        }
        let own = DECLARED.iter().find(|own| own.figure.name == self.figure).expect("rows name figures").figure;
        let shown = value(self.figure).map_or_else(|| optional(None), |(text, _)| text);
        let mut notes = self.notes.iter().map(|note| fill(note, &value));
        let whole = notes.clone().find(|note| !note.contains(&optional(None)));
        let note = whole.or_else(|| notes.next_back()).unwrap_or_default();
        // Do not repeat a unit that is already the label.
        let unit = if own.unit == self.label { "" } else { own.unit };
        Some([self.label.to_owned(), shown, format!("{unit}{}", self.after).trim_start().to_owned(), note])
    }
}
