//! Estimates the loss rate of links from the received messages, and chooses the number of copies that makes up for it
//! ([ADR 076](../../../../docs/adr/076-a-remedy-that-follows-the-loss.md)).
//!
//! A replica that sends COMMIT for a slot has sent PREPARE for it. So among the slots with a received COMMIT of a peer,
//! the fraction with a received PREPARE is an unbiased estimate of the probability that this peer's messages arrive:
//! both took the same link, and nothing else decides which slots are counted. With copies, the fraction is received
//! copies of PREPARE over sent ones. The largest number of copies received of one message is assumed to be the number
//! sent.

use quorate_types::{Domain, Height, Quorum, ReplicaId, Subject, View};
use std::collections::VecDeque;

/// Number of copies of each message, besides the first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Copies {
    /// Of PBFT's PRE-PREPARE; `all` if that is more.
    pub pre_prepare: usize,
    /// Of each message of the protocol.
    pub all: usize,
    /// Of each reply to a client.
    pub replies: usize,
}

impl Copies {
    /// Returns whether messages of the protocol are copied at all.
    pub fn any(self) -> bool {
        self.pre_prepare > 0 || self.all > 0
    }
}

/// Slots whose messages are judged together.
const BLOCK_SLOTS: u64 = 16;
/// Number of blocks of each peer on which the estimate is based.
const MAX_BLOCKS: usize = 4;
/// Fraction of slots that should be decided by f+1 replicas whose replies arrive, without any repair.
pub const MIN_SUCCESS: f64 = 0.99;
/// Maximum number of copies that are chosen, of all messages of the protocol and of replies.
const MAX_COPIES: usize = 2;
/// Maximum number of copies of PRE-PREPARE.
const MAX_PRE_PREPARE_COPIES: usize = 4;
/// Fewer copies are tried only if they would suffice even at the estimated loss times this factor plus this much.
const MARGIN_FACTOR: f64 = 2.0;
const MARGIN: f64 = 0.01;
/// Number of consecutive blocks after which fewer copies must have sufficed with that margin.
const CALM_BLOCKS: u32 = 4;

/// Copies of PREPARE and COMMIT that a peer's slots showed.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    prepares: u8,
    commits: u8,
}

/// PREPAREs of a block that arrived, and that were sent.
#[derive(Clone, Copy, Debug)]
struct Sample {
    arrived: u64,
    sent: u64,
}

#[derive(Clone, Debug, Default)]
struct Peer {
    /// Number of the block in progress.
    block: u64,
    seen: [Seen; BLOCK_SLOTS as usize],
    samples: VecDeque<Sample>,
}

impl Peer {
    /// Ends the block in progress. Returns whether it gave a sample.
    fn close(&mut self, next: u64) -> bool {
        let seen = std::mem::take(&mut self.seen);
        self.block = next;
        let most = |slots: &[Seen]| slots.iter().map(|seen| seen.prepares.max(seen.commits)).max().unwrap_or(0);
        let (early, late) = seen.split_at(seen.len() / 2);
        // A peer that changed its number of copies meanwhile would appear to lose many.
        if most(early) > 0 && most(late) > 0 && most(early) != most(late) {
            return false;
        }
        let counted = seen.iter().filter(|seen| seen.commits > 0);
        let (arrived, slots) = counted.fold((0, 0), |(sum, slots), seen| (sum + u64::from(seen.prepares), slots + 1));
        if slots == 0 {
            return false;
        }
        if self.samples.len() == MAX_BLOCKS {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { arrived, sent: slots * u64::from(most(&seen)) });
        true
    }

    fn loss(&self) -> Option<f64> {
        let (arrived, sent) =
            self.samples.iter().fold((0, 0), |(arrived, sent), next| (arrived + next.arrived, sent + next.sent));
        (sent > 0).then(|| 1.0 - arrived as f64 / sent as f64)
    }
}

/// Estimate of loss, and the copies in force.
#[derive(Debug)]
pub struct AdaptiveCopies {
    quorum: Quorum,
    view: View,
    peers: Vec<Peer>,
    /// Minimum number of copies.
    least: Copies,
    chosen: Copies,
    /// Last block for which copies were chosen.
    judged: u64,
    /// Consecutive blocks for which fewer copies would have sufficed.
    calm: u32,
}

impl AdaptiveCopies {
    /// Creates an estimate without samples, which never chooses fewer copies than `least`.
    pub fn new(quorum: Quorum, least: Copies) -> AdaptiveCopies {
        AdaptiveCopies {
            quorum,
            view: View(0),
            peers: vec![Peer::default(); quorum.replicas()],
            least,
            chosen: Copies::default(),
            judged: 0,
            calm: 0,
        }
    }

    /// Notes a peer's PREPARE or COMMIT. A primary's PRE-PREPARE, which may have more copies, does not count.
    pub fn on_vote(&mut self, from: ReplicaId, subject: &Subject) {
        if subject.view < self.view {
            return;
        }
        if subject.view > self.view {
            self.view = subject.view;
            // The blocks in progress belong to an earlier view.
            self.peers.iter_mut().for_each(|peer| peer.seen = Default::default());
        }
        let Height(slot) = subject.height;
        let peer = &mut self.peers[from.index()];
        let block = slot / BLOCK_SLOTS;
        if block < peer.block {
            return;
        }
        let is_new = block > peer.block && peer.close(block);
        let seen = &mut peer.seen[(slot % BLOCK_SLOTS) as usize];
        match subject.domain {
            Domain::Prepare => seen.prepares = seen.prepares.saturating_add(1),
            Domain::Commit => seen.commits = seen.commits.saturating_add(1),
            _ => {}
        }
        if is_new && self.reached() > self.judged {
            self.judged = self.reached();
            self.choose();
        }
    }

    /// Returns the last block that f+1 peers have reached: one of them is honest.
    fn reached(&self) -> u64 {
        let mut blocks: Vec<u64> = self.peers.iter().map(|peer| peer.block).collect();
        blocks.sort_unstable_by(|one, other| other.cmp(one));
        blocks[self.quorum.faults()]
    }

    /// Returns the copies to send.
    pub fn copies(&self) -> Copies {
        Copies {
            pre_prepare: self.least.pre_prepare.max(self.chosen.pre_prepare),
            all: self.least.all.max(self.chosen.all),
            replies: self.least.replies.max(self.chosen.replies),
        }
    }

    /// Returns the estimated loss of one message; `None` without any sample. The f highest and the f lowest peers do
    /// not count if there are others, because faulty peers may send anything.
    pub fn loss(&self) -> Option<f64> {
        let mut losses: Vec<f64> = self.peers.iter().filter_map(Peer::loss).collect();
        losses.sort_by(f64::total_cmp);
        let out = self.quorum.faults().min(losses.len().saturating_sub(1) / 2);
        let kept = &losses[out..losses.len() - out];
        (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
    }

    /// Chooses more copies as soon as the present number is too small, and fewer only with a margin.
    fn choose(&mut self) {
        let Some(loss) = self.loss() else { return };
        let needed = enough(self.quorum, loss);
        if cost(needed) > cost(self.chosen) {
            (self.chosen, self.calm) = (needed, 0);
            return;
        }
        let with_margin = enough(self.quorum, (loss * MARGIN_FACTOR + MARGIN).min(1.0));
        self.calm = if cost(with_margin) < cost(self.chosen) { self.calm + 1 } else { 0 };
        if self.calm == CALM_BLOCKS {
            (self.chosen, self.calm) = (with_margin, 0);
        }
    }
}

/// Orders numbers of copies by the messages that they cost: a copy of PRE-PREPARE and one of the replies about n each,
/// a copy of all messages more than any of these.
fn cost(copies: Copies) -> (usize, usize, usize) {
    (copies.all, copies.pre_prepare + copies.replies, copies.pre_prepare)
}

/// Returns the fewest copies with which a slot succeeds often enough, or else the maximum.
pub fn enough(quorum: Quorum, loss: f64) -> Copies {
    let most = Copies { pre_prepare: MAX_PRE_PREPARE_COPIES, all: MAX_COPIES, replies: MAX_COPIES };
    let mut choices = Vec::new();
    for all in 0..=MAX_COPIES {
        for pre_prepare in all..=MAX_PRE_PREPARE_COPIES {
            choices.extend((0..=MAX_COPIES).map(|replies| Copies { pre_prepare, all, replies }));
        }
    }
    choices.sort_by_key(|copies| cost(*copies));
    choices.into_iter().find(|copies| success(quorum, loss, *copies) >= MIN_SUCCESS).unwrap_or(most)
}

/// Returns the chance that at least f+1 replicas decide a slot in PBFT's three phases and that their replies arrive, if
/// each copy of a message is lost with this probability, independently: equation 1 of the loss model, with the
/// primary's PRE-PREPARE as its PREPARE (ADR 073). Takes O(n^3) operations, only multiplications and additions, so that
/// all machines agree.
pub fn success(quorum: Quorum, loss: f64, copies: Copies) -> f64 {
    let arrives = |copies: usize| 1.0 - (0..=copies).map(|_| loss).product::<f64>();
    let (vote, pre_prepare) = (arrives(copies.all), arrives(copies.all.max(copies.pre_prepare)));
    let replied = arrives(copies.replies);
    let (n, enough, weak) = (quorum.replicas(), quorum.quorum(), quorum.weak());
    let votes: Vec<Vec<f64>> = (0..=n).map(|trials| binomial(trials, vote)).collect();
    let at_least = |trials: usize, least: usize| votes[trials].iter().skip(least).sum::<f64>().min(1.0);
    // The chance that f+1 of k replicas that have sent COMMIT decide, and that their replies arrive.
    let decided: Vec<f64> = (0..=n)
        .map(|sent| {
            let each = sent.checked_sub(1).map_or(0.0, |others| at_least(others, enough - 1));
            binomial(sent, each * replied).iter().skip(weak).sum()
        })
        .collect();
    let informed = binomial(n - 1, pre_prepare);
    let given = |backups: usize| {
        let primary = at_least(backups, enough - 1);
        let each = at_least(backups.saturating_sub(1), enough.saturating_sub(2));
        let prepared = binomial(backups, each);
        let chance = |(others, chance): (usize, &f64)| {
            chance * (primary * decided[others + 1] + (1.0 - primary) * decided[others])
        };
        prepared.iter().enumerate().map(chance).sum::<f64>()
    };
    informed.iter().enumerate().map(|(backups, chance)| chance * given(backups)).sum()
}

/// Returns the probability of each number of hits of independent trials, from 0 to all.
fn binomial(trials: usize, chance: f64) -> Vec<f64> {
    let mut hits = vec![0.0; trials + 1];
    hits[0] = 1.0;
    for trial in 1..=trials {
        for at in (0..=trial).rev() {
            let hit = if at > 0 { hits[at - 1] * chance } else { 0.0 };
            hits[at] = hits[at] * (1.0 - chance) + hit;
        }
    }
    hits
}
