//! Wrong rules: the rules of a protocol with one change each, as another implementer might have written them.

use super::Mutant;
use crate::byzantine::malleable::{ForMalleable, for_malleable};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::data::block_tree::BlockTree;
use quorate_consensus::facts::Facts;
use quorate_consensus::protocols::basic::BasicHotStuff;
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::chained::rules::{
    Candidate, ChainedHotStuff, FastHotStuff, Jolteon, Refusal, Rules, SimpleHotStuff,
};
use quorate_consensus::protocols::pbft::engine::Engine;
use quorate_consensus::protocols::pbft::log::Log;
use quorate_consensus::protocols::pbft::message::{Declaration, NewView, ViewChange, bare};
use quorate_consensus::protocols::pbft::selection::Selection;
use quorate_consensus::protocols::pbft::sets::{Sets, select_by, unopposed, vouched};
use quorate_consensus::protocols::pbft::view_change_evidence::{Proofs, ViewChangeEvidence};
use quorate_consensus::protocols::protocol::Admission;
use quorate_consensus::protocols::views::{Consequence, Family, Known, ViewEngine};
use quorate_consensus::replica::make::chained as replica;
use quorate_consensus::seam::Drop;
use quorate_consensus::{Config, Replica};
use quorate_types::{Attachment, Block, Certificate, Domain, EpochId, Height, Quorum, ReplicaId, Subject, View};
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
    /// every block carries a certificate, and the certificate of genesis, which needs no proof, stands for a missing
    /// one.
    OmittedJustification,
    /// The first proposal after a view change is not checked against the lock, as if the lock had to be acquired again:
    /// 0xPolygon/pbft-consensus pull request 82 restores it.
    LockLostInViewChange,
    /// Jolteon votes for a block on any older certificate, not only on the highest one reported by the timeouts.
    OldParentAccepted,
    /// Chained HotStuff votes only for blocks that extend the certificate of the previous view.
    OldParentRefused,
    /// A prepareQC locks, as in a two-phase HotStuff with a leader that does not wait: Yin et al., PODC 2019, section
    /// 4.4.
    TwoPhases,
    /// A view change without proofs carries over a block although a VIEW-CHANGE claims another one for a higher view:
    /// no condition A1 (Castro and Liskov, TOCS 2002, section 4.5).
    OpposedCarriedOver,
    /// A view change without proofs carries over a block that a single replica claims: no condition A2 there.
    ClaimBelieved,
    /// A checkpoint starts a new view only if a quorum of the view changes reports this exact checkpoint, S' in place
    /// of S: hyperledger/fabric pull request 1111.
    MatchingCheckpointsOnly,
    /// A claim without proof ends by age, not by evidence: P ignores later NEW-VIEWs, and Q forgets its oldest block
    /// (the paper's M, TOCS 2002, section 4.5), so that nothing backs P any more.
    ClaimsOutliveEvidence,
    /// Jolteon votes for a block on the lowest certificate that the timeouts report.
    LowestParentAccepted,
    /// Fast-HotStuff takes the first certificate of an aggregate for the highest.
    FirstOfAggregate,
    /// PBFT carries over the block that was prepared in the lowest view.
    LowestViewCarriedOver,
    /// PBFT does not carry over the last prepared slot.
    LastSlotForgotten,
    /// Simplified HotStuff locks one block lower.
    LocksOneLower,
    /// Basic HotStuff: a commitQC does not lock.
    NoLockByCommit,
    /// Basic HotStuff: a precommitQC does not lock.
    NoLockByPrecommit,
}

impl Rule {
    /// Rules of exhibits.
    pub const ALL: [Rule; 11] = [
        Rule::CommitsAcrossViews,
        Rule::NoLivenessBranch,
        Rule::OmittedJustification,
        Rule::LockLostInViewChange,
        Rule::OldParentAccepted,
        Rule::OldParentRefused,
        Rule::TwoPhases,
        Rule::OpposedCarriedOver,
        Rule::ClaimBelieved,
        Rule::MatchingCheckpointsOnly,
        Rule::ClaimsOutliveEvidence,
    ];

    /// Rules without a scenario of their own, for the hunts.
    pub const MUTANTS: [Rule; 7] = [
        Rule::LowestParentAccepted,
        Rule::FirstOfAggregate,
        Rule::LowestViewCarriedOver,
        Rule::LastSlotForgotten,
        Rule::LocksOneLower,
        Rule::NoLockByCommit,
        Rule::NoLockByPrecommit,
    ];
}

/// Defines rules that differ from a protocol's rules only in voting.
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

votes_otherwise!(LowestParentAccepted, Jolteon, |candidate, tree| {
    let Candidate { block, evidence, .. } = candidate;
    let timeouts = evidence.filter(|one| one.subject.domain == Domain::Timeout && one.view().next() == block.view);
    let lowest = timeouts.and_then(|one| one.attachments.iter().filter_map(Attachment::high_view).min());
    match lowest {
        Some(lowest) if block.justify.view() >= lowest => Ok(()),
        _ => Jolteon::may_vote(candidate, tree),
    }
});

/// Fast-HotStuff with the first certificate of an aggregate in place of the highest.
struct FirstOfAggregate;

/// Returns the first certificate in the attachments.
fn first_attached(aggregate: &Certificate) -> Option<&Certificate> {
    aggregate.attachments.iter().find_map(|attachment| match attachment {
        Attachment::HighCertificate(certificate) => Some(certificate.as_ref()),
        _ => None,
    })
}

impl Rules for FirstOfAggregate {
    const FACTS: Facts = FastHotStuff::FACTS;

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        let Candidate { block, evidence, .. } = candidate;
        let aggregate = evidence.filter(|one| one.subject.domain == Domain::Timeout && one.view().next() == block.view);
        let extends_first = |first: &Certificate| first.subject == block.justify.subject;
        match aggregate.and_then(first_attached).is_some_and(extends_first) {
            true => Ok(()),
            false => FastHotStuff::may_vote(candidate, tree),
        }
    }

    fn lock_after(certified: &Block, tree: &BlockTree) -> Option<Subject> {
        FastHotStuff::lock_after(certified, tree)
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        FastHotStuff::commits(certified, tree)
    }

    fn extends<'a>(high: &'a Certificate, evidence: Option<&'a Certificate>) -> &'a Certificate {
        evidence.and_then(first_attached).unwrap_or(high)
    }
}

/// Simplified HotStuff that locks one block lower.
struct LocksOneLower;

impl Rules for LocksOneLower {
    const FACTS: Facts = SimpleHotStuff::FACTS;

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        SimpleHotStuff::may_vote(candidate, tree)
    }

    fn lock_after(certified: &Block, tree: &BlockTree) -> Option<Subject> {
        tree.parent(certified).map(|parent| parent.justify.subject)
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        SimpleHotStuff::commits(certified, tree)
    }
}

/// Commits the first block of a chain even if views were skipped within it.
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

/// Certificates by which basic HotStuff locks.
pub(crate) trait Locks: Send + 'static {
    const BY: &'static [Domain];
}

/// Locks by a prepareQC too.
pub(crate) struct ByAny;

impl Locks for ByAny {
    const BY: &'static [Domain] = BasicHotStuff::BUILDS_ON;
}

/// Locks by a precommitQC only.
pub(crate) struct ByPrecommit;

impl Locks for ByPrecommit {
    const BY: &'static [Domain] = &[Domain::PreCommit];
}

/// Locks by a commitQC only.
pub(crate) struct ByCommit;

impl Locks for ByCommit {
    const BY: &'static [Domain] = &[Domain::Commit];
}

/// Basic HotStuff with other locks.
pub(crate) struct OtherLocks<L>(BasicHotStuff, PhantomData<L>);

/// Basic HotStuff whose replicas lock on a prepareQC.
pub(crate) type TwoPhases = OtherLocks<ByAny>;

impl<L: Locks> Family for OtherLocks<L> {
    type Message = BasicMessage;

    const FACTS: Facts = BasicHotStuff::FACTS;
    const VOTES: Domain = BasicHotStuff::VOTES;
    const ENDS_VIEW: Domain = BasicHotStuff::ENDS_VIEW;
    const BUILDS_ON: &'static [Domain] = BasicHotStuff::BUILDS_ON;
    const NEXT_LEADER_COLLECTS: bool = BasicHotStuff::NEXT_LEADER_COLLECTS;

    fn new(genesis: &Certificate) -> Self {
        OtherLocks(BasicHotStuff::new(genesis), PhantomData)
    }

    fn extends<'a>(high: &'a Certificate, evidence: Option<&'a Certificate>) -> &'a Certificate {
        BasicHotStuff::extends(high, evidence)
    }

    fn basis(view: View, justify: &Certificate, evidence: Option<&Certificate>) -> Subject {
        BasicHotStuff::basis(view, justify, evidence)
    }

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        BasicHotStuff::may_vote(candidate, tree)
    }

    fn admit_vote(&self, known: Known<'_>, subject: &Subject) -> Result<(), Drop> {
        self.0.admit_vote(known, subject)
    }

    fn admit(&self, known: Known<'_>, message: &BasicMessage) -> Admission {
        self.0.admit(known, message)
    }

    fn certificates(message: BasicMessage) -> Vec<Certificate> {
        BasicHotStuff::certificates(message)
    }

    fn phase_message(certificate: &Certificate) -> Option<BasicMessage> {
        BasicHotStuff::phase_message(certificate)
    }

    fn on_certificate<'a>(&mut self, certificate: &'a Certificate, mut known: Known<'a>) -> Vec<Consequence> {
        let lock = Subject { domain: Domain::PreCommit, ..certificate.subject };
        let locks = L::BY.contains(&certificate.subject.domain) && lock.view > known.lock.view;
        if locks {
            known.lock = lock;
        }
        let mut consequences = self.0.on_certificate(certificate, known);
        consequences.retain(|one| !matches!(one, Consequence::Lock(_)));
        if locks {
            let at = consequences.iter().take_while(|one| matches!(one, Consequence::Raise(_))).count();
            consequences.insert(at, Consequence::Lock(lock));
        }
        consequences
    }

    fn on_complete_block(&self, block: &Block, known: Known<'_>) -> Vec<Consequence> {
        self.0.on_complete_block(block, known)
    }
}

/// Defines a view change of PBFT that selects otherwise than a sound one, or follows a NEW-VIEW otherwise.
macro_rules! shows_otherwise {
    ($name:ident, $sound:ty, select: $select:expr) => {
        shows_otherwise!($name, $sound, <$sound>::EVIDENCE_ENDS_CLAIMS, select: $select, follow: <$sound>::follow);
    };
    ($name:ident, $sound:ty, $ends_claims:expr, select: $select:expr, follow: $follow:expr) => {
        pub(crate) struct $name;

        impl ViewChangeEvidence for $name {
            const FACTS: Facts = <$sound>::FACTS;
            const CARRIED_IS_HELD: bool = <$sound>::CARRIED_IS_HELD;
            const SHOWS_VOTES: bool = <$sound>::SHOWS_VOTES;
            const EVIDENCE_ENDS_CLAIMS: bool = $ends_claims;
            const MORE_HELPS: bool = <$sound>::MORE_HELPS;

            fn keep(certificate: Certificate) -> Certificate {
                <$sound>::keep(certificate)
            }

            fn fits(change: &ViewChange) -> bool {
                <$sound>::fits(change)
            }

            fn declares(change: &Declaration) -> bool {
                <$sound>::declares(change)
            }

            fn select(changes: &[Declaration], quorum: Quorum) -> Option<Selection> {
                let select: fn(&[Declaration], Quorum) -> Option<Selection> = $select;
                select(changes, quorum)
            }

            fn unproven<'a>(shown: &'a [Certificate], log: &Log) -> Vec<&'a Certificate> {
                <$sound>::unproven(shown, log)
            }

            fn proofs(selection: &Selection, changes: &[&ViewChange]) -> Vec<Certificate> {
                <$sound>::proofs(selection, changes)
            }

            fn proves(shown: &[Certificate], selection: &Selection) -> bool {
                <$sound>::proves(shown, selection)
            }

            fn follow(log: &mut Log, new_view: &NewView, selection: &Selection, returns: bool, floor: Height) {
                let follow: fn(&mut Log, &NewView, &Selection, bool, Height) = $follow;
                follow(log, new_view, selection, returns, floor);
            }
        }
    };
}

shows_otherwise!(OpposedCarriedOver, Sets, select: |changes, quorum| {
    select_by(changes, quorum, |_, _, _, _| true, vouched)
});
shows_otherwise!(ClaimBelieved, Sets, select: |changes, quorum| {
    select_by(changes, quorum, unopposed, |_, _, _, _| true)
});
shows_otherwise!(MatchingCheckpointsOnly, Proofs, select: |changes, quorum| {
    Proofs::select(changes, quorum).filter(|selection| {
        changes.iter().filter(|change| change.checkpoint == selection.stable).count() >= quorum.quorum()
    })
});
shows_otherwise!(
    ClaimsOutliveEvidence,
    Sets,
    false,
    select: Sets::select,
    follow: |log, _new_view, selection, returns, floor| {
        for (slot, chosen) in selection.iter().filter(|(slot, _)| *slot > floor) {
            let Some(subject) = chosen else { continue };
            let entry = log.slot(slot);
            if returns {
                entry.prepared = Some(bare(*subject));
            }
        }
    }
);

shows_otherwise!(LowestViewCarriedOver, Proofs, select: |changes, quorum| {
    let mut selection = Proofs::select(changes, quorum)?;
    for chosen in selection.slots.iter_mut().flatten() {
        let claims = changes.iter().flat_map(|change| &change.prepared).filter(|claim| claim.height == chosen.height);
        *chosen = *claims.min_by_key(|claim| claim.view).expect("one of the claims was chosen");
    }
    Some(selection)
});
shows_otherwise!(LastSlotForgotten, Proofs, select: |changes, quorum| {
    let mut selection = Proofs::select(changes, quorum)?;
    selection.slots.pop();
    Some(selection)
});

/// Creates a replica of a protocol with views.
pub(crate) fn of_family<F: Family>(
    config: Config,
    quorum: Quorum,
    epoch: EpochId,
    me: ReplicaId,
    salt: u64,
) -> Replica<ViewEngine<F>> {
    Replica::new(ViewEngine::new(&config, &epoch), config, quorum, epoch, me, salt)
}

/// Creates a replica of a variant of PBFT.
pub(crate) fn of_pbft<S: ViewChangeEvidence>(
    config: Config,
    quorum: Quorum,
    epoch: EpochId,
    me: ReplicaId,
    salt: u64,
) -> Replica<Engine<S>> {
    Replica::new(Engine::new(&config, &epoch), config, quorum, epoch, me, salt)
}

/// Performs the work for the named protocol, or for that protocol with a wrong rule, which may be one without a
/// scenario of its own.
pub(crate) fn for_all_rules<W: ForMalleable>(protocol: ProtocolKind, mutant: Option<Mutant>, work: W) -> W::Output {
    match mutant {
        Some(Mutant::Rule(Rule::LowestParentAccepted)) => work.run(replica::<LowestParentAccepted>),
        Some(Mutant::Rule(Rule::FirstOfAggregate)) => work.run(replica::<FirstOfAggregate>),
        Some(Mutant::Rule(Rule::LowestViewCarriedOver)) => work.run(of_pbft::<LowestViewCarriedOver>),
        Some(Mutant::Rule(Rule::LastSlotForgotten)) => work.run(of_pbft::<LastSlotForgotten>),
        Some(Mutant::Rule(Rule::LocksOneLower)) => work.run(replica::<LocksOneLower>),
        Some(Mutant::Rule(Rule::NoLockByCommit)) => work.run(of_family::<OtherLocks<ByPrecommit>>),
        Some(Mutant::Rule(Rule::NoLockByPrecommit)) => work.run(of_family::<OtherLocks<ByCommit>>),
        _ => for_rules(protocol, mutant, work),
    }
}

/// Performs the work for the named protocol, or for that protocol with the wrong rule of an exhibit.
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
        Rule::TwoPhases => work.run(of_family::<TwoPhases>),
        Rule::OpposedCarriedOver => work.run(of_pbft::<OpposedCarriedOver>),
        Rule::ClaimBelieved => work.run(of_pbft::<ClaimBelieved>),
        Rule::MatchingCheckpointsOnly => work.run(of_pbft::<MatchingCheckpointsOnly>),
        Rule::ClaimsOutliveEvidence => work.run(of_pbft::<ClaimsOutliveEvidence>),
        rule => panic!("{rule:?} has no scenario of its own"),
    }
}
