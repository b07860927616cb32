//! Human-readable record of a stage, with one line for each event.

use crate::cast::{ActorId, ActorSet, Cast};
use quorate_consensus::seam::Message;
use quorate_consensus::{Envelope, Halt, Mark, seam::text};
use quorate_types::{Block, Digest, View};
use std::collections::BTreeMap;

/// Longest line, in characters.
const LINE_CHARACTERS: usize = 240;

/// Lines of one scenario.
#[derive(Default)]
pub struct Transcript {
    lines: Vec<String>,
    /// Names of blocks: `b3` was proposed in view 3, `b3'` too.
    blocks: BTreeMap<Digest, String>,
    in_view: BTreeMap<View, usize>,
}

impl Transcript {
    fn line(&mut self, mut line: String) {
        text::clip(&mut line, LINE_CHARACTERS);
        self.lines.push(line);
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.lines.push(String::new());
        }
        self.line(text.to_owned());
    }

    fn deed(&mut self, name: &str, what: &str) {
        self.line(format!("  {name:<4} {what}"));
    }

    fn name_block(&mut self, block: &Block) {
        if !self.blocks.contains_key(&block.digest()) {
            let twins = self.in_view.entry(block.view).or_default();
            *twins += 1;
            let name = format!("b{}{}", block.view, "'".repeat(*twins - 1));
            self.blocks.insert(block.digest(), name);
        }
    }

    /// Records a message, and the actors that it reaches despite cut links.
    pub fn sends<M: Message>(
        &mut self,
        cast: &Cast,
        actor: ActorId,
        (reached, cut): (ActorSet, ActorSet),
        message: &Envelope<M>,
    ) {
        match message {
            Envelope::Protocol(message) => {
                if let Some((block, _)) = message.proposed() {
                    self.name_block(&block.clone());
                }
            }
            Envelope::Blocks(blocks) => blocks.iter().for_each(|block| self.name_block(block)),
            _ => {}
        }
        let lost = if cut == 0 { String::new() } else { format!(" (not {})", cast.names(cut)) };
        let to = if reached == 0 { "nobody".to_owned() } else { cast.names(reached) };
        self.deed(&cast.name(actor), &format!("-> {to}{lost}: {}", text::envelope(message)));
    }

    /// Records a mark of an actor.
    pub fn marks(&mut self, cast: &Cast, actor: ActorId, mark: &Mark) {
        self.deed(&cast.name(actor), &text::mark(mark));
    }

    /// Records that an actor stops.
    pub fn halts(&mut self, cast: &Cast, actor: ActorId, why: &Halt) {
        self.deed(&cast.name(actor), &text::halt(why));
    }

    /// Records that an actor commits.
    pub fn commits(&mut self, cast: &Cast, actor: ActorId, block: &Block) {
        self.name_block(block);
        self.deed(&cast.name(actor), &format!("COMMITS {}", text::block(block)));
    }

    /// Records any other event of an actor.
    pub fn says(&mut self, cast: &Cast, actor: ActorId, what: &str) {
        self.deed(&cast.name(actor), what);
    }

    /// Returns the text, with blocks under their names.
    pub fn text(&self) -> String {
        let mut text = self.lines.join("\n");
        for (digest, name) in &self.blocks {
            text = text.replace(&format!("{digest:?}"), name);
        }
        text.push('\n');
        text
    }
}
