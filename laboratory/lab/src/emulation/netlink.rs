//! Requests to the kernel about links, routes and disciplines of a namespace (rtnetlink).

use crate::emulation::address::{NETWORK, PREFIX_BITS};
use std::ffi::CString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Header lengths of a message, a link, a route and an attribute, in bytes.
const MESSAGE_BYTES: usize = 16;
pub const LINK_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
const ATTRIBUTE_BYTES: usize = 4;
/// Size of the receive buffer. The kernel's own dumps have at most 32 KiB.
const ANSWER_BYTES: usize = 1 << 16;
/// Route metric that names the congestion control, `RTAX_CC_ALGO` in the C headers.
const METRIC_CONGESTION_CONTROL: u16 = 16;

/// Socket for requests. It belongs to the namespace in which it was opened.
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the calling thread's namespace.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open() -> io::Result<Netlink> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes and returns numbers; the descriptor is new.
        let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        Ok(Netlink { socket: unsafe { OwnedFd::from_raw_fd(socket) }, sequence: 0 })
    }

    /// Sends a request and waits for the kernel's acknowledgement.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn ask(&mut self, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
        self.send(kind, libc::NLM_F_ACK | flags, body)?;
        self.answers(|_| {})
    }

    /// Calls `each` with every object that the kernel lists in answer to a request.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn list(&mut self, kind: u16, body: &[u8], each: impl FnMut(&[u8])) -> io::Result<()> {
        self.send(kind, libc::NLM_F_DUMP, body)?;
        self.answers(each)
    }

    fn send(&mut self, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let mut message = ((MESSAGE_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(body);
        // SAFETY: the call gets a live buffer and its length.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Reads until the acknowledgement, or the end of a list.
    fn answers(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut answer = vec![0u8; ANSWER_BYTES];
        loop {
            // SAFETY: the call gets a live buffer and its length.
            let read = unsafe { libc::recv(self.socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
            let Ok(read) = usize::try_from(read) else { return Err(io::Error::last_os_error()) };
            let mut rest = &answer[..read];
            while rest.len() >= MESSAGE_BYTES {
                let length = (u32_at(rest, 0) as usize).clamp(MESSAGE_BYTES, rest.len());
                let (message, after) = rest.split_at(length);
                rest = &after[(length.next_multiple_of(4) - length).min(after.len())..];
                if u32_at(message, 8) != self.sequence {
                    continue;
                }
                match libc::c_int::from(u16::from_ne_bytes([message[4], message[5]])) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR if length < MESSAGE_BYTES + 4 => {
                        return Err(io::Error::other("the kernel's answer has no code"));
                    }
                    libc::NLMSG_ERROR => match u32_at(message, MESSAGE_BYTES).cast_signed() {
                        0 => return Ok(()),
                        refused => return Err(io::Error::from_raw_os_error(-refused)),
                    },
                    _ => each(&message[MESSAGE_BYTES..]),
                }
            }
        }
    }
}

/// Returns the index of an interface in the calling thread's namespace; 0 if there is none.
pub fn number_of(interface: &str) -> u32 {
    let name = CString::new(interface).expect("the name has no zero");
    // SAFETY: the name is alive and ends with a zero.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// Adds the route to the emulated network through an interface of the calling thread's namespace.
///
/// # Errors
/// If the kernel refuses, for example because it lacks this congestion control.
pub fn add_route(interface: u32, congestion_control: Option<&str>) -> io::Result<()> {
    let mut metrics = Vec::new();
    if let Some(name) = congestion_control {
        attribute(&mut metrics, METRIC_CONGESTION_CONTROL, &[name.as_bytes(), &[0]].concat());
    }
    let network = Ipv4Addr::new(NETWORK[0], NETWORK[1], 0, 0);
    route(&mut Netlink::open()?, network, PREFIX_BITS, interface, &metrics)
}

/// Adds the route to one address through an interface.
///
/// # Errors
/// If the kernel refuses.
pub fn add_route_to(netlink: &mut Netlink, address: Ipv4Addr, interface: u32) -> io::Result<()> {
    route(netlink, address, 32, interface, &[])
}

fn route(netlink: &mut Netlink, to: Ipv4Addr, bits: u8, interface: u32, metrics: &[u8]) -> io::Result<()> {
    let mut body = vec![0; ROUTE_BYTES];
    (body[0], body[1]) = (libc::AF_INET as u8, bits);
    (body[4], body[5]) = (libc::RT_TABLE_MAIN, libc::RTPROT_BOOT);
    (body[6], body[7]) = (libc::RT_SCOPE_LINK, libc::RTN_UNICAST);
    attribute(&mut body, libc::RTA_DST, &to.octets());
    attribute(&mut body, libc::RTA_OIF, &interface.to_ne_bytes());
    if !metrics.is_empty() {
        attribute(&mut body, libc::RTA_METRICS, metrics);
    }
    netlink.ask(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &body)
}

/// Sets the number of packets that the kernel queues for the reader of an interface. The older `ioctl` fails for the
/// root user of a user namespace.
///
/// # Errors
/// If the kernel refuses.
pub fn set_queue(interface: u32, packets: u32) -> io::Result<()> {
    let mut body = vec![0; LINK_BYTES];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    attribute(&mut body, libc::IFLA_TXQLEN, &packets.to_ne_bytes());
    Netlink::open()?.ask(libc::RTM_NEWLINK, 0, &body)
}

/// Appends an attribute: length, kind, value, and padding to four bytes.
pub fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend(((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Returns the value of the first attribute of this kind.
pub fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    /// Flag bits of an attribute type.
    const FLAGS: u16 = 0xc000;
    while attributes.len() >= ATTRIBUTE_BYTES {
        let length = usize::from(u16::from_ne_bytes([attributes[0], attributes[1]]));
        let value = attributes.get(ATTRIBUTE_BYTES..length)?;
        if u16::from_ne_bytes([attributes[2], attributes[3]]) & !FLAGS == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// Returns the number at an offset.
///
/// # Panics
/// If the bytes end before.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
