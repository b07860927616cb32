//! Hosts that a test can separate: network namespaces visible only to the test and its processes, and a wire between
//! them under the test's control. Blocked packets vanish silently, as in a partitioned network.
//!
//! Each host has a TUN device whose other end is this process. This needs a user namespace, but no other privileges and
//! no tools.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

const DEVICE: &str = "wire0";
/// Maximum size of a packet: the default of a TUN device.
const MTU_BYTES: usize = 1500;
/// Interval at which the wire checks whether it must stop.
const LOOK_MS: i32 = 20;
/// Offset of the addresses in an IPv4 header, and its minimum length.
const SOURCE_AT: usize = 12;
const DESTINATION_AT: usize = 16;
const HEADER_BYTES: usize = 20;

pub fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, host + 1)
}

/// Moves the calling thread and its children to a new host. Returns the wire's end of its network device.
pub fn enter(host: u8) -> io::Result<File> {
    // SAFETY: affects only this thread, and no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = named(DEVICE);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    command(&device, libc::TUNSETIFF, &mut request)?;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    for (code, value) in [(libc::SIOCSIFADDR, address(host)), (libc::SIOCSIFNETMASK, Ipv4Addr::new(255, 255, 255, 0))] {
        let mut request = named(DEVICE);
        let place = (&raw mut request.ifr_ifru).cast::<libc::sockaddr_in>();
        let value = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from(value).to_be() },
            sin_zero: [0; 8],
        };
        // SAFETY: the union has room for a socket address.
        unsafe { place.write_unaligned(value) };
        command(&socket, code, &mut request)?;
    }
    for name in [DEVICE, "lo"] {
        let mut request = named(name);
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        command(&socket, libc::SIOCSIFFLAGS, &mut request)?;
    }
    Ok(device)
}

fn named(device: &str) -> libc::ifreq {
    // SAFETY: a zeroed request is valid: it has neither a name nor a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let letters = request.ifr_name.iter_mut().zip(device.bytes());
    letters.for_each(|(place, letter)| *place = letter as libc::c_char);
    request
}

fn command(to: &impl AsRawFd, code: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the kernel reads and writes one request, which outlives the call.
    match unsafe { libc::ioctl(to.as_raw_fd(), code, std::ptr::from_mut(request)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Carries packets between hosts until it is dropped.
pub struct Wire<'a> {
    cut: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    carrier: Option<ScopedJoinHandle<'a, ()>>,
}

impl<'a> Wire<'a> {
    /// Connects the hosts of these devices. While the wire is cut, packets pass only between hosts for which `sides` is
    /// true.
    pub fn start<'e>(scope: &'a Scope<'a, 'e>, devices: Vec<File>, sides: fn(u8, u8) -> bool) -> Wire<'a> {
        let (cut, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_cut, is_over) = (Arc::clone(&cut), Arc::clone(&ends));
        let carrier = scope
            .spawn(move || carry(&devices, &is_over, |from, to| !is_cut.load(Ordering::Relaxed) || sides(from, to)));
        Wire { cut, ends, carrier: Some(carrier) }
    }

    /// Partitions the hosts, or heals the partition.
    pub fn cut(&self, is_cut: bool) {
        self.cut.store(is_cut, Ordering::Relaxed);
    }
}

impl Drop for Wire<'_> {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(Err(panic)) = self.carrier.take().map(ScopedJoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn carry(devices: &[File], is_over: &AtomicBool, passes: impl Fn(u8, u8) -> bool) {
    let watched = |device: &File| libc::pollfd { fd: device.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut watched: Vec<libc::pollfd> = devices.iter().map(watched).collect();
    let mut packet = [0; MTU_BYTES];
    while !is_over.load(Ordering::Relaxed) {
        // SAFETY: the kernel writes to no more entries than the length passed to it.
        unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, LOOK_MS) };
        for mut device in devices {
            while let Ok(length) = device.read(&mut packet) {
                let host = |at: usize| packet[at + 3].wrapping_sub(1);
                let (from, to) = (host(SOURCE_AT), host(DESTINATION_AT));
                let is_ours = length >= HEADER_BYTES && packet[0] >> 4 == 4;
                if let Some(mut other) = devices.get(usize::from(to)).filter(|_| is_ours && passes(from, to)) {
                    // A packet that a device does not accept is lost, as on any wire.
                    let _ = other.write(&packet[..length]);
                }
            }
        }
    }
}
