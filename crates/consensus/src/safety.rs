//! The only place that mints votes.
//!
//! A [`Ballot`] cannot be made anywhere else, and casting one persists it before it is signed and sent. What a replica has ever
//! signed is therefore decided by this file alone: at most one statement for each kind and view (and slot, where there are slots), and
//! no vote in a view that it has given up.

use quorate_types::{
    Attachment, Block, Certificate, DecodeError, Decoder, Digest, Domain, Encoder, Height, ReplicaId, Subject, View,
    Vote, Wire,
};
use std::collections::BTreeMap;

/// A statement that this replica may sign; made by [`Safety`] only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ballot {
    subject: Subject,
    attachment: Attachment,
    /// What the journal must keep besides, because the vote says that this replica holds it.
    proof: Option<Box<Certificate>>,
}

impl Ballot {
    /// What it is on.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// The vote without its signature.
    pub fn to_vote(&self, voter: ReplicaId) -> Vote {
        Vote { subject: self.subject, attachment: self.attachment.clone(), voter, signature: bytes::Bytes::new() }
    }
}

/// What the journal keeps of a ballot: enough for a restarted replica not to contradict itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// What was voted on.
    pub subject: Subject,
    /// What was said besides.
    pub attachment: Attachment,
    /// The lock at that time.
    pub lock: Subject,
}

impl Promise {
    /// The view that is reserved by this promise: after a vote or a proposal the next one, after anything else none. Whoever made it may
    /// propose there before the record of that is durable; when it is restarted it cannot know whether it did, and does not.
    pub fn reserves(&self) -> Option<View> {
        let Subject { domain, view, .. } = self.subject;
        (domain == Domain::Proposal || BLOCK_VOTES.contains(&domain)).then(|| view.next())
    }
}

impl Wire for Promise {
    fn encode(&self, out: &mut Encoder) {
        self.subject.encode(out);
        self.attachment.encode(out);
        self.lock.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Promise {
            subject: Subject::decode(input)?,
            attachment: Attachment::decode(input)?,
            lock: Subject::decode(input)?,
        })
    }
}

/// What a replica has bound itself to.
///
/// Only the core makes one, with the replica that it binds. A second one would mint ballots that contradict those of the first:
///
/// ```compile_fail,E0624
/// use quorate_consensus::safety::Safety;
/// let genesis = quorate_types::Certificate::genesis(&quorate_types::ClusterId::from_name("a cluster"));
/// let safety = Safety::new(genesis.subject);
/// ```
#[derive(Debug)]
pub struct Safety {
    proposed: View,
    /// It may have proposed up to this view before it was restarted, and the record of it be lost.
    reserved: View,
    /// The last view voted in, for each kind of vote on blocks, as in [`BLOCK_VOTES`].
    voted: [View; BLOCK_VOTES.len()],
    timed_out: View,
    lock: Subject,
    slots: SlotBook,
    /// The last statement of each kind, where each view has one: what a restarted replica may say again.
    last: BTreeMap<Domain, Promise>,
    /// Nothing is said in views up to this one, because this replica has lost its memory of them.
    abstains: View,
    /// Whether it has not come back since.
    away: bool,
}

/// A vote on a slot, with the proof that goes with it.
type SlotVote = (Subject, Option<Box<Certificate>>);

/// What a replica has signed where agreement goes by slots.
#[derive(Default, Debug)]
struct SlotBook {
    /// The last vote on a slot, by kind, with the proof that goes with it.
    voted: BTreeMap<(Height, Domain), SlotVote>,
    /// Nothing is voted on up to this slot any more.
    settled: Height,
    /// The last slot whose state it vouched for.
    checkpoint: Height,
    /// Nothing is voted on in views before this one, to which it has asked to move.
    view: View,
    /// The last view that it opened as its primary.
    opened: View,
}

/// The kinds of votes on blocks.
const BLOCK_VOTES: [Domain; 4] = [Domain::Vote, Domain::Prepare, Domain::PreCommit, Domain::Commit];

impl Safety {
    /// Bound to nothing but genesis.
    pub(crate) fn new(genesis: Subject) -> Self {
        Safety {
            proposed: View(0),
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

    /// The last view it voted in, whatever for.
    pub fn voted(&self) -> View {
        self.voted.into_iter().max().unwrap_or(View(0))
    }

    /// The last view it gave up.
    pub fn timed_out(&self) -> View {
        self.timed_out
    }

    /// The last view it proposed in, or may have proposed in before it was restarted.
    pub fn proposed(&self) -> View {
        self.proposed.max(self.reserved)
    }

    /// The block it will not vote against without cause.
    pub fn lock(&self) -> Subject {
        self.lock
    }

    /// Moves the lock up, never down.
    pub fn lock_on(&mut self, subject: Subject) {
        if subject.view > self.lock.view {
            self.lock = subject;
        }
    }

    /// May propose `block`: once a view, and not in a view given up.
    pub fn propose(&mut self, block: &Block) -> Option<Ballot> {
        if block.view <= self.proposed().max(self.timed_out).max(self.abstains) && !bug!(ProposesTwice) {
            return None;
        }
        self.proposed = block.view;
        self.mint(Ballot { subject: block.subject(Domain::Proposal), attachment: Attachment::None, proof: None })
    }

    /// May vote for `block`, as [`Safety::vote_in`] says, in a protocol with one kind of vote.
    pub fn vote(&mut self, block: &Block) -> Option<Ballot> {
        self.vote_in(Domain::Vote, block)
    }

    /// May vote for `block` in the phase that `domain` names: once a view, in ascending views, and not in a view given up.
    pub fn vote_in(&mut self, domain: Domain, block: &Block) -> Option<Ballot> {
        let phase = BLOCK_VOTES.iter().position(|phase| *phase == domain).expect("a kind of vote on blocks");
        if block.view <= self.voted[phase].max(self.timed_out).max(self.abstains) {
            return None;
        }
        self.voted[phase] = block.view;
        self.mint(Ballot { subject: block.subject(domain), attachment: Attachment::None, proof: None })
    }

    /// May give `view` up: once, with the highest certificate it knows. From then on it does not vote in that view.
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

    /// May say PREPARE, or as the primary PRE-PREPARE, of a block in a slot: once a slot and view, in ascending views.
    pub fn prepare(&mut self, view: View, slot: Height, digest: Digest) -> Option<Ballot> {
        let subject = Subject { domain: Domain::Prepare, view, height: slot, digest };
        self.vote_in_slot(subject, None)
    }

    /// May say COMMIT of what `prepared` is the proof of, which the journal keeps with it: once a slot and view.
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

    /// May vouch for the state after a slot: once a slot, in ascending slots.
    pub fn checkpoint(&mut self, slot: Height, state: Digest) -> Option<Ballot> {
        if slot <= self.slots.checkpoint {
            return None;
        }
        self.slots.checkpoint = slot;
        let subject = Subject { domain: Domain::Checkpoint, view: View(0), height: slot, digest: state };
        self.mint(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// May ask to move to a view, in ascending views: from then on it votes on no slot in an earlier one. `digest` stands for what it
    /// shows, which begins above `stable`.
    pub fn change_view(&mut self, view: View, stable: Height, digest: Digest) -> Option<Ballot> {
        if view <= self.slots.view.max(self.abstains) {
            return None;
        }
        self.slots.view = view;
        let subject = Subject { domain: Domain::ViewChange, view, height: stable, digest };
        self.mint(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// May open a view as its primary, once, with what `digest` stands for.
    pub fn open_view(&mut self, view: View, stable: Height, digest: Digest) -> Option<Ballot> {
        if view <= self.slots.opened.max(self.abstains) || view < self.slots.view {
            return None;
        }
        self.slots.opened = view;
        let subject = Subject { domain: Domain::Proposal, view, height: stable, digest };
        self.mint(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// Nothing up to `slot` will be voted on again.
    pub fn settle(&mut self, slot: Height) {
        self.slots.settled = self.slots.settled.max(slot);
        self.slots.voted = self.slots.voted.split_off(&(slot.next(), Domain::Proposal));
    }

    /// A statement of which each view has one.
    fn mint(&mut self, ballot: Ballot) -> Option<Ballot> {
        self.last.insert(ballot.subject.domain, self.promise(&ballot));
        Some(ballot)
    }

    /// What the journal must hold before `ballot` is sent.
    pub fn promise(&self, ballot: &Ballot) -> Promise {
        let proof = ballot.proof.clone().map(Attachment::HighCertificate);
        Promise {
            subject: ballot.subject,
            attachment: proof.unwrap_or_else(|| ballot.attachment.clone()),
            lock: self.lock,
        }
    }

    /// Binds itself again to what it had promised before it was restarted. `by_slot` says whether each slot has a vote of that kind.
    pub fn recall(&mut self, promise: &Promise, by_slot: bool) {
        let Subject { domain, view, height, .. } = promise.subject;
        self.lock_on(promise.lock);
        self.away &= view <= self.abstains;
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
        raise(&mut self.reserved, promise.reserves().unwrap_or_default());
        match domain {
            // Where there are slots, it is the opening of a view.
            Domain::Proposal => {
                raise(&mut self.proposed, view);
                raise(&mut self.slots.opened, view);
            }
            Domain::Timeout => raise(&mut self.timed_out, view),
            Domain::ViewChange => raise(&mut self.slots.view, view),
            Domain::Checkpoint => self.slots.checkpoint = self.slots.checkpoint.max(height),
            Domain::Vote | Domain::Prepare | Domain::PreCommit | Domain::Commit => {
                let phase = BLOCK_VOTES.iter().position(|phase| *phase == domain).expect("a kind of vote on blocks");
                raise(&mut self.voted[phase], view);
            }
        }
        let newer = |last: &Promise| (view, height) >= (last.subject.view, last.subject.height);
        if self.last.get(&domain).is_none_or(newer) {
            self.last.insert(domain, promise.clone());
        }
    }

    /// The last statement of a kind.
    pub fn last(&self, domain: Domain) -> Option<&Promise> {
        self.last.get(&domain)
    }

    /// The last votes on each slot, in ascending slots, with the proofs that go with them.
    pub fn votes_on_slots(&self) -> impl Iterator<Item = (&Subject, Option<&Certificate>)> {
        self.slots.voted.values().map(|(subject, proof)| (subject, proof.as_deref()))
    }

    /// All that binds this replica: what a shortened journal begins with.
    pub fn promises(&self) -> Vec<Promise> {
        let on_slots = self.votes_on_slots().map(|(subject, proof)| Promise {
            subject: *subject,
            attachment: proof.map_or(Attachment::None, |proof| Attachment::HighCertificate(Box::new(proof.clone()))),
            lock: self.lock,
        });
        let last = self.last.values().map(|promise| Promise { lock: self.lock, ..promise.clone() });
        last.chain(on_slots).collect()
    }

    /// Says nothing in views up to `bound`: it has lost its memory and may have spoken in them.
    pub fn abstain(&mut self, bound: View) {
        (self.abstains, self.away) = (bound, true);
    }

    /// The last view in which it says nothing, because it has lost its memory of it.
    pub fn abstains(&self) -> View {
        self.abstains
    }

    /// Whether it has lost its memory and not come back.
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// The last view in which it is known to have said anything.
    pub fn spoke_in(&self) -> View {
        let on_slots = self.slots.voted.values().map(|(subject, _)| subject.view);
        on_slots
            .chain([self.proposed, self.timed_out, self.voted(), self.slots.view, self.slots.opened])
            .max()
            .unwrap_or_default()
    }

    /// Comes back, bound by all that `lock` may bind it to.
    pub fn come_back(&mut self, lock: Subject) {
        self.away = false;
        self.lock_on(lock);
    }

    /// Holds after every step.
    pub fn invariants(&self) {
        // A replica that comes back without memory locks on the highest there is, which may only be prepared.
        let lockable = [Domain::Vote, Domain::PreCommit, Domain::Prepare, Domain::Commit];
        assert!(lockable.contains(&self.lock.domain), "only a block that a quorum has seen certified can be locked");
    }
}

/// What replicas vote on when they give a view up.
pub fn timeout_subject(view: View) -> Subject {
    Subject { domain: Domain::Timeout, view, height: Height(0), digest: Digest::ZERO }
}
