//! Whether the leader passes a command over.
//!
//! A leader that orders what others ask and never what one client asks makes progress, and no clock of views replaces it. PBFT has the
//! timer of a backup run for a request (Castro and Liskov, OSDI 1999, section 4.4). Here it runs for one bundle at a time: the one
//! that has waited longest, until it is executed. Commands may queue for as long as they have to, because its time begins only when
//! all that came before it are on their way; and since it is watched until it is executed, it does not help a leader to propose it
//! in blocks that come to nothing.
//!
//! The queues of replicas differ, and a client can make them differ: the leader may lack the bundle, or have it behind a backlog that
//! nobody else has. So the time of a bundle has four quarters. After the first one a backup relays it to the leader, who notes that; after
//! the second one it passes it on to all others, who relay it to the leader too when they have known it for a quarter. A leader to
//! whom f+1 replicas relay a bundle proposes it next, whatever waits before it and however full its pool is: one of the f+1 is honest.
//! After the fourth quarter the leader passes it over, but only if it has noted it two quarters ago. A leader that notes nothing is
//! given three times as long. The argument is in `docs/adr/018-fair-leaders.md`.
//!
//! The time is that of a view, `view_timeout_ms`, however short `adaptive` makes views: how long commands queue says nothing of that.
//! With each leader that passes the same bundle over it doubles, so that in the end it is longer than whatever holds the bundle up
//! on its way to honest leaders.

use crate::config::Config;
use crate::pool::Pool;
use quorate_types::{Bundle, Digest, Quorum, ReplicaId, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Doublings after which the time of a bundle grows no further.
const MAX_DOUBLINGS: u32 = 6;
/// In how many parts the time of a bundle is counted.
const QUARTERS: u32 = 4;
/// After how many of them the leader is told of the bundle, and again after each further one.
const RELAYED_AFTER: u32 = 1;
/// After how many of them all others are told too, and again after each further one.
const SPREAD_AFTER: u32 = 2;
/// For how many of them the leader must have noted the bundle before it passes it over.
const NOTED_FOR: u32 = 2;
/// After how many of them a leader passes a bundle over that it has never noted.
const NEVER_NOTED: u32 = 3 * QUARTERS;

/// What is to be thought of a leader that has proposed something without the bundle that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// No bundle waits, or none has waited for long.
    Fair,
    /// This bundle has waited for a while: perhaps the leader does not have it.
    Late(Digest),
    /// It has waited for longer: the others are to relay it too.
    Overdue(Digest),
    /// The leader orders others instead.
    PassedOver,
}

struct Watched {
    bundle: Digest,
    /// Since when the current leader should have proposed it.
    since: Time,
    /// When the current leader noted it.
    noted: Option<Time>,
    /// Parts of its time after which the leader is to be reminded next, in quarters.
    remind_at: u32,
    /// Whether the current leader passes it over, and how many did before.
    passed_over_now: bool,
    passed_over: u32,
}

/// A bundle that has waited longest at another replica.
struct Heard {
    bundle: Bundle,
    since: Time,
    relayed: bool,
}

/// Watches the bundle that has waited longest.
pub struct Fairness {
    time: Duration,
    quorum: Quorum,
    leader: Option<ReplicaId>,
    watched: Option<Watched>,
    /// The bundles that each replica relayed first, the latest last: of its own, and for as many others as there are.
    claims: Vec<VecDeque<Digest>>,
    /// What each replica passed on last.
    heard: Vec<Option<Heard>>,
}

impl Fairness {
    /// Nothing waits.
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

    /// Looks which bundle is to be watched: the same until it is executed.
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

    /// Who leads now. A new leader is given time of its own.
    pub fn led_by(&mut self, now: Time, leader: ReplicaId) {
        if self.leader.replace(leader) == Some(leader) {
            return;
        }
        if let Some(watched) = &mut self.watched {
            (watched.since, watched.noted, watched.remind_at) = (now, None, RELAYED_AFTER);
            watched.passed_over += u32::from(std::mem::take(&mut watched.passed_over_now));
        }
    }

    /// Who leads, as far as that is known.
    pub fn leader(&self) -> Option<ReplicaId> {
        self.leader
    }

    /// A replica says that it has a bundle; that matters of the leader and of the bundle that is watched.
    pub fn noted(&mut self, now: Time, by: ReplicaId, bundle: &Digest) {
        if let Some(watched) = self.watched.as_mut().filter(|watched| watched.bundle == *bundle)
            && self.leader == Some(by)
        {
            watched.noted.get_or_insert(now);
        }
    }

    /// A replica relays a bundle before all others. Whether so many have that one of them is honest: then it is to be proposed next.
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

    /// A replica that does not lead passes a bundle on to one that does not lead either. One of each is remembered until it was relayed.
    pub fn heard(&mut self, now: Time, from: ReplicaId, bundle: Bundle) {
        let known = &mut self.heard[from.index()];
        let waits = |heard: &Heard| !heard.relayed && heard.since + self.time / QUARTERS * 2 > now;
        if !known.as_ref().is_some_and(waits) {
            *known = Some(Heard { bundle, since: now, relayed: false });
        }
    }

    /// What others passed on a while ago and is not on its way: the leader is to be told.
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

    /// The leader has proposed something at `proposed`, and all that it proposed before is here.
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
