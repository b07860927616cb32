//! Messages of the world's replicas: signed, and carried by the network.

use super::{Happening, World};
use crate::common::network::{Flight, Letter};
use crate::common::play::Play;
use quorate_consensus::To;
use quorate_consensus::seam::RecordId;
use quorate_types::codec::{Decoder, Encoder};
use quorate_types::{ReplicaId, Vote, Wire};

impl<P: Play> World<P> {
    pub(super) fn send(
        &mut self,
        me: ReplicaId,
        to: To,
        mut letter: Letter<P::Message>,
        after: Option<RecordId>,
        sign: bool,
    ) {
        let node = &mut self.nodes[me.index()];
        node.awaited = node.awaited.max(after);
        let own = |vote: &&mut Vote| sign || vote.voter == me && vote.signature.is_empty();
        if let Some(vote) = letter.vote_to_sign().filter(own) {
            assert_eq!(vote.voter, me, "a replica signs only its own votes");
            if !self.oracle.is_byzantine(me) {
                node.waits_for_its_record(me, vote, after);
            }
            if sign {
                self.oracle.signed(me, vote.subject, &vote.attachment);
                vote.signature = self.keys.signature(me, &vote.subject, &vote.attachment);
            }
        }
        let recipients: Vec<ReplicaId> = match to {
            To::One(one) => vec![one],
            To::All => self.replicas(),
            To::Others => self.replicas().into_iter().filter(|replica| *replica != me).collect(),
        };
        if let Some(story) = &mut self.story {
            story.sent(self.now, me, &recipients, &letter);
        }
        for recipient in recipients {
            if recipient == me {
                self.push(self.now, Happening::Deliver { from: me, to: me, letter: letter.clone() });
            } else {
                self.transmit(me, recipient, letter.clone());
            }
        }
    }

    pub(super) fn transmit(&mut self, from: ReplicaId, to: ReplicaId, letter: Letter<P::Message>) {
        self.messages += 1;
        let arrivals = self.network.carry(Flight { now: self.now, from, to, letter: &letter });
        let mut out = Encoder::with_capacity(512);
        letter.encode(&mut out);
        let (messages, bytes) = self.said.entry((from.0, to.0)).or_default();
        (*messages, *bytes) = (*messages + 1, *bytes + out.len() as u64);
        if arrivals.is_empty() {
            return;
        }
        let mut input = Decoder::new(out.finish());
        let letter = Letter::decode(&mut input).expect("a message decodes");
        assert_eq!(input.left(), 0, "a message decodes completely");
        for arrival in arrivals {
            self.push(arrival, Happening::Deliver { from, to, letter: letter.clone() });
        }
    }
}
