//! Client frames waiting for their turn, and the replica's records about their senders.

use bytes::Bytes;
use quorate_consensus::data::pool::Source;
use quorate_gateway::budget::STATUS_SAVED_NS;
use quorate_gateway::turns::Turns;
use quorate_transports::{LinkId, Transport};
use quorate_types::{ClientId, Digest, Time};
use std::collections::HashMap;

/// A frame and its claimed sender.
pub(crate) struct ClientFrame {
    pub client: ClientId,
    pub frame: Bytes,
}

/// Waiting client frames, and the replica's records about their senders.
pub(crate) struct Clients {
    pub turns: Turns<LinkId, ClientFrame>,
    /// Bundles of this turn, with the links on which they arrived.
    pub submitted: Vec<(LinkId, Digest)>,
    /// Source of the bundles on each link.
    sources: HashMap<LinkId, Source>,
    /// The one that was looked up last.
    last: Option<(LinkId, Source)>,
    /// Sources of closed links, not reported to the replica yet.
    pub left: Vec<Source>,
    pub statuses: Statuses,
    pub undecodable: u64,
}

/// The latest statuses, without and with the history.
pub(crate) struct Statuses {
    pub json: [Option<Bytes>; 2],
    /// Time that may be spent on new statuses, in nanoseconds.
    pub saved_ns: u64,
    pub saved_at: Time,
}

impl Default for Clients {
    fn default() -> Self {
        let statuses = Statuses { json: [None, None], saved_ns: STATUS_SAVED_NS, saved_at: Time(0) };
        Clients {
            turns: Turns::default(),
            submitted: Vec::new(),
            sources: HashMap::new(),
            last: None,
            left: Vec::new(),
            statuses,
            undecodable: 0,
        }
    }
}

impl Clients {
    /// Returns whether no frame is waiting.
    pub fn are_served(&self) -> bool {
        self.turns.is_empty()
    }

    #[inline]
    pub fn push(&mut self, link: LinkId, client: ClientId, frame: Bytes) {
        self.turns.push(link, ClientFrame { client, frame });
    }

    /// Drops the frames of a closed link.
    pub fn forget(&mut self, link: LinkId) {
        self.turns.forget(link);
        self.left.extend(self.sources.remove(&link));
        self.last = None;
    }

    /// Returns the source of the bundles on a link. Bundles of one link are adjacent.
    pub fn source(&mut self, link: LinkId, transport: &dyn Transport) -> Source {
        match self.last {
            Some((last, source)) if last == link => source,
            _ => {
                let named = || Source::Client { crowd: transport.crowd(link), link: link.0 };
                let source = *self.sources.entry(link).or_insert_with(named);
                self.last = Some((link, source));
                source
            }
        }
    }

    /// Returns the source of each submitted bundle.
    pub fn sources(&mut self, transport: &dyn Transport) -> Vec<Source> {
        (0..self.submitted.len()).map(|at| self.source(self.submitted[at].0, transport)).collect()
    }

    /// Returns the number of frames that were not valid messages.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }
}
