//! Vote counting for every phase of every protocol.
//!
//! Votes are counted before verification. Once a quorum agrees on a subject, its votes are returned for verification in
//! one batch. Invalid votes are removed and counting continues, so no faulty voter can prevent a certificate. A voter
//! has one vote per round; a second, different vote is evidence and does not count.

use quorate_types::{Attachment, Domain, Height, Quorum, ReplicaId, Signers, Subject, View, Vote};
use std::collections::BTreeMap;

/// Result of counting a vote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Counted {
    /// The vote counts, but there is no quorum yet.
    Added,
    /// The vote completes a quorum; these votes need verification.
    Quorum(Subject, Vec<Vote>),
    /// The vote completes a quorum, and late votes are awaited until [`Tally::close`] or until all replicas have voted.
    Enough(Subject),
    /// The vote completes a quorum in a domain that needs no proof.
    Agreed(Subject),
    /// The same vote was counted before, or the certificate exists already.
    Repeated,
    /// The voter cast this different vote in the same round before.
    Contradiction(Box<Vote>),
}

/// Rules for counting the votes of a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counting {
    /// Whether a voter has one vote per height and view, instead of one per view.
    pub by_height: bool,
    /// Whether a quorum forms a certificate, which third parties can verify. Otherwise votes are trusted because the
    /// channel authenticates them.
    pub certified: bool,
}

impl Default for Counting {
    fn default() -> Self {
        Counting { by_height: false, certified: true }
    }
}

/// Whether late votes are awaited once a quorum has voted in this domain. They are awaited in the domains of the
/// phases, whose votes a leader collects.
fn is_awaited(domain: Domain) -> bool {
    matches!(domain, Domain::Vote | Domain::Prepare | Domain::PreCommit | Domain::Commit)
}

type Key = (View, Domain, Height);

#[derive(Default)]
struct Round {
    votes: Vec<Vote>,
    voters: Signers,
    checking: Option<Subject>,
    settled: bool,
    /// Progress of the wait for late votes.
    wait: Wait,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Wait {
    #[default]
    Ahead,
    /// A quorum has voted for the subject.
    On(Subject),
    Over,
}

/// Votes by domain and view, and by height if the domain requires it.
pub struct Tally {
    quorum: Quorum,
    counting: fn(Domain) -> Counting,
    /// Whether late votes are awaited, in the domains for which [`is_awaited`] says so.
    awaits_late: bool,
    rounds: BTreeMap<Key, Round>,
    /// Round changed since the last check of the invariants.
    touched: Option<Key>,
}

impl Tally {
    pub fn new(quorum: Quorum) -> Self {
        Tally::with(quorum, |_| Counting::default())
    }

    /// Creates an empty tally with a protocol's own counting rules.
    pub fn with(quorum: Quorum, counting: fn(Domain) -> Counting) -> Self {
        Tally { quorum, counting, awaits_late: false, rounds: BTreeMap::new(), touched: None }
    }

    /// Makes the tally await late votes: a quorum of a phase is then reported as [`Counted::Enough`].
    pub fn awaiting_late(mut self, awaits_late: bool) -> Self {
        self.awaits_late = awaits_late;
        self
    }

    fn key(&self, subject: &Subject) -> Key {
        let height = if (self.counting)(subject.domain).by_height { subject.height } else { Height(0) };
        (subject.view, subject.domain, height)
    }

    /// Counts a vote whose sender the channel has authenticated.
    pub fn add(&mut self, vote: Vote) -> Counted {
        assert!(vote.voter.index() < self.quorum.replicas(), "only members of the committee vote");
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

    /// Removes exactly this vote, which is invalid, so that its voter may vote again. Returns whether it was there.
    /// While a quorum is being verified, its votes stay, because the verification removes the invalid ones.
    pub fn strike_vote(&mut self, vote: &Vote) -> bool {
        let key = self.key(&vote.subject);
        let Some(round) = self.rounds.get_mut(&key).filter(|round| round.checking.is_none()) else { return false };
        let before = round.votes.len();
        round.votes.retain(|counted| counted != vote);
        round.voters = round.votes.iter().map(|counted| counted.voter).collect();
        round.votes.len() < before
    }

    /// Returns the number of rounds.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Closes the round of a quorum that was returned for verification, because its certificate exists.
    pub fn settle(&mut self, subject: &Subject) {
        if let Some(round) = self.rounds.get_mut(&self.key(subject)) {
            round.checking = None;
            round.settled = true;
        }
    }

    /// Removes the invalid votes of a quorum that was returned for verification. The other votes may still form a
    /// quorum.
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
        let round = self.rounds.get_mut(&self.key(&subject)).expect("the caller has just used this round");
        if round.checking.is_some() || round.settled {
            return Counted::Added;
        }
        let agreeing =
            |subject: Subject| round.votes.iter().filter(move |vote| vote.subject == subject || bug!(VotesMixed));
        // The last vote of a round may be for another subject than the awaited one.
        let awaited = if let Wait::On(awaited) = round.wait { Some(awaited) } else { None };
        let few = subject.domain == Domain::Checkpoint && bug!(CheckpointByFew)
            || subject.domain == Domain::Commit && !certified && bug!(DecidedByFew);
        let least = if few { self.quorum.weak() } else { self.quorum.quorum() };
        let enough = |subject: &Subject| agreeing(*subject).count() >= least;
        let Some(subject) = [subject].into_iter().chain(awaited).find(enough) else { return Counted::Added };
        if !certified {
            round.settled = true;
            return Counted::Agreed(subject);
        }
        let mut most = self.quorum.quorum();
        if self.awaits_late && is_awaited(subject.domain) {
            let complete = round.votes.len() == self.quorum.replicas();
            if !complete && round.wait != Wait::Over {
                round.wait = Wait::On(subject);
                return if awaited == Some(subject) { Counted::Added } else { Counted::Enough(subject) };
            }
            most = self.quorum.replicas();
        }
        let votes = agreeing(subject).take(most).cloned().collect();
        (round.checking, round.wait) = (Some(subject), Wait::Over);
        Counted::Quorum(subject, votes)
    }

    /// Ends the wait for late votes on a subject. Returns the quorum to verify, if it was not returned before.
    pub fn close(&mut self, subject: &Subject) -> Counted {
        let key = self.key(subject);
        match self.rounds.get_mut(&key).filter(|round| round.wait == Wait::On(*subject)) {
            None => Counted::Repeated,
            Some(round) => {
                round.wait = Wait::Over;
                self.touched = Some(key);
                self.quorum_to_check(*subject)
            }
        }
    }

    /// Returns how many replicas have voted, for any subject, in a round of a domain that is not counted by height.
    pub fn voters(&self, domain: Domain, view: View) -> usize {
        self.rounds.get(&(view, domain, Height(0))).map_or(0, |round| round.votes.len())
    }

    /// Returns the number of voters in a round after the vote of `voter`.
    pub fn voters_with(&self, domain: Domain, view: View, voter: ReplicaId) -> usize {
        self.rounds
            .get(&(view, domain, Height(0)))
            .map_or(1, |round| round.votes.len() + usize::from(!round.voters.contains(voter)))
    }

    /// Removes all rounds up to a height, in domains that are counted by height.
    pub fn forget_up_to(&mut self, height: Height) {
        let counting = self.counting;
        self.rounds.retain(|(_, domain, at), _| !counting(*domain).by_height || *at > height);
    }

    /// Removes all rounds of one domain in views before `view`.
    pub fn forget_kind_before(&mut self, domain: Domain, view: View) {
        self.rounds.retain(|(at, kind, _), _| *kind != domain || *at >= view);
    }

    /// Removes all rounds of views before `view`.
    pub fn forget_before(&mut self, view: View) {
        while let Some(entry) = self.rounds.first_entry() {
            if entry.key().0 >= view {
                return;
            }
            entry.remove();
        }
    }

    /// Asserts the invariants after every step, but only for the last changed round, since there may be thousands.
    pub fn invariants(&mut self) {
        if let Some(round) = self.touched.take().and_then(|key| self.rounds.get(&key)) {
            assert!(round.votes.len() == round.voters.len(), "a voter has one vote in a round");
            assert!(round.votes.len() <= self.quorum.replicas(), "a round has at most one vote per replica");
        }
    }
}

/// Returns whether two votes sign different statements. Only the subject of an attached certificate is signed; its
/// proof may differ.
fn contradict(one: &Vote, other: &Vote) -> bool {
    let attachments_differ = match (&one.attachment, &other.attachment) {
        (Attachment::HighCertificate(one), Attachment::HighCertificate(other)) => one.subject != other.subject,
        (one, other) => one != other,
    };
    one.subject != other.subject || attachments_differ
}
