//! Addresses of endpoints. They exist only inside the emulated network, so they collide with nothing on the host.

use std::net::Ipv4Addr;

/// The first two bytes of all addresses.
pub const NETWORK: [u8; 2] = [10, 77];
/// Bits of the network's prefix.
pub const PREFIX_BITS: u8 = 16;
/// Maximum number of endpoints.
pub const MAX_ENDS: usize = 0xff00;
/// Address from which the router reflects datagrams.
pub const MIRROR: Ipv4Addr = Ipv4Addr::new(NETWORK[0], NETWORK[1], 255, 254);

/// Returns the address of an endpoint.
pub fn address_of(end: usize) -> Ipv4Addr {
    let [high, low] = u16::try_from(end + 1).expect("the number of endpoints was checked").to_be_bytes();
    Ipv4Addr::new(NETWORK[0], NETWORK[1], high, low)
}

/// Returns the endpoint with an address; `None` if it is outside of the network.
pub fn end_at(address: Ipv4Addr) -> Option<usize> {
    let [first, second, high, low] = address.octets();
    let number = usize::from(u16::from_be_bytes([high, low]));
    ([first, second] == NETWORK).then(|| number.checked_sub(1)).flatten()
}
