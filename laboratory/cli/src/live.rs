//! Live view of a benchmark: a line on standard error that overwrites itself on a terminal.

use quorate_lab::Event;
use quorate_lab::bench::{Progress, Watcher};
use quorate_lab::search::Probe;
use quorate_operator::output;
use quorate_types::text::escaped;
use std::io::{IsTerminal, Write, stderr};

/// Line that overwrites itself.
pub struct Live {
    on_terminal: bool,
    stage: &'static str,
}

impl Live {
    pub fn new() -> Live {
        Live { on_terminal: stderr().is_terminal(), stage: "" }
    }

    pub fn clear(&self) {
        if self.on_terminal {
            overwrite("");
        }
    }
}

impl Watcher for Live {
    fn progress(&mut self, progress: &Progress<'_>) {
        let load = progress.load;
        if !self.on_terminal {
            if self.stage != load.stage {
                self.stage = load.stage;
                output::report(&format!("stage: {}", load.stage));
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
        overwrite(&line);
    }

    fn event(&mut self, event: &Event) {
        self.clear();
        output::report(&format!("{:8.1} s  {}", event.time_s, event.text));
    }

    fn probe(&mut self, probe: &Probe) {
        self.clear();
        output::report(&format!("probe: {probe}"));
    }

    fn warn(&mut self, text: &str) {
        self.clear();
        output::report(&format!("warning: {text}"));
    }
}

/// Replaces the last line of the terminal on standard error.
pub fn overwrite(line: &str) {
    // Ignore errors: the terminal may be gone.
    let _ = write!(stderr(), "\r\x1b[K{}", fit(&escaped(line), columns()));
}

/// Returns the width of the terminal on standard error, if known.
fn columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is a valid `winsize` that the kernel may write to.
    let status = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (status == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Returns the part of the line that fits in one row, since the rest would wrap and could not be overwritten. The last
/// column stays free, because some terminals wrap as soon as it is filled.
fn fit(line: &str, columns: Option<usize>) -> &str {
    let most = columns.map_or(usize::MAX, |columns| columns.saturating_sub(1));
    line.char_indices().nth(most).map_or(line, |(end, _)| &line[..end])
}
