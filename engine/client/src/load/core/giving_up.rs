//! Requests that are abandoned instead of being resent.

use super::LoadCore;
use crate::load::options::LoadOptions;
use crate::load::replies::RepliesCount;
use crate::session::SessionOptions;
use quorate_types::{ReplicaId, ReplicaReply, Time};

/// Returns the reply counter of a load that abandons requests. Its session never resends a request.
pub(super) fn count_replies(options: &mut LoadOptions, session: &mut SessionOptions) -> Option<RepliesCount> {
    let after = options.give_up_after?;
    session.retry = after * 2;
    options.drain = options.drain.max(after * 2);
    Some(RepliesCount::new(session.quorum, after))
}

impl LoadCore {
    /// Counts a reply to a request that is not abandoned yet.
    pub(super) fn count_reply(&mut self, now: Time, from: ReplicaId, reply: &ReplicaReply) {
        if let (Some(replies), ReplicaReply::Executed { bundle, .. }) = (self.replies.as_mut(), reply) {
            replies.on_reply(now, from, bundle);
        }
    }

    /// Returns whether a reply still counts.
    pub(super) fn counts(&self, reply: &ReplicaReply) -> bool {
        let bundle = if let ReplicaReply::Executed { bundle, .. } = reply { Some(bundle) } else { None };
        bundle.zip(self.replies.as_ref()).is_some_and(|(bundle, replies)| replies.is_open(bundle))
    }

    /// Abandons the requests that have timed out. A client of a closed loop then sends its next one.
    pub(super) fn give_up_failed(&mut self, now: Time) {
        let window = self.window();
        let Some(replies) = self.replies.as_mut() else { return };
        window.into_iter().for_each(|window| replies.measure(window));
        while let Some(request) = self.replies.as_mut().and_then(|replies| replies.close(now)) {
            let Some(commands) = self.session.abandon(request) else { continue };
            self.in_flight -= commands.len();
            if self.is_closed() {
                self.ready.extend(commands.iter().map(|command| command.client));
            }
        }
    }
}
