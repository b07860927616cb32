//! Locks in protocols whose leaders wait after timeouts to hear the highest lock of any honest replica
//! ([`Facts::awaited_delays`](crate::facts::Facts::awaited_delays)).
//!
//! Let an honest leader enter a view v by timeouts at time t, when no message takes longer than Δ. The f+1 honest
//! replicas among those that timed out have told everybody by t+Δ, so every honest replica is then in v, or has timed
//! out of v-1, or leaves v-1 in that step. What it is locked on when it judges the leader's block of v is on its way to
//! the leader by t+Δ, and known there by t+2Δ:
//!
//! - If it timed out of v-1, its timeout names a certificate no lower than its lock, and its lock has not risen since:
//!   certificates of a view that it timed out of, or of one before its own, are late and raise none.
//! - If it entered v by timeouts without timing out of v-1, or by the certificate of v-1, it shows the others its
//!   highest certificate ([`Views::show_lock`]) once f+1 replicas are known to have timed out of v-1, or at once if it
//!   entered by timeouts.
//! - A certificate that arrives later raises no lock in v, except as the replica votes in v.

use super::Views;
use crate::config::MAX_WAIT_DIVISOR;
use crate::protocols::parts::Parts;
use crate::protocols::turn::Turn;
use crate::protocols::views::Family;
use crate::protocols::views::message::ViewMessage;
use crate::seam::To;
use quorate_types::{Block, Certificate, Domain, ReplicaId, Signers, Subject, Time, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// State about locks in the current view.
pub(super) struct Locks {
    /// Replicas whose timeouts of the current view and of the previous one have arrived.
    timed_out: BTreeMap<View, Signers>,
    /// Last view in which this replica showed the others its highest certificate.
    shown: View,
    /// Replicas that showed this one the certificate of the previous view during the current view.
    vouchers: Signers,
}

impl Locks {
    pub fn new() -> Self {
        Locks { timed_out: BTreeMap::new(), shown: View(0), vouchers: Signers::empty() }
    }

    pub fn enter(&mut self, view: View) {
        self.timed_out = self.timed_out.split_off(&View(view.0 - 1));
        self.vouchers = Signers::empty();
    }

    /// Records that a replica timed out of a view, if that is the current one or the one before.
    pub fn note_timeout(&mut self, view: View, from: ReplicaId, current: View) {
        if view == current || view.next() == current {
            self.timed_out.entry(view).or_insert_with(Signers::empty).insert(from);
        }
    }

    fn timed_out(&self, view: View) -> usize {
        self.timed_out.get(&view).map_or(0, Signers::len)
    }
}

impl<F: Family> Views<F> {
    /// Returns whether any replica is known to have timed out of the view before the current one.
    pub(super) fn previous_view_timed_out(&self, parts: &Parts) -> bool {
        let previous = View(parts.pacemaker.view().0.saturating_sub(1));
        self.began_by_timeouts() || parts.safety.timed_out() >= previous || self.locks.timed_out(previous) > 0
    }

    /// Returns how much longer a leader waits for a higher certificate, if the protocol requires it: at most
    /// 1/[`MAX_WAIT_DIVISOR`] of its view timeout in total.
    pub(super) fn awaits_higher(&self, now: Time, parts: &Parts) -> Option<Duration> {
        let patience = parts.config.awaited().min(parts.pacemaker.duration() / MAX_WAIT_DIVISOR);
        let left = patience.saturating_sub(now.since(parts.pacemaker.entered()));
        (!left.is_zero() && F::awaits_higher(parts.pacemaker.view(), &self.high)).then_some(left)
    }

    fn began_by_timeouts(&self) -> bool {
        self.evidence.as_ref().is_some_and(|evidence| evidence.subject.domain == Domain::Timeout)
    }

    /// Shows the others this replica's highest certificate, once per view, if the leader may have entered the view by
    /// timeouts and may not have heard otherwise of what this replica is locked on.
    pub(super) fn show_lock(&mut self, turn: &mut Turn<'_, F::Message>) {
        let view = turn.view();
        if F::FACTS.awaited_delays == 0 || self.locks.shown >= view || view <= View(1) {
            return;
        }
        let previous = View(view.0 - 1);
        let untold = match self.began_by_timeouts() {
            true => turn.parts.safety.timed_out() < previous,
            // Fewer timeouts may all be of faulty replicas, which would cost n messages in each view.
            false => self.locks.timed_out(previous) >= turn.parts.quorum.weak(),
        };
        if untold {
            self.locks.shown = view;
            let (high, evidence) = (Box::new(self.high.clone()), self.evidence.clone().map(Box::new));
            turn.out.send(To::Others, ViewMessage::Advance { high, evidence }.into());
        }
    }

    /// Notes who showed the certificate of the previous view. If it is the leader, its optimistic proposal on that
    /// block may be voted for, even if the certificate came too late for a lock: the leader builds on no other.
    pub(super) fn on_shown(&mut self, high: &Certificate, from: ReplicaId, turn: &mut Turn<'_, F::Message>) {
        if F::FACTS.optimistic_proposals && high.view().next() == turn.view() && self.high.subject == high.subject {
            self.locks.vouchers.insert(from);
            self.try_vote(turn);
        }
    }

    /// Returns the lock that a vote for `block` is judged by: for an optimistic block, the certificate of its parent if
    /// the author has shown it. The lock then rises with the vote.
    pub(super) fn lock_against(&self, block: &Block, parts: &Parts) -> Subject {
        let lock = parts.safety.lock();
        let shown = block.is_optimistic()
            && self.locks.vouchers.contains(block.author)
            && self.high.subject == block.justify.subject;
        if shown { self.high.subject } else { lock }
    }
}
