//! Signs of standstill that a replica observes: its height, and the votes of its peers.

use quorate_types::stages::MessageKind;
use quorate_types::{Height, ReplicaId, Time};
use std::time::Duration;

/// Time without a new height, or without a peer's votes, that needs attention.
pub const STANDSTILL: Duration = Duration::from_secs(5);

/// Time for which others' votes count as evidence that there was something to vote on.
const RECENT: Duration = Duration::from_secs(60);
/// Average number of votes that each member of a quorum casts before a peer without any counts as mute.
const MISSED_VOTES: u64 = 4;

/// Votes of one peer.
#[derive(Clone, Default)]
struct Votes {
    /// Time of the last vote; `None` before the first.
    last: Option<Time>,
    /// Number of all peers' votes up to its last vote.
    all: u64,
    /// Time of its last connection.
    connected: Time,
}

/// When a replica's height last grew, and when each peer's last vote arrived.
pub struct Progress {
    height: Height,
    grown: Time,
    /// Last vote of each replica, by id.
    peers: Vec<Votes>,
    /// Number of votes of all peers.
    all: u64,
}

impl Progress {
    /// Returns the state of a replica at height 0 that has received no votes.
    pub fn new(replicas: usize) -> Progress {
        Progress { height: Height(0), grown: Time(0), peers: vec![Votes::default(); replicas], all: 0 }
    }

    /// Records the height of the last executed block.
    pub fn at_height(&mut self, now: Time, height: Height) {
        if height > self.height {
            (self.height, self.grown) = (height, now);
        }
    }

    /// Returns how long the height has not grown.
    pub fn height_age(&self, now: Time) -> Duration {
        now.since(self.grown)
    }

    /// Records that a peer has connected.
    pub fn connected(&mut self, now: Time, peer: ReplicaId) {
        self.peers[peer.index()].connected = now;
    }

    /// Records a message of a peer.
    #[inline]
    pub fn heard(&mut self, now: Time, from: ReplicaId, kind: MessageKind) {
        if matches!(kind, MessageKind::Vote | MessageKind::Prepare | MessageKind::Commit) {
            self.all += 1;
            let votes = &mut self.peers[from.index()];
            (votes.last, votes.all) = (Some(now), self.all);
        }
    }

    /// Returns the connected peers whose votes do not arrive while others' votes do. `needed` is the number of other
    /// votes that form a quorum with its own: a replica that does not collect votes receives none, and blames nobody.
    pub fn mute(&self, now: Time, needed: usize, connected: &[ReplicaId]) -> Vec<ReplicaId> {
        let within = |at: Time, time: Duration| now.since(at) < time;
        let recent = self.peers.iter().filter(|votes| votes.last.is_some_and(|at| within(at, RECENT))).count();
        if needed == 0 || recent < needed {
            return Vec::new();
        }
        let is_mute = |peer: &&ReplicaId| {
            let votes = &self.peers[peer.index()];
            let is_quiet = !votes.last.is_some_and(|at| within(at, STANDSTILL)) && !within(votes.connected, STANDSTILL);
            is_quiet && self.all - votes.all >= MISSED_VOTES * needed as u64
        };
        connected.iter().filter(is_mute).copied().collect()
    }
}
