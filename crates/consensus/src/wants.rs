//! What a replica lacks and asks others for: first whoever it heard of it from, then the others in turn.
//!
//! A peer is asked for bundles once at a time, and first for those next to what is committed. Its answer is bounded, and as long as it
//! brings something the same peer is asked for the rest at once: so whoever has been away takes all that the others can give, and keeps
//! none of them from its own work for longer than one answer takes.

use crate::seam::{Envelope, MAX_FETCHED_BLOCKS, MAX_FETCHED_BUNDLES};
use quorate_types::{Digest, Height, Quorum, ReplicaId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// For how many times the wait for an answer a peer is asked for the same bundle before another is, though its answers bring others.
const PATIENCE: u32 = 10;

/// Something that is lacked.
#[derive(Clone, Copy)]
struct Want {
    height: Height,
    /// Whom to ask, or who was asked.
    peer: ReplicaId,
    /// When to ask, or until when to wait for the answer.
    due: Time,
    /// Whether an answer is waited for.
    asked: bool,
    /// When that peer was asked first.
    first_asked: Option<Time>,
}

/// Everything that is lacked.
pub struct Wants {
    me: ReplicaId,
    quorum: Quorum,
    retry: Duration,
    blocks: BTreeMap<Digest, Want>,
    bundles: BTreeMap<Digest, Want>,
    /// Until when each peer's answer about bundles is waited for.
    busy: Vec<Option<Time>>,
    /// Nothing is to be asked before.
    earliest: Option<Time>,
}

impl Wants {
    /// Nothing is lacked. An answer is waited for as long as `retry`.
    pub fn new(quorum: Quorum, me: ReplicaId, retry: Duration) -> Wants {
        let busy = vec![None; quorum.replicas()];
        Wants { me, quorum, retry, blocks: BTreeMap::new(), bundles: BTreeMap::new(), busy, earliest: None }
    }

    /// Whether nothing is lacked.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.bundles.is_empty()
    }

    /// Whether a block is lacked.
    pub fn has_block(&self, digest: &Digest) -> bool {
        self.blocks.contains_key(digest)
    }

    /// Whether a bundle is lacked.
    pub fn has_bundle(&self, digest: &Digest) -> bool {
        self.bundles.contains_key(digest)
    }

    /// A block is lacked; `peer` is asked for it first.
    pub fn add_block(&mut self, due: Time, digest: Digest, height: Height, peer: ReplicaId) {
        let want = self.want(due, height, peer);
        self.blocks.entry(digest).or_insert(want);
    }

    /// A bundle of a block at a height is lacked; `peer` is asked for it first.
    pub fn add_bundle(&mut self, due: Time, digest: Digest, height: Height, peer: ReplicaId) {
        let want = self.want(due, height, peer);
        self.bundles.entry(digest).or_insert(want);
    }

    fn want(&mut self, due: Time, height: Height, peer: ReplicaId) -> Want {
        self.earliest = Some(self.earliest.map_or(due, |earliest| earliest.min(due)));
        let peer = if peer == self.me { next(peer, self.me, self.quorum) } else { peer };
        Want { height, peer, due, asked: false, first_asked: None }
    }

    /// A block is here, or of no use any more.
    pub fn remove_block(&mut self, digest: &Digest) {
        self.blocks.remove(digest);
    }

    /// A bundle is here, or of no use any more; whether it was lacked.
    pub fn remove_bundle(&mut self, digest: &Digest) -> bool {
        self.bundles.remove(digest).is_some()
    }

    /// No bundle is lacked any more.
    pub fn clear_bundles(&mut self) {
        self.bundles.clear();
    }

    /// Only these blocks and bundles are lacked still.
    pub fn retain(&mut self, block: impl Fn(Height) -> bool, bundle: impl Fn(&Digest) -> bool) {
        self.blocks.retain(|_, want| block(want.height));
        self.bundles.retain(|digest, _| bundle(digest));
    }

    /// Requests that are due, each with whom it goes to; what is committed up to `above` is known.
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
        let mut due: Vec<(Height, Digest)> = self
            .bundles
            .iter()
            .filter(|(_, want)| want.due <= now)
            .map(|(digest, want)| (want.height, *digest))
            .collect();
        due.sort_unstable();
        let mut lists: BTreeMap<ReplicaId, Vec<Digest>> = BTreeMap::new();
        for (_, digest) in due {
            let want = self.bundles.get_mut(&digest).expect("it is lacked");
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

    /// What could not be asked for because of other questions to the same peer waits for the answer to those.
    fn next_due(&self, now: Time) -> Option<Time> {
        let bundles = self.bundles.values().map(|want| match want.due <= now {
            true => self.busy[want.peer.index()].expect("only a busy peer is not asked"),
            false => want.due,
        });
        self.blocks.values().map(|want| want.due).chain(bundles).min()
    }

    /// No request is due before; none if nothing is lacked.
    pub fn next_request(&self) -> Option<Time> {
        self.earliest.filter(|_| !self.is_empty())
    }

    /// A peer's answer has brought some of the bundles that it was asked for. Answers are bounded: what is still lacked is asked for at
    /// once, of the same peer unless that has taken long.
    pub fn answered(&mut self, now: Time, peer: ReplicaId) {
        self.busy[peer.index()] = None;
        for want in self.bundles.values_mut().filter(|want| want.asked && want.peer == peer) {
            let is_slow = want.first_asked.is_some_and(|first| first + self.retry * PATIENCE <= now);
            want.asked = is_slow;
            want.due = now;
            self.earliest = Some(now);
        }
    }
}

impl Want {
    /// Asks another, if who was asked has not answered in time.
    fn give_up_if_asked(&mut self, me: ReplicaId, quorum: Quorum) {
        if std::mem::take(&mut self.asked) {
            self.peer = next(self.peer, me, quorum);
            self.first_asked = None;
        }
    }

    fn ask(&mut self, now: Time, retry: Duration) {
        self.asked = true;
        self.first_asked.get_or_insert(now);
        self.due = now + retry;
    }
}

/// The replica after a peer, never oneself.
fn next(peer: ReplicaId, me: ReplicaId, quorum: Quorum) -> ReplicaId {
    let n = quorum.replicas() as u16;
    let next = ReplicaId((peer.0 + 1) % n);
    if next == me { ReplicaId((next.0 + 1) % n) } else { next }
}
