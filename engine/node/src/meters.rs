//! Latencies of a replica's work and reasons of its view timeouts, which only the status reads.
//!
//! Requests are sampled, blocks are measured one by one, and nothing is done per command.

use quorate_types::host_status::{Latencies, TimeoutReasons};
use quorate_types::{Block, Height, ReplicaId, Time, View};
use std::collections::VecDeque;
use std::time::Duration;

/// Interval between two samples of the clients' queue.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of samples that wait for execution; beyond it, none are taken.
const MAX_SAMPLES: usize = 4096;
/// Maximum number of own proposals whose execution is awaited; the oldest is forgotten first.
const MAX_PROPOSALS: usize = 1024;

/// Commands of this replica's clients, since the start.
#[derive(Clone, Copy, Default)]
pub struct ClientCommands {
    /// Received and not executed.
    pub open: u64,
    pub executed: u64,
}

/// The end of the clients' queue at a time: executed when as many commands are.
struct Sample {
    position: u64,
    at: Time,
}

/// Measures the work of one replica.
pub struct Meters {
    latencies: Latencies,
    timeouts: TimeoutReasons,
    /// Ascending by position and time.
    samples: VecDeque<Sample>,
    /// Own proposals that are not executed, ascending by time.
    proposals: VecDeque<(View, Height, Time)>,
    /// Current view's leader, if known when the view began, and the time at which it began.
    leader: Option<ReplicaId>,
    entered: Time,
    /// Time of the last proposal of each replica.
    proposed: Vec<Option<Time>>,
    /// Time for which a proposal counts in protocols where a view has many proposals; `None` if it has one.
    slot_timeout: Option<Duration>,
}

impl Meters {
    /// Creates the meters of one of `replicas` replicas. `slot_timeout` is the view timeout if a view has many
    /// proposals.
    pub fn new(replicas: usize, slot_timeout: Option<Duration>) -> Meters {
        Meters {
            latencies: Latencies::default(),
            timeouts: TimeoutReasons::default(),
            samples: VecDeque::new(),
            proposals: VecDeque::new(),
            leader: None,
            entered: Time(0),
            proposed: vec![None; replicas],
            slot_timeout,
        }
    }

    pub fn latencies(&self) -> Latencies {
        self.latencies
    }

    pub fn timeouts(&self) -> TimeoutReasons {
        self.timeouts
    }

    /// Records the clients' queue, once per event-loop iteration.
    pub fn observe_queue(&mut self, now: Time, commands: ClientCommands) {
        while let Some(sample) = self.samples.front().filter(|sample| sample.position <= commands.executed) {
            self.latencies.request.record(now.since(sample.at));
            self.samples.pop_front();
        }
        if commands.open == 0 {
            // Bundles that expired or moved to another replica are not executed here.
            return self.samples.clear();
        }
        let position = commands.executed + commands.open;
        let is_due =
            self.samples.back().is_none_or(|last| now.since(last.at) >= SAMPLE_INTERVAL && position > last.position);
        if is_due && self.samples.len() < MAX_SAMPLES {
            self.samples.push_back(Sample { position, at: now });
        }
    }

    /// Records that a view has begun.
    pub fn entered(&mut self, now: Time, leader: Option<ReplicaId>) {
        (self.entered, self.leader) = (now, leader);
    }

    /// Records a proposal of another replica.
    pub fn heard_proposal(&mut self, now: Time, from: ReplicaId) {
        self.proposed[from.index()] = Some(now);
    }

    /// Records a proposal of this replica, `me`.
    pub fn proposed(&mut self, now: Time, me: ReplicaId, view: View, height: Height) {
        self.heard_proposal(now, me);
        if self.proposals.len() == MAX_PROPOSALS {
            self.proposals.pop_front();
        }
        self.proposals.push_back((view, height, now));
    }

    /// Records that a block was executed.
    pub fn executed(&mut self, now: Time, block: &Block, took: Duration) {
        self.latencies.execution.record(took);
        while let Some((view, height, at)) = self.proposals.front().copied().filter(|own| own.1 <= block.height) {
            if (view, height) == (block.view, block.height) {
                self.latencies.commit.record(now.since(at) + took);
            }
            self.proposals.pop_front();
        }
    }

    /// Records that this replica timed out of its view, and why. `is_reachable` tells whether a replica is this one or
    /// connected to it.
    pub fn timed_out(&mut self, now: Time, is_reachable: impl Fn(ReplicaId) -> bool) {
        let is_recent = |at: Time| self.slot_timeout.is_none_or(|recent| now.since(at) <= recent);
        let has_proposed =
            |leader: ReplicaId| self.proposed[leader.index()].is_some_and(|at| at >= self.entered && is_recent(at));
        let reasons = &mut self.timeouts;
        let reason = match self.leader {
            Some(leader) if has_proposed(leader) => &mut reasons.no_quorum,
            Some(leader) if !is_reachable(leader) => &mut reasons.leader_unreachable,
            _ => &mut reasons.no_proposal,
        };
        *reason += 1;
    }
}
