//! How long views last, and when one is given up.

use crate::config::{Config, ViewDuration};
use quorate_types::{Quorum, Time, View};
use std::time::Duration;

/// How many views one faulty replica can make fail in a row: the one whose votes it was to collect, and its own. So many of each of f
/// faulty replicas show nothing but the faults; one more shows that views are too short, and only then they become longer. Doubling a
/// few views later is doubling all the same: whatever the delay of the network is, in the end views last long enough.
const VIEWS_LOST_TO_A_FAULT: u32 = 2;
/// Doublings after which a view timeout grows no further.
const MAX_DOUBLINGS: u32 = 6;
/// How many times the smoothed duration of a view an adaptive timeout allows: a commit takes up to four views of two hops.
const ADAPTIVE_MULTIPLE: u32 = 8;

/// How many view timeouts a leader who stays in office has for a commit: it takes up to four views, and none of them may take longer
/// than one.
const FRUITLESS_TIMEOUTS: u32 = 8;

/// Who has been in a view for so many view timeouts has not run meanwhile, or was cut off.
const UNSEEN_TIMEOUTS: u32 = 2;

/// The clock of views. It does not know the time; it is told.
pub struct Pacemaker {
    kind: ViewDuration,
    base: Duration,
    least: Duration,
    view: View,
    entered: Time,
    /// What is taken off the time of the current view.
    spent: Duration,
    /// Whether the current view was given up.
    given_up: bool,
    /// Since when there has been something to order.
    working_since: Option<Time>,
    timeouts_in_a_row: u32,
    /// Whether something was committed since the current view began.
    fruitful: bool,
    /// Since when views have followed each other by certificates of votes, and nothing was committed.
    fruitless_since: Time,
    /// So many timeouts in a row make views no longer.
    forgiven: u32,
    smoothed: Option<(Duration, Duration)>,
    timeouts: u64,
}

/// What to do when the view's alarm rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alarm {
    /// Nothing to order: let it rest.
    Idle,
    /// Not yet: ring again after this long.
    Later(Duration),
    /// Half of the view has gone by: remind the leader, and ring again after this long.
    Remind(Duration),
    /// It has lasted too long.
    GiveUp,
}

impl Pacemaker {
    /// Before the first view, with nothing to order.
    pub fn new(config: &Config, quorum: Quorum) -> Self {
        Pacemaker {
            kind: config.view_duration,
            base: config.view_timeout(),
            least: Duration::from_millis(config.min_view_timeout_ms),
            view: View(0),
            entered: Time(0),
            spent: Duration::ZERO,
            given_up: false,
            working_since: None,
            timeouts_in_a_row: 0,
            fruitful: false,
            fruitless_since: Time(0),
            forgiven: VIEWS_LOST_TO_A_FAULT * quorum.faults() as u32,
            smoothed: None,
            timeouts: 0,
        }
    }

    /// The current view.
    pub fn view(&self) -> View {
        self.view
    }

    /// The time at which the current view began.
    pub fn entered(&self) -> Time {
        self.entered
    }

    /// Views given up so far.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// How long the current view may last.
    pub fn duration(&self) -> Duration {
        let base = match (self.kind, self.smoothed) {
            (ViewDuration::Adaptive, Some((mean, deviation))) => {
                ((mean + 4 * deviation) * ADAPTIVE_MULTIPLE).clamp(self.least, self.base)
            }
            _ => self.base,
        };
        match self.kind {
            ViewDuration::Fixed => base,
            _ => base * (1 << self.timeouts_in_a_row.saturating_sub(self.forgiven).min(MAX_DOUBLINGS)),
        }
    }

    /// How long a view lasts at least before it is given up for its own sake.
    pub fn shortest(&self) -> Duration {
        match self.kind {
            ViewDuration::Adaptive => self.least.min(self.base) / 2,
            _ => self.base / 2,
        }
    }

    /// How long after a timeout message it is sent again.
    pub fn retransmission(&self) -> Duration {
        self.base.min(self.duration())
    }

    /// The smoothed duration of a view, if one was measured.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// A higher view begins.
    pub fn enter(&mut self, now: Time, view: View, certified: bool) {
        assert!(view > self.view, "views only grow");
        if certified && self.working_since.is_some_and(|since| since <= self.entered) {
            self.measure(now.since(self.entered));
        }
        // The alarm of a view rings long before that, unless the process did not run: what it hears now is not fruitless, but late.
        let began = self.working_since.map_or(now, |since| since.max(self.entered));
        let unseen = now.since(began) > self.duration() * UNSEEN_TIMEOUTS;
        if std::mem::take(&mut self.fruitful) || !certified || unseen {
            self.fruitless_since = now;
        }
        self.view = view;
        self.entered = now;
        self.spent = Duration::ZERO;
        // A view that was given up and turns out to be certified has succeeded. Yet whoever holds the certificate, the leader of the
        // next view, has not been heard of for long: it may have died while it sent, and gets only half of the time.
        if certified && self.given_up {
            self.timeouts_in_a_row = self.timeouts_in_a_row.saturating_sub(1);
            self.spent = self.duration() / 2;
        }
        self.given_up = false;
    }

    /// The leader of the current view was to collect the votes of the one that failed before it, and did not: it may be silent, and gets
    /// only half of the time.
    pub fn suspect_leader(&mut self) {
        self.spent = self.duration() / 2;
    }

    /// The clock of the current view starts anew, if there is something to order.
    pub fn restart(&mut self, now: Time) {
        self.working_since = self.working_since.map(|_| now);
    }

    /// The current view has ordered something and goes on: how long that took is measured, and its clock starts anew. For protocols
    /// whose views last.
    pub fn achieved(&mut self, now: Time) {
        if let Some(since) = self.working_since {
            self.measure(now.since(since.max(self.entered)));
        }
        self.progressed();
        self.restart(now);
    }

    /// Smoothed mean and deviation with the gains of RFC 6298, section 2.
    fn measure(&mut self, sample: Duration) {
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, deviation)) => ((mean * 7 + sample) / 8, (deviation * 3 + mean.abs_diff(sample)) / 4),
        });
    }

    /// Whether there is something to order has been looked at; true if the alarm must now be set.
    pub fn working(&mut self, now: Time, working: bool) -> bool {
        let begins = working && self.working_since.is_none();
        if begins {
            self.working_since = Some(now);
        } else if !working {
            self.working_since = None;
        }
        begins
    }

    /// Whether there was something to order when it was last looked at.
    pub fn is_working(&self) -> bool {
        self.working_since.is_some()
    }

    /// What the ringing alarm means.
    pub fn ring(&self, now: Time) -> Alarm {
        let Some(working_since) = self.working_since else { return Alarm::Idle };
        let (elapsed, duration) = match working_since > self.entered {
            true => (now.since(working_since), self.duration()),
            false => (now.since(self.entered) + self.spent, self.duration()),
        };
        if elapsed >= duration {
            Alarm::GiveUp
        } else if elapsed >= duration / 2 {
            Alarm::Remind(duration - elapsed)
        } else {
            Alarm::Later(duration / 2 - elapsed)
        }
    }

    /// The current view was given up.
    pub fn gave_up(&mut self) {
        self.timeouts += 1;
        self.given_up = true;
        self.timeouts_in_a_row = self.timeouts_in_a_row.saturating_add(1);
    }

    /// Something was committed.
    pub fn progressed(&mut self) {
        self.timeouts_in_a_row = 0;
        self.fruitful = true;
    }

    /// Whether one view has followed the other for so long without a commit that their leader, if it is one and the same, is at fault:
    /// it may have blocks certified that never commit, and no view would ever time out.
    pub fn is_fruitless(&self, now: Time) -> bool {
        let since = self.working_since.map(|since| since.max(self.fruitless_since));
        since.is_some_and(|since| now.since(since) > self.duration() * FRUITLESS_TIMEOUTS)
    }
}
