//! Refused bundles: because of load, temporarily, or permanently.

use super::{Session, TurnedAway};
use crate::retry::{Attempt, Ticket};
use quorate_types::text::escaped;
use quorate_types::{Digest, ReplicaId, Time};
use std::time::Duration;

/// Shortest wait for an overloaded replica.
const MIN_BUSY_WAIT: Duration = Duration::from_millis(1);
/// Maximum number of doublings of a bundle's wait after repeated refusals.
const MAX_BUSY_DOUBLINGS: u32 = 3;

impl<T> Session<T> {
    /// Counts a refusal. After f+1 refusals, at least one from an honest replica, the retry comes sooner than after
    /// silence.
    pub(super) fn on_refused(&mut self, now: Time, from: ReplicaId, bundle: Digest, why: String, again: bool) {
        let Some(at) = self.refused_slot(from, &bundle) else { return };
        self.counters.refusals += 1;
        self.last_refusal = Some((from, escaped(&why).into_owned()));
        let slot = &mut self.slots[at as usize];
        let waiting = slot.waiting.as_mut().expect("a named slot is in use");
        if !again && waiting.rejected.insert(from) && waiting.rejected.len() == self.options.quorum.weak() {
            self.rejection = self.last_refusal.as_ref().map(|(_, why)| why.clone());
        }
        let enough = if waiting.sent_to == Some(from) { 1 } else { self.options.quorum.weak() };
        let before = waiting.refused.len();
        let fresh = waiting.refused.insert(from);
        if fresh && before < enough && waiting.refused.len() >= enough {
            self.timers.arm_refused(now, Ticket { slot: at, generation: slot.generation, attempt: waiting.attempt });
        }
    }

    /// Treats the end of a link because of a frame over the limit as a permanent refusal of all bundles of that length.
    pub(super) fn on_frame_too_long(&mut self, now: Time, from: ReplicaId, bytes: u32, max_bytes: u32) {
        let is_too_long = |at: &u32| {
            let waiting = self.slots[*at as usize].waiting.as_ref();
            waiting.is_some_and(|waiting| waiting.frame.len() > max_bytes as usize)
        };
        let too_long: Vec<Digest> =
            self.names.iter().filter(|(_, at)| is_too_long(at)).map(|(bundle, _)| *bundle).collect();
        for bundle in too_long {
            self.on_refused(now, from, bundle, frame_too_long(bytes as usize, max_bytes as usize), false);
        }
    }

    /// Returns the slot of a bundle refused by a replica, if the refusal is plausible.
    fn refused_slot(&mut self, from: ReplicaId, bundle: &Digest) -> Option<u32> {
        let at = self.names.get(bundle).copied();
        let is_member = from.index() < self.options.quorum.replicas();
        self.counters.late += u64::from(at.is_none());
        self.counters.invalid += u64::from(at.is_some() && !is_member);
        at.filter(|_| is_member)
    }

    /// Counts that a replica is too busy for a bundle. If the only recipient or f+1 replicas are too busy, the bundle
    /// waits for the requested time, at most half the first timeout.
    pub(super) fn on_busy(&mut self, now: Time, from: ReplicaId, bundle: Digest, wait: Duration) {
        let Some(at) = self.refused_slot(from, &bundle) else { return };
        let wait = wait.clamp(MIN_BUSY_WAIT, (self.options.retry / 2).max(MIN_BUSY_WAIT));
        let slot = &mut self.slots[at as usize];
        let waiting = slot.waiting.as_mut().expect("a named slot is in use");
        let enough = if waiting.sent_to == Some(from) { 1 } else { self.options.quorum.weak() };
        let before = waiting.refused.len();
        let fresh = waiting.refused.insert(from);
        // A liar among f+1 can shorten the wait, but can lengthen it only up to the time requested by an honest one.
        let shortest = waiting.wait.map_or(wait, |other| other.min(wait));
        waiting.wait = Some(shortest);
        if waiting.sent_to == Some(from) {
            self.homes.on_busy(now, from, wait);
        }
        if !fresh || before >= enough || waiting.refused.len() < enough {
            return;
        }
        let wait = backed_off(shortest, waiting.attempt, &bundle);
        self.counters.busy += 1;
        self.last_refusal = Some((from, format!("busy, and asks to return after {} ms", shortest.as_millis())));
        self.timers.arm_busy(now, wait, Ticket { slot: at, generation: slot.generation, attempt: waiting.attempt });
        self.turned_away.push(TurnedAway { bundle, wait });
    }

    /// Returns the bundles refused because of load since the last call.
    pub fn take_turned_away(&mut self) -> Vec<TurnedAway> {
        std::mem::take(&mut self.turned_away)
    }

    /// Returns whether a bundle waits because replicas were too busy for it.
    pub fn is_turned_away(&self, bundle: Digest) -> bool {
        let slot = self.names.get(&bundle).map(|at| &self.slots[*at as usize]);
        slot.and_then(|slot| slot.waiting.as_ref()).is_some_and(|waiting| waiting.wait.is_some())
    }

    /// Returns the reason of the last permanent refusal by f+1 replicas.
    pub fn rejection(&self) -> Option<&str> {
        self.rejection.as_deref()
    }

    /// Returns the last refusal and its sender.
    pub fn last_refusal(&self) -> Option<(ReplicaId, &str)> {
        self.last_refusal.as_ref().map(|(from, why)| (*from, why.as_str()))
    }

    /// Returns whether f+1 replicas refused a bundle permanently. Since one of them is honest, a retry is useless.
    pub fn is_rejected(&self, bundle: Digest) -> bool {
        let slot = self.names.get(&bundle).map(|at| &self.slots[*at as usize]);
        let waiting = slot.and_then(|slot| slot.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.rejected.len() >= self.options.quorum.weak())
    }
}

/// Formats that a frame exceeds the replicas' limit, both in bytes.
pub(crate) fn frame_too_long(bytes: usize, max_bytes: usize) -> String {
    format!(
        "a frame of {bytes} bytes is over the limit of {max_bytes}, `client_frame_bytes` in [links] of the replicas; \
         help: send less at once, or raise it on all replicas"
    )
}

/// Returns a wait that doubles with each retry up to [`MAX_BUSY_DOUBLINGS`], plus up to half of it: bundles that were
/// refused together must not be resent together.
fn backed_off(wait: Duration, attempt: Attempt, bundle: &Digest) -> Duration {
    let doubled = wait.saturating_mul(1 << attempt.retries().min(MAX_BUSY_DOUBLINGS));
    doubled + doubled.mul_f64(f64::from(bundle.0[8]) / 512.0)
}
