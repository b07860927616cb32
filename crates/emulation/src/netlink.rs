//! Routes and queues of a namespace. A route may name the congestion control of TCP for its destinations. The
//! namespace's own default may not be one that the host does not list as allowed.

use crate::address::{NETWORK, PREFIX_BITS};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Lengths of the headers of a message, of a link, of a route and of an attribute.
const MESSAGE_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
const ATTRIBUTE_BYTES: usize = 4;
/// Metric of a route that names the congestion control; the C headers call it `RTAX_CC_ALGO`.
const METRIC_CONGESTION_CONTROL: u16 = 16;

/// Adds the route to the emulated network through an interface of the calling thread's namespace.
///
/// # Errors
/// If the kernel refuses, for example because it lacks this congestion control.
pub fn add_route(interface: u32, congestion_control: Option<&str>) -> io::Result<()> {
    let mut body = vec![0; ROUTE_BYTES];
    (body[0], body[1]) = (libc::AF_INET as u8, PREFIX_BITS);
    (body[4], body[5]) = (libc::RT_TABLE_MAIN, libc::RTPROT_BOOT);
    (body[6], body[7]) = (libc::RT_SCOPE_LINK, libc::RTN_UNICAST);
    attribute(&mut body, libc::RTA_DST, &[NETWORK[0], NETWORK[1], 0, 0]);
    attribute(&mut body, libc::RTA_OIF, &interface.to_ne_bytes());
    if let Some(name) = congestion_control {
        let mut metrics = Vec::new();
        attribute(&mut metrics, METRIC_CONGESTION_CONTROL, &[name.as_bytes(), &[0]].concat());
        attribute(&mut body, libc::RTA_METRICS, &metrics);
    }
    ask(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &body)
}

/// Sets the number of packets that the kernel queues for the reader of an interface. The older `ioctl` refuses the root
/// of a user namespace.
///
/// # Errors
/// If the kernel refuses.
pub fn set_queue(interface: u32, packets: u32) -> io::Result<()> {
    let mut body = vec![0; LINK_BYTES];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    attribute(&mut body, libc::IFLA_TXQLEN, &packets.to_ne_bytes());
    ask(libc::RTM_NEWLINK, 0, &body)
}

fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend(((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Sends a request and waits for the kernel's acknowledgement.
fn ask(kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags;
    let mut message = ((MESSAGE_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    // SAFETY: takes and returns numbers; the descriptor is new.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut answer = [0u8; 1024];
    // SAFETY: both calls get a live buffer and its length.
    let received = unsafe {
        if libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
    };
    if received < (MESSAGE_BYTES + 4) as isize {
        return Err(io::Error::last_os_error());
    }
    let code = |at: usize| i32::from_ne_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
    match code(MESSAGE_BYTES) {
        0 => Ok(()),
        refused => Err(io::Error::from_raw_os_error(-refused)),
    }
}
