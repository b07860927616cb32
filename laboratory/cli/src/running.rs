//! Common parts of commands that run experiments: the commit of this program, and progress on standard error.

use crate::live::overwrite;
use quorate_lab::experiments::Row;
use quorate_operator::output;
use quorate_runner::{Observer, Step};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Commit from which this program was built.
pub const COMMIT: &str = env!("QUORATE_COMMIT");
/// Minimum time shown in minutes, in seconds.
const MIN_SHOWN_MINUTES_S: u64 = 120;

/// Progress on standard error: a line that overwrites itself on a terminal, otherwise a line per run.
pub struct Live {
    on_terminal: bool,
}

impl Live {
    pub fn new() -> Live {
        Live { on_terminal: stderr().is_terminal() }
    }

    pub fn clear(&self) {
        if self.on_terminal {
            overwrite("");
        }
    }

    pub fn line(&self, text: &str) {
        self.clear();
        output::report(text);
    }
}

impl Observer for Live {
    fn on_start(&mut self, step: &Step<'_>) {
        if self.on_terminal {
            overwrite(&format!("{}   about {} left", place_of(step), shown(step.left)));
        }
    }

    fn on_end(&mut self, step: &Step<'_>, row: &Row) {
        if self.on_terminal && row.failure.is_none() {
            return;
        }
        let outcome = match (&row.failure, row.figures.get("throughput_per_s")) {
            (Some(why), _) => format!("failed: {why}"),
            (None, Some(throughput)) => format!("{throughput:.0} commands/s"),
            (None, None) => "done".to_owned(),
        };
        self.line(&format!("{}: {outcome}; about {} left", place_of(step), shown(step.left)));
    }

    fn on_reuse(&mut self, experiment: &str, count: usize) {
        self.line(&format!("{experiment}: {count} runs are there already"));
    }

    fn on_need(&mut self, experiment: &str, count: usize, why: &str) {
        self.line(&format!("{experiment}: {count} more runs: {why}"));
    }

    fn warn(&mut self, text: &str) {
        self.line(&format!("warning: {text}"));
    }
}

fn place_of(step: &Step<'_>) -> String {
    let Step { experiment, instrument, cell, repetition, done, total, .. } = step;
    format!("[{done}/{total}] {experiment} {instrument}, {cell}, repetition {repetition}")
}

/// Returns a time in words.
pub fn shown(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < MIN_SHOWN_MINUTES_S => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}
