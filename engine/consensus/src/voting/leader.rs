//! Leader election.
//!
//! The leader is a function of the view and of the certified block on which the view begins (its *basis*), so all
//! replicas that see the same certificate elect the same leader. `view - basis view - 1` views were skipped in between.

use crate::config::LeaderKind;
use crate::data::block_tree::BlockTree;
use quorate_types::{Block, Domain, Quorum, ReplicaId, Signers, Subject, View};
use std::cmp::Reverse;
use std::sync::Arc;

/// Number of blocks per replica that `reputation` considers. It is large enough that a live replica almost surely signs
/// one of the certificates, although each certificate names only the fastest quorum, and small enough that a dead
/// replica is excluded after a few views.
const REPUTATION_BLOCKS_PER_REPLICA: usize = 4;

/// Duties of a leader in a protocol. From these the election infers which replica made a view fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duties {
    /// Domain of the certificate that completes a view. If a block builds on any other certificate, the view of that
    /// certificate failed.
    pub ends_view: Domain,
    /// Whether the votes for a block go to the leader of the next view instead of the block's own leader.
    pub next_leader_collects: bool,
}

impl Default for Duties {
    /// Returns the duties of a leader in a chained protocol.
    fn default() -> Self {
        Duties { ends_view: Domain::Vote, next_leader_collects: true }
    }
}

/// Predetermined leaders of the views. No configuration selects this: it is for scripted worlds, in which a scenario
/// decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaderScript {
    /// Leaders of the first views, from view 1 on.
    pub views: Vec<ReplicaId>,
    /// Leaders of all later views, in round-robin order by view number. Must not be empty.
    pub after: Vec<ReplicaId>,
    /// Last view in which a replica may have made a statement because the script forced replicas into views, which no
    /// certificate shows.
    pub forced: View,
}

impl LeaderScript {
    pub fn leader(&self, view: View) -> ReplicaId {
        let at = view.0.saturating_sub(1) as usize;
        self.views.get(at).copied().unwrap_or_else(|| self.after[at % self.after.len()])
    }
}

/// Replicas in the last blocks of a chain.
struct Record {
    /// Signers of the certificates, and authors of optimistic blocks.
    active: Signers,
    /// Replicas that made a view fail.
    suspects: Signers,
    /// Suspects that have signed nothing since.
    silent: Signers,
    /// Number of blocks that show a failed view, for each replica that made it fail.
    blame: Vec<u32>,
}

/// Function that elects the leader of each view.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    kind: LeaderKind,
    quorum: Quorum,
    duties: Duties,
    script: Option<Arc<LeaderScript>>,
}

impl LeaderElection {
    /// Creates an election of the given kind among all replicas, with the duties of a chained protocol.
    pub fn new(kind: LeaderKind, quorum: Quorum) -> Self {
        LeaderElection { kind, quorum, duties: Duties::default(), script: None }
    }

    pub fn with_duties(self, duties: Duties) -> Self {
        LeaderElection { duties, ..self }
    }

    /// Makes the script override the configured election from now on.
    pub fn follow_script(&mut self, script: Arc<LeaderScript>) {
        let member = |replica: &ReplicaId| replica.index() < self.quorum.replicas();
        assert!(script.views.iter().chain(&script.after).all(member), "a script names members of the committee");
        assert!(!script.after.is_empty(), "a script names the leaders of all later views");
        self.script = Some(script);
    }

    /// Returns whether this is a scripted world, in which views may also be [forced](crate::Replica::force_view).
    pub fn is_scripted(&self) -> bool {
        self.script.is_some()
    }

    /// Returns the last view in which a replica may have made a statement because a script forced replicas into views.
    pub fn forced(&self) -> View {
        self.script.as_ref().map_or(View(0), |script| script.forced)
    }

    /// Returns the leader of `view` on top of `basis`, or `None` while the block of `basis` is missing.
    pub fn leader(&self, view: View, basis: &Subject, tree: &BlockTree) -> Option<ReplicaId> {
        if let Some(script) = &self.script {
            return Some(script.leader(view));
        }
        assert!(view > basis.view, "a view is higher than its basis");
        let skipped = view.0 - basis.view.0 - 1;
        match self.kind {
            LeaderKind::RoundRobin => Some(self.replica(view.0)),
            LeaderKind::Fixed if tree.is_genesis(&basis.digest) => Some(self.replica(skipped)),
            LeaderKind::Fixed => Some(self.replica(u64::from(tree.get(&basis.digest)?.author.0) + skipped)),
            LeaderKind::Reputation if tree.is_genesis(&basis.digest) => Some(self.replica(view.0)),
            LeaderKind::Reputation => Some(self.in_turn(tree.candidates(&basis.digest)?, basis.view, skipped)),
        }
    }

    /// Returns the number of committed blocks to keep, so that replicas with the same chain find the same candidates.
    pub fn lookback(&self) -> usize {
        match self.kind {
            LeaderKind::Reputation => REPUTATION_BLOCKS_PER_REPLICA * self.quorum.replicas(),
            LeaderKind::Fixed | LeaderKind::RoundRobin => 1,
        }
    }

    fn replica(&self, turn: u64) -> ReplicaId {
        ReplicaId((turn % self.quorum.replicas() as u64) as u16)
    }

    /// Returns the replicas that may be elected on top of `block`, whose ancestors are in the tree: the signers of the
    /// certificates in the last blocks and the authors of optimistic ones, without the replicas that made a view time
    /// out in these blocks (after Carousel, Cohen et al., FC 2022, section 4, and DiemBFT v4). Empty for other kinds of
    /// election, which do not need it.
    pub fn candidates(&self, block: &Block, tree: &BlockTree) -> Arc<[ReplicaId]> {
        if self.kind != LeaderKind::Reputation {
            return Arc::default();
        }
        let Record { active, suspects, silent, blame } = self.record(block, tree);
        // At most half of 2f candidates can be silent. If there were fewer candidates, all of them might be silent, and
        // no replica would be left to collect votes. So if too many replicas are suspected, those that have signed
        // something since are cleared; the silent ones have not signed. A replica that signs may still fail as a leader
        // and as a collector, and be cleared every time. Therefore the f replicas that are suspected most often are
        // never cleared.
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

    /// Returns whether one of `voters` is not a candidate on top of `block` only because no certificate in the last
    /// blocks names it. Optimistic blocks carry no certificates, so a leader that finds such a voter builds on a
    /// certificate.
    pub fn overlooks(&self, voters: &Signers, block: &Block, tree: &BlockTree) -> bool {
        if self.kind != LeaderKind::Reputation || self.is_scripted() {
            return false;
        }
        let Some(candidates) = tree.candidates(&block.digest()) else { return false };
        if voters.iter().all(|voter| candidates.contains(&voter)) {
            return false;
        }
        let record = self.record(block, tree);
        voters.iter().any(|voter| !record.active.contains(voter) && !record.suspects.contains(voter))
    }

    /// Returns what the last blocks up to `block` show about each replica.
    fn record(&self, block: &Block, tree: &BlockTree) -> Record {
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
            // An optimistic block names no signers.
            if at.is_optimistic() {
                active.insert(at.author);
            }
            match tree.parent(at) {
                Some(parent) => at = parent,
                None => {
                    active = everybody;
                    break;
                }
            }
        }
        Record { active, suspects, silent, blame }
    }

    /// Adds the replicas that made views fail before `block`: the leaders of the skipped views and, if it is another
    /// replica, the collector of the votes of the first skipped view, because a view fails if either is silent. If the
    /// certificate of `block` does not complete its view, the leader of that view is added as well.
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

    /// Elects in round-robin order by view, where `skipped` views above the basis were skipped. If the next leader
    /// collects the votes of a view, the turn then moves on by one more, past the collector of the first skipped view,
    /// because that collector may be the silent replica and electing it would cost a second timeout. Once as many views
    /// were skipped as there are candidates, all replicas take turns, because all candidates may have crashed.
    fn in_turn(&self, candidates: &[ReplicaId], basis: View, skipped: u64) -> ReplicaId {
        let count = candidates.len() as u64;
        let skipped = if bug!(TurnStays) { 0 } else { skipped };
        let round = skipped.min(count - 1);
        let past_collector = u64::from(self.duties.next_leader_collects && round > 0 && count > 2);
        let last = candidates[((basis.0 + 1 + round + past_collector) % count) as usize];
        self.replica(u64::from(last.0) + (skipped - round))
    }
}
