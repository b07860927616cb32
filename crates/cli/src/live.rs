//! The live view of a benchmark: one line on standard error that is written over, if that is a terminal.

use crate::output;
use quorate_lab::Event;
use quorate_lab::bench::{Progress, Watcher};
use std::io::{IsTerminal, Write, stderr};

/// One line, written over.
pub struct Live {
    on_terminal: bool,
    stage: &'static str,
}

impl Live {
    /// Shows nothing yet.
    pub fn new() -> Live {
        Live { on_terminal: stderr().is_terminal(), stage: "" }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.on_terminal {
            // A terminal that is gone cannot be cleared.
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Watcher for Live {
    fn progress(&mut self, progress: &Progress<'_>) {
        let load = progress.load;
        if !self.on_terminal {
            if self.stage != load.stage {
                self.stage = load.stage;
                output::complain(&format!("stage: {}", load.stage));
            }
            return;
        }
        let replica = progress.replica.map_or(String::new(), |status| {
            format!("   view {}   height {}   {} timeouts", status.view, status.height, status.view_timeouts)
        });
        let line = format!(
            "{:>8} {:5.1} s   {:>9.0} commands/s   p50 {:.2} ms   p99 {:.2} ms   {} in flight{replica}",
            load.stage,
            load.elapsed.as_secs_f64(),
            load.throughput,
            load.p50_ms,
            load.p99_ms,
            load.in_flight,
        );
        let _ = write!(stderr(), "\r\x1b[K{line}");
    }

    fn event(&mut self, event: &Event) {
        self.clear();
        output::complain(&format!("{:8.1} s  {}", event.time_s, event.text));
    }

    fn warn(&mut self, text: &str) {
        self.clear();
        output::complain(&format!("warning: {text}"));
    }
}
