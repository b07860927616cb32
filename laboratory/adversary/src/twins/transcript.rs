//! Human-readable record of a world, with one line per event.

use crate::twins::participants::{InstanceId, InstanceSet, Participants};
use quorate_consensus::seam::Message;
use quorate_consensus::{Envelope, seam::text};
use quorate_types::{Block, Digest, View};
use std::collections::BTreeMap;

/// Maximum length of a line, in characters.
const LINE_CHARACTERS: usize = 240;

/// Lines of one scenario, if the transcript is enabled.
#[derive(Default)]
pub struct Transcript {
    is_on: bool,
    lines: Vec<String>,
    /// Names of blocks: both `b3` and `b3'` were proposed in view 3.
    blocks: BTreeMap<Digest, String>,
    in_view: BTreeMap<View, usize>,
}

impl Transcript {
    pub fn start(&mut self) {
        *self = Transcript { is_on: true, ..Transcript::default() };
    }

    /// Adds a heading. Calls `text` only if the transcript is enabled.
    pub fn heading(&mut self, text: impl FnOnce() -> String) {
        if self.is_on {
            if !self.lines.is_empty() {
                self.lines.push(String::new());
            }
            self.line(text());
        }
    }

    /// Adds an event outside the replicas. Calls `text` only if the transcript is enabled.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.is_on {
            self.line(format!("  {}", text()));
        }
    }

    /// Adds an event of an instance. Calls `text` only if the transcript is enabled.
    #[inline]
    pub fn add(&mut self, participants: &Participants, instance: InstanceId, text: impl FnOnce() -> String) {
        if self.is_on {
            self.line(format!("  {:<4} {}", participants.name(instance), text()));
        }
    }

    fn line(&mut self, mut line: String) {
        text::clip(&mut line, LINE_CHARACTERS);
        self.lines.push(line);
    }

    fn name_block(&mut self, block: &Block) {
        if !self.blocks.contains_key(&block.digest()) {
            let twins = self.in_view.entry(block.view).or_default();
            *twins += 1;
            let name = format!("b{}{}", block.view, "'".repeat(*twins - 1));
            self.blocks.insert(block.digest(), name);
        }
    }

    /// Records a message, and the instances reached over uncut links.
    pub fn sends<M: Message>(
        &mut self,
        participants: &Participants,
        instance: InstanceId,
        (reached, cut): (InstanceSet, InstanceSet),
        message: &Envelope<M>,
    ) {
        if !self.is_on {
            return;
        }
        match message {
            Envelope::Protocol(message) => {
                if let Some((block, _)) = message.proposed() {
                    self.name_block(&block.clone());
                }
            }
            Envelope::Blocks(blocks) => blocks.iter().for_each(|block| self.name_block(block)),
            _ => {}
        }
        let lost = if cut == 0 { String::new() } else { format!(" (not {})", participants.names(cut)) };
        let to = if reached == 0 { "nobody".to_owned() } else { participants.names(reached) };
        self.add(participants, instance, || format!("-> {to}{lost}: {}", text::envelope(message)));
    }

    /// Records that an instance commits.
    pub fn commits(&mut self, participants: &Participants, instance: InstanceId, block: &Block) {
        if self.is_on {
            self.name_block(block);
            self.add(participants, instance, || format!("COMMITS {}", text::block(block)));
        }
    }

    /// Returns the text, with names in place of block digests.
    pub fn text(&self) -> String {
        let mut text = self.lines.join("\n");
        for (digest, name) in &self.blocks {
            text = text.replace(&format!("{digest:?}"), name);
        }
        if self.is_on {
            text.push('\n');
        }
        text
    }
}
