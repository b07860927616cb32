//! IPv4 packets, as far as the router reads them.

use std::net::Ipv4Addr;

/// Length of an IPv4 header without options.
const MIN_HEADER_BYTES: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// Flag "more fragments", and the fragment offset.
const FRAGMENT_BITS: u16 = 0x3fff;

/// Flow of a packet between two endpoints: the protocol and the ports. Ports are 0 in fragments and in protocols
/// without ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flow {
    pub protocol: u8,
    pub ports: [u16; 2],
}

/// Addresses and flow of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub flow: Flow,
    /// Length of the IP header in bytes.
    length: usize,
}

impl Header {
    /// Reads a packet's header; `None` if the packet is not IPv4 or too short for its header.
    pub fn of(packet: &[u8]) -> Option<Header> {
        let length = usize::from(packet.first()? & 0xf) * 4;
        if packet[0] >> 4 != 4 || length < MIN_HEADER_BYTES || packet.len() < length {
            return None;
        }
        let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
        let address = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
        let protocol = packet[9];
        let is_fragment = word(6) & FRAGMENT_BITS != 0;
        let has_ports = matches!(protocol, PROTOCOL_TCP | PROTOCOL_UDP) && !is_fragment && packet.len() >= length + 4;
        let ports = if has_ports { [word(length), word(length + 2)] } else { [0, 0] };
        Some(Header { source: address(12), destination: address(16), flow: Flow { protocol, ports }, length })
    }
}

/// Turns a datagram back to its sender by swapping addresses and ports. The checksums, which are sums, stay valid.
pub fn reflect(packet: &mut [u8]) {
    let Some(header) = Header::of(packet) else { return };
    let (sources, destinations) = packet[12..20].split_at_mut(4);
    sources.swap_with_slice(destinations);
    if header.flow.ports != [0, 0] {
        let (source, destination) = packet[header.length..header.length + 4].split_at_mut(2);
        source.swap_with_slice(destination);
    }
}
