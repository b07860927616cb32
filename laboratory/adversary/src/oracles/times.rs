//! Times of blocks: near the clocks of the honest replicas that voted for them, and the same wherever they are
//! executed.

use crate::oracles::property::{Property, Violation};
use crate::oracles::words::Words;
use quorate_consensus::Config;
use quorate_consensus::config::ViewDuration;
use quorate_consensus::recovery::journal::Record;
use quorate_types::{Block, Digest, Domain, Height, ReplicaId, Signers, Subject, View};
use std::collections::VecDeque;

/// Number of view timeouts that a block may be behind the clock of a replica that votes for it, besides the clock skew.
const MAX_AGE_VIEWS: u64 = 3;
/// Maximum number of times that timeouts double.
const MAX_DOUBLINGS: u32 = 6;
/// Maximum error of a clock as its replica knows it, in milliseconds.
const CLOCK_ERROR_MS: u64 = 6;
/// Maximum number of blocks whose commit is awaited.
const MAX_BLOCKS: usize = 1 << 14;

/// A block that an honest replica journaled.
struct Proposed {
    time_ms: u64,
    view: View,
    /// Honest replicas that voted for it before it was certified.
    voters: Signers,
}

/// Checks the times of blocks. It sees records of journals, commits and the true clocks, but none of the decisions of a
/// replica.
///
/// - An honest replica that votes for a block in the block's view, before a quorum may have voted for it, has a clock
///   that is at most `max_clock_skew_ms` behind the block, and ahead of it by at most that and three view timeouts. The
///   oracle assumes that a timeout doubles at most once for each view that the replica gave up since it executed
///   something.
/// - Of the replicas that voted for a committed block in its view, f+1 are honest; with slots at least one is, because
///   claims without proof may carry a block over. Blocks that only fill a slot have no time of their own.
/// - Each replica executes the block of a height at the same time: its own, or its predecessor's if that is later.
pub struct Times {
    max_skew_ms: u64,
    view_timeout_ms: u64,
    /// Whether timeouts double.
    grows: bool,
    quorum: usize,
    /// Number of honest voters of each committed block.
    needed: usize,
    liars: Signers,
    blocks: Words<Proposed>,
    /// Their digests, oldest first.
    order: VecDeque<u64>,
    /// First height of each committed bundle.
    bundles: Words<u64>,
    /// Views that each replica gave up since it last executed new commands.
    given_up: Vec<u32>,
    /// Time of execution by height, from genesis; `None` where nobody executed a block yet.
    executed: Vec<Option<u64>>,
}

impl Times {
    /// Creates a checker of a cluster with n `replicas`, f of them `faults`.
    pub fn new(replicas: usize, faults: usize, config: &Config) -> Times {
        let quorum = crate::oracles::quorum(replicas, faults);
        Times {
            max_skew_ms: config.max_clock_skew_ms,
            view_timeout_ms: config.view_timeout_ms,
            grows: config.view_duration != ViewDuration::Fixed,
            quorum,
            needed: if config.protocol.has_slots() { 1 } else { quorum - faults },
            liars: Signers::empty(),
            blocks: Words::default(),
            order: VecDeque::new(),
            bundles: Words::default(),
            given_up: vec![0; replicas],
            executed: vec![Some(0)],
        }
    }

    /// Forgets everything but the cluster.
    pub fn clear(&mut self) {
        self.liars = Signers::empty();
        self.blocks.clear();
        self.order.clear();
        self.bundles.clear();
        self.given_up.fill(0);
        self.executed.truncate(1);
    }

    /// Notes that a replica lies.
    pub fn distrust(&mut self, replica: ReplicaId) {
        self.liars.insert(replica);
    }

    /// Observes that a replica writes a record to its journal, while its clock shows `clock_ms`; `None` if it reads the
    /// record. Statements that follow wait for it.
    ///
    /// # Errors
    /// If an honest replica votes for a block whose time is too far from its clock.
    pub fn journals(&mut self, replica: ReplicaId, record: &Record, clock_ms: Option<u64>) -> Result<(), Violation> {
        if self.liars.contains(replica) {
            return Ok(());
        }
        match record {
            Record::Block(block) => self.note(block),
            Record::Promise(promise) => return self.votes(replica, &promise.subject, clock_ms),
            _ => {}
        }
        Ok(())
    }

    fn note(&mut self, block: &Block) {
        let digest = block.digest().prefix();
        let fills_slot = block.is_unlinked() && block.payload.is_empty() && block.time_ms == 0;
        if fills_slot || self.blocks.contains_key(&digest) {
            return;
        }
        if self.order.len() == MAX_BLOCKS
            && let Some(oldest) = self.order.pop_front()
        {
            self.blocks.remove(&oldest);
        }
        self.order.push_back(digest);
        self.blocks.insert(digest, Proposed { time_ms: block.time_ms, view: block.view, voters: Signers::empty() });
    }

    fn votes(&mut self, replica: ReplicaId, subject: &Subject, clock_ms: Option<u64>) -> Result<(), Violation> {
        if matches!(subject.domain, Domain::Timeout | Domain::ViewChange) {
            self.given_up[replica.index()] += u32::from(clock_ms.is_some());
        }
        let (max_behind_ms, honest_quorum) =
            (self.max_behind_ms(replica), self.quorum.saturating_sub(self.liars.len()));
        let is_vote = matches!(subject.domain, Domain::Vote | Domain::Prepare);
        let block = self.blocks.get_mut(&subject.digest.prefix());
        let Some(block) = block.filter(|block| is_vote && block.view == subject.view) else { return Ok(()) };
        // A replica does not judge a block that others have certified, and may still vote for it.
        if block.voters.len() >= honest_quorum {
            return Ok(());
        }
        // Summaries of a journal repeat old promises.
        let is_first = block.voters.insert(replica);
        let Some(clock_ms) = clock_ms.filter(|_| is_first) else { return Ok(()) };
        let (ahead_ms, behind_ms) = (block.time_ms.saturating_sub(clock_ms), clock_ms.saturating_sub(block.time_ms));
        if ahead_ms <= self.max_skew_ms + CLOCK_ERROR_MS && behind_ms <= max_behind_ms {
            return Ok(());
        }
        let side = if ahead_ms > 0 { format!("{ahead_ms} ms ahead of") } else { format!("{behind_ms} ms behind") };
        Err(out_of_time(format!("replica {replica} votes for a block at height {} {side} its clock", subject.height)))
    }

    fn max_behind_ms(&self, replica: ReplicaId) -> u64 {
        let doublings = if self.grows { self.given_up[replica.index()].min(MAX_DOUBLINGS) } else { 0 };
        self.max_skew_ms + MAX_AGE_VIEWS * (self.view_timeout_ms << doublings) + CLOCK_ERROR_MS
    }

    /// Observes that an honest replica commits a block.
    ///
    /// # Errors
    /// If too few honest replicas voted for it in its view.
    pub fn commits(&mut self, replica: ReplicaId, block: &Block) -> Result<(), Violation> {
        let height = block.height.0;
        let mut is_new = |bundle: &Digest| *self.bundles.entry(bundle.prefix()).or_insert(height) == height;
        // Counts all of them, because each has to be recorded.
        if block.payload.iter().filter(|bundle| is_new(bundle)).count() > 0 {
            self.given_up[replica.index()] = 0;
        }
        let Some(proposed) = self.blocks.get(&block.digest().prefix()) else { return Ok(()) };
        let (voters, height) = (proposed.voters.len(), block.height);
        // With more liars than faults, nothing is promised that they could prevent.
        let needed = self.needed.min(self.quorum.saturating_sub(self.liars.len()));
        if voters >= needed {
            return Ok(());
        }
        let what = format!("{voters} honest replicas found the block at height {height} timely, {needed} have to");
        Err(out_of_time(format!("replica {replica} commits, though only {what}")))
    }

    /// Observes that a replica executes a block at a time.
    ///
    /// # Errors
    /// If that is not the block's time or its predecessor's, or another replica executed it at another time.
    pub fn executes(&mut self, replica: ReplicaId, block: &Block, time_ms: u64) -> Result<(), Violation> {
        let at = block.height.0 as usize;
        self.executed.resize(self.executed.len().max(at + 1), None);
        let expected = self.executed[at - 1].map(|before| before.max(block.time_ms));
        let agreed = *self.executed[at].get_or_insert(time_ms);
        match agreed == time_ms && expected.is_none_or(|expected| expected == time_ms) {
            true => Ok(()),
            false => Err(self.otherwise(replica, block.height, time_ms)),
        }
    }

    /// Observes that a replica adopts the state at a height, whose last block was executed at a time.
    ///
    /// # Errors
    /// If another replica executed it at another time.
    pub fn adopts(&mut self, replica: ReplicaId, height: Height, time_ms: u64) -> Result<(), Violation> {
        match self.executed.get(height.0 as usize).copied().flatten() {
            Some(agreed) if agreed != time_ms => Err(self.otherwise(replica, height, time_ms)),
            _ => Ok(()),
        }
    }

    fn otherwise(&self, replica: ReplicaId, height: Height, time_ms: u64) -> Violation {
        let others = &self.executed[height.0 as usize - 1..=height.0 as usize];
        out_of_time(format!("replica {replica} executes height {height} at {time_ms} ms, where it is {others:?}"))
    }
}

fn out_of_time(what: String) -> Violation {
    Violation { property: Property::Time, what }
}
