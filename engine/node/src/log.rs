//! Logging of a replica's events with level, target and fields; repeated messages are rate-limited.

use crate::observer::{NodeEvent, Observer};
use crate::vocabulary::{Fields, Named, fields, named};
use quorate_network::transports::Remote;
use quorate_types::ReplicaId;
use quorate_types::text::escaped;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tracing::Level;

/// Time for which further messages of the same kind about the same peer are suppressed.
pub const FIRST_SILENCE: Duration = Duration::from_secs(10);
/// Upper bound on the silence, which doubles with each message that ends one.
pub const MAX_SILENCE: Duration = Duration::from_secs(600);

struct Silence {
    since: Instant,
    length: Duration,
    left_out: u64,
}

/// Rate limiter of log messages: passes one per kind and peer in each silence, with the number of suppressed ones.
#[derive(Default)]
pub struct Limiter(BTreeMap<(&'static str, Option<ReplicaId>), Silence>);

impl Limiter {
    /// Returns the number of messages suppressed before this one if it may be logged; `None` if it is suppressed.
    pub fn tell(&mut self, now: Instant, kind: &'static str, peer: Option<ReplicaId>) -> Option<u64> {
        let fresh = |length| Silence { since: now, length, left_out: 0 };
        let Some(silence) = self.0.get_mut(&(kind, peer)) else {
            self.0.insert((kind, peer), fresh(FIRST_SILENCE));
            return Some(0);
        };
        let passed = now.saturating_duration_since(silence.since);
        if passed < silence.length {
            silence.left_out += 1;
            return None;
        }
        let left_out = silence.left_out;
        // Quiet for twice the required silence: a new incident.
        let is_new = left_out == 0 && passed >= silence.length * 2;
        let length = if is_new { FIRST_SILENCE } else { (silence.length * 2).min(MAX_SILENCE) };
        *silence = fresh(length);
        Some(left_out)
    }

    /// Forgets a peer, so that the next message about it is logged. Returns the number of suppressed messages.
    pub fn forget(&mut self, peer: ReplicaId) -> u64 {
        let mut left_out = 0;
        self.0.retain(|(_, about), silence| {
            let is_other = *about != Some(peer);
            left_out += if is_other { 0 } else { silence.left_out };
            is_other
        });
        left_out
    }
}

/// Observer that forwards events to `tracing`, with the level, target, name and fields of the
/// [vocabulary](crate::vocabulary), and after suppressed messages `left_out`. Repeated failures are [limited](Limiter).
#[derive(Default)]
pub struct LogObserver(Limiter);

impl Observer for LogObserver {
    fn observe(&mut self, replica: ReplicaId, event: NodeEvent) {
        let left_out = match limited(&event) {
            Some((kind, peer)) => match self.0.tell(Instant::now(), kind, peer) {
                Some(left_out) => left_out,
                None => return,
            },
            None => match event {
                NodeEvent::Connected(Remote::Replica(peer)) => self.0.forget(peer),
                _ => 0,
            },
        };
        emit(&named(&event), replica, &event, (left_out > 0).then_some(left_out));
    }
}

/// Emits an event; its text is formatted only if it is logged.
fn emit(named: &Named, replica: ReplicaId, event: &NodeEvent, left_out: Option<u64>) {
    let Fields { peer, view, height } = fields(event);
    // A level and a target are constants of their place.
    macro_rules! at {
        ($level:ident, $target:literal) => {
            tracing::event!(
                target: concat!("quorate::", $target),
                tracing::Level::$level,
                event = named.name,
                replica = replica.0,
                peer = peer.map(|peer| peer.0),
                view = view.map(|view| view.0),
                height = height.map(|height| height.0),
                left_out,
                "{}",
                escaped(&event.to_string())
            )
        };
    }
    match (named.level, named.target) {
        (Level::ERROR, "network") => at!(ERROR, "network"),
        (Level::WARN, "network") => at!(WARN, "network"),
        (Level::INFO, "network") => at!(INFO, "network"),
        (Level::DEBUG, "network") => at!(DEBUG, "network"),
        (Level::ERROR, "consensus") => at!(ERROR, "consensus"),
        (Level::WARN, "consensus") => at!(WARN, "consensus"),
        (Level::INFO, "consensus") => at!(INFO, "consensus"),
        (Level::WARN, "journal") => at!(WARN, "journal"),
        (Level::INFO, "journal") => at!(INFO, "journal"),
        (Level::INFO, "state") => at!(INFO, "state"),
        (Level::WARN, "replica") => at!(WARN, "replica"),
        (Level::INFO, "replica") => at!(INFO, "replica"),
        (level, target) => unreachable!("no event of quorate::{target} has the level {level}"),
    }
}

/// Returns the kind and the peer of a message that may be repeated.
fn limited(event: &NodeEvent) -> Option<(&'static str, Option<ReplicaId>)> {
    match event {
        NodeEvent::Lost { remote: Remote::Replica(peer), .. } => Some(("lost", Some(*peer))),
        NodeEvent::Path { remote: Remote::Replica(peer), .. } => Some(("path", Some(*peer))),
        NodeEvent::Path { .. } => Some(("path", None)),
        NodeEvent::Unauthenticated { dialled, .. } => Some(("unauthenticated", *dialled)),
        NodeEvent::Disagrees { peer, .. } => Some(("disagrees", Some(*peer))),
        NodeEvent::Undecodable { from, .. } => Some(("undecodable", Some(*from))),
        NodeEvent::Forged { from } => Some(("forged", Some(*from))),
        NodeEvent::TimedOut(_) => Some(("timed-out", None)),
        NodeEvent::SignerRefuses(_) => Some(("signer-refuses", None)),
        _ => None,
    }
}
