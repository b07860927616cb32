//! A relay in front of a replica that acts like an address-translating router.

use std::net::{SocketAddr, UdpSocket};

/// Forwards packets between a remote and a replica, which sees all of them come from the relay's own address.
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

    /// Presents another address to the replica; packets that it sends to the old one are lost.
    pub fn change_address(&mut self) {
        self.back = bound();
    }

    /// Drops the packets received from the remote, and returns their number.
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

    /// Forwards the received packets.
    pub fn run(&mut self) {
        let mut packet = vec![0; 1 << 16];
        while let Ok((bytes, from)) = self.front.recv_from(&mut packet) {
            self.sender = Some(from);
            // A packet that is not accepted is lost, as in any network.
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
