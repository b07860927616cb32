//! Times of client bundles at the recorded replicas.

use quorate_consensus::{Action, Input, Mark, Message};
use quorate_types::{Bundle, Digest, Height, ReplicaId, Time, View};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Maximum number of proposals and of iterations remembered per replica. A bundle that waits longer than these is
/// counted without its proposal, or with the longest pause among the remaining iterations.
const MAX_REMEMBERED: usize = 1 << 16;

/// Times of a bundle at one replica, from its arrival to its commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub replica: ReplicaId,
    pub bundle: Digest,
    pub commands: usize,
    /// View and height of the block that committed it.
    pub block: (View, Height),
    /// Start of the iteration in which the bundle arrived, from a client or a peer.
    pub received: Time,
    /// Start of the iteration in which this replica proposed the block; `None` if another replica did.
    pub proposed: Option<Time>,
    /// Start of the iteration in which this replica committed the block.
    pub committed: Time,
    /// Longest time between the starts of two consecutive iterations, between arrival and commit. In that time the
    /// replica worked, flushed its journal, waited for a processor, or had no input.
    pub longest_pause: Duration,
}

impl Request {
    /// Returns the time from arrival to commit.
    pub fn latency(&self) -> Duration {
        self.committed.since(self.received)
    }
}

/// Collects the requests of a replay; see [`replay`](crate::recording::replay).
#[derive(Default, Debug)]
pub struct Requests {
    replicas: BTreeMap<ReplicaId, Observed>,
    /// Requests in order of commit.
    committed: Vec<Request>,
}

#[derive(Default, Debug)]
struct Observed {
    /// Bundles that are not committed yet, with their arrival times.
    arrived: HashMap<Digest, Time>,
    proposed: BTreeMap<(View, Height), Time>,
    /// Starts of the latest iterations.
    turns: VecDeque<Time>,
}

impl Requests {
    /// Returns the committed bundles that arrived while the replica was recorded, in order of commit.
    pub fn committed(&self) -> &[Request] {
        &self.committed
    }

    /// Returns the number of bundles that were not committed before the end, over all recorded replicas.
    pub fn open(&self) -> usize {
        self.replicas.values().map(|observed| observed.arrived.len()).sum()
    }

    /// Forgets a replica's pending bundles before its restart.
    pub(crate) fn on_begin(&mut self, replica: ReplicaId) {
        self.replicas.insert(replica, Observed::default());
    }

    pub(crate) fn on_input<M: Message>(&mut self, replica: ReplicaId, now: Time, input: &Input<M>) {
        let observed = self.replicas.entry(replica).or_default();
        observed.turn(now);
        let bundles: &[Bundle] = match input {
            Input::Submit { bundles, .. } => bundles,
            Input::Receive { message, .. } => message.bundles(),
            _ => &[],
        };
        for bundle in bundles {
            observed.arrived.entry(bundle.digest()).or_insert(now);
        }
    }

    pub(crate) fn on_action<M>(&mut self, replica: ReplicaId, now: Time, action: &Action<M>) {
        let observed = self.replicas.entry(replica).or_default();
        match action {
            Action::Mark(Mark::Proposed { view, height, .. }) => {
                observed.proposed.insert((*view, *height), now);
                if observed.proposed.len() > MAX_REMEMBERED {
                    observed.proposed.pop_first();
                }
            }
            Action::Commit { block, bundles } => {
                let block = (block.view, block.height);
                let proposed = observed.proposed.get(&block).copied();
                for bundle in bundles {
                    let Some(received) = observed.arrived.remove(&bundle.digest()) else { continue };
                    self.committed.push(Request {
                        replica,
                        bundle: bundle.digest(),
                        commands: bundle.len(),
                        block,
                        received,
                        proposed: proposed.filter(|proposed| *proposed >= received),
                        committed: now,
                        longest_pause: observed.longest_pause(received),
                    });
                }
            }
            _ => {}
        }
    }
}

impl Observed {
    fn turn(&mut self, now: Time) {
        if self.turns.back() == Some(&now) {
            return;
        }
        self.turns.push_back(now);
        if self.turns.len() > MAX_REMEMBERED {
            self.turns.pop_front();
        }
    }

    /// Returns the longest time between the starts of two consecutive iterations since a time.
    fn longest_pause(&self, since: Time) -> Duration {
        let first = self.turns.partition_point(|turn| *turn < since);
        let turns = self.turns.range(first..);
        turns.clone().zip(turns.skip(1)).map(|(from, to)| to.since(*from)).max().unwrap_or_default()
    }
}
