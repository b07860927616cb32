//! Client frames waiting for their turn, and the replica's records about their senders.

use crate::network::{Frame, Outlet};
use bytes::Bytes;
use quorate_consensus::data::pool::Source;
use quorate_gateway::budget::STATUS_SAVED_NS;
use quorate_gateway::turns::Turns;
use quorate_transports::LinkId;
use quorate_types::{Bundle, ClientId, ClientRequest, Digest, Time};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// A frame and its claimed sender.
pub(crate) struct ClientFrame {
    pub client: ClientId,
    pub frame: Frame<ClientRequest>,
}

/// A client's bundle that the replica has read.
pub(crate) struct Arrival {
    pub link: LinkId,
    pub bundle: Bundle,
    /// It was verified, or being verified, before it arrived on this link.
    pub was_known: bool,
}

/// Bundles that are verified together, in the order in which they arrived.
pub(crate) struct Batch {
    pub arrivals: Vec<Arrival>,
    /// The forged ones, once that is known.
    pub forged: Option<BTreeSet<Digest>>,
}

/// Batches that are being verified, in the order in which their bundles arrived. They leave in this order too.
#[derive(Default)]
pub(crate) struct Batches {
    batches: VecDeque<Batch>,
    /// Number of batches that have left.
    left: u64,
    /// Bundles in the batches, and those that will be in the next one.
    pending: HashSet<Digest>,
}

impl Batches {
    /// Notes a bundle for the next batch. Returns false if it is in a batch already.
    pub fn note(&mut self, bundle: Digest) -> bool {
        self.pending.insert(bundle)
    }

    /// Returns the number of the next batch.
    pub fn next_number(&self) -> u64 {
        self.left + self.batches.len() as u64
    }

    pub fn push(&mut self, batch: Batch) {
        self.batches.push_back(batch);
    }

    /// Takes in which bundles of a batch are forged.
    pub fn settle(&mut self, number: u64, forged: BTreeSet<Digest>) {
        let at = usize::try_from(number - self.left).expect("the batch is here");
        let known = self.batches[at].forged.replace(forged);
        assert!(known.is_none(), "a batch is verified once");
    }

    /// Returns the next batch, if it is verified.
    pub fn pop(&mut self) -> Option<(Vec<Arrival>, BTreeSet<Digest>)> {
        self.batches.front()?.forged.as_ref()?;
        let Batch { arrivals, forged } = self.batches.pop_front()?;
        self.left += 1;
        for arrival in &arrivals {
            self.pending.remove(&arrival.bundle.digest());
        }
        Some((arrivals, forged?))
    }

    /// Drops the bundles of a closed link. Nobody waits for their replies, and the replica has been told that
    /// the link is gone.
    fn forget(&mut self, link: LinkId) {
        for batch in &mut self.batches {
            for gone in batch.arrivals.extract_if(.., |arrival| arrival.link == link) {
                self.pending.remove(&gone.bundle.digest());
            }
        }
    }
}

/// Waiting client frames, and the replica's records about their senders.
pub(crate) struct Clients {
    pub turns: Turns<LinkId, ClientFrame>,
    pub batches: Batches,
    /// Bundles that are handed to the replica, with the links on which they arrived.
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
            batches: Batches::default(),
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
    pub fn push(&mut self, link: LinkId, client: ClientId, frame: Frame<ClientRequest>) {
        self.turns.push(link, ClientFrame { client, frame });
    }

    /// Drops the frames and bundles of a closed link.
    pub fn forget(&mut self, link: LinkId) {
        self.batches.forget(link);
        self.turns.forget(link);
        self.left.extend(self.sources.remove(&link));
        self.last = None;
    }

    /// Returns the source of the bundles on a link. Bundles of one link are adjacent.
    pub fn source(&mut self, link: LinkId, outlet: &dyn Outlet) -> Source {
        match self.last {
            Some((last, source)) if last == link => source,
            _ => {
                let named = || Source::Client { crowd: outlet.crowd(link), link: link.0 };
                let source = *self.sources.entry(link).or_insert_with(named);
                self.last = Some((link, source));
                source
            }
        }
    }

    /// Returns the source of each submitted bundle.
    pub fn sources(&mut self, outlet: &dyn Outlet) -> Vec<Source> {
        (0..self.submitted.len()).map(|at| self.source(self.submitted[at].0, outlet)).collect()
    }

    /// Returns the number of frames that were not valid messages.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }
}
