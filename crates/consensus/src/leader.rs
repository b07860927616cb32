//! Who leads a view.
//!
//! The answer is a function of the view and of the certified block on which the view begins (its *basis*), so that all who see the
//! same certificate name the same leader. `view - basis view - 1` views were skipped in between.

use crate::block_tree::BlockTree;
use crate::config::LeaderKind;
use quorate_types::{Block, Domain, Quorum, ReplicaId, Signers, Subject, View};
use std::cmp::Reverse;
use std::sync::Arc;

/// Blocks, for each replica, over which `reputation` looks back: long enough that a live replica signs one of the certificates
/// with near certainty although each names only the fastest quorum, short enough that a dead one is out after a few views.
const REPUTATION_BLOCKS_PER_REPLICA: usize = 4;

/// What the election has to know of a protocol, to tell from its blocks who made a view fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duties {
    /// Of what a certificate is when all that its view was for is done. A block on any other shows that the view of that one failed.
    pub ends_view: Domain,
    /// Whether the votes for a block are collected by the leader of the next view, and not by that of its own.
    pub next_leader_collects: bool,
}

impl Default for Duties {
    /// Those of a chain.
    fn default() -> Self {
        Duties { ends_view: Domain::Vote, next_leader_collects: true }
    }
}

/// Who leads each view, told beforehand. No configuration names it: it is for scripted worlds, in which a scenario decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaderScript {
    /// The leaders of view 1 and of those that follow it.
    pub views: Vec<ReplicaId>,
    /// Who leads after these, in turn by the number of the view; at least one.
    pub after: Vec<ReplicaId>,
}

impl LeaderScript {
    /// The leader of a view.
    pub fn leader(&self, view: View) -> ReplicaId {
        let at = view.0.saturating_sub(1) as usize;
        self.views.get(at).copied().unwrap_or_else(|| self.after[at % self.after.len()])
    }
}

/// Elects.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    kind: LeaderKind,
    quorum: Quorum,
    duties: Duties,
    script: Option<Arc<LeaderScript>>,
}

impl LeaderElection {
    /// An election of the given kind among all replicas, with the duties of a chain.
    pub fn new(kind: LeaderKind, quorum: Quorum) -> Self {
        LeaderElection { kind, quorum, duties: Duties::default(), script: None }
    }

    /// The same, for a protocol in which leaders have these duties.
    pub fn with_duties(self, duties: Duties) -> Self {
        LeaderElection { duties, ..self }
    }

    /// From now on the script says who leads, whatever the configuration says.
    pub fn follow_script(&mut self, script: Arc<LeaderScript>) {
        let member = |replica: &ReplicaId| replica.index() < self.quorum.replicas();
        assert!(script.views.iter().chain(&script.after).all(member), "a script names members of the committee");
        assert!(!script.after.is_empty(), "a script says who leads for ever");
        self.script = Some(script);
    }

    /// Whether this is a scripted world, in which also views may be [forced](crate::Replica::force_view).
    pub fn is_scripted(&self) -> bool {
        self.script.is_some()
    }

    /// The leader of `view` on top of `basis`; none as long as the block that it names is not here.
    pub fn leader(&self, view: View, basis: &Subject, tree: &BlockTree) -> Option<ReplicaId> {
        if let Some(script) = &self.script {
            return Some(script.leader(view));
        }
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
            return Arc::default();
        }
        let everybody: Signers = (0..self.quorum.replicas() as u16).map(ReplicaId).collect();
        let (mut active, mut suspects, mut silent) = (Signers::empty(), Signers::empty(), Signers::empty());
        let mut blame = vec![0u32; self.quorum.replicas()];
        let mut at = block;
        for _ in 0..self.lookback() {
            let mut blamed = Signers::empty();
            self.suspect(at, tree, &mut blamed);
            suspects.union(&blamed);
            blamed.iter().for_each(|replica| blame[replica.index()] += 1);
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
        // are suspected, those are cleared who have signed something since; the silent have not. Yet who signs may fail all the same
        // as a leader and as a collector, and be cleared each time: so the f who are most often to blame are not.
        let mut max_blamed: Vec<ReplicaId> = suspects.iter().collect();
        max_blamed.sort_by_key(|replica| Reverse(blame[replica.index()]));
        let mut worst = silent;
        for replica in max_blamed.into_iter().take(self.quorum.faults()) {
            worst.insert(replica);
        }
        let without = |excluded: &Signers| active.iter().filter(|replica| !excluded.contains(*replica)).collect();
        let enough = |candidates: &Arc<[ReplicaId]>| candidates.len() >= (2 * self.quorum.faults()).max(1);
        let levels = [suspects, worst, silent].iter().map(without).find(enough);
        levels.unwrap_or_else(|| without(&Signers::empty()))
    }

    /// Adds those who were to lead the views that were skipped before `block`, and the one who was to collect the votes of the
    /// first of them, if that was somebody else: a view fails when either is silent. The leader of the view of the block's
    /// certificate is one of them, if that certificate does not end its view.
    fn suspect(&self, block: &Block, tree: &BlockTree, suspects: &mut Signers) {
        let basis = &block.justify.subject;
        let Some(candidates) = tree.candidates(&basis.digest).filter(|candidates| !candidates.is_empty()) else {
            return;
        };
        if let Some(unfinished) = tree.get(&basis.digest).filter(|_| basis.domain != self.duties.ends_view) {
            suspects.insert(unfinished.author);
        }
        let skipped = block.view.0 - basis.view.0 - 1;
        for skip in 0..skipped.min(candidates.len() as u64) {
            suspects.insert(self.in_turn(candidates, basis.view, skip));
        }
        if skipped > 0 && self.duties.next_leader_collects {
            suspects.insert(self.in_turn(candidates, basis.view.next(), 0));
        }
    }

    /// In turn by view, after `skipped` views above the basis were skipped. Then the turn moves on by one more, past the replica that
    /// was to collect the votes of the first skipped view, if that was the next leader: it may be the silent one, and electing it
    /// next would cost a second timeout. When as many views were skipped as there are candidates everybody has a turn, for all of those may have fallen silent.
    fn in_turn(&self, candidates: &[ReplicaId], basis: View, skipped: u64) -> ReplicaId {
        let count = candidates.len() as u64;
        let round = skipped.min(count - 1);
        let past_collector = u64::from(self.duties.next_leader_collects && round > 0 && count > 2);
        let last = candidates[((basis.0 + 1 + round + past_collector) % count) as usize];
        self.replica(u64::from(last.0) + (skipped - round))
    }
}
