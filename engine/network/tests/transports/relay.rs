//! A relay in front of a replica, as a router that translates addresses.

use std::net::{SocketAddr, UdpSocket};

/// Passes packets on between a remote and a replica, to which all come from one address of its own.
pub struct Relay {
    front: UdpSocket,
    back: UdpSocket,
    replica: SocketAddr,
    sender: Option<SocketAddr>,
}

impl Relay {
    pub fn new(replica: SocketAddr) -> Relay {
        Relay { front: bound(), back: bound(), replica, sender: None }
    }

    pub fn address(&self) -> SocketAddr {
        self.front.local_addr().expect("a bound address")
    }

    /// The address that the replica sees.
    pub fn source(&self) -> SocketAddr {
        self.back.local_addr().expect("a bound address")
    }

    /// From now on the replica sees another address, and what it sends to the old one is lost.
    pub fn change_address(&mut self) {
        self.back = bound();
    }

    /// Loses what has come from the remote, and returns how many packets that were.
    pub fn lose(&mut self) -> usize {
        let mut packet = vec![0; 1 << 16];
        std::iter::from_fn(|| self.front.recv_from(&mut packet).ok()).count()
    }

    /// Sends a packet to both ends in each other's name.
    pub fn forge(&mut self, packet: &[u8]) {
        let _ = self.back.send_to(packet, self.replica);
        if let Some(sender) = self.sender {
            let _ = self.front.send_to(packet, sender);
        }
    }

    /// Passes on what has come.
    pub fn run(&mut self) {
        let mut packet = vec![0; 1 << 16];
        while let Ok((bytes, from)) = self.front.recv_from(&mut packet) {
            self.sender = Some(from);
            // What does not pass is lost, as in any network.
            let _ = self.back.send_to(&packet[..bytes], self.replica);
        }
        while let (Ok((bytes, _)), Some(sender)) = (self.back.recv_from(&mut packet), self.sender) {
            let _ = self.front.send_to(&packet[..bytes], sender);
        }
    }
}

fn bound() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_nonblocking(true).expect("non-blocking");
    socket
}
