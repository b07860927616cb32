//! Readable transcript of the end of a run.

use crate::faults::Change;
use quorate_consensus::{Envelope, Halt, Mark, Message, To, seam::text};
use quorate_types::{Block, ReplicaId, Time};
use std::collections::VecDeque;

/// Maximum number of lines.
const LINES: usize = 240;
/// Maximum length of a line.
const LINE_CHARACTERS: usize = 160;

/// Transcript that keeps the last lines.
#[derive(Default)]
pub struct Transcript {
    lines: VecDeque<String>,
}

impl Transcript {
    fn line(&mut self, now: Time, text: String) {
        let mut line = format!("{now:?}  {text}");
        text::clip(&mut line, LINE_CHARACTERS);
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub fn mark(&mut self, now: Time, replica: ReplicaId, mark: &Mark) {
        self.line(now, format!("{replica:?} {}", text::mark(mark)));
    }

    pub fn halts(&mut self, now: Time, replica: ReplicaId, why: &Halt) {
        self.line(now, format!("{replica:?} {}", text::halt(why)));
    }

    pub fn sends<M: Message>(&mut self, now: Time, replica: ReplicaId, to: To, message: &Envelope<M>) {
        self.line(now, format!("{replica:?} -> {}: {}", text::recipients(to), text::envelope(message)));
    }

    pub fn commits(&mut self, now: Time, replica: ReplicaId, block: &Block) {
        self.line(now, format!("{replica:?} commits {}", text::block(block)));
    }

    pub fn changes(&mut self, now: Time, change: &Change) {
        self.line(now, format!("-- {change}"));
    }

    /// Adds a note about the world.
    pub fn says(&mut self, now: Time, text: &str) {
        self.line(now, format!("-- {text}"));
    }

    pub fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}
