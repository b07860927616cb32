//! Order in which bundles are proposed. Each source of bundles has a lane, and the lanes share blocks fairly.
//!
//! This is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) over shares of a block. An arriving bundle
//! gets a start: the end of the previous bundle in its lane, or now if that is later. Bundles are proposed in the order
//! of their starts, so a lane with a backlog of any length delays a bundle of another lane by about one bundle. The end
//! of a bundle is later the more lanes of its crowd have bundles waiting: a crowd with many links gets no larger share
//! than one with a single link. Keys have no lanes, because anyone can make keys; the argument is in
//! `docs/adr/025-a-share-for-each-source.md`.

use crate::config::Config;
use quorate_types::ReplicaId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::num::NonZeroU64;

/// A crowd may use up to this multiple of the free room, and a link up to this multiple of the free room of its crowd.
/// So there is always room for a new client.
const SHARE_OF_FREE: usize = 4;
/// One unit of virtual time is 2^-20 of a block. Shares keep 12 more bits until they are summed.
const UNIT_BITS: u32 = 20;
const EXTRA_BITS: u32 = 12;
/// Pseudo-link for the bundles of a crowd's closed links, which share a lane. Transports number their links from zero.
const GONE: u64 = u64::MAX;
/// Pseudo-lane of the bundles that go ahead of all lanes.
const AHEAD: u32 = u32::MAX;

/// Source from which a bundle arrived at this replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Source {
    /// The host names no source, or the bundle arrived with a block.
    #[default]
    Unnamed,
    /// A peer relayed it.
    Peer(ReplicaId),
    /// A peer spread it for one of its clients.
    Spreader(ReplicaId),
    Client {
        /// The address or network of the link: a client cannot easily obtain many of them.
        crowd: u64,
        link: u64,
    },
}

/// Place of a pending bundle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    lane: u32,
    /// Non-zero, so that `Option<Place>` takes no extra room: the pool keeps one with each bundle.
    ticket: NonZeroU64,
}

impl Place {
    pub fn ticket(self) -> u64 {
        self.ticket.get()
    }
}

/// Start, ticket number and slot in the pool of a pending bundle. The ticket is void once the bundle is pending
/// elsewhere or no longer pending.
type Ticket = (u64, u64, u32);

struct Lane {
    source: Source,
    crowd: u32,
    queue: VecDeque<Ticket>,
    /// The start of the next bundle, unless that is already past.
    end: u64,
    bundles: usize,
    bytes: usize,
}

/// What the sources of a crowd have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum CrowdKey {
    /// They are neither clients nor spreaders.
    #[default]
    Rest,
    Address(u64),
    /// Each spreader is a crowd of its own: it stands for all its clients.
    Spreader(ReplicaId),
}

#[derive(Default)]
struct Crowd {
    key: CrowdKey,
    lanes: u32,
    /// Number of lanes in which bundles are pending.
    busy: u64,
    bundles: usize,
    bytes: usize,
}

/// All pending bundles, by source.
pub(crate) struct Lanes {
    per_command: u64,
    per_byte: u64,
    ahead: VecDeque<Ticket>,
    lanes: Vec<Option<Lane>>,
    by_source: BTreeMap<Source, u32>,
    /// Last lane looked up: bundles of one link arrive in a row.
    last: Option<(Source, u32)>,
    crowds: Vec<Crowd>,
    by_crowd: BTreeMap<CrowdKey, u32>,
    tickets: u64,
    /// Start of the next bundle to propose, at the last lookup.
    clock: u64,
    /// Latest end over all lanes.
    latest: u64,
    /// Number of bundles pending in lanes.
    waiting: usize,
    /// Number of tickets, including void ones.
    queued: usize,
}

impl Lanes {
    pub fn new(config: &Config) -> Lanes {
        let share_of = |whole: usize| (1 << (UNIT_BITS + EXTRA_BITS)) / whole.max(1) as u64;
        Lanes {
            per_command: share_of(config.batch.max_commands()),
            per_byte: share_of(config.batch_bytes),
            ahead: VecDeque::new(),
            lanes: Vec::new(),
            by_source: BTreeMap::new(),
            last: None,
            crowds: Vec::new(),
            by_crowd: BTreeMap::new(),
            tickets: 0,
            clock: 0,
            latest: 0,
            waiting: 0,
            queued: 0,
        }
    }

    /// Returns whether a client's link may add a bundle of `bytes` bytes, given the free room in the whole pool.
    pub fn have_room(&mut self, source: Source, bytes: usize, (free_bundles, free_bytes): (usize, usize)) -> bool {
        let (lane, crowd) = self.lane_and_crowd(source);
        let bundles_of_crowd = SHARE_OF_FREE * free_bundles;
        let bytes_of_crowd = SHARE_OF_FREE * free_bytes;
        crowd.bundles < bundles_of_crowd
            && crowd.bytes + bytes <= bytes_of_crowd
            && lane.bundles < SHARE_OF_FREE * (bundles_of_crowd - crowd.bundles)
            && lane.bytes + bytes <= SHARE_OF_FREE * (bytes_of_crowd - crowd.bytes)
    }

    /// Returns the lane with the most pending bytes in a source's crowd, if it has more than twice as many as the
    /// source would have with another `bytes` bytes.
    pub fn larger(&mut self, source: Source, bytes: usize) -> Option<usize> {
        let (lane, _) = self.lane_and_crowd(source);
        let (crowd, least) = (lane.crowd, 2 * (lane.bytes + bytes));
        let lanes = self.lanes.iter().zip(0..).filter_map(|(lane, at)| Some((lane.as_ref()?, at)));
        let of_crowd = lanes.filter(|(lane, _)| lane.crowd == crowd && lane.bytes > least);
        of_crowd.max_by_key(|(lane, _)| lane.bytes).map(|(_, at)| at)
    }

    /// Returns the last ticket of a lane.
    pub fn newest(&self, lane: usize) -> Option<(u64, u32)> {
        let (_, ticket, slot) = self.lanes[lane].as_ref()?.queue.back()?;
        Some((*ticket, *slot))
    }

    /// Removes the last ticket, which is void, from a lane.
    pub fn drop_newest(&mut self, lane: usize) {
        let lane = self.lanes[lane].as_mut().expect("the lane of a ticket exists");
        self.queued -= usize::from(lane.queue.pop_back().is_some());
    }

    /// Appends a bundle to the lane of its source.
    pub fn push(&mut self, source: Source, slot: u32, commands: usize, bytes: usize) -> Place {
        let share = (commands as u64 * self.per_command + bytes as u64 * self.per_byte) >> EXTRA_BITS;
        let (clock, ticket) = (self.clock, self.tickets + 1);
        let (lane, crowd) = self.lane_and_crowd(source);
        crowd.busy += u64::from(lane.bundles == 0);
        (lane.bundles, crowd.bundles) = (lane.bundles + 1, crowd.bundles + 1);
        (lane.bytes, crowd.bytes) = (lane.bytes + bytes, crowd.bytes + bytes);
        let start = lane.end.max(clock);
        lane.end = start.saturating_add(share.saturating_mul(crowd.busy));
        lane.queue.push_back((start, ticket, slot));
        let end = lane.end;
        self.latest = self.latest.max(end);
        (self.tickets, self.waiting, self.queued) = (ticket, self.waiting + 1, self.queued + 1);
        let lane = self.last.expect("the lookup sets the last lane").1;
        Place { lane, ticket: numbered(ticket) }
    }

    /// Puts a bundle ahead of all others.
    pub fn push_ahead(&mut self, slot: u32) -> Place {
        self.tickets += 1;
        self.queued += 1;
        self.ahead.push_front((0, self.tickets, slot));
        Place { lane: AHEAD, ticket: numbered(self.tickets) }
    }

    /// Removes a bundle of `bytes` bytes from its place.
    pub fn take(&mut self, place: Place, bytes: usize) {
        let is_first = |queue: &VecDeque<Ticket>| queue.front().is_some_and(|front| front.1 == place.ticket());
        if place.lane == AHEAD {
            if is_first(&self.ahead) {
                self.ahead.pop_front();
                self.queued -= 1;
            }
            return;
        }
        let lane = self.lanes[place.lane as usize].as_mut().expect("a lane exists while bundles are pending in it");
        let crowd = &mut self.crowds[lane.crowd as usize];
        // A proposer takes the bundles in the order of the queue.
        if is_first(&lane.queue) {
            lane.queue.pop_front();
            self.queued -= 1;
        }
        (lane.bundles, crowd.bundles) = (lane.bundles - 1, crowd.bundles - 1);
        (lane.bytes, crowd.bytes) = (lane.bytes - bytes, crowd.bytes - bytes);
        self.waiting -= 1;
        if self.waiting == 0 {
            self.clock = self.latest;
        }
        if lane.bundles == 0 {
            crowd.busy -= 1;
            if matches!(lane.source, Source::Client { link: GONE, .. }) {
                self.remove(place.lane);
            }
        }
    }

    /// Returns whether a bundle pending at `place` would be proposed earlier if it had arrived from `source`.
    pub fn would_gain(&mut self, place: Place, source: Source) -> bool {
        let Some(Some(lane)) = self.lanes.get(place.lane as usize) else { return false };
        let found = lane.queue.binary_search_by_key(&place.ticket(), |(_, ticket, _)| *ticket);
        let start = lane.queue[found.expect("a pending bundle has a ticket")].0;
        let clock = self.clock;
        self.lane_and_crowd(source).0.end.max(clock) < start
    }

    /// Handles the loss of a link. Returns the tickets of its lane, including void ones, and the source for which to
    /// [push](Lanes::push) them again. The lane is removed once it is empty.
    pub fn leave(&mut self, source: Source) -> Option<(Source, Vec<(u64, u32)>)> {
        let Source::Client { crowd, .. } = source else { return None };
        let at = *self.by_source.get(&source)?;
        let lane = self.lanes[at as usize].as_mut().expect("the lane index names only existing lanes");
        if lane.bundles == 0 {
            self.remove(at);
            return None;
        }
        // From now on it is removed as soon as it is empty, like the lane for closed links.
        lane.source = Source::Client { crowd, link: GONE };
        let tickets = lane.queue.iter().map(|(_, ticket, slot)| (*ticket, *slot)).collect();
        self.by_source.remove(&source);
        self.last = None;
        Some((Source::Client { crowd, link: GONE }, tickets))
    }

    /// Removes void tickets from the heads of the queues and advances the virtual clock.
    pub fn trim(&mut self, is_good: impl Fn(u32, u64) -> bool) {
        let queues = self.lanes.iter_mut().flatten().map(|lane| &mut lane.queue);
        for queue in queues.chain([&mut self.ahead]) {
            while queue.front().is_some_and(|(_, ticket, slot)| !is_good(*slot, *ticket)) {
                queue.pop_front();
                self.queued -= 1;
            }
        }
        let starts = self.lanes.iter().flatten().filter_map(|lane| Some(lane.queue.front()?.0));
        self.clock = self.clock.max(starts.min().unwrap_or_default());
    }

    /// Returns the slot of the next bundle to propose. The queues must be [trimmed](Lanes::trim).
    pub fn first(&self) -> Option<u32> {
        let heads = self.lanes.iter().flatten().filter_map(|lane| lane.queue.front());
        self.ahead.front().or_else(|| heads.min_by_key(|(start, ticket, _)| (*start, *ticket))).map(|head| head.2)
    }

    /// Removes all void tickets.
    pub fn compact(&mut self, is_good: impl Fn(u32, u64) -> bool) {
        let queues = self.lanes.iter_mut().flatten().map(|lane| &mut lane.queue);
        self.queued = 0;
        for queue in queues.chain([&mut self.ahead]) {
            queue.retain(|(_, ticket, slot)| is_good(*slot, *ticket));
            self.queued += queue.len();
        }
    }

    /// Returns the number of tickets, including void ones.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Removes all bundles and forgets all sources.
    pub fn clear(&mut self) {
        self.ahead.clear();
        self.lanes.clear();
        self.by_source.clear();
        self.crowds.clear();
        self.by_crowd.clear();
        (self.last, self.waiting, self.queued) = (None, 0, 0);
        self.clock = self.latest;
    }

    /// Returns all tickets in the order in which their bundles are to be proposed.
    pub fn in_order(&self) -> InOrder<'_> {
        let heads = self.lanes.iter().zip(0..).filter_map(|(lane, at)| {
            let (start, ticket, _) = lane.as_ref()?.queue.front()?;
            Some(Reverse((*start, *ticket, at, 0)))
        });
        InOrder { lanes: self, ahead: 0, heads: heads.collect() }
    }

    pub fn invariants(&self) {
        let lanes = || self.lanes.iter().flatten();
        assert_eq!(
            lanes().map(|lane| lane.bundles).sum::<usize>(),
            self.waiting,
            "every pending bundle is counted in its lane"
        );
        assert_eq!(
            self.crowds.iter().map(|crowd| crowd.bundles).sum::<usize>(),
            self.waiting,
            "every pending bundle is counted in its crowd"
        );
        let busy: u64 = self.crowds.iter().map(|crowd| crowd.busy).sum();
        assert_eq!(lanes().filter(|lane| lane.bundles > 0).count() as u64, busy, "the count of busy lanes is correct");
        assert!(lanes().all(|lane| lane.bundles <= lane.queue.len()), "a pending bundle has a ticket");
        let queued = lanes().map(|lane| lane.queue.len()).sum::<usize>() + self.ahead.len();
        assert_eq!(queued, self.queued, "the count of tickets is correct");
    }

    fn lane_and_crowd(&mut self, source: Source) -> (&mut Lane, &mut Crowd) {
        let at = match self.last {
            Some((last, at)) if last == source => at,
            _ => {
                let at = self.by_source.get(&source).copied().unwrap_or_else(|| self.open(source));
                self.last = Some((source, at));
                at
            }
        };
        let lane = self.lanes[at as usize].as_mut().expect("the lane index names only existing lanes");
        let crowd = &mut self.crowds[lane.crowd as usize];
        (lane, crowd)
    }

    fn open(&mut self, source: Source) -> u32 {
        let key = source.crowd_key();
        let crowd = self.by_crowd.get(&key).copied().unwrap_or_else(|| {
            let free = self.crowds.iter().position(|crowd| crowd.lanes == 0).unwrap_or(self.crowds.len());
            if free == self.crowds.len() {
                self.crowds.push(Crowd::default());
            }
            self.crowds[free] = Crowd { key, ..Crowd::default() };
            self.by_crowd.insert(key, free as u32);
            free as u32
        });
        self.crowds[crowd as usize].lanes += 1;
        let at = self.lanes.iter().position(Option::is_none).unwrap_or(self.lanes.len());
        if at == self.lanes.len() {
            self.lanes.push(None);
        }
        self.lanes[at] = Some(Lane { source, crowd, queue: VecDeque::new(), end: 0, bundles: 0, bytes: 0 });
        self.by_source.insert(source, at as u32);
        at as u32
    }

    fn remove(&mut self, at: u32) {
        let lane = self.lanes[at as usize].take().expect("the caller has just used this lane");
        self.queued -= lane.queue.len();
        if self.by_source.get(&lane.source) == Some(&at) {
            self.by_source.remove(&lane.source);
        }
        let crowd = &mut self.crowds[lane.crowd as usize];
        crowd.lanes -= 1;
        if crowd.lanes == 0 {
            self.by_crowd.remove(&crowd.key);
        }
        self.last = None;
    }
}

fn numbered(ticket: u64) -> NonZeroU64 {
    NonZeroU64::new(ticket).expect("tickets count from 1")
}

impl Source {
    /// Returns the client's address, on which its share is based, or `None` if the source is not a client.
    pub fn crowd(&self) -> Option<u64> {
        match self {
            Source::Client { crowd, .. } => Some(*crowd),
            Source::Unnamed | Source::Peer(_) | Source::Spreader(_) => None,
        }
    }

    /// Returns the source of the bundles of a closed link.
    pub(crate) fn closed(self) -> Source {
        match self {
            Source::Client { crowd, .. } => Source::Client { crowd, link: GONE },
            other => other,
        }
    }

    fn crowd_key(&self) -> CrowdKey {
        match self {
            Source::Client { crowd, .. } => CrowdKey::Address(*crowd),
            Source::Spreader(peer) => CrowdKey::Spreader(*peer),
            Source::Unnamed | Source::Peer(_) => CrowdKey::Rest,
        }
    }
}

/// Iterator over the tickets in the order of their starts.
pub(crate) struct InOrder<'a> {
    lanes: &'a Lanes,
    ahead: usize,
    /// Start, ticket, lane and position in its queue.
    heads: BinaryHeap<Reverse<(u64, u64, usize, usize)>>,
}

impl Iterator for InOrder<'_> {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        if let Some((_, ticket, slot)) = self.lanes.ahead.get(self.ahead) {
            self.ahead += 1;
            return Some((*ticket, *slot));
        }
        let mut head = self.heads.peek_mut()?;
        let Reverse((_, ticket, lane, at)) = *head;
        let queue = &self.lanes.lanes[lane].as_ref().expect("an iteration removes no lane").queue;
        match queue.get(at + 1) {
            Some((start, next, _)) => *head = Reverse((*start, *next, lane, at + 1)),
            None => drop(std::collections::binary_heap::PeekMut::pop(head)),
        }
        Some((ticket, queue[at].2))
    }
}
