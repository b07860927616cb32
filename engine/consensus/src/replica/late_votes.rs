//! A leader's wait for votes beyond a quorum.
//!
//! Certificates that can hold more signatures than a quorum are worth waiting for, for `vote_wait_us`; see
//! `docs/adr/062-waiting-for-late-votes.md`. The wait does not apply to votes on timeouts, checkpoints and stored
//! bundles.

use super::{Protocol, Replica};
use crate::seam::Timer;
use quorate_types::{Subject, Time};

impl<P: Protocol> Replica<P> {
    /// Waits for late votes on a subject for which a quorum has voted.
    pub(super) fn await_late(&mut self, now: Time, subject: Subject) {
        let wait = self.parts.config.vote_wait();
        self.awaited.push_back((now + wait, subject));
        if self.awaited.len() == 1 {
            self.out.arm(Timer::Votes, wait);
        }
    }

    /// Requests verification of the votes that have been awaited long enough. By then a round may be gone or complete.
    pub(super) fn close_late(&mut self, now: Time) {
        while let Some((_, subject)) = self.awaited.front().copied().filter(|(due, _)| *due <= now) {
            self.awaited.pop_front();
            let counted = self.parts.tally.close(&subject);
            self.on_counted(now, counted, None);
        }
        if let Some((due, _)) = self.awaited.front() {
            self.out.arm(Timer::Votes, due.since(now));
        }
    }
}
