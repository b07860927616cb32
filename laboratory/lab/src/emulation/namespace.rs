//! Network namespaces without names. Each vanishes with the last process and descriptor that holds it, so nothing is
//! left on the host, however the run ends.

use crate::emulation::address::address_of;
use crate::emulation::error::EmulationError;
use crate::emulation::netlink::{add_route, number_of, set_queue};
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;

/// Name of the interface in each namespace.
pub const INTERFACE: &str = "quorate0";
/// Preferred length of the kernel's queue for the router. Packets beyond it are dropped, and counted in the result.
const QUEUE_PACKETS: u32 = 50_000;
/// Queue length that any kernel allows.
const LEAST_QUEUE_PACKETS: u32 = 500;
/// The calling thread's own namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// Settings of the kernel's TCP in a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpSettings {
    pub congestion_control: String,
    /// Names below `/proc/sys/net/ipv4`, and values.
    pub values: Vec<(&'static str, String)>,
}

/// A network namespace with one interface.
pub struct Namespace {
    /// Descriptor that keeps the namespace alive.
    itself: OwnedFd,
    /// Descriptor of the TUN device, whose packets the router reads and writes; `None` without a router.
    pub tun: Option<OwnedFd>,
    /// Settings that the kernel refused, with the reasons.
    pub refused: Vec<String>,
}

impl Namespace {
    /// Creates the namespace of an endpoint of the router.
    ///
    /// # Errors
    /// If this process lacks the privileges, or the kernel lacks namespaces or TUN devices.
    pub fn create(end: usize, mtu_bytes: u32, settings: &TcpSettings) -> Result<Namespace, EmulationError> {
        let mut namespace = Namespace::bare()?;
        namespace.tun = Some(namespace.within(|| tun(end)).map_err(EmulationError::Namespace)??);
        namespace.configure(end, address_of(end), mtu_bytes, settings)?;
        let queue = || longest_queue(number_of(INTERFACE));
        let failed = |source| EmulationError::Interface { what: "set the queue of", end, source };
        namespace.within(queue).and_then(|set| set).map_err(failed)?;
        Ok(namespace)
    }

    /// Creates a namespace without an interface. IPv6 is off in it, since it would send packets of its own.
    ///
    /// # Errors
    /// If this process lacks the privileges, or the kernel lacks namespaces.
    pub fn bare() -> Result<Namespace, EmulationError> {
        let create = || {
            // SAFETY: changes only the namespace of this thread, which ends with the closure.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(EmulationError::Namespace(io::Error::last_os_error()));
            }
            for name in ["all", "default"] {
                // A kernel without IPv6 has no such setting, and needs none.
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
            }
            let itself = File::open(OWN).map_err(EmulationError::Namespace)?.into();
            Ok(Namespace { itself, tun: None, refused: Vec::new() })
        };
        thread::scope(|scope| scope.spawn(create).join()).expect("the thread does not panic")
    }

    /// Gives the interface its address, brings it up, configures the kernel's TCP and adds the route to the other
    /// endpoints.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn configure(
        &mut self,
        end: usize,
        address: Ipv4Addr,
        mtu_bytes: u32,
        settings: &TcpSettings,
    ) -> Result<(), EmulationError> {
        let failed = |what: &'static str| move |source: io::Error| EmulationError::Interface { what, end, source };
        let act = || -> Result<Vec<String>, EmulationError> {
            interface_up(INTERFACE, Some(address), mtu_bytes).map_err(failed("configure"))?;
            let mut refused: Vec<String> =
                settings.values.iter().filter_map(|(name, value)| set(name, value)).collect();
            refused.extend(route(&settings.congestion_control).map_err(failed("route to"))?);
            Ok(refused)
        };
        self.refused = self.within(act).map_err(EmulationError::Namespace)??;
        Ok(())
    }

    /// Steers all packets of a flow to one processor, so that none overtakes another. A refusal is added to `refused`.
    ///
    /// # Errors
    /// If the kernel does not let a thread enter.
    pub fn keep_order(&mut self, interfaces: &[String]) -> io::Result<()> {
        let refused = self.within(|| steer(interfaces))?.err();
        self.refused.extend(refused.map(|error| format!("the order of packets on several processors: {error}")));
        Ok(())
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
                not_routed: interfaces(&devices).iter().find(|one| one.name == INTERFACE).map_or(0, |one| one.not_sent),
            })
        })?
    }

    /// Reads the counters of all interfaces.
    ///
    /// # Errors
    /// If the kernel does not report them.
    pub fn interfaces(&self) -> io::Result<Vec<Interface>> {
        self.within(|| fs::read_to_string("/proc/thread-self/net/dev").map(|text| interfaces(&text)))?
    }

    /// Reads the counters of the endpoint's interface.
    ///
    /// # Errors
    /// If the kernel does not report them.
    pub fn own_interface(&self) -> io::Result<Interface> {
        let own = self.interfaces()?.into_iter().find(|one| one.name == INTERFACE);
        own.ok_or_else(|| io::Error::other(format!("{INTERFACE} is gone")))
    }
}

/// Number of packets, and their bytes including link headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    pub packets: u64,
    pub bytes: u64,
}

impl Traffic {
    #[must_use]
    pub fn plus(self, other: Traffic) -> Traffic {
        Traffic { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// Counters of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    pub name: String,
    pub received: Traffic,
    pub sent: Traffic,
    /// Packets dropped on sending.
    pub not_sent: u64,
}

/// Counters of the kernel in a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelCounters {
    /// TCP segments retransmitted.
    pub retransmissions: u64,
    /// Expired retransmission timeouts of TCP.
    pub rto_events: u64,
    pub tail_loss_probes: u64,
    /// Packets that the kernel dropped because the router did not read them fast enough.
    pub not_routed: u64,
}

impl KernelCounters {
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

/// Returns a counter of `/proc/net/snmp` or `netstat`, whose sections are a line of names followed by a line of values.
fn counter(text: &str, section: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(section)).map(str::split_whitespace);
    let (Some(mut names), Some(mut values)) = (lines.next(), lines.next()) else { return 0 };
    let at = names.position(|other| other == name);
    at.and_then(|at| values.nth(at)?.parse().ok()).unwrap_or(0)
}

/// Reads `/proc/net/dev`.
fn interfaces(text: &str) -> Vec<Interface> {
    /// Columns after the name: bytes and packets received, bytes and packets sent, and packets dropped on sending.
    const COLUMNS: [usize; 5] = [0, 1, 8, 9, 11];
    let read = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [received_bytes, received, sent_bytes, sent, not_sent] =
            COLUMNS.map(|column| numbers.get(column).copied().unwrap_or(0));
        Some(Interface {
            name: name.trim().to_owned(),
            received: Traffic { packets: received, bytes: received_bytes },
            sent: Traffic { packets: sent, bytes: sent_bytes },
            not_sent,
        })
    };
    text.lines().filter_map(read).collect()
}

/// Marks that the calling thread is in a namespace; it returns to its own on drop. In a user namespace it may be unable
/// to return to the host's, and stays.
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

/// Sets a value below `/proc/sys/net/ipv4`. Returns the setting and the error on failure.
pub fn set(name: &str, value: &str) -> Option<String> {
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
    /// Padding: the kernel may copy as many bytes as its own structure has.
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

/// Creates the TUN device in the calling thread's namespace.
fn tun(end: usize) -> Result<OwnedFd, EmulationError> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let tun = options.open("/dev/net/tun").map_err(EmulationError::Tun)?;
    let kind = flags(libc::IFF_TUN | libc::IFF_NO_PI);
    let created = Request::new(INTERFACE, kind).call(tun.as_raw_fd(), libc::TUNSETIFF as libc::c_ulong);
    created.map_err(|source| EmulationError::Interface { what: "create", end, source })?;
    Ok(tun.into())
}

/// Brings up an interface, with its address and MTU, and the loopback interface in the calling thread's namespace. ARP
/// is off.
///
/// # Errors
/// If the kernel refuses.
pub fn interface_up(name: &str, address: Option<Ipv4Addr>, mtu_bytes: u32) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let up = libc::IFF_UP | libc::IFF_RUNNING;
    let steps = [
        address.map(|address| (name, ipv4(address), libc::SIOCSIFADDR)),
        Some((name, number(mtu_bytes as libc::c_int), libc::SIOCSIFMTU)),
        Some((name, flags(up | libc::IFF_NOARP), libc::SIOCSIFFLAGS)),
        Some(("lo", flags(up), libc::SIOCSIFFLAGS)),
    ];
    for (name, value, request) in steps.into_iter().flatten() {
        Request::new(name, value).call(socket.as_raw_fd(), request as libc::c_ulong)?;
    }
    Ok(())
}

/// Sets the longest queue that the kernel allows. Some kernels refuse more than a few thousand packets.
fn longest_queue(interface: u32) -> io::Result<()> {
    let mut packets = QUEUE_PACKETS;
    loop {
        match set_queue(interface, packets) {
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && packets > LEAST_QUEUE_PACKETS => packets /= 2,
            set => return set,
        }
    }
}

/// Sets receive packet steering for interfaces of the calling thread's namespace. The thread must end afterwards, since
/// it gets a private mount namespace with the namespace's interfaces below `/sys`.
fn steer(interfaces: &[String]) -> io::Result<()> {
    /// Processors per word of the kernel's masks.
    const WORD: usize = 32;
    let processors = thread::available_parallelism().map_or(1, usize::from).min(WORD);
    let mask = format!("{:x}", u32::MAX >> (WORD - processors));
    // SAFETY: the calls get zero-terminated string literals, and change only this thread's view.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        let (none, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        check(libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, private, none.cast()))?;
        check(libc::mount(c"sysfs".as_ptr(), c"/sys".as_ptr(), c"sysfs".as_ptr(), 0, none.cast()))?;
    }
    interfaces.iter().try_for_each(|name| fs::write(format!("/sys/class/net/{name}/queues/rx-0/rps_cpus"), &mask))
}

/// Adds the route to the other endpoints. Returns the reason if the congestion control was refused.
fn route(congestion_control: &str) -> io::Result<Option<String>> {
    let number = number_of(INTERFACE);
    let refused = match add_route(number, Some(congestion_control)) {
        Ok(()) => return Ok(None),
        Err(error) => format!("congestion control {congestion_control}: {error}"),
    };
    add_route(number, None)?;
    Ok(Some(refused))
}
