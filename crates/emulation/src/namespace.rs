//! Network namespaces without names. Each vanishes with the last process and descriptor that holds it, so nothing is
//! left on the host, however the run ends.

use crate::address::address_of;
use crate::error::EmulationError;
use crate::netlink::{add_route, set_queue};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;

/// Name of the interface in each namespace.
const INTERFACE: &str = "quorate0";
/// Packets that the kernel queues for the router. It drops further ones, which the result counts.
const QUEUE_PACKETS: u32 = 50_000;
/// The calling thread's own namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// Settings of the kernel's TCP in a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpSettings {
    pub congestion_control: String,
    /// Names below `/proc/sys/net/ipv4`, and values.
    pub values: Vec<(&'static str, String)>,
}

/// A network namespace with one interface, whose packets the router reads and writes.
pub struct Namespace {
    /// Holds the namespace.
    itself: OwnedFd,
    /// Descriptor of the TUN device.
    pub tun: OwnedFd,
    /// Settings that the kernel refused, with its reasons.
    pub refused: Vec<String>,
}

impl Namespace {
    /// Creates the namespace of an endpoint.
    ///
    /// # Errors
    /// If this process may not, or the kernel lacks namespaces or TUN devices.
    pub fn create(end: usize, mtu_bytes: u32, settings: &TcpSettings) -> Result<Namespace, EmulationError> {
        let create = || {
            // SAFETY: changes only the namespace of this thread, which ends below.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(EmulationError::Namespace(io::Error::last_os_error()));
            }
            let itself = File::open(OWN).map_err(EmulationError::Namespace)?.into();
            let tun = interface(end, mtu_bytes)?;
            let mut refused: Vec<String> =
                settings.values.iter().filter_map(|(name, value)| set(name, value)).collect();
            refused.extend(route(end, &settings.congestion_control)?);
            Ok(Namespace { itself, tun, refused })
        };
        thread::scope(|scope| scope.spawn(create).join()).expect("the thread does not panic")
    }

    /// Moves the calling thread into the namespace until the returned value is dropped. Threads and processes that it
    /// starts meanwhile are in the namespace, too.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn enter(&self) -> io::Result<Entered> {
        let back = File::open(OWN)?.into();
        enter(self.itself.as_raw_fd())?;
        Ok(Entered { back, _not_send: PhantomData })
    }

    /// Calls `act` in the namespace, on a thread of its own.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        let run = || enter(self.itself.as_raw_fd()).map(|()| act());
        thread::scope(|scope| scope.spawn(run).join()).expect("the thread does not panic")
    }

    /// Returns the descriptor of the namespace, for [`enter`] in a new process.
    pub fn descriptor(&self) -> RawFd {
        self.itself.as_raw_fd()
    }

    /// Reads the kernel's counters.
    ///
    /// # Errors
    /// If the kernel does not report them.
    pub fn counters(&self) -> io::Result<KernelCounters> {
        self.within(|| {
            let file = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
            let (snmp, netstat, devices) = (file("snmp")?, file("netstat")?, file("dev")?);
            Ok(KernelCounters {
                retransmissions: counter(&snmp, "Tcp:", "RetransSegs"),
                rto_events: counter(&netstat, "TcpExt:", "TCPTimeouts"),
                tail_loss_probes: counter(&netstat, "TcpExt:", "TCPLossProbes"),
                not_routed: dropped(&devices),
            })
        })?
    }
}

/// Counters of the kernel in a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelCounters {
    /// TCP segments sent again.
    pub retransmissions: u64,
    /// Expired retransmission timeouts of TCP.
    pub rto_events: u64,
    pub tail_loss_probes: u64,
    /// Packets that the kernel dropped because the router did not read them fast enough.
    pub not_routed: u64,
}

impl KernelCounters {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: KernelCounters) -> KernelCounters {
        KernelCounters {
            retransmissions: self.retransmissions + other.retransmissions,
            rto_events: self.rto_events + other.rto_events,
            tail_loss_probes: self.tail_loss_probes + other.tail_loss_probes,
            not_routed: self.not_routed + other.not_routed,
        }
    }
}

/// Returns a counter of `/proc/net/snmp` or `netstat`: a line of names, then one of values.
fn counter(text: &str, section: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(section)).map(str::split_whitespace);
    let (Some(mut names), Some(mut values)) = (lines.next(), lines.next()) else { return 0 };
    let at = names.position(|other| other == name);
    at.and_then(|at| values.nth(at)?.parse().ok()).unwrap_or(0)
}

/// Returns the packets that the interface dropped on sending, from `/proc/net/dev`.
fn dropped(text: &str) -> u64 {
    /// Column of the dropped packets sent, after the name.
    const SENT_DROPPED: usize = 11;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(INTERFACE)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().nth(SENT_DROPPED)?.parse().ok()).unwrap_or(0)
}

/// The calling thread is in a namespace; it returns to its own when this is dropped. In a user namespace it may not
/// return to that of the host, and stays.
pub struct Entered {
    back: OwnedFd,
    _not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = enter(self.back.as_raw_fd());
    }
}

/// Moves the calling thread into a namespace. Safe between fork and exec.
///
/// # Errors
/// If the kernel refuses.
pub fn enter(namespace: RawFd) -> io::Result<()> {
    // SAFETY: takes and returns numbers.
    check(unsafe { libc::setns(namespace, libc::CLONE_NEWNET) }).map(|_| ())
}

/// Sets a value below `/proc/sys/net/ipv4`. Returns what could not be set, and why.
fn set(name: &str, value: &str) -> Option<String> {
    let path = format!("/proc/sys/net/ipv4/{name}");
    let set = fs::write(&path, value).and_then(|()| fs::read_to_string(&path));
    match set {
        Ok(now) if now.trim() == value => None,
        Ok(now) => Some(format!("{name} = {value}: the kernel made it {}", now.trim())),
        Err(error) => Some(format!("{name} = {value}: {error}")),
    }
}

/// Request of `ioctl` to an interface: its name, and one value.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    value: Value,
}

#[repr(C)]
union Value {
    flags: libc::c_short,
    number: libc::c_int,
    address: libc::sockaddr_in,
    /// The kernel may copy as many bytes as its own structure has.
    _size: [u8; 24],
}

impl Request {
    fn new(name: &str, value: Value) -> Request {
        let mut bytes = [0; libc::IFNAMSIZ];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Request { name: bytes, value }
    }

    fn call(mut self, descriptor: RawFd, request: libc::c_ulong) -> io::Result<()> {
        // SAFETY: `self` is as large as the kernel's `ifreq`, and the kernel keeps no pointer to it.
        check(unsafe { libc::ioctl(descriptor, request as libc::Ioctl, &raw mut self) }).map(|_| ())
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn ipv4(address: Ipv4Addr) -> Value {
    // SAFETY: all bytes zero are a valid `sockaddr_in`.
    let mut socket: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    socket.sin_family = libc::AF_INET as libc::sa_family_t;
    socket.sin_addr.s_addr = u32::from(address).to_be();
    let mut value = Value { _size: [0; 24] };
    value.address = socket;
    value
}

fn number(number: libc::c_int) -> Value {
    let mut value = Value { _size: [0; 24] };
    value.number = number;
    value
}

fn flags(flags: libc::c_int) -> Value {
    let mut value = Value { _size: [0; 24] };
    value.flags = flags as libc::c_short;
    value
}

/// Creates the interface in the calling thread's namespace, and starts it and the loopback interface.
fn interface(end: usize, mtu_bytes: u32) -> Result<OwnedFd, EmulationError> {
    let failed = |what: &'static str| move |source: io::Error| EmulationError::Interface { what, end, source };
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let tun = options.open("/dev/net/tun").map_err(EmulationError::Tun)?;
    let kind = flags(libc::IFF_TUN | libc::IFF_NO_PI);
    Request::new(INTERFACE, kind).call(tun.as_raw_fd(), libc::TUNSETIFF as libc::c_ulong).map_err(failed("create"))?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed("configure"))?;
    let up = || flags(libc::IFF_UP | libc::IFF_RUNNING);
    let steps = [
        (INTERFACE, ipv4(address_of(end)), libc::SIOCSIFADDR),
        (INTERFACE, number(mtu_bytes as libc::c_int), libc::SIOCSIFMTU),
        (INTERFACE, up(), libc::SIOCSIFFLAGS),
        ("lo", up(), libc::SIOCSIFFLAGS),
    ];
    for (name, value, request) in steps {
        Request::new(name, value).call(socket.as_raw_fd(), request as libc::c_ulong).map_err(failed("configure"))?;
    }
    Ok(tun.into())
}

/// Sets the queue of the interface, and adds the route to the other endpoints. Returns the reason if the route could
/// not have this congestion control.
fn route(end: usize, congestion_control: &str) -> Result<Option<String>, EmulationError> {
    let failed = |source| EmulationError::Interface { what: "route to", end, source };
    let name = CString::new(INTERFACE).expect("the name has no zero");
    // SAFETY: the name is alive and ends with a zero.
    let number = unsafe { libc::if_nametoindex(name.as_ptr()) };
    set_queue(number, QUEUE_PACKETS).map_err(failed)?;
    let refused = match add_route(number, Some(congestion_control)) {
        Ok(()) => return Ok(None),
        Err(error) => format!("congestion control {congestion_control}: {error}"),
    };
    add_route(number, None).map_err(failed)?;
    Ok(Some(refused))
}
