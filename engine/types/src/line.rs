//! Overhead of messages on Ethernet: packet headers, and the gap between packets.

/// Longest IP packet, in bytes.
pub const MTU_BYTES: u64 = 1500;
/// Ethernet overhead per IP packet, in bytes: preamble (8), header (14), checksum (4) and gap (12).
pub const ETHERNET_BYTES: u64 = 8 + 14 + 4 + 12;
/// Headers of IPv4 and of TCP with timestamps, in bytes.
pub const TCP_HEADER_BYTES: u64 = 20 + 20 + 12;
/// Headers of IPv4 and UDP, in bytes.
pub const UDP_HEADER_BYTES: u64 = 20 + 8;

/// Returns the number of packets filled by one write to a TCP stream, if no other write shares a packet with it.
pub const fn tcp_packets(bytes: u64) -> u64 {
    bytes.div_ceil(MTU_BYTES - TCP_HEADER_BYTES)
}
