//! Answers to peers' requests, within each peer's rate limit.

use super::{Protocol, Replica};
use crate::data::answers::Question;
use crate::recovery::journal::FORGOTTEN;
use crate::recovery::transfer::Part;
use crate::seam::{Action, Envelope, MAX_FETCHED_BLOCKS, To};
use crate::store::answers::bytes_of;
use bytes::Bytes;
use quorate_types::{Digest, Height, ReplicaId, Time};

impl<P: Protocol> Replica<P> {
    /// Returns whether to answer a peer's question. If not, counts the question as dropped.
    pub(super) fn admits(&mut self, now: Time, from: ReplicaId, question: Question) -> bool {
        let refused = self.parts.answers.admit(now, from, question);
        refused.map_err(|why| self.drop_message(from, why)).is_ok()
    }

    /// Sends an answer and charges its bytes to the peer, without small fixed fields.
    pub(super) fn answer(&mut self, to: ReplicaId, bytes: usize, message: Envelope<P::Message>) {
        self.parts.answers.charge(to, bytes);
        self.out.actions.push(Action::Send { to: To::One(to), message, after: None, sign: false });
    }

    pub(super) fn answer_blocks(&mut self, now: Time, from: ReplicaId, digest: Digest, above: Height, most: u16) {
        if !self.admits(now, from, Question::Blocks(digest, above)) {
            return;
        }
        if above < self.parts.store.whole_above() && self.turn(now).offer_state(from, above) {
            return self.parts.answers.charge(from, 0);
        }
        let blocks = self.parts.store.blocks(digest, above, usize::from(most).min(MAX_FETCHED_BLOCKS));
        if !blocks.is_empty() {
            let voids = self.parts.store.voids_of(&blocks);
            self.show_voids(from, voids);
            let bytes = blocks.iter().map(|block| bytes_of(block)).sum();
            self.answer(from, bytes, Envelope::Blocks(blocks));
        }
    }

    pub(super) fn answer_bundles(&mut self, now: Time, from: ReplicaId, digests: &[Digest], above: Height) {
        if !self.admits(now, from, Question::Bundles(digests.first().copied(), digests.len())) {
            return;
        }
        self.parts.alone.on_request(now, from, digests, &self.parts.store.pool);
        let voids = self.parts.store.voids_among(digests);
        self.show_voids(from, voids);
        let bundles = self.parts.store.bundles(digests);
        if !bundles.is_empty() {
            let bytes = bundles.iter().map(|bundle| bundle.body().len()).sum();
            self.answer(from, bytes, Envelope::Bundles(bundles));
        } else if above < self.parts.store.whole_above() && self.turn(now).offer_state(from, above) {
            self.parts.answers.charge(from, 0);
        }
    }

    /// Answers with this replica's standing, unless the replica has none because it lost its journal.
    pub(super) fn answer_how_far(&mut self, now: Time, from: ReplicaId, nonce: u64) {
        let knows = self.parts.safety.abstains() != FORGOTTEN && from != self.parts.me;
        if knows && self.admits(now, from, Question::Standing(nonce)) {
            let standing = self.protocol.standing(&self.parts);
            let bytes = standing.certificates.iter().map(|certificate| certificate.proof.len()).sum();
            self.answer(from, bytes, Envelope::Standing { nonce, standing });
        }
    }

    pub(super) fn read_state(&mut self, now: Time, from: ReplicaId, height: Height, part: Part) {
        if self.admits(now, from, Question::State(height, part)) {
            self.out.actions.push(Action::ReadState { to: from, height, part });
        }
    }

    /// Sends a part of a state that a peer requested, or offers a newer state if that one is gone.
    pub(super) fn state_read(&mut self, now: Time, to: ReplicaId, height: Height, part: Part, bytes: Option<Bytes>) {
        if bytes.is_none() {
            self.turn(now).offer_state(to, height);
        }
        let bytes = bytes.unwrap_or_default();
        self.answer(to, bytes.len(), Envelope::StatePart { height, part, bytes });
    }
}
