//! Writes of a replica's turns: one for each destination of a turn, whatever was sent there.

use quorate_types::line::tcp_packets;

/// What was written.
#[derive(Default)]
pub(super) struct Writes {
    /// Bytes of this turn, by destination.
    bytes: Vec<u64>,
    /// Destinations with bytes.
    destinations: Vec<usize>,
    packets: u64,
}

impl Writes {
    /// Adds a message of this turn. An empty one counts as a byte.
    pub fn add(&mut self, destination: usize, bytes: u64) {
        if self.bytes.len() <= destination {
            self.bytes.resize(destination + 1, 0);
        }
        if self.bytes[destination] == 0 {
            self.destinations.push(destination);
        }
        self.bytes[destination] += bytes.max(1);
    }

    /// Ends the turn, and returns its number of writes.
    pub fn end_turn(&mut self) -> u64 {
        let calls = self.destinations.len() as u64;
        for destination in self.destinations.drain(..) {
            self.packets += tcp_packets(std::mem::take(&mut self.bytes[destination]));
        }
        calls
    }

    /// Returns the packets of Ethernet that all ended turns filled over TCP.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}
