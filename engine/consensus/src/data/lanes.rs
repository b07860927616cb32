//! Proposal order of bundles. Each source of bundles has a lane, and the lanes share this replica's own blocks fairly.
//!
//! This is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) over shares of a block. Each lane has a start:
//! the end of the last bundle that this replica proposed from it, or the clock when the lane became busy if that is
//! later. The bundle at the head of the lane with the earliest start is proposed next, so a lane with a backlog of any
//! length delays a bundle of another lane by about one bundle. The end of a bundle is later if more lanes of its source
//! group have pending bundles: a source group with many links gets no larger share than one with a single link. Keys
//! have no lanes, because anybody can create keys; the argument is in `docs/adr/025-a-share-for-each-source.md`.
//!
//! A lane pays only for this replica's own proposals. The bundles that an honest client sends to all replicas are also
//! proposed by the other leaders; if the lane paid for those, a client that sends each leader different bundles would
//! get as much from each leader alone as an honest client from all of them
//! (`docs/adr/096-a-leader-divides-its-own-blocks.md`).

use crate::config::Config;
use quorate_types::ReplicaId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque, binary_heap, vec_deque};
use std::num::NonZeroU64;

/// A source group may use up to this multiple of the pool's free space, and a link up to this
/// multiple of its group's free space. So there is always space for a new client.
const SHARE_OF_FREE: usize = 4;
/// One unit of virtual time is 2^-20 of a block. Shares keep 12 more bits until they are summed.
const UNIT_BITS: u32 = 20;
const EXTRA_BITS: u32 = 12;
/// Pseudo-link for the bundles of a source group's closed links, which share a lane. Transports number their links from
/// zero.
const GONE: u64 = u64::MAX;
/// Pseudo-lane of the bundles ahead of all lanes.
const AHEAD: u32 = u32::MAX;
/// Maximum number of void tickets in a lane in excess of the valid ones.
const VOID_SLACK: usize = 64;
/// Number of the first ticket of an arriving bundle. Tickets of returning bundles count down from it.
const FIRST_TICKET: u64 = 1 << 63;
/// Maximum number of tickets examined to find the start of a bundle in its lane, which takes about 20 us. A bundle
/// behind more tickets does not change lanes.
const MAX_EXAMINED_TICKETS: usize = 16_384;

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
        /// The source group: the address or network of the link, of which a client cannot easily obtain many.
        source_group: u64,
        link: u64,
    },
}

/// Place of a pending bundle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    lane: u32,
    /// Nonzero, so that `Option<Place>` takes no additional memory: the pool keeps one with each bundle.
    ticket: NonZeroU64,
}

impl Place {
    /// Returns whether it is ahead of all lanes.
    pub fn is_ahead(self) -> bool {
        self.lane == AHEAD
    }
}

/// Ticket of a pending bundle.
#[derive(Clone, Copy)]
struct Ticket {
    /// Ascending in each lane.
    number: u64,
    /// Slot of the bundle in the pool.
    slot: u32,
    /// Share of a block taken by the bundle; 0 if the ticket is void.
    cost: u32,
}

/// Reason for which a bundle leaves its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// This replica proposes it, and its lane pays for it.
    Proposed,
    /// It goes ahead of all lanes, and its lane pays for it.
    Promoted,
    /// Another leader proposes it, or it is dropped or moved to another lane.
    Free,
}

struct Lane {
    source: Source,
    source_group: u32,
    /// Neither its first nor its last ticket is void.
    queue: VecDeque<Ticket>,
    /// Virtual time at which the first bundle starts.
    start: u64,
    bundles: usize,
    bytes: usize,
    /// Sum over the pending bundles.
    cost: u64,
}

impl Lane {
    fn trim(&mut self) {
        while self.queue.front().is_some_and(|ticket| ticket.cost == 0) {
            self.queue.pop_front();
        }
        while self.queue.back().is_some_and(|ticket| ticket.cost == 0) {
            self.queue.pop_back();
        }
        if self.queue.len() > 2 * self.bundles + VOID_SLACK {
            self.queue.retain(|ticket| ticket.cost > 0);
        }
    }
}

/// Identity of a source group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum SourceGroupKey {
    /// Sources that are neither clients nor spreaders.
    #[default]
    Rest,
    Address(u64),
    /// Each spreader is a separate group that stands for all its clients.
    Spreader(ReplicaId),
}

#[derive(Default)]
struct SourceGroup {
    key: SourceGroupKey,
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
    /// The most recently used lane, cached because bundles of one link arrive consecutively.
    last: Option<(Source, u32)>,
    source_groups: Vec<SourceGroup>,
    by_source_group: BTreeMap<SourceGroupKey, u32>,
    /// Number of tickets issued to arriving bundles, and to returning bundles.
    arrived: u64,
    returned: u64,
    /// Start of the last bundle that this replica proposed.
    clock: u64,
    /// Number of bundles pending in lanes.
    waiting: usize,
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
            source_groups: Vec::new(),
            by_source_group: BTreeMap::new(),
            arrived: 0,
            returned: 0,
            clock: 0,
            waiting: 0,
        }
    }

    /// Returns whether a client's link may add a bundle of `bytes` bytes, given the free space in the whole pool.
    pub fn have_room(&mut self, source: Source, bytes: usize, (free_bundles, free_bytes): (usize, usize)) -> bool {
        let (lane, source_group) = self.lane_and_source_group(source);
        let bundles_of_source_group = SHARE_OF_FREE * free_bundles;
        let bytes_of_source_group = SHARE_OF_FREE * free_bytes;
        source_group.bundles < bundles_of_source_group
            && source_group.bytes + bytes <= bytes_of_source_group
            && lane.bundles < SHARE_OF_FREE * (bundles_of_source_group - source_group.bundles)
            && lane.bytes + bytes <= SHARE_OF_FREE * (bytes_of_source_group - source_group.bytes)
    }

    /// Returns the lane with the most pending bytes in a source's group, if it has more than twice as many as the
    /// source would have with another `bytes` bytes.
    pub fn larger(&mut self, source: Source, bytes: usize) -> Option<usize> {
        let (lane, _) = self.lane_and_source_group(source);
        let (source_group, least) = (lane.source_group, 2 * (lane.bytes + bytes));
        let lanes = self.lanes.iter().zip(0..).filter_map(|(lane, at)| Some((lane.as_ref()?, at)));
        let of_source_group = lanes.filter(|(lane, _)| lane.source_group == source_group && lane.bytes > least);
        of_source_group.max_by_key(|(lane, _)| lane.bytes).map(|(_, at)| at)
    }

    /// Returns the slot of the last bundle in a lane.
    pub fn newest(&self, lane: usize) -> Option<u32> {
        Some(self.lanes[lane].as_ref()?.queue.back()?.slot)
    }

    /// Appends a bundle to the lane of its source.
    pub fn push(&mut self, source: Source, slot: u32, commands: usize, bytes: usize) -> Place {
        self.arrived += 1;
        let ticket = Ticket { number: FIRST_TICKET + self.arrived, slot, cost: self.cost(commands, bytes) };
        self.enqueue(source, ticket, bytes, VecDeque::push_back)
    }

    /// Returns a bundle of an abandoned block to the head of its source's lane, or of its address's lane for closed
    /// links if its link is closed. It is not placed ahead of other lanes: otherwise a faulty leader could put a
    /// client's bundles ahead of all others by naming them in blocks that it abandons.
    pub fn put_back(&mut self, source: Source, slot: u32, commands: usize, bytes: usize) -> Place {
        self.returned += 1;
        let ticket = Ticket { number: FIRST_TICKET - self.returned, slot, cost: self.cost(commands, bytes) };
        let source = if self.by_source.contains_key(&source) { source } else { source.closed() };
        self.enqueue(source, ticket, bytes, VecDeque::push_front)
    }

    fn cost(&self, commands: usize, bytes: usize) -> u32 {
        let share = (commands as u64 * self.per_command + bytes as u64 * self.per_byte) >> EXTRA_BITS;
        u32::try_from(share).unwrap_or(u32::MAX).max(1)
    }

    fn enqueue(
        &mut self,
        source: Source,
        ticket: Ticket,
        bytes: usize,
        put: fn(&mut VecDeque<Ticket>, Ticket),
    ) -> Place {
        let clock = self.clock;
        let (lane, source_group) = self.lane_and_source_group(source);
        if lane.bundles == 0 {
            source_group.busy += 1;
            lane.start = lane.start.max(clock);
        }
        (lane.bundles, source_group.bundles) = (lane.bundles + 1, source_group.bundles + 1);
        (lane.bytes, source_group.bytes) = (lane.bytes + bytes, source_group.bytes + bytes);
        lane.cost += u64::from(ticket.cost);
        put(&mut lane.queue, ticket);
        self.waiting += 1;
        let lane = self.last.expect("the lookup sets the last lane").1;
        Place { lane, ticket: numbered(ticket.number) }
    }

    /// Moves a bundle from its lane, which pays for it, to the end of the bundles ahead of all lanes.
    pub fn promote(&mut self, place: Place, slot: u32, bytes: usize) -> Place {
        self.take(place, bytes, Exit::Promoted);
        self.arrived += 1;
        let number = FIRST_TICKET + self.arrived;
        self.ahead.push_back(Ticket { number, slot, cost: 1 });
        Place { lane: AHEAD, ticket: numbered(number) }
    }

    /// Removes a bundle of `bytes` bytes from its place.
    pub fn take(&mut self, place: Place, bytes: usize, exit: Exit) {
        if place.lane == AHEAD {
            let at = position(&self.ahead, place);
            self.ahead.remove(at);
            return;
        }
        let lane = self.lanes[place.lane as usize].as_mut().expect("a lane exists while bundles are pending in it");
        let at = position(&lane.queue, place);
        let cost = std::mem::take(&mut lane.queue[at].cost);
        let (start, at_source_group) = (lane.start, lane.source_group);
        (lane.bundles, lane.bytes, lane.cost) = (lane.bundles - 1, lane.bytes - bytes, lane.cost - u64::from(cost));
        lane.trim();
        let emptied = lane.bundles == 0;
        let closed = matches!(lane.source, Source::Client { link: GONE, .. });
        if exit == Exit::Proposed {
            self.clock = self.clock.max(start);
        }
        if exit != Exit::Free || bug!(ChargedForOthers) {
            let end = start.saturating_add(u64::from(cost).saturating_mul(self.weight(at_source_group)));
            self.lanes[place.lane as usize].as_mut().expect("it was just used").start = end;
        }
        let source_group = &mut self.source_groups[at_source_group as usize];
        (source_group.bundles, source_group.bytes) = (source_group.bundles - 1, source_group.bytes - bytes);
        source_group.busy -= u64::from(emptied);
        self.waiting -= 1;
        if emptied && closed {
            self.remove(place.lane);
        }
    }

    /// Returns the factor by which bundles of a source group end later than their cost alone implies. Bundles that
    /// peers relay, or that arrived with blocks, together have the share of one link of the address with the most busy
    /// links: their owner is unknown, and a client must gain nothing by sending its bundles through peers.
    fn weight(&self, source_group: u32) -> u64 {
        let source_group = &self.source_groups[source_group as usize];
        match source_group.key {
            SourceGroupKey::Rest => {
                let others =
                    self.source_groups.iter().filter(|other| other.lanes > 0 && other.key != SourceGroupKey::Rest);
                source_group.busy * others.map(|other| other.busy).max().unwrap_or_default().max(1)
            }
            _ => source_group.busy,
        }
    }

    /// Returns whether a bundle pending at `place` would be proposed earlier if it had arrived from `source`.
    pub fn would_gain(&mut self, place: Place, source: Source) -> bool {
        if place.is_ahead() || self.by_source.get(&source) == Some(&place.lane) {
            return false;
        }
        let clock = self.clock;
        let (other, _) = self.lane_and_source_group(source);
        let (start, cost, idle, source_group) =
            (other.start.max(clock), other.cost, other.bundles == 0, other.source_group);
        let weight =
            self.weight(source_group).max(1) + u64::from(idle && self.source_groups[source_group as usize].busy > 0);
        let then = start.saturating_add(cost.saturating_mul(weight));
        let Some(Some(lane)) = self.lanes.get(place.lane as usize) else { return false };
        let weight = self.weight(lane.source_group);
        let ahead = lane.queue.iter().take_while(|ticket| ticket.number != place.ticket.get());
        let mut start = lane.start;
        for (examined, ticket) in ahead.enumerate() {
            if start > then {
                break;
            }
            if examined == MAX_EXAMINED_TICKETS {
                return false;
            }
            start = start.saturating_add(u64::from(ticket.cost) * weight);
        }
        then < start
    }

    /// Handles the loss of a link. Returns the slots of the bundles in its lane, and the source for which to
    /// [push](Lanes::push) them again. The lane is removed once it is empty.
    pub fn leave(&mut self, source: Source) -> Option<(Source, Vec<u32>)> {
        let Source::Client { source_group, .. } = source else { return None };
        let at = *self.by_source.get(&source)?;
        let lane = self.lanes[at as usize].as_mut().expect("the lane index names only existing lanes");
        if lane.bundles == 0 {
            self.remove(at);
            return None;
        }
        // From now on it is removed as soon as it is empty, like the lane for closed links.
        lane.source = Source::Client { source_group, link: GONE };
        let slots = lane.queue.iter().filter(|ticket| ticket.cost > 0).map(|ticket| ticket.slot).collect();
        self.by_source.remove(&source);
        self.last = None;
        Some((Source::Client { source_group, link: GONE }, slots))
    }

    /// Returns the slot of the next bundle to propose.
    pub fn first(&self) -> Option<u32> {
        let heads = self.lanes.iter().flatten().filter_map(|lane| Some((lane.start, lane.queue.front()?)));
        let next = || heads.min_by_key(|(start, ticket)| (*start, ticket.number)).map(|(_, ticket)| ticket);
        self.ahead.front().or_else(next).map(|ticket| ticket.slot)
    }

    /// Removes all bundles and forgets all sources.
    pub fn clear(&mut self) {
        self.ahead.clear();
        self.lanes.clear();
        self.by_source.clear();
        self.source_groups.clear();
        self.by_source_group.clear();
        (self.last, self.waiting) = (None, 0);
    }

    /// Returns the slots of all pending bundles in proposal order.
    pub fn in_order(&self) -> InOrder<'_> {
        let weights: Vec<u64> =
            (0..self.source_groups.len() as u32).map(|source_group| self.weight(source_group)).collect();
        let heads = self.lanes.iter().zip(0..).filter_map(|(lane, at)| {
            let lane = lane.as_ref()?;
            Some(Reverse((lane.start, lane.queue.front()?.number, at, 0)))
        });
        InOrder { ahead: self.ahead.iter(), heads: heads.collect(), weights, lanes: &self.lanes }
    }

    pub fn invariants(&self) {
        let lanes = || self.lanes.iter().flatten();
        assert_eq!(
            lanes().map(|lane| lane.bundles).sum::<usize>(),
            self.waiting,
            "every pending bundle is counted in its lane"
        );
        assert_eq!(
            self.source_groups.iter().map(|source_group| source_group.bundles).sum::<usize>(),
            self.waiting,
            "every pending bundle is counted in its source group"
        );
        let busy: u64 = self.source_groups.iter().map(|source_group| source_group.busy).sum();
        assert_eq!(lanes().filter(|lane| lane.bundles > 0).count() as u64, busy, "the count of busy lanes is correct");
        for lane in lanes() {
            let good = || lane.queue.iter().filter(|ticket| ticket.cost > 0);
            assert_eq!(good().count(), lane.bundles, "a pending bundle has a ticket");
            assert_eq!(
                good().map(|ticket| u64::from(ticket.cost)).sum::<u64>(),
                lane.cost,
                "the sum of costs is correct"
            );
            assert!(lane.queue.len() <= 2 * lane.bundles + VOID_SLACK, "void tickets are compacted");
            assert!(lane.queue.front().is_none_or(|ticket| ticket.cost > 0), "the head of a lane is pending");
            assert!(lane.queue.iter().is_sorted_by_key(|ticket| ticket.number), "tickets are in order");
        }
    }

    fn lane_and_source_group(&mut self, source: Source) -> (&mut Lane, &mut SourceGroup) {
        let at = match self.last {
            Some((last, at)) if last == source => at,
            _ => {
                let at = self.by_source.get(&source).copied().unwrap_or_else(|| self.open(source));
                self.last = Some((source, at));
                at
            }
        };
        let lane = self.lanes[at as usize].as_mut().expect("the lane index names only existing lanes");
        let source_group = &mut self.source_groups[lane.source_group as usize];
        (lane, source_group)
    }

    fn open(&mut self, source: Source) -> u32 {
        let key = source.source_group_key();
        let source_group = self.by_source_group.get(&key).copied().unwrap_or_else(|| {
            let free = self
                .source_groups
                .iter()
                .position(|source_group| source_group.lanes == 0)
                .unwrap_or(self.source_groups.len());
            if free == self.source_groups.len() {
                self.source_groups.push(SourceGroup::default());
            }
            self.source_groups[free] = SourceGroup { key, ..SourceGroup::default() };
            self.by_source_group.insert(key, free as u32);
            free as u32
        });
        self.source_groups[source_group as usize].lanes += 1;
        let at = self.lanes.iter().position(Option::is_none).unwrap_or(self.lanes.len());
        if at == self.lanes.len() {
            self.lanes.push(None);
        }
        self.lanes[at] =
            Some(Lane { source, source_group, queue: VecDeque::new(), start: 0, bundles: 0, bytes: 0, cost: 0 });
        self.by_source.insert(source, at as u32);
        at as u32
    }

    fn remove(&mut self, at: u32) {
        let lane = self.lanes[at as usize].take().expect("the caller has just used this lane");
        if self.by_source.get(&lane.source) == Some(&at) {
            self.by_source.remove(&lane.source);
        }
        let source_group = &mut self.source_groups[lane.source_group as usize];
        source_group.lanes -= 1;
        if source_group.lanes == 0 {
            self.by_source_group.remove(&source_group.key);
        }
        self.last = None;
    }
}

/// Returns the index of a pending bundle in the queue of its lane.
fn position(queue: &VecDeque<Ticket>, place: Place) -> usize {
    // Leaders propose the bundles of a lane in order.
    if queue.front().is_some_and(|front| front.number == place.ticket.get()) {
        return 0;
    }
    let found = queue.binary_search_by_key(&place.ticket.get(), |ticket| ticket.number);
    found.expect("a pending bundle has a ticket")
}

fn numbered(ticket: u64) -> NonZeroU64 {
    NonZeroU64::new(ticket).expect("tickets count from the middle of their range")
}

impl Source {
    /// Returns the client's address, on which its share is based, or `None` if the source is not a client.
    pub fn source_group(&self) -> Option<u64> {
        match self {
            Source::Client { source_group, .. } => Some(*source_group),
            Source::Unnamed | Source::Peer(_) | Source::Spreader(_) => None,
        }
    }

    /// Returns the source of the bundles of a closed link.
    pub(crate) fn closed(self) -> Source {
        match self {
            Source::Client { source_group, .. } => Source::Client { source_group, link: GONE },
            other => other,
        }
    }

    fn source_group_key(&self) -> SourceGroupKey {
        match self {
            Source::Client { source_group, .. } => SourceGroupKey::Address(*source_group),
            Source::Spreader(peer) => SourceGroupKey::Spreader(*peer),
            Source::Unnamed | Source::Peer(_) => SourceGroupKey::Rest,
        }
    }
}

/// Iterator over the slots of pending bundles in the order of their starts.
pub(crate) struct InOrder<'a> {
    ahead: vec_deque::Iter<'a, Ticket>,
    /// Start, ticket number, lane and index in its queue.
    heads: BinaryHeap<Reverse<(u64, u64, usize, usize)>>,
    /// The factor of each source group.
    weights: Vec<u64>,
    lanes: &'a [Option<Lane>],
}

impl Iterator for InOrder<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if let Some(ticket) = self.ahead.next() {
            return Some(ticket.slot);
        }
        let mut head = self.heads.peek_mut()?;
        let Reverse((start, _, at, first)) = *head;
        let lane = self.lanes[at].as_ref().expect("an iteration removes no lane");
        let Ticket { slot, cost, .. } = lane.queue[first];
        let end = start.saturating_add(u64::from(cost).saturating_mul(self.weights[lane.source_group as usize]));
        let mut rest = (first + 1..).map_while(|next| Some((next, lane.queue.get(next)?)));
        match rest.find(|(_, ticket)| ticket.cost > 0) {
            Some((next, ticket)) => *head = Reverse((end, ticket.number, at, next)),
            None => drop(binary_heap::PeekMut::pop(head)),
        }
        Some(slot)
    }
}
