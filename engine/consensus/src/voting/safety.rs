//! The only place where votes are created.
//!
//! No other code can create a [`Ballot`], and a ballot is persisted before it is signed and sent. This file alone
//! therefore decides which statements a replica signs: at most one per kind and view (and slot, in protocols with
//! slots), and no vote in a view after the replica has timed out of it.

use crate::data::batches::Batch;
use quorate_types::wire;
use quorate_types::{Attachment, Block, Certificate, Digest, Domain, Height, ReplicaId, Subject, View, Vote};
use std::collections::BTreeMap;

/// Statement that this replica may sign; created by [`Safety`] only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ballot {
    subject: Subject,
    attachment: Attachment,
    /// Proof that the journal must keep with the vote, because the vote claims that this replica holds it.
    proof: Option<Box<Certificate>>,
}

impl Ballot {
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Returns the unsigned vote.
    pub fn to_vote(&self, voter: ReplicaId) -> Vote {
        Vote { subject: self.subject, attachment: self.attachment.clone(), voter, signature: bytes::Bytes::new() }
    }
}

/// Journal record of a ballot. It contains enough for a restarted replica not to contradict itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    pub subject: Subject,
    /// Attachment of the vote, or the proof that the journal keeps with it.
    pub attachment: Attachment,
    /// Lock at the time of the ballot.
    pub lock: Subject,
}

impl Promise {
    /// Returns the view that this promise reserves: the next view after a vote or a proposal, otherwise none. The
    /// replica may propose in the reserved view before the proposal's record is durable. After a restart it does not
    /// propose there, because it cannot know whether it already did.
    pub fn reserves(&self) -> Option<View> {
        let Subject { domain, view, .. } = self.subject;
        (domain == Domain::Proposal || BLOCK_VOTES.contains(&domain)).then(|| view.next())
    }
}

wire! { struct Promise { subject, attachment, lock } }

/// Record of all statements that bind a replica.
///
/// Only the core creates one, together with its replica. A second record could create ballots that contradict those of
/// the first:
///
/// ```compile_fail,E0624
/// use quorate_consensus::voting::safety::Safety;
/// let genesis = quorate_types::Certificate::genesis(&quorate_types::EpochId::of_name("a cluster"));
/// let safety = Safety::new(genesis.subject);
/// ```
#[derive(Debug)]
pub struct Safety {
    proposed: View,
    /// Last view for which this replica proposed optimistically.
    proposed_optimistically: View,
    /// Upper bound on the views in which this replica may have proposed before a restart that lost the record.
    reserved: View,
    /// Last view voted in, for each domain in [`BLOCK_VOTES`].
    voted: [View; BLOCK_VOTES.len()],
    timed_out: View,
    lock: Subject,
    slots: SlotBook,
    /// Last statement in each domain that has one per view; a restarted replica may repeat it.
    last: BTreeMap<Domain, Promise>,
    /// Last view in which this replica abstains, because it has lost its record of the views up to there.
    abstains: View,
    /// Whether the replica has not resumed voting since.
    away: bool,
}

/// Vote on a slot, with its proof.
type SlotVote = (Subject, Option<Box<Certificate>>);

/// Statements of a replica in protocols with slots.
#[derive(Default, Debug)]
struct SlotBook {
    /// Last vote on each slot, by domain, with its proof.
    voted: BTreeMap<(Height, Domain), SlotVote>,
    /// Last slot that needs no further votes.
    settled: Height,
    /// Last slot whose state this replica voted for.
    checkpoint: Height,
    /// View that this replica has asked for. It votes in no earlier view.
    view: View,
    /// Last view that this replica opened as its primary.
    opened: View,
}

/// Domains of the votes on blocks.
const BLOCK_VOTES: [Domain; 4] = [Domain::Vote, Domain::Prepare, Domain::PreCommit, Domain::Commit];

impl Safety {
    /// Creates the state of a replica that is bound by genesis only.
    pub(crate) fn new(genesis: Subject) -> Self {
        Safety {
            proposed: View(0),
            proposed_optimistically: View(0),
            reserved: View(0),
            voted: [View(0); BLOCK_VOTES.len()],
            timed_out: View(0),
            lock: genesis,
            slots: SlotBook::default(),
            last: BTreeMap::new(),
            abstains: View(0),
            away: false,
        }
    }

    /// Returns the last view in which this replica voted, in any domain.
    pub fn voted(&self) -> View {
        self.voted.into_iter().max().unwrap_or(View(0))
    }

    /// Returns the last view that this replica timed out of.
    pub fn timed_out(&self) -> View {
        self.timed_out
    }

    /// Returns the last view in which this replica proposed, or may have proposed before a restart.
    pub fn proposed(&self) -> View {
        self.proposed.max(self.reserved)
    }

    /// Returns the subject this replica is locked on; the protocol's rules restrict votes against it.
    pub fn lock(&self) -> Subject {
        self.lock
    }

    /// Raises the lock; never lowers it.
    pub fn lock_on(&mut self, subject: Subject) {
        if subject.view > self.lock.view {
            self.lock = subject;
        }
    }

    /// Returns a ballot to propose `block`: once per view, and not after timing out of it.
    pub fn propose(&mut self, block: &Block) -> Option<Ballot> {
        if block.view <= self.proposed().max(self.timed_out).max(self.abstains) && !bug!(ProposesTwice) {
            return None;
        }
        self.proposed = block.view;
        self.mint(Ballot { subject: block.subject(Domain::Proposal), attachment: Attachment::None, proof: None })
    }

    /// Returns whether [`Safety::propose_optimistically`] returns a ballot for a block of `view`.
    pub fn may_propose_optimistically(&self, view: View) -> bool {
        view > self.proposed().max(self.proposed_optimistically).max(self.timed_out).max(self.abstains)
    }

    /// Returns a ballot to propose `block`, whose parent is not certified yet, in the view after the current one: once
    /// per view. The ballot does not oblige this replica to propose the same block once that view has begun.
    pub fn propose_optimistically(&mut self, block: &Block) -> Option<Ballot> {
        if !self.may_propose_optimistically(block.view) {
            return None;
        }
        self.proposed_optimistically = block.view;
        let subject = block.subject(Domain::OptimisticProposal);
        self.mint(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// Returns a ballot to vote for `block`, in a protocol with one kind of vote; see [`Safety::vote_in`].
    pub fn vote(&mut self, block: &Block) -> Option<Ballot> {
        self.vote_in(Domain::Vote, block)
    }

    /// Returns whether [`Safety::vote_in`] returns a ballot for a block of `view`.
    pub fn may_vote_in(&self, domain: Domain, view: View) -> bool {
        let timed_out = if bug!(VotesAfterTimeout) { View(0) } else { self.timed_out };
        view > self.voted[phase_of(domain)].max(timed_out).max(self.abstains)
    }

    /// Returns a ballot to vote for `block` in the phase `domain`: once per view, in ascending views, and not after a
    /// timeout of the view.
    pub fn vote_in(&mut self, domain: Domain, block: &Block) -> Option<Ballot> {
        let phase = phase_of(domain);
        let again = bug!(VotesTwice) && self.voted[phase] == block.view && !block.is_optimistic();
        if !again && !self.may_vote_in(domain, block.view) {
            return None;
        }
        self.voted[phase] = block.view;
        self.mint(Ballot { subject: block.subject(domain), attachment: Attachment::None, proof: None })
    }

    /// Returns a ballot to time out of `view`, with the highest known certificate: once per view. The replica no longer
    /// votes in that view.
    pub fn give_up(&mut self, view: View, high: &Certificate, whole: bool) -> Option<Ballot> {
        if view <= self.timed_out.max(self.abstains) {
            return None;
        }
        self.timed_out = view;
        let attachment = match whole {
            true => Attachment::HighCertificate(Box::new(high.clone())),
            false => Attachment::HighView(high.view()),
        };
        self.mint(Ballot { subject: timeout_subject(view), attachment, proof: None })
    }

    /// Returns a ballot for PREPARE, or the primary's PRE-PREPARE, of a block in a slot: once per slot and view, in
    /// ascending views.
    pub fn prepare(&mut self, view: View, slot: Height, digest: Digest) -> Option<Ballot> {
        let subject = Subject { domain: Domain::Prepare, view, height: slot, digest };
        self.vote_in_slot(subject, None)
    }

    /// Returns a ballot for COMMIT of the block that `prepared` proves to be prepared: once per slot and view. The
    /// journal keeps the proof with the ballot.
    pub fn commit(&mut self, prepared: &Certificate) -> Option<Ballot> {
        let subject = Subject { domain: Domain::Commit, ..prepared.subject };
        self.vote_in_slot(subject, Some(Box::new(prepared.clone())))
    }

    fn vote_in_slot(&mut self, subject: Subject, proof: Option<Box<Certificate>>) -> Option<Ballot> {
        let book = &mut self.slots;
        if subject.view < book.view || subject.view <= self.abstains || subject.height <= book.settled {
            return None;
        }
        let place = (subject.height, subject.domain);
        if book.voted.get(&place).is_some_and(|(last, _)| subject.view <= last.view) {
            return None;
        }
        book.voted.insert(place, (subject, proof.clone()));
        Some(Ballot { subject, attachment: Attachment::None, proof })
    }

    /// Returns a ballot to vote for the state after a slot: once per slot, in ascending slots.
    pub fn checkpoint(&mut self, slot: Height, state: Digest) -> Option<Ballot> {
        if slot <= self.slots.checkpoint {
            return None;
        }
        self.slots.checkpoint = slot;
        let subject = Subject { domain: Domain::Checkpoint, view: View(0), height: slot, digest: state };
        self.mint(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// Returns a ballot to acknowledge a batch, all of whose bundles are stored, and journaled or about to be. It
    /// restricts no later statement.
    pub fn stored(&self, batch: &Batch) -> Ballot {
        Ballot { subject: batch.subject(), attachment: Attachment::None, proof: None }
    }

    /// Returns a ballot to sign that a bundle of a final block is absent. The journal records it. From then on this
    /// replica accepts the bundle only if f+1 others show it.
    pub fn absent(&self, subject: Subject) -> Ballot {
        Ballot { subject, attachment: Attachment::None, proof: None }
    }

    /// Returns a ballot to ask for a view, in ascending views. From then on this replica does not vote in earlier
    /// views. `digest` covers the contents of the view change, which begins above `stable`.
    pub fn change_view(&mut self, view: View, stable: Height, digest: Digest) -> Option<Ballot> {
        if view <= self.slots.view.max(self.abstains) {
            return None;
        }
        self.slots.view = if bug!(VotesAfterViewChange) { self.slots.view } else { view };
        let subject = Subject { domain: Domain::ViewChange, view, height: stable, digest };
        self.mint(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// Returns a ballot to open a view as its primary, once; `digest` covers the contents of the new view.
    pub fn open_view(&mut self, view: View, stable: Height, digest: Digest) -> Option<Ballot> {
        if view <= self.slots.opened.max(self.abstains) || view < self.slots.view {
            return None;
        }
        self.slots.opened = view;
        let subject = Subject { domain: Domain::Proposal, view, height: stable, digest };
        self.mint(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// Rules out any further vote up to `slot`.
    pub fn settle(&mut self, slot: Height) {
        self.slots.settled = self.slots.settled.max(slot);
        self.slots.voted = self.slots.voted.split_off(&(slot.next(), Domain::Proposal));
    }

    /// Records a ballot in a domain that has one statement per view.
    fn mint(&mut self, ballot: Ballot) -> Option<Ballot> {
        self.last.insert(ballot.subject.domain, self.promise(&ballot));
        Some(ballot)
    }

    /// Returns the promise that the journal must hold before `ballot` is sent.
    pub fn promise(&self, ballot: &Ballot) -> Promise {
        let proof = ballot.proof.clone().map(Attachment::HighCertificate);
        Promise {
            subject: ballot.subject,
            attachment: proof.unwrap_or_else(|| ballot.attachment.clone()),
            lock: self.lock,
        }
    }

    /// Restores a promise made before a restart. `by_slot` is true for domains with one vote per slot.
    pub fn recall(&mut self, promise: &Promise, by_slot: bool) {
        let Subject { domain, view, height, .. } = promise.subject;
        // A statement outside the views may follow a certificate that raised the lock, but on which no vote relied and
        // which is not in the journal. A lock whose certificate nobody can show could stop progress.
        if ![Domain::Checkpoint, Domain::Stored].contains(&domain) {
            self.lock_on(promise.lock);
        }
        // A replica without a memory follows a view change of the others, and opens the view, before it votes in any
        // view.
        if ![Domain::ViewChange, Domain::Proposal].contains(&domain) {
            self.away &= view <= self.abstains;
        }
        if by_slot && BLOCK_VOTES.contains(&domain) {
            let proof = match &promise.attachment {
                Attachment::HighCertificate(proof) => Some(proof.clone()),
                _ => None,
            };
            let last = self.slots.voted.entry((height, domain)).or_insert_with(|| (promise.subject, proof.clone()));
            if view > last.0.view {
                *last = (promise.subject, proof);
            }
            return;
        }
        let raise = |view: &mut View, to: View| *view = (*view).max(to);
        raise(&mut self.reserved, promise.reserves().filter(|_| !bug!(ReservationForgotten)).unwrap_or_default());
        match domain {
            // In protocols with slots, this statement opens a view.
            Domain::Proposal => {
                raise(&mut self.proposed, view);
                raise(&mut self.slots.opened, view);
            }
            Domain::OptimisticProposal => raise(&mut self.proposed_optimistically, view),
            Domain::Timeout => raise(&mut self.timed_out, view),
            Domain::ViewChange => raise(&mut self.slots.view, view),
            Domain::Checkpoint => self.slots.checkpoint = self.slots.checkpoint.max(height),
            // This statement restricts no later one. The journal holds the bundles instead.
            Domain::Stored | Domain::Absent => return,
            Domain::Vote | Domain::Prepare | Domain::PreCommit | Domain::Commit => {
                raise(&mut self.voted[phase_of(domain)], view);
            }
        }
        let newer = |last: &Promise| (view, height) >= (last.subject.view, last.subject.height);
        if self.last.get(&domain).is_none_or(newer) {
            self.last.insert(domain, promise.clone());
        }
    }

    /// Restores the orderly end of a process that had proposed in no view above `proposed`. The promises before it
    /// then reserve no view any more.
    pub(crate) fn stopped(&mut self, proposed: View) {
        self.proposed = self.proposed.max(proposed);
        self.reserved = View(0);
    }

    /// Returns the last statement in a domain.
    pub fn last(&self, domain: Domain) -> Option<&Promise> {
        self.last.get(&domain)
    }

    /// Returns the last votes on each slot with their proofs, in ascending slots.
    pub fn votes_on_slots(&self) -> impl Iterator<Item = (&Subject, Option<&Certificate>)> {
        self.slots.voted.values().map(|(subject, proof)| (subject, proof.as_deref()))
    }

    /// Returns all promises that bind this replica. A truncated journal begins with them.
    pub fn promises(&self) -> Vec<Promise> {
        let on_slots = self.votes_on_slots().map(|(subject, proof)| Promise {
            subject: *subject,
            attachment: proof.map_or(Attachment::None, |proof| Attachment::HighCertificate(Box::new(proof.clone()))),
            lock: self.lock,
        });
        let last = self.last.values().map(|promise| Promise { lock: self.lock, ..promise.clone() });
        last.chain(on_slots).collect()
    }

    /// Makes this replica abstain in views up to `bound`, because it has lost its journal and may have voted in them.
    pub fn abstain(&mut self, bound: View) {
        (self.abstains, self.away) = (bound, true);
    }

    /// Returns the last view in which this replica abstains, because it has lost its record of them.
    pub fn abstains(&self) -> View {
        self.abstains
    }

    /// Returns whether this replica has lost its journal and not resumed voting.
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// Returns the last view in which this replica is known to have made a statement.
    pub fn spoke_in(&self) -> View {
        let on_slots = self.slots.voted.values().map(|(subject, _)| subject.view);
        on_slots
            .chain([self.proposed, self.timed_out, self.voted(), self.slots.view, self.slots.opened])
            .max()
            .unwrap_or_default()
    }

    /// Resumes voting after amnesia, with a lock at least as high as any lock that can have been lost.
    pub fn come_back(&mut self, lock: Subject) {
        self.away = false;
        self.lock_on(lock);
    }

    /// Asserts the invariants; runs after every step.
    pub fn invariants(&self) {
        // After amnesia a replica locks on the highest known certificate, which may be only of the prepare phase.
        let lockable = [Domain::Vote, Domain::PreCommit, Domain::Prepare, Domain::Commit];
        assert!(lockable.contains(&self.lock.domain), "a lock is on a certified block");
    }
}

/// Returns the index of a domain's phase in [`BLOCK_VOTES`].
fn phase_of(domain: Domain) -> usize {
    BLOCK_VOTES.iter().position(|phase| *phase == domain).expect("this is a vote on a block")
}

/// Returns the subject of the votes to time out of a view.
pub fn timeout_subject(view: View) -> Subject {
    Subject { domain: Domain::Timeout, view, height: Height(0), digest: Digest::ZERO }
}
