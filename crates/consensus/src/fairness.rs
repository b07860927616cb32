//! Whether the leader passes a command over.
//!
//! A leader that orders what others ask and never what one client asks makes progress, and no clock of views replaces it. PBFT has the
//! timer of a backup run for a request (Castro and Liskov, OSDI 1999, section 4.4). Here it runs for one bundle at a time: the one
//! that has waited longest, until it is executed. Commands may queue for as long as they have to, because its time begins only when
//! all that came before it are on their way; and since it is watched until it is executed, it does not help a leader to propose it
//! in blocks that come to nothing.
//!
//! The time is that of a view, `view_timeout_ms`, however short `adaptive` makes views: how long commands queue says nothing of that.
//! With each leader that passes the same bundle over it doubles, so that in the end it is longer than whatever holds the bundle up
//! on its way to honest leaders.

use crate::config::Config;
use crate::pool::Pool;
use quorate_types::{Digest, ReplicaId, Time};
use std::time::Duration;

/// Doublings after which the time of a bundle grows no further.
const MOST_DOUBLINGS: u32 = 6;

/// What is to be thought of a leader that has proposed something without the bundle that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// No bundle waits, or none has waited for long.
    Fair,
    /// A bundle has waited for a while: perhaps the leader does not have it.
    Late,
    /// It orders others instead.
    PassedOver,
}

struct Watched {
    bundle: Digest,
    /// Since when the current leader should have proposed it.
    since: Time,
    /// Parts of its time after which the leader is to be reminded next, in quarters.
    remind_at: u32,
    /// Whether the current leader passes it over, and how many did before.
    passed_over_now: bool,
    passed_over: u32,
}

/// Watches the bundle that has waited longest.
pub struct Fairness {
    time: Duration,
    leader: Option<ReplicaId>,
    watched: Option<Watched>,
}

impl Fairness {
    /// Nothing waits.
    pub fn new(config: &Config) -> Self {
        Fairness { time: config.view_timeout(), leader: None, watched: None }
    }

    /// Looks which bundle is to be watched: the same until it is executed.
    pub fn watch(&mut self, now: Time, pool: &mut Pool) {
        if self.watched.as_ref().is_some_and(|watched| pool.is_waiting(&watched.bundle)) {
            return;
        }
        let watched =
            |bundle| Watched { bundle, since: now, remind_at: REMINDED_FIRST, passed_over_now: false, passed_over: 0 };
        self.watched = pool.oldest().map(watched);
    }

    /// Who leads now. A new leader is given time of its own.
    pub fn led_by(&mut self, now: Time, leader: ReplicaId) {
        if self.leader.replace(leader) == Some(leader) {
            return;
        }
        if let Some(watched) = &mut self.watched {
            (watched.since, watched.remind_at) = (now, REMINDED_FIRST);
            watched.passed_over += u32::from(std::mem::take(&mut watched.passed_over_now));
        }
    }

    /// The leader has proposed something at `proposed`, and all that it proposed before is here.
    pub fn judge(&mut self, proposed: Time, pool: &Pool) -> Finding {
        let Some(watched) = self.watched.as_mut().filter(|watched| pool.is_pending(&watched.bundle)) else {
            return Finding::Fair;
        };
        let waited = proposed.since(watched.since);
        let quarter = self.time * (1 << watched.passed_over.min(MOST_DOUBLINGS)) / QUARTERS;
        if waited >= quarter * QUARTERS {
            watched.passed_over_now = true;
            Finding::PassedOver
        } else if waited >= quarter * watched.remind_at {
            watched.remind_at += 1;
            Finding::Late
        } else {
            Finding::Fair
        }
    }
}

/// In how many parts the time of a bundle is counted.
const QUARTERS: u32 = 4;
/// After how many of them the leader is reminded, and again after each further one.
const REMINDED_FIRST: u32 = 2;
