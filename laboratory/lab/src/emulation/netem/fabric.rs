//! The namespace in the middle: one interface per endpoint, each with a discipline per sender.

use super::discipline::{Disciplines, bytes_per_second};
use super::messages::{NIC_CLASS, ROOT, ROOT_HANDLE, class, class_of, dropped, every_discipline, filter, netem, root};
use crate::emulation::address::{MIRROR, address_of};
use crate::emulation::error::{EmulationError, NetemStep};
use crate::emulation::namespace::{INTERFACE, Namespace, interface_up, set};
use crate::emulation::netlink::{LINK_BYTES, Netlink, add_route_to, attribute, number_of};
use crate::emulation::plan::{Change, Plan};
use quorate_simulator::links::Loss;
use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

/// Hardware address of all interfaces: with one common address, pairs need no ARP.
const HARDWARE_ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Attribute type of a pair's other end, `VETH_INFO_PEER` in the C headers.
const VETH_PEER: u16 = 1;
/// Settings of the middle namespace, below `/proc/sys/net/ipv4`.
const FORWARDING: [(&str, &str); 3] =
    [("ip_forward", "1"), ("conf/all/rp_filter", "0"), ("conf/default/rp_filter", "0")];

fn failed(step: NetemStep) -> impl Fn(io::Error) -> EmulationError {
    move |source| EmulationError::Netem { step, source }
}

/// Packets that netem has dropped since the start: by chance, and by cuts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    pub lost: u64,
    pub cut: u64,
}

/// Middle namespace of a network.
pub struct Fabric {
    middle: Namespace,
    netlink: Netlink,
    /// Indices of the interfaces to the endpoints, followed by the mirror's.
    interfaces: Vec<u32>,
    ends: usize,
    disciplines: Disciplines,
    probe_delay_ns: u64,
    /// Drops of each link until now, and their sum.
    seen: HashMap<(u32, u32), u64>,
    drops: Drops,
}

impl Fabric {
    /// Connects the namespaces of the plan's endpoints, of the probes, and of the mirror.
    pub fn new(plan: &Plan, namespaces: &[&Namespace]) -> Result<Fabric, EmulationError> {
        let mut middle = Namespace::bare()?;
        let mirror = namespaces.len() - 1;
        let build = || -> Result<(Netlink, Vec<u32>), EmulationError> {
            for (name, value) in FORWARDING {
                let refused = set(name, value);
                refused.map_or(Ok(()), |why| Err(failed(NetemStep::Forward)(io::Error::other(why))))?;
            }
            let mut netlink = Netlink::open().map_err(failed(NetemStep::Pair))?;
            let mut interfaces = Vec::new();
            for (end, namespace) in namespaces.iter().enumerate() {
                let name = format!("end{end}");
                pair(&mut netlink, &name, namespace, plan.mtu_bytes).map_err(failed(NetemStep::Pair))?;
                interface_up(&name, None, plan.mtu_bytes).map_err(failed(NetemStep::Pair))?;
                let number = number_of(&name);
                let address = if end == mirror { MIRROR } else { address_of(end) };
                add_route_to(&mut netlink, address, number).map_err(failed(NetemStep::Forward))?;
                interfaces.push(number);
            }
            Ok((netlink, interfaces))
        };
        let (netlink, interfaces) = middle.within(build).map_err(EmulationError::Namespace)??;
        let names: Vec<String> = (0..namespaces.len()).map(|end| format!("end{end}")).collect();
        // The endpoints report the same refusal.
        middle.keep_order(&names).map_err(EmulationError::Namespace)?;
        let (seen, drops) = (HashMap::new(), Drops::default());
        let (ends, disciplines, probe_delay_ns) = (plan.ends, Disciplines::new(plan), 0);
        let mut fabric = Fabric { middle, netlink, interfaces, ends, disciplines, probe_delay_ns, seen, drops };
        fabric.install(bytes_per_second(plan.ingress_ps_per_byte))?;
        Ok(fabric)
    }

    /// Creates the disciplines of all links.
    fn install(&mut self, nic: Option<u64>) -> Result<(), EmulationError> {
        const NEW: libc::c_int = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let probes = (self.ends, self.interfaces.len() - 1);
        for to in (0..self.ends).chain([probes.1]) {
            let interface = self.interfaces[to];
            let nic = nic.filter(|_| to < self.ends);
            self.netlink.ask(libc::RTM_NEWQDISC, NEW, &root(interface)).map_err(failed(NetemStep::Classes))?;
            let parent = class(interface, NIC_CLASS, ROOT_HANDLE, nic);
            self.netlink.ask(libc::RTM_NEWTCLASS, NEW, &parent).map_err(failed(NetemStep::Classes))?;
            let senders =
                if to == probes.1 { vec![probes.0] } else { (0..self.ends).filter(|from| *from != to).collect() };
            for from in senders {
                let (minor, _) = class_of(from);
                let own = class(interface, minor, NIC_CLASS, nic);
                self.netlink.ask(libc::RTM_NEWTCLASS, NEW, &own).map_err(failed(NetemStep::Classes))?;
                self.set(from, to, NEW).map_err(failed(NetemStep::Netem))?;
                let choose = filter(interface, address_of(from), minor);
                self.netlink.ask(libc::RTM_NEWTFILTER, NEW, &choose).map_err(failed(NetemStep::Filters))?;
            }
        }
        Ok(())
    }

    /// Creates or changes the discipline of an ordered pair.
    fn set(&mut self, from: usize, to: usize, flags: libc::c_int) -> io::Result<()> {
        let is_probe = to >= self.ends;
        let discipline =
            if is_probe { self.disciplines.of_probes(self.probe_delay_ns) } else { self.disciplines.of(from, to) };
        let (parent, handle) = class_of(from);
        let body = netem(self.interfaces[to], handle, parent, &discipline);
        self.netlink.ask(libc::RTM_NEWQDISC, flags, &body)
    }

    /// Sets the delay of probes, from which the correction is subtracted, in nanoseconds.
    pub fn mirror(&mut self, delay_ns: u64) -> io::Result<()> {
        self.probe_delay_ns = delay_ns;
        self.set(self.ends, self.interfaces.len() - 1, 0)
    }

    /// Subtracts the kernel's own processing time from all delays.
    pub fn correct(&mut self, correction_ns: u64) -> io::Result<()> {
        self.disciplines.set_correction(correction_ns);
        self.mirror(self.probe_delay_ns)?;
        for from in 0..self.ends {
            for to in (0..self.ends).filter(|to| *to != from) {
                self.set(from, to, 0)?;
            }
        }
        Ok(())
    }

    /// Applies a change of the plan.
    pub fn change(&mut self, change: &Change) -> io::Result<()> {
        // Attribute the drops so far to the state before the change.
        self.count()?;
        for (from, to) in self.disciplines.change(change) {
            self.set(from, to, 0)?;
        }
        Ok(())
    }

    /// Returns the drops since the start.
    pub fn count(&mut self) -> io::Result<Drops> {
        let mut now = Vec::new();
        self.netlink.list(libc::RTM_GETQDISC, &every_discipline(), |one| now.extend(dropped(one)))?;
        let now: HashMap<(u32, u32), u64> =
            now.into_iter().map(|(place, handle, drops)| ((place, handle), drops)).collect();
        for from in 0..self.ends {
            for to in (0..self.ends).filter(|to| *to != from) {
                let key = (self.interfaces[to], class_of(from).1);
                let (drops, before) = (now.get(&key).copied().unwrap_or(0), self.seen.entry(key).or_insert(0));
                let more = drops.saturating_sub(*before);
                *before = drops;
                let which = if self.disciplines.is_cut(from, to) { &mut self.drops.cut } else { &mut self.drops.lost };
                *which += more;
            }
        }
        Ok(self.drops)
    }

    /// Returns the packets dropped between an endpoint and the middle, in either direction.
    pub fn not_taken(&self) -> io::Result<u64> {
        self.middle.interfaces().map(|all| all.iter().map(|one| one.not_sent).sum())
    }
}

/// Creates a pair of interfaces: `name` in the socket's namespace, and the endpoint's own in the endpoint's namespace.
fn pair(netlink: &mut Netlink, name: &str, end: &Namespace, mtu_bytes: u32) -> io::Result<()> {
    let common = |name: &str| {
        let mut body = vec![0; LINK_BYTES];
        attribute(&mut body, libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        attribute(&mut body, libc::IFLA_ADDRESS, &HARDWARE_ADDRESS);
        attribute(&mut body, libc::IFLA_MTU, &mtu_bytes.to_ne_bytes());
        // No segmentation offload, so that a loss hits one packet rather than a buffer of several.
        attribute(&mut body, libc::IFLA_GSO_MAX_SEGS, &1u32.to_ne_bytes());
        body
    };
    let mut peer = common(INTERFACE);
    attribute(&mut peer, libc::IFLA_NET_NS_FD, &end.descriptor().as_raw_fd().to_ne_bytes());
    let (mut information, mut data) = (Vec::new(), Vec::new());
    attribute(&mut data, VETH_PEER, &peer);
    attribute(&mut information, libc::IFLA_INFO_KIND, b"veth\0");
    attribute(&mut information, libc::IFLA_INFO_DATA, &data);
    let mut body = common(name);
    attribute(&mut body, libc::IFLA_LINKINFO, &information);
    netlink.ask(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &body)
}

/// Sets the rate of an endpoint's interface. Call it in the endpoint's namespace.
///
/// # Errors
/// If the kernel refuses.
pub fn limit_egress(netlink: &mut Netlink, ps_per_byte: u64) -> io::Result<()> {
    let Some(rate) = bytes_per_second(ps_per_byte) else { return Ok(()) };
    let discipline = super::discipline::Discipline {
        delay_ns: 0,
        spread_ns: 0,
        table: None,
        loss: Loss::default(),
        rate: Some(rate),
        seed: 0,
    };
    let body = netem(number_of(INTERFACE), ROOT_HANDLE, ROOT, &discipline);
    netlink.ask(libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &body)
}

/// Returns the address of an endpoint's interface. The mirror is the last endpoint.
pub fn address_in(end: usize, all: usize) -> Ipv4Addr {
    if end + 1 == all { MIRROR } else { address_of(end) }
}
