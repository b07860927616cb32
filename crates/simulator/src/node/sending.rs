//! What leaves a simulated replica: after the journal has what it waits for, signed if it is to be, charged by its bytes.

use super::{Begun, Destination, Held, Node, Surroundings};
use crate::parcel::Parcel;
use quorate_consensus::{Envelope, Input, Protocol, To};

impl<P: Protocol> Node<P> {
    /// Sends what waited for records that are durable by now, and begins the next flush.
    pub(super) fn settle_journal(&mut self, world: &mut Surroundings<'_, P::Message>) {
        while self.held.front().is_some_and(|held| self.journal.has(held.after)) && !self.struck {
            if let Some(Held { to, message, sign, .. }) = self.held.pop_front() {
                self.send(to, message, sign, world);
            }
        }
        world.begun.extend(self.journal.flush().map(Begun::Flush));
    }

    pub(super) fn send(
        &mut self,
        to: To,
        mut message: Envelope<P::Message>,
        sign: bool,
        world: &mut Surroundings<'_, P::Message>,
    ) {
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
        if let Some(transcript) = world.transcript {
            transcript.sends(self.now, me, to, &message);
        }
        let destination = match to {
            To::One(one) if one == me => return self.local.push_back(Input::Receive { from: me, message }),
            To::One(one) => Destination::One(one.index()),
            To::All | To::Others => Destination::Others,
        };
        if to == To::All {
            self.local.push_back(Input::Receive { from: me, message: message.clone() });
        }
        let copies = if destination == Destination::Others { self.parts.replicas - 1 } else { 1 };
        if copies == 0 {
            return;
        }
        let answered =
            if let To::One(one) = to { Some(one).filter(|_| world.oracle.is_answer(&message)) } else { None };
        let parcel = Parcel::peer(message, world.scratch);
        if let Some(one) = answered {
            world.oracle.answers(me, one, self.now, u64::from(parcel.bytes), sign);
        }
        self.spent += world.charges.send;
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
        self.spent += bytes * world.charges.send_byte;
        self.bytes_sent += bytes;
        self.messages_sent += copies;
        match to {
            Destination::One(one) => self.wrote_to[one / 64] |= 1 << (one % 64),
            Destination::Others => {
                for other in (0..self.parts.replicas).filter(|other| *other != self.parts.me.index()) {
                    self.wrote_to[other / 64] |= 1 << (other % 64);
                }
            }
        }
        world.outgoing.push((to, parcel));
    }

    fn sign(&mut self, message: &mut Envelope<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let vote = message.vote_to_sign().expect("a message that is to be signed has a vote in it");
        assert_eq!(vote.voter, self.parts.me, "a replica signs for itself");
        self.parts.device.sign(vote, &self.parts.cluster);
        self.spent += world.charges.sign;
        world.oracle.signs(self.parts.me, &vote.subject, &vote.attachment);
    }
}
