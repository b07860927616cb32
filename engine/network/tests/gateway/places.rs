//! Eviction: a new link replaces the least useful one.

use quorate_network::gateway::places::{Entrance, Holder, entrance, gives_way};

fn holder(id: u64, address: u8, genuine: bool, active: u64) -> Holder<u8, u64> {
    Holder { id, address, genuine, silent: false, active }
}

#[test]
fn the_idlest_stranger_of_the_address_with_most_strangers_is_closed() {
    let crowd = |id| holder(id, 1, false, 100 - id);
    let mut holders: Vec<_> = (0..5).map(crowd).collect();
    holders.extend([holder(10, 2, false, 0), holder(11, 1, true, 0)]);
    assert_eq!(gives_way(&holders, None), Some(4), "the longest idle link of the crowd");
    assert_eq!(gives_way(&holders, Some(2)), Some(10), "the only link of its address");
}

#[test]
fn genuine_links_keep_their_places_until_they_are_silent() {
    let mut holders: Vec<_> = (0..4).map(|id| holder(id, 1, true, id)).collect();
    assert_eq!(entrance(&holders, 1, 8, 8), Entrance::Free);
    assert_eq!(entrance(&holders, 1, 4, 8), Entrance::Full);
    assert_eq!(entrance(&holders, 1, 8, 4), Entrance::AddressFull);
    assert_eq!(entrance(&holders, 2, 8, 4), Entrance::Free, "another address has its own places");
    holders[2].silent = true;
    assert_eq!(entrance(&holders, 1, 4, 8), Entrance::Instead(2));
}
