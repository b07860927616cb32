//! Who leads a view.
//!
//! The answer is a function of the view and of the certified block on which the view begins (its *basis*), so that all who see the
//! same certificate name the same leader. `view - basis view - 1` views were skipped in between.

use crate::block_tree::BlockTree;
use crate::config::LeaderKind;
use quorate_types::{Block, Quorum, ReplicaId, Signers, Subject, View};
use std::sync::Arc;

/// Blocks, for each replica, over which `reputation` looks back: long enough that a live replica signs one of the certificates
/// with near certainty although each names only the fastest quorum, short enough that a dead one is out after a few views.
const REPUTATION_BLOCKS_PER_REPLICA: usize = 4;

/// Elects.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    kind: LeaderKind,
    quorum: Quorum,
}

impl LeaderElection {
    /// An election of the given kind among all replicas.
    pub fn new(kind: LeaderKind, quorum: Quorum) -> Self {
        LeaderElection { kind, quorum }
    }

    /// The leader of `view` on top of `basis`; none as long as the block that it names is not here.
    pub fn leader(&self, view: View, basis: &Subject, tree: &BlockTree) -> Option<ReplicaId> {
        assert!(view > basis.view, "a view begins above its basis");
        let skipped = view.0 - basis.view.0 - 1;
        match self.kind {
            LeaderKind::RoundRobin => Some(self.replica(view.0)),
            LeaderKind::Fixed if tree.is_genesis(&basis.digest) => Some(self.replica(skipped)),
            LeaderKind::Fixed => Some(self.replica(u64::from(tree.get(&basis.digest)?.author.0) + skipped)),
            LeaderKind::Reputation if tree.is_genesis(&basis.digest) => Some(self.replica(view.0)),
            LeaderKind::Reputation => Some(self.in_turn(tree.candidates(&basis.digest)?, basis.view, skipped)),
        }
    }

    /// How many committed blocks have to be kept, so that whoever has the same chain finds the same candidates.
    pub fn lookback(&self) -> usize {
        match self.kind {
            LeaderKind::Reputation => REPUTATION_BLOCKS_PER_REPLICA * self.quorum.replicas(),
            LeaderKind::Fixed | LeaderKind::RoundRobin => 1,
        }
    }

    fn replica(&self, turn: u64) -> ReplicaId {
        ReplicaId((turn % self.quorum.replicas() as u64) as u16)
    }

    /// Who may be elected on top of `block`, whose ancestors are in the tree: the signers of the certificates in the last blocks,
    /// without those who let a view time out in them (after Carousel, Cohen et al., FC 2022, section 4, and DiemBFT v4). Empty
    /// for other kinds of election, which do not ask.
    pub fn candidates(&self, block: &Block, tree: &BlockTree) -> Arc<[ReplicaId]> {
        if self.kind != LeaderKind::Reputation {
            return Arc::new([]);
        }
        let everybody: Signers = (0..self.quorum.replicas() as u16).map(ReplicaId).collect();
        let (mut active, mut suspects, mut silent) = (Signers::empty(), Signers::empty(), Signers::empty());
        let mut at = block;
        for _ in 0..self.lookback() {
            let mut blamed = Signers::empty();
            self.suspect(at, tree, &mut blamed);
            suspects.union(&blamed);
            for replica in blamed.iter().filter(|replica| !active.contains(*replica)) {
                silent.insert(replica);
            }
            active.union(&at.justify.signers);
            match tree.parent(at) {
                Some(parent) => at = parent,
                None => {
                    active = everybody;
                    break;
                }
            }
        }
        // Of 2f no more than half can be silent; fewer might all be, and then nobody would be left to collect votes. When so many
        // are suspected, those are cleared who have signed something since; the silent have not.
        let without = |excluded: &Signers| active.iter().filter(|replica| !excluded.contains(*replica)).collect();
        let enough = |candidates: &Arc<[ReplicaId]>| candidates.len() >= (2 * self.quorum.faults()).max(1);
        let levels = [suspects, silent].iter().map(without).find(enough);
        levels.unwrap_or_else(|| without(&Signers::empty()))
    }

    /// Adds those who were to lead the views that were skipped before `block`, and the one who was to collect the votes of the
    /// first of them: a view fails when either is silent.
    fn suspect(&self, block: &Block, tree: &BlockTree, suspects: &mut Signers) {
        let basis = &block.justify.subject;
        let Some(candidates) = tree.candidates(&basis.digest).filter(|candidates| !candidates.is_empty()) else {
            return;
        };
        let skipped = block.view.0 - basis.view.0 - 1;
        for skip in 0..skipped.min(candidates.len() as u64) {
            suspects.insert(self.in_turn(candidates, basis.view, skip));
        }
        if skipped > 0 {
            suspects.insert(self.in_turn(candidates, basis.view.next(), 0));
        }
    }

    /// In turn by view, after `skipped` views above the basis were skipped. Then the turn moves on by one more, past the replica that
    /// was to collect the votes of the first skipped view: it may be the silent one, and electing it next would cost a second
    /// timeout. When as many views were skipped as there are candidates everybody has a turn, for all of those may have fallen silent.
    fn in_turn(&self, candidates: &[ReplicaId], basis: View, skipped: u64) -> ReplicaId {
        let count = candidates.len() as u64;
        let round = skipped.min(count - 1);
        let past_collector = u64::from(round > 0 && count > 2);
        let last = candidates[((basis.0 + 1 + round + past_collector) % count) as usize];
        self.replica(u64::from(last.0) + (skipped - round))
    }
}
