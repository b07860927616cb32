//! Looking all links over now and then for what no event tells: a frame that does not become whole, a queue of which
//! nothing is taken, bytes that nobody acknowledges. Nothing of it costs anything while frames flow.

use super::table::index;
use super::{Linked, Links, Phase};
use crate::config::LinkConfig;
use crate::error::LinkError;
use crate::{Event, Remote};
use std::time::{Duration, Instant};

/// Links are looked over so many times within the shortest of their time limits.
const SWEEPS_PER_LIMIT: u32 = 4;
/// The longest wait between two looks.
const LONGEST_PERIOD: Duration = Duration::from_millis(500);
/// The shortest.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

/// How long a client may take nothing of what is queued for it once the listeners are closed: whoever ends has no time
/// for those who do not read.
const FAREWELL_STALL_MS: u64 = 500;

/// Since when something has been waiting without any progress.
#[derive(Default)]
pub struct Stuck {
    since: Option<(Instant, u64)>,
}

impl Stuck {
    /// Notes whether it waits and how far it has come; says for how long it has come no further.
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
    /// How long after one look the next is due.
    pub(super) fn sweep_period(&self) -> Duration {
        let LinkConfig { client_frame_timeout_ms, client_stall_ms, .. } = self.config;
        let shortest = client_frame_timeout_ms.min(client_stall_ms).min(self.trouble_ms);
        (Duration::from_millis(shortest) / SWEEPS_PER_LIMIT).clamp(SHORTEST_PERIOD, LONGEST_PERIOD)
    }

    /// From now on waits little for clients that do not read.
    pub fn hurry_clients(&mut self, now: Instant) {
        self.config.client_stall_ms = self.config.client_stall_ms.min(FAREWELL_STALL_MS);
        self.sweep_at = self.sweep_at.map(|at| at.min(now + self.sweep_period()));
        self.due(self.sweep_at);
    }

    /// Looks all links over, and ends those that have come to nothing.
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
