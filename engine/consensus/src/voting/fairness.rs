//! Detection of leaders that pass over a command.
//!
//! A leader that orders other commands but never those of one client makes progress, so no view timeout replaces it. In
//! PBFT a backup starts a timer for each request (Castro and Liskov, OSDI 1999, section 4.4). Here the timer runs for
//! one bundle at a time, the one that has waited longest, until it is executed. Commands may queue for as long as
//! necessary, because the timer of a bundle starts only when all earlier bundles are proposed. Since a bundle is
//! watched until it is executed, a leader gains nothing by proposing it in blocks that never commit.
//!
//! Replicas have different queues, and a client can cause this: the leader may lack the bundle, or have it behind a
//! backlog that no other replica has. The time allowed for a bundle is therefore divided into quarters. After the first
//! quarter a backup relays the bundle to the leader, which notes it. After the second quarter the backup passes it on
//! to all other replicas, which also relay it to the leader once they have known it for a quarter. When f+1 replicas
//! have relayed a bundle, at least one of them is honest, and the leader proposes the bundle next, ahead of any backlog
//! and however full its pool is. After the fourth quarter the leader counts as passing the bundle over, but only if it
//! noted the bundle at least two quarters ago. A leader that never notes the bundle gets three times as long. For the
//! proof see `docs/adr/018-fair-leaders.md`.
//!
//! The time allowed is `view_timeout_ms`, however short `adaptive` makes views, because the duration of views says
//! nothing about how long commands queue. It doubles with each leader that passes over the same bundle, so it
//! eventually exceeds any delay of the bundle on its way to honest leaders.

use crate::config::Config;
use crate::data::pool::Pool;
use quorate_types::{Bundle, Digest, Quorum, ReplicaId, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of doublings of the time allowed for a bundle.
const MAX_DOUBLINGS: u32 = 6;
/// Number of parts into which the time allowed for a bundle is divided.
const QUARTERS: u32 = 4;
/// Quarters after which a backup relays the bundle to the leader. It does so again after each further quarter.
const RELAYED_AFTER: u32 = 1;
/// Quarters after which a backup also relays the bundle to all others. It does so again after each further quarter.
const SPREAD_AFTER: u32 = 2;
/// Quarters that must pass after a leader's note before it counts as passing the bundle over.
const NOTED_FOR: u32 = 2;
/// Quarters after which a leader that never noted the bundle counts as passing it over.
const NEVER_NOTED: u32 = 3 * QUARTERS;

/// Verdict on a leader that proposed something other than the watched bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// No bundle is waiting, or none has waited long.
    Fair,
    /// This bundle has waited for a while, so the leader may not have it.
    Late(Digest),
    /// This bundle has waited longer, so the other replicas should relay it too.
    Overdue(Digest),
    /// The leader passes the bundle over.
    PassedOver,
}

struct Watched {
    bundle: Digest,
    /// Since when the current leader should have proposed it.
    since: Time,
    /// When the current leader noted it.
    noted: Option<Time>,
    /// Quarters after which to remind the leader next.
    remind_at: u32,
    /// Whether the current leader passes it over, and how many leaders did before.
    passed_over_now: bool,
    passed_over: u32,
}

/// Bundle that has waited longest at another replica.
struct Heard {
    bundle: Bundle,
    since: Time,
    relayed: bool,
}

/// Watcher of the bundle that has waited longest.
pub struct Fairness {
    time: Duration,
    quorum: Quorum,
    leader: Option<ReplicaId>,
    watched: Option<Watched>,
    /// Bundles that each replica relayed first in a message, latest last: its own, and those that it relays for other
    /// replicas. Their number is bounded by the number of replicas.
    claims: Vec<VecDeque<Digest>>,
    /// Bundle that each replica last passed on.
    heard: Vec<Option<Heard>>,
}

impl Fairness {
    /// Creates a watcher with no bundle to watch.
    pub fn new(config: &Config, quorum: Quorum) -> Self {
        let n = quorum.replicas();
        Fairness {
            time: config.view_timeout(),
            quorum,
            leader: None,
            watched: None,
            claims: vec![VecDeque::new(); n],
            heard: (0..n).map(|_| None).collect(),
        }
    }

    /// Chooses the bundle to watch. It stays the same until it is executed.
    pub fn watch(&mut self, now: Time, pool: &mut Pool) {
        if self.watched.as_ref().is_some_and(|watched| pool.is_waiting(&watched.bundle)) {
            return;
        }
        self.watched = pool.oldest().map(|bundle| Watched {
            bundle,
            since: now,
            noted: None,
            remind_at: RELAYED_AFTER,
            passed_over_now: false,
            passed_over: 0,
        });
    }

    /// Records the current leader. A new leader gets the full time.
    pub fn set_leader(&mut self, now: Time, leader: ReplicaId) {
        if self.leader.replace(leader) == Some(leader) {
            return;
        }
        if let Some(watched) = &mut self.watched {
            (watched.since, watched.noted, watched.remind_at) = (now, None, RELAYED_AFTER);
            watched.passed_over += u32::from(std::mem::take(&mut watched.passed_over_now));
        }
    }

    /// Returns the leader, or `None` if it is not known yet.
    pub fn leader(&self) -> Option<ReplicaId> {
        self.leader
    }

    /// Records that a replica acknowledged a bundle. Only the leader's acknowledgement of the watched bundle counts.
    pub fn on_note(&mut self, now: Time, by: ReplicaId, bundle: &Digest) {
        if let Some(watched) = self.watched.as_mut().filter(|watched| watched.bundle == *bundle)
            && self.leader == Some(by)
        {
            watched.noted.get_or_insert(now);
        }
    }

    /// Records that a replica relays a bundle ahead of all others. Returns true if f+1 replicas have done so: at least
    /// one of them is honest, so the bundle must be proposed next.
    pub fn claim(&mut self, by: ReplicaId, bundle: Digest) -> bool {
        let most = self.quorum.replicas();
        let claims = &mut self.claims[by.index()];
        if !claims.contains(&bundle) {
            claims.push_back(bundle);
        }
        if claims.len() > most {
            claims.pop_front();
        }
        self.claims.iter().filter(|claims| claims.contains(&bundle)).count() >= self.quorum.weak()
    }

    /// Records a bundle that another backup passed on to this one. Only one bundle per replica is kept, until it is
    /// relayed.
    pub fn on_relay(&mut self, now: Time, from: ReplicaId, bundle: Bundle) {
        let known = &mut self.heard[from.index()];
        let waits = |heard: &Heard| !heard.relayed && heard.since + self.time / QUARTERS * 2 > now;
        if !known.as_ref().is_some_and(waits) {
            *known = Some(Heard { bundle, since: now, relayed: false });
        }
    }

    /// Returns the bundles that others passed on at least a quarter ago and that are not proposed yet, for relaying to
    /// the leader.
    pub fn to_relay(&mut self, now: Time, pool: &Pool) -> Vec<Bundle> {
        let quarter = self.time / QUARTERS;
        let mut due = Vec::new();
        for heard in self.heard.iter_mut().flatten().filter(|heard| !heard.relayed && heard.since + quarter <= now) {
            heard.relayed = true;
            let digest = heard.bundle.digest();
            let waits = pool.is_pending(&digest) || !pool.contains(&digest);
            if waits && !pool.is_late(&heard.bundle) {
                due.push(heard.bundle.clone());
            }
        }
        due
    }

    /// Judges the leader, which proposed something at `proposed`. All its earlier proposals have arrived.
    pub fn judge(&mut self, proposed: Time, pool: &Pool) -> Finding {
        let Some(watched) = self.watched.as_mut().filter(|watched| pool.is_pending(&watched.bundle)) else {
            return Finding::Fair;
        };
        let waited = proposed.since(watched.since);
        let quarter = self.time * (1 << watched.passed_over.min(MAX_DOUBLINGS)) / QUARTERS;
        let unheard = bug!(BlamedUnheard);
        let known = unheard || watched.noted.is_some_and(|noted| proposed.since(noted) >= quarter * NOTED_FOR);
        if waited >= quarter * NEVER_NOTED || known && waited >= quarter * QUARTERS {
            watched.passed_over_now = true;
            Finding::PassedOver
        } else if waited >= quarter * watched.remind_at {
            watched.remind_at += 1;
            match watched.remind_at > SPREAD_AFTER {
                true => Finding::Overdue(watched.bundle),
                false => Finding::Late(watched.bundle),
            }
        } else {
            Finding::Fair
        }
    }
}
