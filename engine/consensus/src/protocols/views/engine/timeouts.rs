//! Timeouts: when a replica times out of its view, reminds the leader, or learns that a peer timed out.

use super::Views;
use crate::data::pool::MAX_RELAYED_BUNDLES;
use crate::protocols::parts::Parts;
use crate::protocols::turn::Turn;
use crate::protocols::views::Family;
use crate::protocols::views::message::{Timeout, ViewMessage};
use crate::seam::{Mark, Timer, To};
use crate::voting::pacemaker::Alarm;
use quorate_types::{ReplicaId, Time};
use std::sync::Arc;

impl<F: Family> Views<F> {
    /// Records that a peer timed out of the current view. Each peer counts at most once per minimum view timeout;
    /// otherwise one faulty peer could make an idle cluster order empty blocks forever.
    pub(super) fn urge(&mut self, now: Time, by: ReplicaId, parts: &Parts) {
        let last = self.urged_by.get(&by);
        if last.is_none_or(|last| now.since(*last) >= parts.pacemaker.shortest()) {
            self.urged_by.insert(by, now);
            self.urged = true;
        }
    }

    pub(super) fn give_up(&mut self, turn: &mut Turn<'_, F::Message>) {
        let view = turn.parts.pacemaker.view();
        match &self.given_up {
            Some(timeout) => turn.out.recast(To::All, ViewMessage::Timeout(timeout.clone()).into()),
            None => {
                let high = if bug!(GenesisReported) { turn.parts.genesis.clone() } else { self.high.clone() };
                let Some(ballot) = turn.parts.safety.give_up(view, &high, F::FACTS.timeouts_carry_certificates) else {
                    return;
                };
                turn.parts.pacemaker.on_timeout();
                turn.out.mark(Mark::TimedOut(view));
                let evidence = self.evidence.clone().or_else(|| bug!(GenesisReported).then(|| self.high.clone()));
                let timeout = Arc::new(Timeout { vote: ballot.to_vote(turn.parts.me), high, evidence });
                self.given_up = Some(timeout.clone());
                self.keep(None, turn);
                turn.out.keep_message(&ViewMessage::Timeout(timeout.clone()).into());
                // The timeout message already contains the vote.
                turn.cast(&ballot, To::All, |_| ViewMessage::Timeout(timeout).into());
            }
        }
        turn.out.arm(Timer::View, turn.parts.pacemaker.retransmission());
    }

    pub(super) fn on_view_alarm(&mut self, turn: &mut Turn<'_, F::Message>) {
        self.watch(turn);
        if self.given_up.is_some() {
            return self.give_up(turn);
        }
        match turn.parts.pacemaker.ring(turn.now) {
            Alarm::Idle => {}
            Alarm::Later(time) => turn.out.arm(Timer::View, time),
            Alarm::GiveUp => self.give_up(turn),
            Alarm::Remind(time) => {
                turn.out.arm(Timer::View, time);
                self.show_to_others(turn);
                if let Some(leader) = self.leader(turn.parts).filter(|leader| *leader != turn.parts.me) {
                    turn.relay(To::One(leader), turn.parts.store.pool.oldest_pending(MAX_RELAYED_BUNDLES));
                }
            }
        }
    }
}
