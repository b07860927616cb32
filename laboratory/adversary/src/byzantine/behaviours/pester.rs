//! The fault `pester`.

use crate::byzantine::kind::{Facts, Kind, number};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic, unsigned};
use quorate_consensus::seam::MAX_FETCHED_BLOCKS;
use quorate_consensus::{Envelope, To};
use quorate_types::Height;

/// `pester`, `pester=QUESTIONS`: after each message, sends each of the others this many requests, by default 8, for
/// data that it already has: a block and its ancestors, and under PBFT all decisions since genesis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pester {
    /// Requests to each replica.
    pub questions: u32,
}

impl Kind for Pester {
    const FACTS: Facts = Facts::omits("pester");
    const DEFAULT: Pester = Pester { questions: 8 };

    fn parse(parameter: &str) -> Result<Pester, String> {
        Ok(Pester { questions: number(parameter, 1)? as u32 })
    }

    fn parameter(&self) -> String {
        self.questions.to_string()
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for Pester {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let view = sent.said().and_then(|message| message.view());
        let decided = view.and_then(M::asking).map(Envelope::Protocol);
        let ancestors = |digest| Envelope::FetchBlocks { digest, above: Height(0), most: MAX_FETCHED_BLOCKS as u16 };
        let blocks = step.memory.last_block().map(ancestors);
        step.pass(sent);
        for message in (0..self.questions).flat_map(|_| decided.iter().chain(&blocks)) {
            step.out.push(unsigned(To::Others, message.clone()));
        }
    }
}
