//! Choice of the client link to evict when a new client connects and all places are taken.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// Default number of places for client links.
pub const MAX_LINKS: usize = 512;
/// Default number of places for client links from one address.
pub const MAX_LINKS_PER_ADDRESS: usize = 448;

/// A client link that occupies a place. `A` is an address, `T` a time.
#[derive(Clone, Copy, Debug)]
pub struct Holder<A, T> {
    /// Older links have smaller ids.
    pub id: u64,
    pub address: A,
    /// Whether the link has carried a genuine bundle.
    pub genuine: bool,
    /// Whether the link has been silent for so long that it may be evicted even if it was genuine.
    pub silent: bool,
    /// Time of the last frame.
    pub active: T,
}

/// Decision about a new link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entrance {
    Free,
    /// Admit it after closing the link with this id.
    Instead(u64),
    /// All places of its address are taken.
    AddressFull,
    /// All places are taken.
    Full,
}

/// Decides whether to admit a link from `address`, given `all` places in total and at most `most` per address.
pub fn entrance<A, T>(holders: &[Holder<A, T>], address: A, all: usize, most: usize) -> Entrance
where
    A: Copy + Eq + Hash,
    T: Copy + Ord,
{
    let of_address = holders.iter().filter(|holder| holder.address == address).count();
    if of_address >= most {
        return gives_way(holders, Some(address)).map_or(Entrance::AddressFull, Entrance::Instead);
    }
    if holders.len() >= all {
        return gives_way(holders, None).map_or(Entrance::Full, Entrance::Instead);
    }
    Entrance::Free
}

/// Returns the link to evict first, from one address or from all. Links without a genuine bundle come first: of the
/// address with the most such links, the one idle for the longest time. Then come silent links that were genuine.
pub fn gives_way<A, T>(holders: &[Holder<A, T>], of: Option<A>) -> Option<u64>
where
    A: Copy + Eq + Hash,
    T: Copy + Ord,
{
    let mut strangers: HashMap<A, usize> = HashMap::new();
    for holder in holders.iter().filter(|holder| !holder.genuine) {
        *strangers.entry(holder.address).or_default() += 1;
    }
    let candidates = holders.iter().filter(|holder| of.is_none_or(|address| holder.address == address));
    let rank = |holder: &&Holder<A, T>| {
        let crowd = if holder.genuine { 0 } else { strangers[&holder.address] };
        (!holder.genuine, crowd, Reverse(holder.active), Reverse(holder.id))
    };
    candidates.filter(|holder| !holder.genuine || holder.silent).max_by_key(rank).map(|holder| holder.id)
}
