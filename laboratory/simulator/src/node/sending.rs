//! Outgoing messages of a simulated replica: sent once the records they depend on are durable, signed if necessary, and
//! charged by size.

use super::{Begun, Destination, Node, Surroundings};
use crate::parcel::Parcel;
use crate::work::Work;
use quorate_consensus::seam::text;
use quorate_consensus::{Envelope, Input, Protocol, To};
use quorate_hosting::{Outgoing, Peers, split};

impl<P: Protocol> Node<P> {
    /// Sends the messages whose records have become durable, and starts the next flush.
    pub(super) fn settle_journal(&mut self, world: &mut Surroundings<'_, P::Message>) {
        while !self.struck
            && let Some(message) = self.gate.release(self.journal.durable())
        {
            self.send(message, world);
        }
        world.begun.extend(self.journal.flush().map(Begun::Flush));
    }

    pub(super) fn send(&mut self, message: Outgoing<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let place = self.ledger.enter(message.message.kind(), 1);
        self.send_one(message, world);
        self.ledger.leave(place);
    }

    fn send_one(&mut self, message: Outgoing<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let Outgoing { to, mut message, sign } = message;
        let me = self.parts.me;
        if sign {
            if !self.passes() {
                return;
            }
            self.sign(&mut message, world);
        }
        if !self.passes() {
            return;
        }
        world.oracle.says(me, &mut message);
        let line = || format!("{me:?} -> {}: {}", text::recipients(to), text::envelope(&message));
        world.transcript.add(self.now, line);
        let (destination, copies) = match split(to, me) {
            (Peers::Nobody, _) => return self.local.push_back(Input::Receive { from: me, message }),
            (Peers::One(one), _) => (Destination::One(one.index()), 1),
            (Peers::Others, comes_back) => {
                if comes_back {
                    self.local.push_back(Input::Receive { from: me, message: message.clone() });
                }
                (Destination::Others, self.parts.replicas - 1)
            }
        };
        if copies == 0 {
            return;
        }
        let answered =
            if let To::One(one) = to { Some(one).filter(|_| world.oracle.is_answer(&message)) } else { None };
        let parcel = Parcel::peer(message, world.scratch);
        if let Some(one) = answered {
            world.oracle.answers(me, one, self.now, u64::from(parcel.bytes), sign);
        }
        self.ledger.charge(Work::Sent, 1, world.charges.send);
        self.departs(destination, parcel, copies as u64, world);
        self.passes();
    }

    pub(super) fn departs(
        &mut self,
        to: Destination,
        parcel: Parcel<P::Message>,
        copies: u64,
        world: &mut Surroundings<'_, P::Message>,
    ) {
        let bytes = u64::from(parcel.bytes) * copies;
        self.charge_sending(|ledger| {
            ledger.sent(copies, bytes);
            ledger.charge(Work::SentBytes, bytes, world.charges.send_byte);
            world.charges.send_frames(ledger, copies, bytes);
        });
        self.bytes_sent += bytes;
        self.messages_sent += copies;
        match to {
            Destination::One(one) => self.writes.add(one, u64::from(parcel.bytes)),
            Destination::Others => {
                for other in (0..self.parts.replicas).filter(|other| *other != self.parts.me.index()) {
                    self.writes.add(other, u64::from(parcel.bytes));
                }
            }
        }
        world.outgoing.push((to, parcel));
    }

    fn sign(&mut self, message: &mut Envelope<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let vote = message.vote_to_sign().expect("a message that is to be signed has a vote in it");
        assert_eq!(vote.voter, self.parts.me, "a replica signs for itself");
        self.parts.device.sign(vote, &self.parts.epoch);
        world.charges.signatures(vote.subject.domain).sign(&mut self.ledger);
        world.oracle.signs(self.parts.me, &vote.subject, &vote.attachment);
    }
}
