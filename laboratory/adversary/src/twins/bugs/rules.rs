//! Wrong rules: the rules of a chained protocol with one change each, as another implementer might have written them.

use super::Mutant;
use crate::byzantine::malleable::{ForMalleable, for_malleable};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::data::block_tree::BlockTree;
use quorate_consensus::facts::Facts;
use quorate_consensus::protocols::chained::rules::{Candidate, ChainedHotStuff, FastHotStuff, Jolteon, Refusal, Rules};
use quorate_consensus::replica::make::chained as replica;
use quorate_types::{Block, Certificate, Domain, Subject};
use std::marker::PhantomData;
use std::sync::Arc;

/// A bug in the rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// Commits a chain of certified blocks although views were skipped within it. Two-chain: Fast-HotStuff before
    /// version 7, found by Bano et al., "Twins: BFT systems made robust", 2020, appendix F; three-chain: relab/hotstuff
    /// issue 249.
    CommitsAcrossViews,
    /// safeNode without its second line, the newer certificate: linera-io/linera-protocol pull request 891.
    NoLivenessBranch,
    /// A proposal without justification is not checked against the lock: projnanda/nandatown pull request 191. Here
    /// every block carries a certificate; that of genesis, which needs no proof, stands for a missing one.
    OmittedJustification,
    /// The first proposal after a view change is not checked against the lock, as if the lock had to be acquired again:
    /// 0xPolygon/pbft-consensus pull request 82 restores it.
    LockLostInViewChange,
    /// Jolteon votes for a block on any older certificate, not only on the highest that the timeouts report.
    OldParentAccepted,
    /// Chained HotStuff votes only for blocks that extend the certificate of the previous view.
    OldParentRefused,
}

impl Rule {
    pub const ALL: [Rule; 6] = [
        Rule::CommitsAcrossViews,
        Rule::NoLivenessBranch,
        Rule::OmittedJustification,
        Rule::LockLostInViewChange,
        Rule::OldParentAccepted,
        Rule::OldParentRefused,
    ];
}

/// Defines rules that vote differently from those of a protocol, and are otherwise the same.
macro_rules! votes_otherwise {
    ($name:ident, $sound:ty, |$candidate:ident, $tree:ident| $may_vote:expr) => {
        struct $name;

        impl Rules for $name {
            const FACTS: Facts = <$sound>::FACTS;

            fn may_vote($candidate: Candidate<'_>, $tree: &BlockTree) -> Result<(), Refusal> {
                $may_vote
            }

            fn lock_after(certified: &Block, tree: &BlockTree) -> Option<Subject> {
                <$sound>::lock_after(certified, tree)
            }

            fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
                <$sound>::commits(certified, tree)
            }
        }
    };
}

votes_otherwise!(NoLivenessBranch, ChainedHotStuff, |candidate, tree| {
    let Candidate { block, lock, .. } = candidate;
    if tree.extends(block, lock.digest, lock.height) { Ok(()) } else { Err("does not extend the lock") }
});

votes_otherwise!(OmittedJustification, ChainedHotStuff, |candidate, tree| {
    match candidate.block.justify.view().0 {
        0 => Ok(()),
        _ => ChainedHotStuff::may_vote(candidate, tree),
    }
});

votes_otherwise!(LockLostInViewChange, ChainedHotStuff, |candidate, tree| {
    // A replica that has lost its lock is locked on genesis, which every block extends.
    match candidate.evidence {
        Some(evidence) if evidence.subject.domain == Domain::Timeout => Ok(()),
        _ => ChainedHotStuff::may_vote(candidate, tree),
    }
});

votes_otherwise!(OldParentRefused, ChainedHotStuff, |candidate, tree| {
    match candidate.block.justify.view().next() == candidate.block.view {
        true => ChainedHotStuff::may_vote(candidate, tree),
        false => Err("not on the certificate of the view before"),
    }
});

votes_otherwise!(OldParentAccepted, Jolteon, |_candidate, _tree| Ok(()));

/// Commits the first block of a chain even if views were skipped in it.
struct CommitsAcrossViews<R>(PhantomData<R>);

impl<R: Rules> Rules for CommitsAcrossViews<R> {
    const FACTS: Facts = R::FACTS;

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        R::may_vote(candidate, tree)
    }

    fn lock_after(certified: &Block, tree: &BlockTree) -> Option<Subject> {
        R::lock_after(certified, tree)
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        let last = tree.get(&certified.digest())?.clone();
        (1..R::FACTS.shape.chain_length()).try_fold(last, |block, _| tree.parent(&block).cloned())
    }

    fn extends<'a>(high: &'a Certificate, evidence: Option<&'a Certificate>) -> &'a Certificate {
        R::extends(high, evidence)
    }
}

/// Does the work for the protocol with this name, or for that protocol with a wrong rule.
pub(crate) fn for_rules<W: ForMalleable>(protocol: ProtocolKind, mutant: Option<Mutant>, work: W) -> W::Output {
    let Some(Mutant::Rule(rule)) = mutant else { return for_malleable(protocol, work) };
    match rule {
        Rule::CommitsAcrossViews if protocol == ProtocolKind::FastHotStuff => {
            work.run(replica::<CommitsAcrossViews<FastHotStuff>>)
        }
        Rule::CommitsAcrossViews => work.run(replica::<CommitsAcrossViews<ChainedHotStuff>>),
        Rule::NoLivenessBranch => work.run(replica::<NoLivenessBranch>),
        Rule::OmittedJustification => work.run(replica::<OmittedJustification>),
        Rule::LockLostInViewChange => work.run(replica::<LockLostInViewChange>),
        Rule::OldParentAccepted => work.run(replica::<OldParentAccepted>),
        Rule::OldParentRefused => work.run(replica::<OldParentRefused>),
    }
}
