//! Blocks and bundles that a replica lacks and requests: first from the peer from which it learned of them, then from
//! the others in turn.
//!
//! Each peer has at most one bundle request outstanding, and bundles closest to the committed height are requested
//! first. An answer is bounded, and as long as it contains something, the same peer is asked for the rest immediately.
//! A lagging replica thus uses the bandwidth of all its peers, but delays the work of each by at most one answer.

use crate::data::digest_map::{DigestMap, Salt};
use crate::seam::{Envelope, MAX_FETCHED_BLOCKS, MAX_FETCHED_BUNDLES};
use quorate_types::{Digest, Height, Quorum, ReplicaId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of retry periods for which a peer may take to deliver a bundle before another peer is asked, even if it is
/// delivering other bundles.
const PATIENCE: u32 = 10;

/// Missing block or bundle.
#[derive(Clone, Copy)]
struct Want {
    height: Height,
    /// Peer to ask, or the peer asked last.
    peer: ReplicaId,
    /// When to ask, or the deadline of the answer.
    due: Time,
    /// Whether a request is outstanding.
    asked: bool,
    /// When this peer was first asked.
    first_asked: Option<Time>,
}

/// All missing blocks and bundles, with the state of their requests.
pub struct Wants {
    me: ReplicaId,
    quorum: Quorum,
    retry: Duration,
    blocks: BTreeMap<Digest, Want>,
    bundles: DigestMap<Want>,
    /// Deadline of each peer's outstanding answer about bundles.
    busy: Vec<Option<Time>>,
    /// No request is due before this time.
    earliest: Option<Time>,
}

impl Wants {
    /// Creates an empty set. A request times out after `retry`.
    pub fn new(quorum: Quorum, me: ReplicaId, retry: Duration, salt: Salt) -> Wants {
        let (busy, bundles) = (vec![None; quorum.replicas()], DigestMap::with_hasher(salt));
        Wants { me, quorum, retry, blocks: BTreeMap::new(), bundles, busy, earliest: None }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.bundles.is_empty()
    }

    pub fn has_block(&self, digest: &Digest) -> bool {
        self.blocks.contains_key(digest)
    }

    pub fn has_bundle(&self, digest: &Digest) -> bool {
        self.bundles.contains_key(digest)
    }

    /// Adds a missing block, to be requested from `peer` first.
    pub fn add_block(&mut self, due: Time, digest: Digest, height: Height, peer: ReplicaId) {
        let want = self.want(due, height, peer);
        self.blocks.entry(digest).or_insert(want);
    }

    /// Adds a missing bundle of a block at `height`, to be requested from `peer` first.
    pub fn add_bundle(&mut self, due: Time, digest: Digest, height: Height, peer: ReplicaId) {
        let want = self.want(due, height, peer);
        self.bundles.entry(digest).or_insert(want);
    }

    fn want(&mut self, due: Time, height: Height, peer: ReplicaId) -> Want {
        self.earliest = Some(self.earliest.map_or(due, |earliest| earliest.min(due)));
        let peer = if peer == self.me { next(peer, self.me, self.quorum) } else { peer };
        Want { height, peer, due, asked: false, first_asked: None }
    }

    /// Removes a block that has arrived or is no longer needed.
    pub fn remove_block(&mut self, digest: &Digest) {
        self.blocks.remove(digest);
    }

    /// Removes a bundle that has arrived or is no longer needed. Returns whether it was wanted.
    pub fn remove_bundle(&mut self, digest: &Digest) -> bool {
        self.bundles.remove(digest).is_some()
    }

    pub fn clear_bundles(&mut self) {
        self.bundles.clear();
    }

    /// Retains the blocks and bundles that the predicates accept.
    pub fn retain(&mut self, block: impl Fn(Height) -> bool, bundle: impl Fn(&Digest) -> bool) {
        self.blocks.retain(|_, want| block(want.height));
        self.bundles.retain(|digest, _| bundle(digest));
    }

    /// Appends the requests that are due, each with its recipient. `above` is the committed height.
    pub fn requests<M>(&mut self, now: Time, above: Height, out: &mut Vec<(ReplicaId, Envelope<M>)>) {
        let (me, quorum, retry) = (self.me, self.quorum, self.retry);
        for (digest, want) in self.blocks.iter_mut().filter(|(_, want)| want.due <= now) {
            want.give_up_if_asked(me, quorum);
            want.ask(now, retry);
            let most = MAX_FETCHED_BLOCKS as u16;
            out.push((want.peer, Envelope::FetchBlocks { digest: *digest, above, most }));
        }
        for busy in &mut self.busy {
            busy.take_if(|until| *until <= now);
        }
        // Thousands of bundles may wait for the answer of one peer. They are not sorted again for each block that
        // arrives in the meantime.
        let busy = &self.busy;
        let may_ask = |want: &Want| want.due <= now && (want.asked || busy[want.peer.index()].is_none());
        let mut due: Vec<(Height, Digest)> = self
            .bundles
            .iter()
            .filter(|(_, want)| may_ask(want))
            .map(|(digest, want)| (want.height, *digest))
            .collect();
        due.sort_unstable();
        let mut lists: BTreeMap<ReplicaId, Vec<Digest>> = BTreeMap::new();
        for (_, digest) in due {
            let want = self.bundles.get_mut(&digest).expect("only missing bundles are requested");
            want.give_up_if_asked(me, quorum);
            let list = lists.entry(want.peer).or_default();
            if self.busy[want.peer.index()].is_none() && list.len() < MAX_FETCHED_BUNDLES {
                list.push(digest);
                want.ask(now, retry);
            }
        }
        for (peer, digests) in lists.into_iter().filter(|(_, digests)| !digests.is_empty()) {
            self.busy[peer.index()] = Some(now + retry);
            out.push((peer, Envelope::FetchBundles { digests, above }));
        }
        self.earliest = self.next_due(now);
    }

    /// Returns when the next request is due. Bundles whose peer is busy wait for the answer of that peer.
    fn next_due(&self, now: Time) -> Option<Time> {
        let bundles = self.bundles.values().map(|want| match want.due <= now {
            true => self.busy[want.peer.index()].expect("a busy peer has a deadline"),
            false => want.due,
        });
        self.blocks.values().map(|want| want.due).chain(bundles).min()
    }

    /// Returns the earliest time at which a request may be due, or `None` if nothing is wanted.
    pub fn next_request(&self) -> Option<Time> {
        self.earliest.filter(|_| !self.is_empty())
    }

    /// Records that `peer` answered with some of the bundles requested from it. Answers are bounded, so the remaining
    /// bundles are requested immediately: from the same peer, unless it has been slow to deliver them. Bundles that
    /// became due while the peer was busy are requested as well.
    pub fn on_answer(&mut self, now: Time, peer: ReplicaId) {
        self.busy[peer.index()] = None;
        if self.bundles.values().any(|want| want.peer == peer && want.due <= now) {
            self.earliest = Some(now);
        }
        for want in self.bundles.values_mut().filter(|want| want.asked && want.peer == peer) {
            let is_slow = want.first_asked.is_some_and(|first| first + self.retry * PATIENCE <= now);
            want.asked = is_slow;
            want.due = now;
            self.earliest = Some(now);
        }
    }
}

impl Want {
    /// Moves on to the next peer if a request is outstanding, because that request has timed out.
    fn give_up_if_asked(&mut self, me: ReplicaId, quorum: Quorum) {
        if std::mem::take(&mut self.asked) {
            self.peer = if bug!(FirstPeerOnly) { self.peer } else { next(self.peer, me, quorum) };
            self.first_asked = None;
        }
    }

    fn ask(&mut self, now: Time, retry: Duration) {
        self.asked = true;
        self.first_asked.get_or_insert(now);
        self.due = now + retry;
    }
}

/// Returns the replica after `peer`, skipping `me`.
fn next(peer: ReplicaId, me: ReplicaId, quorum: Quorum) -> ReplicaId {
    let n = quorum.replicas() as u16;
    let next = ReplicaId((peer.0 + 1) % n);
    if next == me { ReplicaId((next.0 + 1) % n) } else { next }
}
