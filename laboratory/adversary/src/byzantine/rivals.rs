//! Proposals that a faulty leader invents in addition to its honest ones, or instead of them.

use crate::byzantine::malleable::Malleable;
use quorate_consensus::Envelope;
use quorate_types::{Block, Digest};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of invented proposals, which others may request or vote for.
const MAX_KEPT: usize = 64;

/// Invented proposals, by the digest of the honest block that they replace or accompany.
pub(crate) struct Rivals<M> {
    kept: VecDeque<(Digest, M)>,
}

impl<M> Default for Rivals<M> {
    fn default() -> Rivals<M> {
        Rivals { kept: VecDeque::new() }
    }
}

impl<M: Malleable> Rivals<M> {
    /// Returns the rival of a proposal.
    pub fn of(&self, message: &M) -> Option<M> {
        self.instead_of(&message.proposed()?.0.digest()).cloned()
    }

    /// Returns the rival of the block with this digest.
    pub fn instead_of(&self, honest: &Digest) -> Option<&M> {
        self.kept.iter().find(|(digest, _)| digest == honest).map(|(_, lie)| lie)
    }

    /// Keeps a rival of a proposal. Returns `None` if the message is not a proposal.
    pub fn keep(&mut self, message: &M, lie: M) -> Option<()> {
        let honest = message.proposed()?.0.digest();
        if self.kept.len() == MAX_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((honest, lie));
        Some(())
    }

    /// Returns the block invented in the replica's name, if the replica requests it.
    pub fn requested_by(&self, wanted: &Envelope<M>) -> Option<Arc<Block>> {
        let Envelope::FetchBlocks { digest, .. } = wanted else { return None };
        let blocks = self.kept.iter().filter_map(|(_, lie)| lie.proposed());
        blocks.map(|(block, _)| block).find(|block| block.digest() == *digest).cloned()
    }
}
