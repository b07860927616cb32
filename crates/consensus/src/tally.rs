//! Counting votes: every phase of every protocol, exactly once.
//!
//! Votes are counted unverified; when a quorum agrees on one subject it is handed out to be checked in one go. If some of it is
//! not genuine, those votes are struck and counting goes on, so that nobody can spoil a certificate. A voter has one vote in each
//! round; a second, different one is kept as evidence and not counted.

use quorate_types::{Attachment, Domain, Height, Quorum, ReplicaId, Signers, Subject, View, Vote};
use std::collections::BTreeMap;

/// What became of a vote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Counted {
    /// It counts; there is no quorum yet.
    Added,
    /// It completes a quorum of votes to be checked, and those are they.
    Quorum(Subject, Vec<Vote>),
    /// It completes a quorum of votes that need no proof.
    Agreed(Subject),
    /// The same vote was counted before, or the certificate exists already.
    Repeated,
    /// The voter said something else in this round before.
    Contradiction(Box<Vote>),
}

/// How the votes of a kind are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counting {
    /// Whether a voter has one vote for each height, and not one for each view.
    pub by_height: bool,
    /// Whether a quorum is turned into a certificate, which can be shown to others. What a replica needs to know but never to show
    /// is believed as the channel delivers it.
    pub certified: bool,
}

impl Default for Counting {
    fn default() -> Self {
        Counting { by_height: false, certified: true }
    }
}

type Key = (View, Domain, Height);

#[derive(Default)]
struct Round {
    votes: Vec<Vote>,
    voters: Signers,
    checking: Option<Subject>,
    settled: bool,
}

/// Votes by kind and view, and by height where the kind asks for it.
pub struct Tally {
    quorum: Quorum,
    counting: fn(Domain) -> Counting,
    rounds: BTreeMap<Key, Round>,
    /// The round that was changed since the invariants were last looked at.
    touched: Option<Key>,
}

impl Tally {
    /// An empty tally.
    pub fn new(quorum: Quorum) -> Self {
        Tally::with(quorum, |_| Counting::default())
    }

    /// An empty tally of a protocol that counts in its own way.
    pub fn with(quorum: Quorum, counting: fn(Domain) -> Counting) -> Self {
        Tally { quorum, counting, rounds: BTreeMap::new(), touched: None }
    }

    fn key(&self, subject: &Subject) -> Key {
        let height = if (self.counting)(subject.domain).by_height { subject.height } else { Height(0) };
        (subject.view, subject.domain, height)
    }

    /// Counts a vote whose sender the channel has authenticated.
    pub fn add(&mut self, vote: Vote) -> Counted {
        assert!(vote.voter.index() < self.quorum.replicas(), "admission keeps strangers out");
        let subject = vote.subject;
        let key = self.key(&subject);
        self.touched = Some(key);
        let round = self.rounds.entry(key).or_default();
        if round.voters.contains(vote.voter) {
            let earlier = round.votes.iter().find(|earlier| earlier.voter == vote.voter);
            return match earlier {
                Some(earlier) if contradict(earlier, &vote) => Counted::Contradiction(Box::new(earlier.clone())),
                _ => Counted::Repeated,
            };
        }
        if round.settled {
            return Counted::Repeated;
        }
        round.voters.insert(vote.voter);
        round.votes.push(vote);
        self.quorum_to_check(subject)
    }

    /// Takes back what a voter said in the round of a vote, of which no quorum was handed out: nothing but the bug `VoteReplaced` does.
    pub fn withdraw(&mut self, vote: &Vote) {
        if let Some(round) = self.rounds.get_mut(&self.key(&vote.subject)).filter(|round| round.checking.is_none()) {
            round.votes.retain(|earlier| earlier.voter != vote.voter);
            round.voters = round.votes.iter().map(|earlier| earlier.voter).collect();
        }
    }

    /// Takes out exactly this vote, which is not genuine, so that its voter may vote; whether it was there. While a quorum with it is
    /// checked it stays: it is struck then.
    pub fn strike_vote(&mut self, vote: &Vote) -> bool {
        let key = self.key(&vote.subject);
        let Some(round) = self.rounds.get_mut(&key).filter(|round| round.checking.is_none()) else { return false };
        let before = round.votes.len();
        round.votes.retain(|counted| counted != vote);
        round.voters = round.votes.iter().map(|counted| counted.voter).collect();
        round.votes.len() < before
    }

    /// How many rounds there are.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The certificate for a quorum that was handed out exists.
    pub fn settled(&mut self, subject: &Subject) {
        if let Some(round) = self.rounds.get_mut(&self.key(subject)) {
            round.checking = None;
            round.settled = true;
        }
    }

    /// Some votes of a quorum that was handed out are not genuine; perhaps others make a quorum without them.
    pub fn strike(&mut self, subject: &Subject, voters: &[ReplicaId]) -> Counted {
        let key = self.key(subject);
        let Some(round) = self.rounds.get_mut(&key) else {
            return Counted::Repeated;
        };
        self.touched = Some(key);
        round.checking = None;
        round.votes.retain(|vote| !voters.contains(&vote.voter));
        round.voters = round.votes.iter().map(|vote| vote.voter).collect();
        self.quorum_to_check(*subject)
    }

    fn quorum_to_check(&mut self, subject: Subject) -> Counted {
        let certified = (self.counting)(subject.domain).certified;
        let round = self.rounds.get_mut(&self.key(&subject)).expect("the caller has just used it");
        if round.checking.is_some() || round.settled {
            return Counted::Added;
        }
        let agreeing = round.votes.iter().filter(|vote| vote.subject == subject);
        if agreeing.clone().count() < self.quorum.quorum() {
            return Counted::Added;
        }
        if !certified {
            round.settled = true;
            return Counted::Agreed(subject);
        }
        round.checking = Some(subject);
        Counted::Quorum(subject, agreeing.take(self.quorum.quorum()).cloned().collect())
    }

    /// How many have voted in a round of a kind that is not counted by height, whatever for.
    pub fn voters(&self, domain: Domain, view: View) -> usize {
        self.rounds.get(&(view, domain, Height(0))).map_or(0, |round| round.votes.len())
    }

    /// How many will have voted in a round when `voter` has.
    pub fn voters_with(&self, domain: Domain, view: View, voter: ReplicaId) -> usize {
        self.rounds
            .get(&(view, domain, Height(0)))
            .map_or(1, |round| round.votes.len() + usize::from(!round.voters.contains(voter)))
    }

    /// Forgets all rounds up to a height, of the kinds that are counted by height.
    pub fn forget_up_to(&mut self, height: Height) {
        let counting = self.counting;
        self.rounds.retain(|(_, domain, at), _| !counting(*domain).by_height || *at > height);
    }

    /// Forgets all rounds of one kind in views before `view`.
    pub fn forget_kind_before(&mut self, domain: Domain, view: View) {
        self.rounds.retain(|(at, kind, _), _| *kind != domain || *at >= view);
    }

    /// Forgets all rounds of views before `view`.
    pub fn forget_before(&mut self, view: View) {
        while let Some(entry) = self.rounds.first_entry() {
            if entry.key().0 >= view {
                return;
            }
            entry.remove();
        }
    }

    /// Holds after every step, of the round that the step may have changed: there may be thousands.
    pub fn invariants(&mut self) {
        if let Some(round) = self.touched.take().and_then(|key| self.rounds.get(&key)) {
            assert!(round.votes.len() == round.voters.len(), "a voter has one vote in a round");
            assert!(round.votes.len() <= self.quorum.replicas(), "only members vote");
        }
    }
}

/// Whether the statements that two votes sign differ. Of an attached certificate only the subject is signed; its proof may differ.
fn contradict(one: &Vote, other: &Vote) -> bool {
    let attachments_differ = match (&one.attachment, &other.attachment) {
        (Attachment::HighCertificate(one), Attachment::HighCertificate(other)) => one.subject != other.subject,
        (one, other) => one != other,
    };
    one.subject != other.subject || attachments_differ
}
