//! The wait of a leader for votes that come after a quorum.
//!
//! It asks for certificates with more signers than they need, for `vote_wait_us`; see
//! `docs/adr/062-waiting-for-late-votes.md`. Votes on timeouts, checkpoints and stored bundles are never awaited.

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

    /// Has the votes verified that have been awaited long enough. A round may be gone, or complete, by then.
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
