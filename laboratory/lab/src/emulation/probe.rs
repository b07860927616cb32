//! Probes: datagrams that the router reflects or netem delays, which measure the time that the emulation adds to the
//! emulated delay.
//!
//! A probe's time ends with its kernel timestamp at the receiving socket. It covers the packet's path between
//! endpoints, without the wait for the receiving thread.

use crate::emulation::address::MIRROR;
use crate::emulation::namespace::Namespace;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

/// Arbitrary port: the router reflects all.
const PORT: u16 = 9;
/// Pause between two probes of a series.
const PAUSE: Duration = Duration::from_micros(300);
/// Time after which a probe counts as lost.
const TIMEOUT: Duration = Duration::from_millis(250);

/// Time that packets take beyond the emulated delay, in microseconds. May be negative.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Added {
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// Number of probes that arrived.
    pub probes: usize,
    pub lost: usize,
}

impl Added {
    /// Summarizes the times of probes that were reflected after `delay_ns`; `None` stands for a lost probe.
    pub fn of(times_ns: &[Option<i64>], delay_ns: u64) -> Added {
        let mut added: Vec<i64> = times_ns.iter().flatten().map(|time| time - delay_ns as i64).collect();
        added.sort_unstable();
        let at = |share: f64| added.get(((added.len() as f64 * share) as usize).min(added.len().saturating_sub(1)));
        let us = |nanos: Option<&i64>| nanos.map_or(0.0, |nanos| *nanos as f64 / 1e3);
        Added {
            p50_us: us(at(0.5)),
            p99_us: us(at(0.99)),
            max_us: us(added.last()),
            probes: added.len(),
            lost: times_ns.len() - added.len(),
        }
    }
}

/// Sockets of the probes.
pub struct Probe {
    sending: UdpSocket,
    receiving: UdpSocket,
    sent: u64,
}

impl Probe {
    /// Opens a socket for probes that a router reflects. Call it in the probes' namespace.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn reflected() -> io::Result<Probe> {
        let sending = sender()?;
        let receiving = sending.try_clone()?;
        Probe::of(sending, receiving)
    }

    /// Opens sockets for probes that travel from one namespace to another.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn between(from: &Namespace, mirror: &Namespace) -> io::Result<Probe> {
        let sending = from.within(sender)??;
        let receiving = mirror.within(|| UdpSocket::bind((MIRROR, PORT)))??;
        Probe::of(sending, receiving)
    }

    fn of(sending: UdpSocket, receiving: UdpSocket) -> io::Result<Probe> {
        receiving.set_read_timeout(Some(TIMEOUT))?;
        let on: libc::c_int = 1;
        let length = size_of_val(&on) as libc::socklen_t;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
        // SAFETY: the kernel copies a live number of this length.
        let set = unsafe { libc::setsockopt(receiving.as_raw_fd(), level, option, (&raw const on).cast(), length) };
        if set == 0 { Ok(Probe { sending, receiving, sent: 0 }) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends a series of probes. Returns their times in nanoseconds.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn series(&mut self, probes: usize) -> io::Result<Vec<Option<i64>>> {
        let one = |_| {
            thread::sleep(PAUSE);
            self.once()
        };
        (0..probes).map(one).collect()
    }

    /// Sends one probe and returns its time in nanoseconds, or `None` if it was lost.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn once(&mut self) -> io::Result<Option<i64>> {
        self.sent += 1;
        let number = self.sent;
        let sent = wall_clock_ns();
        self.sending.send(&number.to_be_bytes())?;
        loop {
            match receive(&self.receiving) {
                // A late probe that already counted as lost.
                Ok((other, _)) if other != number => {}
                Ok((_, Some(arrived))) => return Ok(Some(arrived - sent)),
                Ok((_, None)) => return Err(io::Error::other("the kernel notes no time of arrival")),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn sender() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((MIRROR, PORT))?;
    Ok(socket)
}

fn wall_clock_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a live structure.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    nanos(time)
}

fn nanos(time: libc::timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Buffer for a datagram's control messages.
#[repr(align(8))]
struct Notes([u8; 128]);

/// Receives a probe's number and its arrival time.
fn receive(socket: &UdpSocket) -> io::Result<(u64, Option<i64>)> {
    let (mut number, mut notes) = ([0u8; 8], Notes([0; 128]));
    let mut part = libc::iovec { iov_base: number.as_mut_ptr().cast(), iov_len: number.len() };
    // SAFETY: all bytes zero are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (notes.0.as_mut_ptr().cast(), notes.0.len() as _);
    // SAFETY: the message names live buffers with their lengths.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in the control messages, and the macros stay within their length.
    let arrived = unsafe {
        let note = libc::CMSG_FIRSTHDR(&raw const message);
        let is_time = !note.is_null() && (*note).cmsg_type == libc::SCM_TIMESTAMPNS;
        is_time.then(|| nanos(libc::CMSG_DATA(note).cast::<libc::timespec>().read_unaligned()))
    };
    Ok((u64::from_be_bytes(number), arrived))
}
