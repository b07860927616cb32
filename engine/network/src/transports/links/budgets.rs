//! Limits on the memory and places of client links.
//!
//! A client is anyone who can dial. All clients' links share one memory budget, and each address gets a share of the
//! places. If either runs out, links that have carried nothing genuine
//! ([`Transport::vouch`](crate::transports::Transport::vouch)) are closed first: for memory, the link that holds the
//! most; for places, the longest idle link of the address with the most links.

use super::table::index;
use super::{Audience, Linked, Links};
use crate::gateway::places::{self, Entrance, Holder};
use crate::transports::config::LinkConfig;
use crate::transports::error::LinkError;
use crate::transports::{LinkId, Remote};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Memory per unserved frame in addition to its bytes.
const FRAME_OVERHEAD_BYTES: usize = 128;
/// Divisor for shares of memory. One link's unserved frames take at most 1/8 of the free memory, so that some is left
/// for others. Links that have carried nothing genuine are closed if less than 1/8 of all memory is free.
const FREE_SHARES: usize = 8;
/// Bytes per read of a frame that exceeds its link's share.
const LONG_FRAME_READ_BYTES: usize = 64 << 10;
/// Time after which an idle genuine client may lose its place to a new one.
const GENUINE_IDLE: Duration = Duration::from_secs(60);

/// A client link's share of the common budgets.
pub struct Share {
    /// Source address: an IPv4 address, or the /64 network of an IPv6 address.
    pub source: IpAddr,
    /// Whether it has sent something genuine.
    pub genuine: bool,
    /// Bytes of its frames that were handed out and not released yet.
    unserved: usize,
    /// Memory charged to it in the budget.
    accounted: usize,
    /// Whether reading is suspended until memory is available.
    paused: bool,
    /// Time of its last frame, to the precision of the sweeps.
    pub active: Instant,
    /// Frames received as of the last sweep.
    frames_seen: u64,
}

impl Share {
    pub fn new(address: SocketAddr, now: Instant) -> Share {
        Share {
            source: source(address.ip()),
            genuine: false,
            unserved: 0,
            accounted: 0,
            paused: false,
            active: now,
            frames_seen: 0,
        }
    }

    /// Returns whether frames have arrived since the last sweep; `frames` is the number received so far.
    pub fn looked_at(&mut self, frames: u64) -> bool {
        std::mem::replace(&mut self.frames_seen, frames) != frames
    }

    /// Notes that a frame of this many bytes was handed out.
    #[inline]
    pub fn handed_out(&mut self, bytes: usize) {
        self.unserved += bytes + FRAME_OVERHEAD_BYTES;
    }

    /// Returns the source group as a number: an IPv4 address, or the network part of an IPv6 address.
    pub fn source_group(&self) -> u64 {
        match self.source {
            IpAddr::V4(four) => u64::from(four.to_bits()),
            IpAddr::V6(six) => (six.to_bits() >> 64) as u64,
        }
    }

    /// Returns whether it waits for memory at this end, rather than for its remote.
    pub fn is_paused(&self) -> bool {
        self.paused
    }
}

/// Returns the source group of an address. An owner of one IPv6 address has a whole /64 network of them.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => Ipv6Addr::from(u128::from(six) & !u128::from(u64::MAX)).into(),
        four => four,
    }
}

/// Memory budget of all client links: frames received but not served, and queues.
pub struct Memory {
    limit: usize,
    window: usize,
    used: usize,
    peak: usize,
}

impl Memory {
    pub fn new(config: &LinkConfig) -> Memory {
        Memory { limit: config.client_memory_bytes, window: config.client_window_bytes, used: 0, peak: 0 }
    }

    /// Returns the peak of the bytes in use.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// Updates the memory charged to a link.
    #[inline]
    pub fn account<L: Linked>(&mut self, link: &mut L) {
        let now = link.share.unserved + link.held_bytes();
        self.used = self.used - link.share.accounted + now;
        self.peak = self.peak.max(self.used);
        link.share.accounted = now;
    }

    /// Updates the memory charged to a link, if it is a client's.
    #[inline]
    pub fn note<L: Linked>(&mut self, link: &mut L) {
        if let Some(Remote::Client(_)) = link.remote() {
            self.account(link);
        }
    }

    /// Releases the memory of a closed link.
    pub fn settle<L: Linked>(&mut self, link: &L) {
        self.used -= link.share.accounted;
    }

    /// Returns how many bytes of a link may be read now; 0 if it has to wait until its frames are served.
    pub fn room<L: Linked>(&self, link: &L) -> usize {
        let free = self.limit.saturating_sub(self.used);
        let share = self.window.min(free / FREE_SHARES);
        let held = link.share.unserved + link.partial_bytes();
        match share.saturating_sub(held) {
            // A frame larger than the share is read only if the link has no other frames unserved.
            0 if link.share.unserved == 0 => free.min(LONG_FRAME_READ_BYTES),
            room => room,
        }
    }

    /// Returns whether a packet of a link may be accepted. A refused packet is lost, and its retransmission takes much
    /// longer than serving the pending frames. So only the free memory limits a link, not the window.
    pub fn has_room_for_packet<L: Linked>(&self, link: &L) -> bool {
        let free = self.limit.saturating_sub(self.used);
        link.share.unserved == 0 || link.share.unserved + link.partial_bytes() < free / FREE_SHARES
    }

    /// Returns whether links that have carried nothing genuine must be closed.
    #[inline]
    fn is_short(&self) -> bool {
        self.used > self.limit / FREE_SHARES * (FREE_SHARES - 1)
    }
}

impl<L: Linked> Links<L> {
    /// Suspends reading from a link until memory is available.
    pub fn pause(&mut self, link: &mut L) {
        if !std::mem::replace(&mut link.share.paused, true) {
            self.paused.push(link.id);
        }
    }

    /// Resumes reading from paused links as far as memory is available.
    pub fn resume(&mut self) {
        let (links, memory, unread) = (&mut self.table, &self.memory, &mut self.unread);
        self.paused.retain(|id| {
            let Some(link) = links.get_mut(*id) else { return false };
            link.share.paused = memory.room(link) == 0;
            if !link.share.paused && !link.unread {
                link.unread = true;
                unread.push(*id);
            }
            link.share.paused
        });
    }

    /// Notes that a client's frame was served.
    pub fn release_frame(&mut self, id: LinkId, bytes: usize) {
        let Some(link) = self.table.get_mut(id) else { return };
        let cost = bytes + FRAME_OVERHEAD_BYTES;
        assert!(cost <= link.share.unserved, "each frame is released once");
        link.share.unserved -= cost;
        self.memory.account(link);
    }

    /// Updates the memory charged to a client's link that is outside the table. If too little is left, closes other
    /// links, or fails if this one must be closed.
    pub fn account(&mut self, link: &mut L) -> Result<(), LinkError> {
        self.memory.account(link);
        match self.memory.is_short() {
            true => self.reclaim(Some(link)),
            false => Ok(()),
        }
    }

    /// Updates the memory of a link in the table, as [`Links::account`] does.
    #[inline]
    pub fn account_for(&mut self, id: LinkId) {
        let Some(link) = self.table.get_mut(id) else { return };
        self.memory.account(link);
        if self.memory.is_short() {
            self.reclaim(None).expect("no link is out of the table");
        }
    }

    /// Closes the links that hold the most, starting with those that have carried nothing genuine, until memory is
    /// available. `own` is outside the table; returns an error if it is the one to close.
    fn reclaim(&mut self, own: Option<&L>) -> Result<(), LinkError> {
        while self.memory.is_short() {
            let any = self.memory.used > self.memory.limit;
            let holds = |link: &L| (!link.share.genuine, link.share.accounted);
            let may_go = |link: &&L| (any || !link.share.genuine) && link.share.accounted > 0;
            let victim = self.table.iter().filter(may_go).max_by_key(|link| holds(link));
            let why = LinkError::Memory(self.config.client_memory_bytes);
            match (own.filter(may_go), victim) {
                (Some(own), Some(other)) if holds(own) >= holds(other) => return Err(why),
                (Some(_), None) => return Err(why),
                (_, Some(other)) => {
                    let at = index(other.id);
                    self.cut(at, why);
                }
                (None, None) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Frees a place for an authenticated client if necessary, or returns the reason why it is refused.
    pub fn make_place(&mut self, newcomer: &L) -> Result<(), LinkError> {
        let source = newcomer.share.source;
        let (all, most) = (self.config.max_client_links, self.config.max_client_links_per_address);
        match places::entrance(&self.holders(), source, all, most) {
            Entrance::Free => {}
            Entrance::Instead(id) => self.cut(index(LinkId(id)), LinkError::Idle),
            Entrance::AddressFull => return Err(LinkError::TooManyFromAddress { address: source, links: most }),
            Entrance::Full => return Err(LinkError::TooManyClients(all)),
        }
        Ok(())
    }

    /// Returns the client links that occupy a place.
    fn holders(&self) -> Vec<Holder<IpAddr, Instant>> {
        let now = Instant::now();
        let clients = self.table.iter().filter(|link| matches!(link.remote(), Some(Remote::Client(_))));
        let holder = |link: &L| Holder {
            id: link.id.0,
            address: link.share.source,
            genuine: link.share.genuine,
            silent: now.duration_since(link.share.active) >= GENUINE_IDLE,
            active: link.share.active,
        };
        clients.map(holder).collect()
    }

    /// Closes the least valuable client link. Returns whether there was one.
    pub fn cut_idle(&mut self, why: LinkError) -> bool {
        let Some(id) = places::gives_way(&self.holders(), None) else { return false };
        self.cut(index(LinkId(id)), why);
        true
    }

    /// Evicts unauthenticated links to admit a new one at a listener: silent strangers must not keep out honest ends,
    /// and many clients at their listener must not keep out peers.
    pub fn make_room_for_newcomer(&mut self, address: SocketAddr, audience: Audience) {
        let source = source(address.ip());
        let of_source = |link: &L| link.audience == audience && link.share.source == source;
        if self.waiting().filter(|link| of_source(link)).count() >= self.config.max_unauthenticated_links_per_address {
            self.evict_oldest(of_source);
        }
        if self.unauthenticated >= self.config.max_unauthenticated_links {
            let crowd = |audience: Audience| self.waiting().filter(|link| link.audience == audience).count();
            let crowded = Audience::ALL
                .into_iter()
                .max_by_key(|audience| crowd(*audience))
                .expect("every transport has listeners");
            self.evict_oldest(|link| link.audience == crowded);
        }
    }

    /// Returns the accepted links that are not authenticated yet.
    fn waiting(&self) -> impl Iterator<Item = &L> {
        self.table.iter().filter(|link| link.remote().is_none() && link.dialled.is_none())
    }

    /// Closes the link that has waited longest for its handshake, among those that `may_go`. Returns whether there was
    /// one.
    pub fn evict_oldest(&mut self, may_go: impl Fn(&L) -> bool) -> bool {
        let candidates = self.waiting().filter(|link| may_go(link));
        let oldest = candidates.min_by_key(|link| (link.deadline, link.id)).map(|link| index(link.id));
        let Some(at) = oldest else { return false };
        self.cut(at, LinkError::Crowded);
        true
    }

    /// Closes a link in the table that belongs to a client or is not authenticated.
    pub fn cut(&mut self, at: usize, why: LinkError) {
        let link = self.table.take(at).expect("a link that is cut is in the table");
        let mut none = Vec::new();
        self.end(&link, why, &mut none);
        assert!(none.is_empty(), "events of clients are reported with their frames");
    }
}
