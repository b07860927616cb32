//! Choice of the client link to close when a new client connects and all places are taken.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// Default number of places for client links.
pub const MAX_LINKS: usize = 512;
/// Default number of places for client links of one address.
pub const MAX_LINKS_PER_ADDRESS: usize = 448;

/// Client link that has a place. `A` is an address, `T` a time.
#[derive(Clone, Copy, Debug)]
pub struct Holder<A, T> {
    /// Older links have smaller ids.
    pub id: u64,
    pub address: A,
    /// The link has carried a genuine bundle.
    pub genuine: bool,
    /// The link has been silent for so long that it may be closed even if it was genuine.
    pub silent: bool,
    /// Time of the last frame.
    pub active: T,
}

/// Answer to a new link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entrance {
    Free,
    /// Closing the link with this id makes room.
    Instead(u64),
    /// No place is left for the address.
    AddressFull,
    /// No place is left.
    Full,
}

/// Finds a place for a link from `address`, given `all` places in total and at most `most` for one address.
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

/// Returns the link to close first, of one address or of all. Links that have carried nothing genuine come first: of
/// the address with the most such links, the one that has been idle longest. After them come silent links that were
/// genuine.
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
