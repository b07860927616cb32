//! Writes of a replica's iterations: one per destination and iteration, regardless of the number of messages.

use quorate_types::line::tcp_packets;

#[derive(Default)]
pub(super) struct Writes {
    /// Bytes of this iteration, by destination.
    bytes: Vec<u64>,
    /// Destinations with bytes.
    destinations: Vec<usize>,
    packets: u64,
}

impl Writes {
    /// Adds a message of this iteration. An empty one counts as one byte.
    pub fn add(&mut self, destination: usize, bytes: u64) {
        if self.bytes.len() <= destination {
            self.bytes.resize(destination + 1, 0);
        }
        if self.bytes[destination] == 0 {
            self.destinations.push(destination);
        }
        self.bytes[destination] += bytes.max(1);
    }

    /// Ends the iteration, and returns its numbers of writes to replicas, which precede the clients, and to clients.
    pub fn end_turn(&mut self, replicas: usize) -> [u64; 2] {
        let to_replicas = self.destinations.iter().filter(|destination| **destination < replicas).count() as u64;
        let calls = [to_replicas, self.destinations.len() as u64 - to_replicas];
        for destination in self.destinations.drain(..) {
            self.packets += tcp_packets(std::mem::take(&mut self.bytes[destination]));
        }
        calls
    }

    /// Returns the Ethernet packets that all completed iterations filled over TCP.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}
