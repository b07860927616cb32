//! The clients' door of a simulated replica.

use super::{Destination, Node, Surroundings};
use crate::parcel::Parcel;
use quorate_applications::Reply;
use quorate_client::ReplyMode;
use quorate_consensus::digest_map::{DigestMap, Salt};
use quorate_consensus::seam::Drop as DropReason;
use quorate_consensus::{Action, Input, Mark, Protocol};
use quorate_types::{Bundle, Digest, ReplicaId, ReplicaReply, Results};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most bundles of clients in one turn.
const FRAMES_PER_TURN: usize = 256;
/// Most bytes of clients in one turn.
const BYTES_PER_TURN: usize = 256 << 10;
/// Replies that are kept for clients that ask again.
const REPLIES_KEPT: usize = 1 << 16;

/// The latest replies; the earliest give way.
pub struct Replies {
    kept: DigestMap<Arc<ReplicaReply>>,
    order: VecDeque<Digest>,
}

impl Replies {
    /// None.
    pub fn new(salt: u64) -> Replies {
        Replies { kept: DigestMap::with_hasher(Salt(salt)), order: VecDeque::new() }
    }

    fn get(&self, bundle: &Digest) -> Option<Arc<ReplicaReply>> {
        self.kept.get(bundle).cloned()
    }

    /// Keeps the reply to a bundle, unless one is kept: that one is returned.
    fn keep(&mut self, bundle: Digest, reply: impl FnOnce() -> ReplicaReply) -> Arc<ReplicaReply> {
        if let Some(kept) = self.kept.get(&bundle) {
            return kept.clone();
        }
        let reply = Arc::new(reply());
        self.kept.insert(bundle, reply.clone());
        self.order.push_back(bundle);
        if self.order.len() > REPLIES_KEPT {
            let oldest = self.order.pop_front().expect("there is more than one");
            self.kept.remove(&oldest);
        }
        reply
    }
}

impl<P: Protocol> Node<P> {
    /// Takes in what clients sent; the bundles reach the replica as one input.
    pub(super) fn serve_clients(&mut self, world: &mut Surroundings<'_, P::Message>) {
        if self.requests.is_empty() {
            return;
        }
        self.spent += world.charges.read_call;
        let (mut bytes, mut bundles) = (0, Vec::new());
        for _ in 0..FRAMES_PER_TURN {
            let Some((bundle, size)) = self.requests.pop_front() else { break };
            bytes += size as usize;
            self.spent +=
                world.charges.receive + u64::from(size) * (world.charges.receive_byte + world.charges.hash_byte);
            match self.replies.get(&bundle.digest()) {
                Some(reply) => self.tell_clients(reply, world),
                None => match self.parts.executor.settled(&bundle) {
                    Some(reply) => self.answer_again(reply, world),
                    None => bundles.push(bundle),
                },
            }
            if bytes >= BYTES_PER_TURN {
                break;
            }
        }
        if bundles.is_empty() {
            return;
        }
        let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
        self.think(Input::Submit(bundles), world);
        self.refuse_those_not_taken(&digests, world);
        self.misbehave();
        self.perform_all(world);
        self.feed_local(world);
    }

    fn refuse_those_not_taken(&mut self, digests: &[Digest], world: &mut Surroundings<'_, P::Message>) {
        let full = |action: &Action<P::Message>| {
            matches!(action, Action::Mark(Mark::Dropped { why: DropReason::PoolFull | DropReason::Repeated, .. }))
        };
        if !self.actions.iter().any(full) {
            return;
        }
        for bundle in digests {
            let replica = &self.parts.replica;
            if !replica.is_known(bundle) || replica.is_executed(bundle) {
                let why = "too many commands wait, or the reply is no longer kept".to_owned();
                let again = !replica.is_known(bundle);
                self.tell_clients(Arc::new(ReplicaReply::Refused { bundle: *bundle, why, again }), world);
            }
        }
    }

    /// Answers a bundle that need not be ordered, as it was executed before and the reply of then is not kept.
    fn answer_again(&mut self, reply: Reply, world: &mut Surroundings<'_, P::Message>) {
        let Some(results) = self.results_told(reply.results) else { return };
        let reply = ReplicaReply::Executed { bundle: reply.bundle, height: reply.height, results };
        self.tell_clients(Arc::new(reply), world);
    }

    fn results_told(&self, results: Results) -> Option<Results> {
        match self.parts.reply {
            ReplyMode::Each => Some(results),
            ReplyMode::None if self.parts.me == ReplicaId(0) => Some(Results::bare()),
            ReplyMode::None => None,
        }
    }

    /// Answers the clients, unless what was executed was executed before a crash already.
    pub(super) fn reply(&mut self, reply: Reply, world: &mut Surroundings<'_, P::Message>) {
        let Reply { bundle, height, results, .. } = reply;
        let Some(results) = self.results_told(results) else { return };
        let reply = self.replies.keep(bundle, || ReplicaReply::Executed { bundle, height, results });
        if !self.recalls {
            self.tell_clients(reply, world);
        }
    }

    fn tell_clients(&mut self, reply: Arc<ReplicaReply>, world: &mut Surroundings<'_, P::Message>) {
        let behaviour = self.parts.behaviour.as_ref();
        if behaviour.is_some_and(|behaviour| !behaviour.answers_clients(self.own)) {
            return;
        }
        self.spent += world.charges.bundle;
        self.departs(Destination::One(self.parts.replicas), Parcel::reply(reply), 1, world);
    }
}
