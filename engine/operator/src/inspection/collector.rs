//! Collects the executed blocks of a journal for a snapshot of the cluster.

use super::chain::Committed;
use bytes::Bytes;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_types::{Block, Bundle, Certificate, Height};
use std::sync::Arc;

/// State before the first collected block.
pub(crate) enum Base {
    /// The application's initial state.
    Initial,
    /// A state that a quorum has certified.
    State { certificate: Box<Certificate>, state: Bytes },
    /// A state that only this replica claims.
    Unproven(Height),
}

/// A certified checkpoint of the history.
pub(crate) type Proof = (Certificate, Frontier);

/// Blocks executed since the last certified state.
pub(super) struct Collector {
    /// Payload of a command to look for.
    mark: Option<Bytes>,
    pub base: Base,
    pub blocks: Vec<(Arc<Block>, Vec<Bundle>)>,
    /// Height of the block with that command.
    pub marked: Option<Height>,
}

impl Collector {
    pub fn new(mark: Option<Bytes>) -> Collector {
        Collector { mark, base: Base::Initial, blocks: Vec::new(), marked: None }
    }

    pub fn begin(&mut self, base: Base) {
        self.base = base;
        self.blocks.clear();
    }

    pub fn take(&mut self, committed: &Committed) {
        let is_mark = |bundle: &Bundle| bundle.commands().any(|command| Some(command.payload) == self.mark.as_deref());
        if self.marked.is_none() && self.mark.is_some() && committed.bundles.iter().any(is_mark) {
            self.marked = Some(committed.block.height);
        }
        self.blocks.push((committed.block.clone(), committed.bundles.clone()));
    }
}
