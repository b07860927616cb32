//! Readable transcript of the end of a run.

use quorate_consensus::seam::text;
use quorate_types::Time;
use std::collections::VecDeque;

/// Maximum number of lines.
const LINES: usize = 240;
/// Maximum length of a line.
const LINE_CHARACTERS: usize = 160;

/// Transcript that keeps its last lines if it is enabled.
pub struct Transcript {
    is_on: bool,
    lines: VecDeque<String>,
}

impl Transcript {
    pub fn new(is_on: bool) -> Transcript {
        Transcript { is_on, lines: VecDeque::new() }
    }

    /// Adds a line. Calls `text` only if the transcript is enabled.
    #[inline]
    pub fn add(&mut self, now: Time, text: impl FnOnce() -> String) {
        if self.is_on {
            self.push(format!("{now:?}  {}", text()));
        }
    }

    fn push(&mut self, mut line: String) {
        text::clip(&mut line, LINE_CHARACTERS);
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}
