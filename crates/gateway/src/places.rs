//! Who gives its place up when a newcomer dials and all places are taken.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// Places for clients' links, unless configured otherwise.
pub const MOST_LINKS: usize = 512;
/// Places for those of one address.
pub const MOST_LINKS_PER_ADDRESS: usize = 448;

/// A client's link that has a place. `A` is an address, `T` a time.
#[derive(Clone, Copy, Debug)]
pub struct Holder<A, T> {
    /// Its name: links that came earlier have smaller ones.
    pub id: u64,
    /// Where it comes from.
    pub address: A,
    /// It has sent something genuine.
    pub genuine: bool,
    /// It has said nothing for so long that it may go though it was genuine.
    pub silent: bool,
    /// When it was heard last.
    pub active: T,
}

/// Whether there is a place for a newcomer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entrance {
    /// There is.
    Free,
    /// There is if this one goes.
    Instead(u64),
    /// There is none for its address.
    AddressFull,
    /// There is none.
    Full,
}

/// Looks for a place for a link from an address, where there are so many for all and so many for one address.
pub fn entrance<A, T>(holders: &[Holder<A, T>], address: A, all: usize, most: usize) -> Entrance
where
    A: Copy + Eq + Hash,
    T: Copy + Ord,
{
    let of_address = holders.iter().filter(|holder| holder.address == address).count();
    if of_address >= most {
        return gives_way(holders, Some(address)).map_or(Entrance::AddressFull, Entrance::Instead);
    }
    match holders.len() >= all {
        true => gives_way(holders, None).map_or(Entrance::Full, Entrance::Instead),
        false => Entrance::Free,
    }
}

/// The link that is missed least, of one address or of all: one that has shown nothing genuine, of the address with the most of those, the
/// one that was idle for longest; or else one that was genuine and is not heard any more.
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
