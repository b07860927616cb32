//! Timeouts: when a replica gives its view up, reminds the leader, or hears that a peer gave up.

use super::Views;
use crate::data::pool::MAX_RELAYED_BUNDLES;
use crate::protocols::outbox::Outbox;
use crate::protocols::parts::Parts;
use crate::protocols::views::Family;
use crate::protocols::views::message::{Timeout, ViewMessage};
use crate::seam::{Mark, Timer, To};
use crate::voting::pacemaker::Alarm;
use quorate_types::{ReplicaId, Time};
use std::sync::Arc;

impl<F: Family> Views<F> {
    /// Notes that a peer timed out of the current view. Each peer counts at most once per minimum view timeout;
    /// otherwise a faulty one could make an idle cluster order empty blocks forever.
    pub(super) fn urge(&mut self, now: Time, by: ReplicaId, parts: &Parts) {
        let last = self.urged_by.get(&by);
        if last.is_none_or(|last| now.since(*last) >= parts.pacemaker.shortest()) {
            self.urged_by.insert(by, now);
            self.urged = true;
        }
    }

    pub(super) fn give_up(&mut self, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        let view = parts.pacemaker.view();
        match &self.given_up {
            Some(timeout) => out.recast(To::All, ViewMessage::Timeout(timeout.clone()).into()),
            None => {
                let Some(ballot) = parts.safety.give_up(view, &self.high, F::FACTS.timeouts_carry_certificates) else {
                    return;
                };
                parts.pacemaker.gave_up();
                out.mark(Mark::TimedOut(view));
                let (high, evidence) = (self.high.clone(), self.evidence.clone());
                let timeout = Arc::new(Timeout { vote: ballot.to_vote(parts.me), high, evidence });
                self.given_up = Some(timeout.clone());
                self.keep(None, parts, out);
                out.keep_message(&ViewMessage::Timeout(timeout.clone()).into());
                // The timeout message already contains the vote that is cast.
                out.cast(parts, &ballot, To::All, |_| ViewMessage::Timeout(timeout).into());
            }
        }
        out.arm(Timer::View, parts.pacemaker.retransmission());
    }

    pub(super) fn on_view_alarm(&mut self, now: Time, parts: &mut Parts, out: &mut Outbox<F::Message>) {
        self.watch(now, parts, out);
        if self.given_up.is_some() {
            return self.give_up(parts, out);
        }
        match parts.pacemaker.ring(now) {
            Alarm::Idle => {}
            Alarm::Later(time) => out.arm(Timer::View, time),
            Alarm::GiveUp => self.give_up(parts, out),
            Alarm::Remind(time) => {
                out.arm(Timer::View, time);
                if let Some(leader) = self.leader(parts).filter(|leader| *leader != parts.me) {
                    out.relay(leader, parts.store.pool.oldest_pending(MAX_RELAYED_BUNDLES));
                }
            }
        }
    }
}
