//! Locks in protocols whose leaders wait after timeouts until they know the highest lock of any honest replica
//! ([`Facts::awaited_delays`](crate::facts::Facts::awaited_delays)).
//!
//! Suppose an honest leader enters a view v by timeouts at time t, and no message takes longer than Δ. At least f+1
//! honest replicas timed out, and all replicas have received their timeouts by t+Δ. Every honest replica is then in v,
//! or has timed out of v-1, or leaves v-1 in that step. The lock by which it will judge the leader's block of v has
//! been sent to the leader by t+Δ and arrives by t+2Δ:
//!
//! - If it timed out of v-1, its timeout names a certificate no lower than its lock, and its lock has not risen since:
//!   certificates of a view that it timed out of, or of a view before its current one, are late and do not raise the
//!   lock.
//! - If it entered v by timeouts without timing out of v-1, or by the certificate of v-1, it sends the others its
//!   highest certificate ([`Views::show_lock`]): at once if it entered by timeouts, otherwise when it knows that f+1
//!   replicas have timed out of v-1.
//! - A certificate that arrives later does not raise the lock in v, except when the replica votes in v.

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

/// Knowledge about locks in the current view.
pub(super) struct Locks {
    /// Replicas whose timeouts have arrived, for the current view and the previous one.
    timed_out: BTreeMap<View, Signers>,
    /// Last view in which this replica sent the others its highest certificate.
    shown: View,
    /// Replicas that sent this one the certificate of the previous view during the current view.
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

    /// Records that a replica timed out of a view, if that view is the current or the previous one.
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
    /// Returns whether any replica is known to have timed out of the previous view.
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

    /// Sends the others this replica's highest certificate, once per view, if the leader may have entered the view by
    /// timeouts and may not have learnt this replica's lock otherwise.
    pub(super) fn show_lock(&mut self, turn: &mut Turn<'_, F::Message>) {
        let view = turn.view();
        if F::FACTS.awaited_delays == 0 || self.locks.shown >= view || view <= View(1) {
            return;
        }
        let previous = View(view.0 - 1);
        let untold = match self.began_by_timeouts() {
            true => turn.parts.safety.timed_out() < previous,
            // Fewer timeouts may all come from faulty replicas, which could thus cause n messages in every view.
            false => self.locks.timed_out(previous) >= turn.parts.quorum.weak(),
        };
        if untold {
            self.locks.shown = view;
            let (high, evidence) = (Box::new(self.high.clone()), self.evidence.clone().map(Box::new));
            turn.out.send(To::Others, ViewMessage::Advance { high, evidence }.into());
        }
    }

    /// Records which replica showed the certificate of the previous view. If it is the leader, a vote for its
    /// optimistic proposal on that block is allowed even if the certificate came too late for a lock, because the
    /// leader builds on no other block.
    pub(super) fn on_shown(&mut self, high: &Certificate, from: ReplicaId, turn: &mut Turn<'_, F::Message>) {
        if F::FACTS.optimistic_proposals && high.view().next() == turn.view() && self.high.subject == high.subject {
            self.locks.vouchers.insert(from);
            self.try_vote(turn);
        }
    }

    /// Returns the lock by which a vote for `block` is judged: for an optimistic block, the certificate of its parent
    /// if the author has shown it. The vote then raises the lock.
    pub(super) fn lock_against(&self, block: &Block, parts: &Parts) -> Subject {
        let lock = parts.safety.lock();
        let shown = block.is_optimistic()
            && self.locks.vouchers.contains(block.author)
            && self.high.subject == block.justify.subject;
        if shown { self.high.subject } else { lock }
    }
}
