//! Periodic sweep over all links for conditions that cause no event: a frame that never completes, a queue that is
//! never read, unacknowledged bytes. Adds no cost per frame.

use super::table::index;
use super::{Linked, Links, Phase};
use crate::transports::config::LinkConfig;
use crate::transports::error::LinkError;
use crate::transports::{Event, Remote};
use std::time::{Duration, Instant};

/// Sweeps per shortest time limit.
const SWEEPS_PER_LIMIT: u32 = 4;
/// Longest time between two sweeps.
const MAX_PERIOD: Duration = Duration::from_millis(500);
/// Shortest time between two sweeps.
const MIN_PERIOD: Duration = Duration::from_millis(10);

/// Time for which a client may leave its queue unread during shutdown, in milliseconds: shutdown does not wait for
/// clients that do not read.
const CLOSING_STALL_MS: u64 = 500;

/// Measures how long something has made no progress.
#[derive(Default)]
pub struct Stuck {
    since: Option<(Instant, u64)>,
}

impl Stuck {
    /// Records whether something is pending, and its progress. Returns for how long there has been no progress.
    pub fn observe(&mut self, now: Instant, waits: bool, progress: u64) -> Duration {
        match self.since {
            _ if !waits => {
                self.since = None;
                Duration::ZERO
            }
            Some((since, before)) if before == progress => now.duration_since(since),
            _ => {
                self.since = Some((now, progress));
                Duration::ZERO
            }
        }
    }
}

impl<L: Linked> Links<L> {
    /// Returns the time between two sweeps.
    pub(super) fn sweep_period(&self) -> Duration {
        let LinkConfig { client_frame_timeout_ms, client_stall_ms, .. } = self.config;
        let shortest = client_frame_timeout_ms.min(client_stall_ms).min(self.trouble_ms);
        (Duration::from_millis(shortest) / SWEEPS_PER_LIMIT).clamp(MIN_PERIOD, MAX_PERIOD)
    }

    /// Shortens the timeout of clients that do not read, for shutdown.
    pub fn hurry_clients(&mut self, now: Instant) {
        self.config.client_stall_ms = self.config.client_stall_ms.min(CLOSING_STALL_MS);
        self.sweep_at = self.sweep_at.map(|at| at.min(now + self.sweep_period()));
        self.due(self.sweep_at);
    }

    /// Sweeps over all links, and ends those that have timed out.
    pub(super) fn sweep(&mut self, now: Instant, events: &mut Vec<Event>) {
        let config = &self.config;
        let ended: Vec<(usize, LinkError)> = self
            .table
            .iter_mut()
            .filter_map(|link| {
                let why = match link.phase {
                    Phase::Established(Remote::Client(_) | Remote::Operator(_)) => look_at_client(link, config, now),
                    Phase::Established(Remote::Replica(_)) => link.trouble(now),
                    Phase::Dialling | Phase::Handshake => None,
                };
                Some((index(link.id), why?))
            })
            .collect();
        for (at, why) in ended {
            let link = self.table.take(at).expect("the link was just there");
            self.end(&link, why, events);
        }
    }
}

fn look_at_client<L: Linked>(link: &mut L, config: &LinkConfig, now: Instant) -> Option<LinkError> {
    let frames = link.frames_received;
    if link.share.looked_at(frames) {
        link.share.active = now;
    }
    let partial = link.partial_bytes() > 0 && !link.share.is_paused();
    let (queued, written) = (link.queued_bytes() > 0, link.bytes_written);
    if link.partial.observe(now, partial, frames) >= Duration::from_millis(config.client_frame_timeout_ms) {
        return Some(LinkError::FrameTimeout(config.client_frame_timeout_ms));
    }
    let stalled = link.stalled.observe(now, queued, written);
    (stalled >= Duration::from_millis(config.client_stall_ms)).then_some(LinkError::Stalled(config.client_stall_ms))
}
