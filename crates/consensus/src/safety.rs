//! The only place that mints votes.
//!
//! A [`Ballot`] cannot be made anywhere else, and casting one persists it before it is signed and sent. What a replica has ever
//! signed is therefore decided by this file alone: at most one statement for each kind and view (and slot, where there are slots), and no vote in a view that it
//! has given up.

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
    /// The vote without its signature.
    pub fn to_vote(&self, voter: ReplicaId) -> Vote {
        Vote { subject: self.subject, attachment: self.attachment.clone(), voter, signature: bytes::Bytes::new() }
    }
}

/// What the journal keeps of a ballot: enough for a restarted replica not to contradict itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What was voted on.
    pub subject: Subject,
    /// What was said besides.
    pub attachment: Attachment,
    /// The lock at that time.
    pub lock: Subject,
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        self.subject.encode(out);
        self.attachment.encode(out);
        self.lock.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Record {
            subject: Subject::decode(input)?,
            attachment: Attachment::decode(input)?,
            lock: Subject::decode(input)?,
        })
    }
}

/// What a replica has bound itself to.
#[derive(Clone, Debug)]
pub struct Safety {
    proposed: View,
    /// The last view voted in, for each kind of vote on blocks, as in [`BLOCK_VOTES`].
    voted: [View; BLOCK_VOTES.len()],
    timed_out: View,
    lock: Subject,
    slots: SlotBook,
}

/// What a replica has signed where agreement goes by slots.
#[derive(Clone, Default, Debug)]
struct SlotBook {
    /// The last view in which it voted on a slot, by kind.
    voted: BTreeMap<(Height, Domain), View>,
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
    pub fn new(genesis: Subject) -> Self {
        Safety {
            proposed: View(0),
            voted: [View(0); BLOCK_VOTES.len()],
            timed_out: View(0),
            lock: genesis,
            slots: SlotBook::default(),
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

    /// The last view it proposed in.
    pub fn proposed(&self) -> View {
        self.proposed
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
        if block.view <= self.proposed || block.view <= self.timed_out {
            return None;
        }
        self.proposed = block.view;
        Some(Ballot { subject: block.subject(Domain::Proposal), attachment: Attachment::None, proof: None })
    }

    /// May vote for `block`, as [`Safety::vote_in`] says, in a protocol with one kind of vote.
    pub fn vote(&mut self, block: &Block) -> Option<Ballot> {
        self.vote_in(Domain::Vote, block)
    }

    /// May vote for `block` in the phase that `domain` names: once a view, in ascending views, and not in a view given up.
    pub fn vote_in(&mut self, domain: Domain, block: &Block) -> Option<Ballot> {
        let phase = BLOCK_VOTES.iter().position(|phase| *phase == domain).expect("a kind of vote on blocks");
        if block.view <= self.voted[phase] || block.view <= self.timed_out {
            return None;
        }
        self.voted[phase] = block.view;
        Some(Ballot { subject: block.subject(domain), attachment: Attachment::None, proof: None })
    }

    /// May give `view` up: once, with the highest certificate it knows. From then on it does not vote in that view.
    pub fn give_up(&mut self, view: View, high: &Certificate, whole: bool) -> Option<Ballot> {
        if view <= self.timed_out {
            return None;
        }
        self.timed_out = view;
        let attachment = match whole {
            true => Attachment::HighCertificate(Box::new(high.clone())),
            false => Attachment::HighView(high.view()),
        };
        Some(Ballot { subject: timeout_subject(view), attachment, proof: None })
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
        if subject.view < book.view || subject.height <= book.settled {
            return None;
        }
        let last = book.voted.entry((subject.height, subject.domain)).or_default();
        if subject.view <= *last {
            return None;
        }
        *last = subject.view;
        Some(Ballot { subject, attachment: Attachment::None, proof })
    }

    /// May vouch for the state after a slot: once a slot, in ascending slots.
    pub fn checkpoint(&mut self, slot: Height, state: Digest) -> Option<Ballot> {
        if slot <= self.slots.checkpoint {
            return None;
        }
        self.slots.checkpoint = slot;
        let subject = Subject { domain: Domain::Checkpoint, view: View(0), height: slot, digest: state };
        Some(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// May ask to move to a view, in ascending views: from then on it votes on no slot in an earlier one. `digest` stands for what it
    /// shows, which begins above `stable`.
    pub fn change_view(&mut self, view: View, stable: Height, digest: Digest) -> Option<Ballot> {
        if view <= self.slots.view {
            return None;
        }
        self.slots.view = view;
        let subject = Subject { domain: Domain::ViewChange, view, height: stable, digest };
        Some(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// May open a view as its primary, once, with what `digest` stands for.
    pub fn open_view(&mut self, view: View, stable: Height, digest: Digest) -> Option<Ballot> {
        if view <= self.slots.opened || view < self.slots.view {
            return None;
        }
        self.slots.opened = view;
        let subject = Subject { domain: Domain::Proposal, view, height: stable, digest };
        Some(Ballot { subject, attachment: Attachment::None, proof: None })
    }

    /// Nothing up to `slot` will be voted on again.
    pub fn settle(&mut self, slot: Height) {
        self.slots.settled = self.slots.settled.max(slot);
        self.slots.voted = self.slots.voted.split_off(&(slot.next(), Domain::Proposal));
    }

    /// What the journal must hold before `ballot` is sent.
    pub fn record(&self, ballot: &Ballot) -> Record {
        let proof = ballot.proof.clone().map(Attachment::HighCertificate);
        Record {
            subject: ballot.subject,
            attachment: proof.unwrap_or_else(|| ballot.attachment.clone()),
            lock: self.lock,
        }
    }

    /// Holds after every step.
    pub fn invariants(&self) {
        let lockable = [Domain::Vote, Domain::PreCommit];
        assert!(lockable.contains(&self.lock.domain), "only a block that a quorum has seen certified can be locked");
    }
}

/// What replicas vote on when they give a view up.
pub fn timeout_subject(view: View) -> Subject {
    Subject { domain: Domain::Timeout, view, height: Height(0), digest: Digest::ZERO }
}
