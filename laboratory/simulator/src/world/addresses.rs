//! Addresses of simulated endpoints.

use std::net::SocketAddr;

/// UDP port of every endpoint.
const PORT: u16 = 4_000;

/// Returns the address of an endpoint.
pub(super) fn address(end: usize) -> SocketAddr {
    ([10, 0, (end >> 8) as u8, end as u8], PORT).into()
}

/// Returns the endpoint with this address, if there is one.
pub(super) fn endpoint(address: SocketAddr, ends: usize) -> Option<usize> {
    let SocketAddr::V4(v4) = address else { return None };
    let [ten, zero, high, low] = v4.ip().octets();
    let end = usize::from(high) << 8 | usize::from(low);
    (ten == 10 && zero == 0 && v4.port() == PORT && end < ends).then_some(end)
}
