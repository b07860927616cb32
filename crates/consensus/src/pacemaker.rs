//! How long views last, and when one is given up.

use crate::config::{Config, ViewDuration};
use quorate_types::{Time, View};
use std::time::Duration;

/// Doublings after which a view timeout grows no further.
const MOST_DOUBLINGS: u32 = 6;
/// How many times the smoothed duration of a view an adaptive timeout allows: a commit takes up to four views of two hops.
const ADAPTIVE_MULTIPLE: u32 = 8;

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
    pub fn new(config: &Config) -> Self {
        Pacemaker {
            kind: config.view_duration,
            base: config.view_timeout(),
            least: Duration::from_millis(config.least_view_timeout_ms),
            view: View(0),
            entered: Time(0),
            spent: Duration::ZERO,
            given_up: false,
            working_since: None,
            timeouts_in_a_row: 0,
            smoothed: None,
            timeouts: 0,
        }
    }

    /// The current view.
    pub fn view(&self) -> View {
        self.view
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
            _ => base * (1 << self.timeouts_in_a_row.min(MOST_DOUBLINGS)),
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
    }
}
