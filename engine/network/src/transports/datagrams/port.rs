//! A UDP socket that sends and receives many packets per system call, where the kernel supports it.

use super::buffers::Buffers;
use crate::transports::config::PacketConfig;
use crate::transports::links::Audience;
use bytes::Bytes;
use mio::net::UdpSocket;
use quinn_udp::{Transmit, UdpSocketState};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

/// Maximum bytes passed to the kernel at once for it to split.
const MAX_WRITE_BYTES: usize = 60_000;
/// Maximum bytes of packets queued for the socket; further ones are lost.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// A bound socket.
pub struct Port {
    pub socket: UdpSocket,
    state: UdpSocketState,
    /// Who may connect through it; `None` if it only dials.
    pub audience: Option<Audience>,
    /// More packets may be pending, for which no further event is reported.
    pub is_readable: bool,
    /// The kernel's buffer is full; an event will report free space.
    is_blocked: bool,
    /// Packets for the next write.
    waiting: VecDeque<(SocketAddr, Bytes)>,
    waiting_bytes: usize,
    /// Packets for one system call, concatenated.
    joined: Vec<u8>,
}

/// Result of a write.
#[derive(Clone, Copy, Default, Debug)]
pub struct Written {
    pub calls: u64,
    pub packets: u64,
    pub bytes: u64,
}

impl Port {
    /// Prepares a socket.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn new(socket: std::net::UdpSocket, audience: Option<Audience>, config: &PacketConfig) -> io::Result<Port> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        // A smaller buffer than requested is not an error: more packets are lost, that is all.
        let _ = state.set_send_buffer_size((&socket).into(), config.send_buffer_bytes);
        let _ = state.set_recv_buffer_size((&socket).into(), config.receive_buffer_bytes);
        force_buffers(&socket, config);
        let_routers_fragment(&socket)?;
        Ok(Port {
            socket: UdpSocket::from_std(socket),
            state,
            audience,
            is_readable: true,
            is_blocked: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            joined: Vec::new(),
        })
    }

    /// Queues a packet for the next [`Port::write`]. If the queue is full, the packet is lost, as in a network.
    pub fn queue(&mut self, to: SocketAddr, packet: Bytes) {
        if self.waiting_bytes + packet.len() <= MAX_WAITING_BYTES {
            self.waiting_bytes += packet.len();
            self.waiting.push_back((to, packet));
        }
    }

    /// Returns whether packets are queued that the socket may accept.
    pub fn has_to_write(&self) -> bool {
        !self.waiting.is_empty() && !self.is_blocked
    }

    /// Notes that the kernel's buffer has free space again.
    pub fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// Writes queued packets until the kernel's buffer is full. A packet that the kernel refuses is lost.
    pub fn write(&mut self) -> Written {
        let mut written = Written::default();
        while let Some(&(destination, ref first)) = self.waiting.front().filter(|_| !self.is_blocked) {
            let segment_bytes = first.len();
            let (count, bytes) = self.run();
            let (contents, segment_size) = if count == 1 {
                (&first[..], None)
            } else {
                self.joined.clear();
                self.waiting.iter().take(count).for_each(|(_, packet)| self.joined.extend_from_slice(packet));
                (&self.joined[..], Some(segment_bytes))
            };
            let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
            written.calls += 1;
            match self.state.try_send((&self.socket).into(), &transmit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return written;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {}
                Ok(()) => {
                    written.packets += count as u64;
                    written.bytes += bytes as u64;
                }
            }
            self.waiting.drain(..count);
            self.waiting_bytes -= bytes;
        }
        written
    }

    /// Returns the number of packets at the front that the kernel can split from one buffer, and their bytes. They go
    /// to one address and have equal lengths, except that the last may be shorter.
    fn run(&self) -> (usize, usize) {
        let (to, first) = &self.waiting[0];
        let most = self.state.max_gso_segments();
        let (mut count, mut bytes) = (1, first.len());
        for (next_to, packet) in self.waiting.iter().take(most).skip(1) {
            let fits = bytes + packet.len() <= MAX_WRITE_BYTES;
            if next_to != to || packet.len() > first.len() || packet.is_empty() || !fits {
                break;
            }
            count += 1;
            bytes += packet.len();
            if packet.len() < first.len() {
                break;
            }
        }
        (count, bytes)
    }

    /// Reads at most one batch of packets. Returns false once the socket is empty.
    pub fn read(&mut self, buffers: &mut Buffers, mut on_packet: impl FnMut(SocketAddr, Bytes)) -> bool {
        let (mut places, metas) = buffers.places();
        let count = match self.state.recv((&self.socket).into(), &mut places, metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_readable = false;
                return false;
            }
            // An earlier packet found no listener. A timer of the machine or of the dial notices it too.
            Err(_) => return true,
        };
        for place in 0..count {
            let mut joined = buffers.take(place);
            let (from, stride) = (buffers.metas[place].addr, buffers.metas[place].stride.max(1));
            while joined.len() > stride {
                on_packet(from, joined.split_to(stride));
            }
            on_packet(from, joined);
        }
        true
    }
}

fn set_option(socket: &impl AsRawFd, level: libc::c_int, name: libc::c_int, value: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX);
    let bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes from a value of that size, which outlives the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), bytes) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Raises the buffers above the system's limit, which requires privileges.
fn force_buffers(socket: &std::net::UdpSocket, config: &PacketConfig) {
    let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, config.send_buffer_bytes);
    let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, config.receive_buffer_bytes);
}

/// Lets packets longer than a network's MTU be fragmented instead of lost.
fn let_routers_fragment(socket: &std::net::UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => {
            set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT as usize)
        }
        SocketAddr::V6(_) => {
            set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT as usize)
        }
    }
}

/// Returns the kernel's MTU of the route to an address, in bytes.
///
/// # Errors
/// If there is no route.
pub fn path_mtu(address: SocketAddr) -> io::Result<usize> {
    let (any, level, name) = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let socket = std::net::UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(address)?;
    let mut mtu: libc::c_int = 0;
    let mut bytes = size_of_val(&mtu) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to a value of that size.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut mtu).cast(), &mut bytes) };
    if done == 0 { Ok(usize::try_from(mtu).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}
