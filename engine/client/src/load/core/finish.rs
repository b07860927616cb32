//! The report at the end of a load.

use super::{LoadCore, Stage};
use crate::load::recorder::{LoadReport, Recorder};
use crate::load::replies::RepliesCount;
use crate::load::usage::Usage;
use crate::session::SessionCounters;
use quorate_types::Time;
use std::time::Duration;

/// Number of unsent commands that are recorded individually.
const UNSENT_COUNTED_SINGLY: u64 = 100_000;

impl LoadCore {
    /// Returns the report of a load that is [`Stage::Done`]. The caller passes the usage and the bundle counters of the
    /// window, because only it knows them at the window's start and end.
    pub fn finish(mut self, now: Time, window_usage: Usage, window_bundles: SessionCounters) -> LoadReport {
        assert_eq!(self.stage, Stage::Done, "only a finished load has a report");
        let unanswered = if self.recorder.is_some() { self.in_flight as u64 } else { 0 };
        let unsent = self.record_unsent(now);
        let mut recorder =
            self.recorder.take().unwrap_or_else(|| Recorder::new(now, Duration::ZERO, Duration::ZERO, false, &[], 0));
        recorder.close_commits(now);
        for commands in self.session.into_attached() {
            commands.iter().for_each(|command| recorder.on_unanswered(now, command.intended, 1));
        }
        let (start, end) = recorder.window();
        LoadReport {
            seconds: recorder.take_seconds(),
            second_counts: recorder.take_second_counts(),
            commit_us: recorder.take_commits(),
            steps: recorder.take_steps(),
            samples: recorder.take_samples(),
            window: end.since(start),
            warmup: start.since(recorder.start()),
            longest_gap: recorder.longest_gap(now),
            latency_us: recorder.latency_us,
            schedule_lag_us: recorder.lag_us,
            intervals: recorder.intervals,
            completed: recorder.measured.completed(),
            submitted: recorder.submitted_in_window,
            duplicates: recorder.measured.duplicates,
            refused: recorder.measured.refused,
            busy: recorder.busy,
            unanswered,
            unsent,
            replies: self.replies.map(RepliesCount::into_counts),
            total_submitted: recorder.submitted,
            total_completed: recorder.total.completed(),
            total_refused: recorder.total.refused,
            preloaded: self.preloaded,
            preload_refused: self.preload_refused,
            bundles: window_bundles,
            usage: window_usage,
            malformed: 0,
            distrusted: Default::default(),
            warning: None,
            stopped: self.stopped,
        }
    }

    /// Open loop: records the commands that were due but never sent as unanswered, and returns their number.
    fn record_unsent(&mut self, now: Time) -> u64 {
        let mut unsent = 0;
        while let Some(intended) = self.next_intended() {
            // Beyond the first ones, one command stands for several, so that an absurd rate does not take long to
            // count.
            let count = 1 + unsent / UNSENT_COUNTED_SINGLY;
            let before = self.sent;
            self.sent += count;
            if self.next_intended().is_none() {
                self.sent = before + 1;
            }
            let count = self.sent - before;
            unsent += count;
            if let Some(recorder) = self.recorder.as_mut() {
                recorder.on_unsent(now, intended, count);
            }
        }
        unsent
    }
}
