//! What messages take on a line of Ethernet: the headers of their packets, and the time between packets.

/// Longest IP packet, in bytes.
pub const MTU_BYTES: u64 = 1500;
/// What a packet takes beside its IP packet, in bytes: preamble (8), header (14), checksum (4) and gap (12).
pub const ETHERNET_BYTES: u64 = 8 + 14 + 4 + 12;
/// Headers of IPv4 and of TCP with its timestamps, in bytes.
pub const TCP_HEADER_BYTES: u64 = 20 + 20 + 12;
/// Headers of IPv4 and UDP, in bytes.
pub const UDP_HEADER_BYTES: u64 = 20 + 8;

/// Returns the packets that one write to a TCP stream fills, if no other write shares a packet with it.
pub const fn tcp_packets(bytes: u64) -> u64 {
    bytes.div_ceil(MTU_BYTES - TCP_HEADER_BYTES)
}
