//! Frames of clients that wait for their turn, and what the replica remembers of their senders.

use bytes::Bytes;
use quorate_consensus::pool::Source;
use quorate_gateway::budget::STATUS_SAVED_NS;
use quorate_gateway::turns::Turns;
use quorate_transports::{LinkId, Transport};
use quorate_types::{ClientId, Digest, Time};
use std::collections::HashMap;

/// A frame and who claims to have sent it.
pub(crate) struct ClientFrame {
    pub client: ClientId,
    pub frame: Bytes,
}

/// The clients' frames that wait, and what the replica remembers of their senders.
pub(crate) struct Clients {
    pub turns: Turns<LinkId, ClientFrame>,
    /// The bundles of this turn and the links they came on.
    pub submitted: Vec<(LinkId, Digest)>,
    /// The links over which bundles came in.
    sources: HashMap<LinkId, Source>,
    /// Those of links that are gone, of which the replica does not know yet.
    pub left: Vec<Source>,
    pub statuses: Statuses,
    pub undecodable: u64,
}

/// The last statuses, without and with the history.
pub(crate) struct Statuses {
    pub json: [Option<Bytes>; 2],
    /// How much time may be spent on new ones, in nanoseconds.
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
            left: Vec::new(),
            statuses,
            undecodable: 0,
        }
    }
}

impl Clients {
    /// Whether nobody waits for a turn.
    pub fn are_served(&self) -> bool {
        self.turns.is_empty()
    }

    /// Takes a frame in.
    #[inline]
    pub fn push(&mut self, link: LinkId, client: ClientId, frame: Bytes) {
        self.turns.push(link, ClientFrame { client, frame });
    }

    /// Drops what waits on a link that is gone.
    pub fn forget(&mut self, link: LinkId) {
        self.turns.forget(link);
        self.left.extend(self.sources.remove(&link));
    }

    /// Where each of the submitted bundles came in. Those of a link come in a row.
    pub fn sources(&mut self, transport: &dyn Transport) -> Vec<Source> {
        let mut last = None;
        let (submitted, sources) = (&self.submitted, &mut self.sources);
        let source = |(link, _): &(LinkId, Digest)| match last {
            Some((before, source)) if before == *link => source,
            _ => {
                let named = || Source::Client { crowd: transport.crowd(*link), link: link.0 };
                let source = *sources.entry(*link).or_insert_with(named);
                last = Some((*link, source));
                source
            }
        };
        submitted.iter().map(source).collect()
    }

    /// Frames that are no message.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }
}
