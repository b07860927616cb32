//! Duration of views, and the moment at which a replica times out of one.

use crate::config::{Config, ViewDuration};
use quorate_types::{Quorum, Time, View};
use std::time::Duration;

/// Number of consecutive views that one faulty replica can make fail: the view whose votes it should collect, and its
/// own. Timeouts that f faulty replicas can cause alone do not show that views are too short. One more timeout does,
/// and then the views double. Doubling thus starts a few views later, but for any network delay, views eventually last
/// long enough.
const VIEWS_LOST_TO_A_FAULT: u32 = 2;
/// Maximum number of doublings of `view_timeout_ms`. An adaptive timeout may start far below that value and grows to
/// the same maximum, because in a network that has become slow no short view is certified and nothing can be measured.
const MAX_DOUBLINGS: u32 = 6;
/// Number of smoothed view durations in an adaptive timeout. A commit takes up to four views of two hops.
const ADAPTIVE_MULTIPLE: u32 = 8;
/// Number of smoothed deviations added to these durations.
const ADAPTIVE_DEVIATIONS: u32 = 4;

/// Number of view timeouts that a stable leader has for a commit. A commit takes up to four views, each of which may
/// take one timeout.
const FRUITLESS_TIMEOUTS: u32 = 8;

/// Number of view timeouts after which a replica that is still in the same view must have been suspended or cut off.
const UNSEEN_TIMEOUTS: u32 = 2;

/// Clock of the views. The caller passes in the time.
pub struct Pacemaker {
    kind: ViewDuration,
    base: Duration,
    /// Minimum view timeout.
    least: Duration,
    view: View,
    entered: Time,
    /// Time deducted from the current view.
    spent: Duration,
    /// Whether this replica has timed out of the current view.
    given_up: bool,
    /// Time since which there has been something to order.
    working_since: Option<Time>,
    timeouts_in_a_row: u32,
    /// Whether something was committed since the current view began.
    fruitful: bool,
    /// Time since which views have followed each other by certificates of votes without a commit.
    fruitless_since: Time,
    /// Number of consecutive timeouts that do not lengthen views.
    forgiven: u32,
    smoothed: Option<(Duration, Duration)>,
    timeouts: u64,
}

/// Action to take when the timer of the view fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alarm {
    /// Nothing to order: leave the timer off.
    Idle,
    /// Too early: fire again after this duration.
    Later(Duration),
    /// Half of the view timeout has passed: remind the leader, and fire again after this duration.
    Remind(Duration),
    /// The view has timed out.
    GiveUp,
}

impl Pacemaker {
    /// Creates a pacemaker before the first view, with nothing to order.
    pub fn new(config: &Config, quorum: Quorum) -> Self {
        Pacemaker {
            kind: config.view_duration,
            base: config.view_timeout(),
            least: config.shortest_view_timeout(),
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

    pub fn view(&self) -> View {
        self.view
    }

    /// Returns the time at which the current view began.
    pub fn entered(&self) -> Time {
        self.entered
    }

    /// Returns the number of views that have timed out so far.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// Returns the timeout of the current view.
    pub fn duration(&self) -> Duration {
        let base = match (self.kind, self.smoothed) {
            (ViewDuration::Adaptive, Some((mean, deviation))) => {
                (mean * ADAPTIVE_MULTIPLE + deviation * ADAPTIVE_DEVIATIONS).clamp(self.least, self.base)
            }
            _ => self.base,
        };
        match self.kind {
            ViewDuration::Fixed => base,
            _ if bug!(TimeoutsConstant) => base,
            _ => {
                let factor = 1u32.checked_shl(self.timeouts_in_a_row.saturating_sub(self.forgiven)).unwrap_or(u32::MAX);
                base.saturating_mul(factor).min(self.base * (1 << MAX_DOUBLINGS))
            }
        }
    }

    /// Returns the minimum time after which a replica times out of a view on its own.
    pub fn shortest(&self) -> Duration {
        self.least / 2
    }

    /// Returns the time after which to repeat a timeout message.
    pub fn retransmission(&self) -> Duration {
        self.base.min(self.duration())
    }

    /// Returns the smoothed duration of a view, or `None` before the first measurement.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// Enters a higher view. `certified` is true if a certificate of votes began it.
    pub fn enter(&mut self, now: Time, view: View, certified: bool) {
        assert!(view > self.view, "views are entered in ascending order");
        if certified && self.working_since.is_some_and(|since| since <= self.entered) {
            self.measure(now.since(self.entered));
        }
        // The timer of a view fires long before this, unless the process was suspended. In that case the messages are
        // late, and the views are not fruitless.
        let began = self.working_since.map_or(now, |since| since.max(self.entered));
        let unseen = now.since(began) > self.duration() * UNSEEN_TIMEOUTS;
        if std::mem::take(&mut self.fruitful) || !certified || unseen {
            self.fruitless_since = now;
        }
        self.view = view;
        self.entered = now;
        self.spent = Duration::ZERO;
        // A view that timed out here but turns out to be certified has succeeded. However, the leader of the next view,
        // which holds the certificate, has been silent for long. It may have crashed while sending, so it gets only
        // half of the timeout.
        if certified && self.given_up {
            self.timeouts_in_a_row = self.timeouts_in_a_row.saturating_sub(1);
            self.spent = self.duration() / 2;
        }
        self.given_up = false;
    }

    /// Halves the time of the current view. The view's leader should have collected the votes of the failed previous
    /// view and did not, so it may be silent.
    pub fn suspect_leader(&mut self) {
        self.spent = self.duration() / 2;
    }

    /// Restarts the clock of the current view if there is something to order.
    pub fn restart(&mut self, now: Time) {
        self.working_since = self.working_since.map(|_| now);
    }

    /// Measures the time that the current view took to order something, and restarts the view's clock. For protocols
    /// with stable leaders.
    pub fn on_achievement(&mut self, now: Time) {
        if let Some(since) = self.working_since {
            self.measure(now.since(since.max(self.entered)));
        }
        self.on_progress();
        self.restart(now);
    }

    /// Updates the smoothed mean and deviation with the gains of RFC 6298, section 2.
    fn measure(&mut self, sample: Duration) {
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, deviation)) => ((mean * 7 + sample) / 8, (deviation * 3 + mean.abs_diff(sample)) / 4),
        });
    }

    /// Records whether there is something to order. Returns true if the caller must now set the timer.
    pub fn set_working(&mut self, now: Time, working: bool) -> bool {
        let begins = working && self.working_since.is_none();
        if begins {
            self.working_since = Some(now);
        } else if !working {
            self.working_since = None;
        }
        begins
    }

    /// Returns whether there was something to order at the last check.
    pub fn is_working(&self) -> bool {
        self.working_since.is_some()
    }

    /// Returns the action for the timer that has just fired.
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

    /// Records that this replica timed out of the current view.
    pub fn on_timeout(&mut self) {
        self.timeouts += 1;
        self.given_up = true;
        self.timeouts_in_a_row = self.timeouts_in_a_row.saturating_add(1);
    }

    /// Called for each commit: the view timeout stops growing.
    pub fn on_progress(&mut self) {
        self.timeouts_in_a_row = 0;
        self.fruitful = true;
    }

    /// Returns whether views have followed each other without a commit for so long that their leader, if it is the same
    /// in all of them, must be faulty. A faulty leader can have blocks certified that never commit, and no view would
    /// ever time out.
    pub fn is_fruitless(&self, now: Time) -> bool {
        let since = self.working_since.map(|since| since.max(self.fruitless_since));
        since.is_some_and(|since| now.since(since) > self.duration() * FRUITLESS_TIMEOUTS) && !bug!(FruitlessKept)
    }
}
