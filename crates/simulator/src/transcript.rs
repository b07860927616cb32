//! The last views of a run, readable.

use crate::faults::Change;
use quorate_consensus::{Envelope, Mark, Message, To};
use quorate_types::{Block, ReplicaId, Time};
use std::collections::VecDeque;

/// Lines that are kept.
const LINES: usize = 240;
/// Longest line, in characters.
const LINE_CHARACTERS: usize = 160;

/// The last lines of a run.
#[derive(Default)]
pub struct Transcript {
    lines: VecDeque<String>,
}

impl Transcript {
    fn line(&mut self, now: Time, text: String) {
        let mut line = format!("{now:?}  {text}");
        if let Some((at, _)) = line.char_indices().nth(LINE_CHARACTERS) {
            line.truncate(at);
            line.push('…');
        }
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// A replica tells of a moment.
    pub fn mark(&mut self, now: Time, replica: ReplicaId, mark: &Mark) {
        let text = match mark {
            Mark::EnteredView { view, leader: Some(leader) } => format!("enters {view:?}, led by {leader:?}"),
            Mark::EnteredView { view, leader: None } => format!("enters {view:?}"),
            Mark::TimedOut(view) => format!("gives {view:?} up"),
            Mark::Proposed { view, height, commands } => {
                format!("proposes {commands} commands at {height:?} in {view:?}")
            }
            Mark::Refused { view, rule } => format!("does not vote in {view:?}: {rule}"),
            Mark::Dropped { from, why } => format!("drops a message of {from:?}: {why:?}"),
            other => format!("{other:?}"),
        };
        self.line(now, format!("{replica:?} {text}"));
    }

    /// A replica sends.
    pub fn sends<M: Message>(&mut self, now: Time, replica: ReplicaId, to: To, message: &Envelope<M>) {
        let to = match to {
            To::One(one) => format!("{one:?}"),
            To::All => "all".into(),
            To::Others => "others".into(),
        };
        let said = match message {
            Envelope::Protocol(message) => without_bytes(&format!("{message:?}")),
            Envelope::Blocks(blocks) => format!("{} blocks", blocks.len()),
            Envelope::Bundles(bundles) => format!("{} bundles", bundles.len()),
            Envelope::FetchBundles(digests) => format!("asks for {} bundles", digests.len()),
            other => format!("{other:?}"),
        };
        self.line(now, format!("{replica:?} -> {to}: {said}"));
    }

    /// A replica commits.
    pub fn commits(&mut self, now: Time, replica: ReplicaId, block: &Block) {
        self.line(now, format!("{replica:?} commits {:?} of {:?}: {:?}", block.height, block.view, block.digest()));
    }

    /// The world changes.
    pub fn changes(&mut self, now: Time, change: &Change) {
        self.line(now, format!("-- {change:?}"));
    }

    /// Something else.
    pub fn says(&mut self, now: Time, text: &str) {
        self.line(now, format!("-- {text}"));
    }

    /// The lines.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

/// A message as it is printed, without its signatures and proofs.
fn without_bytes(text: &str) -> String {
    let mut parts = text.split("b\"");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        short.push_str("..");
        short.push_str(part.split_once('"').map_or("", |(_, rest)| rest));
    }
    short
}
