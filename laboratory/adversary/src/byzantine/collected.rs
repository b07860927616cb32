//! A replica that keeps clients' bundles for useless relays and oversized blocks.

use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use quorate_consensus::data::pool::MAX_RELAYED_BUNDLES;
use quorate_consensus::{Action, Envelope, Input, To};
use quorate_types::Bundle;
use std::collections::VecDeque;

/// Maximum number of bundles to keep. An executed bundle has left the others' pools long before its last relay.
const MAX_KEPT: usize = 4096;

/// Bundles in the order in which clients sent them.
#[derive(Default)]
pub struct Collected {
    bundles: VecDeque<Bundle>,
    /// Number of the newest bundles that have not yet been relayed.
    fresh: usize,
    /// Index of the old bundle to relay next.
    next: usize,
}

impl Collected {
    pub fn hear<M>(&mut self, input: &Input<M>) {
        let Input::Submit { bundles, .. } = input else { return };
        for bundle in bundles {
            if self.bundles.len() == MAX_KEPT {
                self.bundles.pop_front();
            }
            self.bundles.push_back(bundle.clone());
        }
        self.fresh = (self.fresh + bundles.len()).min(MAX_KEPT);
    }

    /// If the replica sends something, also relays all new bundles and the next `old` older ones to all others.
    pub fn flood<M>(&mut self, old: usize, actions: &mut Vec<Action<M>>) {
        if !actions.iter().any(|action| matches!(action, Action::Send { .. })) {
            return;
        }
        let count = self.bundles.len();
        let (first, old) = (self.next, old.min(count));
        let turn = (first..first + old).map(|at| at % count);
        let relayed: Vec<Bundle> = (count - self.fresh..count).chain(turn).map(|at| self.bundles[at].clone()).collect();
        (self.next, self.fresh) = ((first + old) % count.max(1), 0);
        actions.extend(relayed.chunks(MAX_RELAYED_BUNDLES).map(|bundles| Action::Send {
            to: To::Others,
            message: Envelope::Relay(bundles.to_vec()),
            after: None,
            sign: false,
        }));
    }

    /// Returns the proposal with `more` further bundles: the newest ones that it does not contain. Includes their
    /// contents if the proposal includes its own bundles' contents.
    pub fn overfill<M: Malleable>(&self, message: &M, more: usize) -> Option<M> {
        let (block, carried) = message.proposed()?;
        let more = self.bundles.iter().rev().filter(|bundle| !block.payload.contains(&bundle.digest())).take(more);
        let more: Vec<Bundle> = more.cloned().collect();
        if more.is_empty() || block.payload.is_empty() {
            return None;
        }
        let mut payload = block.payload.clone();
        payload.extend(more.iter().map(Bundle::digest));
        let mut bundles = carried.to_vec();
        if !bundles.is_empty() {
            bundles.extend(more);
        }
        let mut lie = message.clone();
        lie.propose(lie::with_payload(block, payload), bundles);
        Some(lie)
    }
}
