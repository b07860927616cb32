//! Requests for disciplines, classes and filters, as `linux/pkt_sched.h` and `linux/pkt_cls.h` describe them.

use super::discipline::{Discipline, LIMIT_PACKETS, NO_TIME};
use crate::emulation::netlink::{attribute, find, u32_at};
use quorate_simulator::links::Loss;
use std::net::Ipv4Addr;

/// Parent handle of an interface's root discipline.
pub const ROOT: u32 = u32::MAX;
/// Handle of a root discipline.
pub const ROOT_HANDLE: u32 = 1 << 16;
/// Class of a receiver's interface, the parent of the senders' classes.
pub const NIC_CLASS: u32 = ROOT_HANDLE | 1;

/// Bytes of an Ethernet header, which are no part of an IP packet.
pub const ETHERNET_BYTES: i32 = 14;
const TC_BYTES: usize = 20;
/// Maximum debt of a receiver's interface that costs it no capacity, in units of 64 ns.
const BURST: u32 = 100_000 / 64;
/// Bytes per sender in each round of a receiver's round robin.
const QUANTUM: u32 = 1514;

const NETEM_DELAY_DISTRIBUTION: u16 = 2;
const NETEM_LOSS: u16 = 5;
const NETEM_LOSS_GILBERT_ELLIOTT: u16 = 2;
const NETEM_RATE: u16 = 6;
const NETEM_RATE_64: u16 = 8;
const NETEM_LATENCY_64: u16 = 10;
const NETEM_JITTER_64: u16 = 11;
const NETEM_SEED: u16 = 14;
const HTB_PARAMETERS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE_64: u16 = 6;
const HTB_CEILING_64: u16 = 7;
const U32_CLASS: u16 = 1;
const U32_SELECTOR: u16 = 5;
const STAB_BASE: u16 = 1;
const STATISTICS_QUEUE: u16 = 3;

/// Returns the class of a sender at each receiver's interface, and the handle of its discipline.
pub fn class_of(end: usize) -> (u32, u32) {
    let number = end as u32 + 2;
    (ROOT_HANDLE | number, number << 16)
}

fn object(interface: u32, handle: u32, parent: u32, info: u32, kind: &str) -> Vec<u8> {
    let mut body = vec![0; TC_BYTES];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    body[8..12].copy_from_slice(&handle.to_ne_bytes());
    body[12..16].copy_from_slice(&parent.to_ne_bytes());
    body[16..20].copy_from_slice(&info.to_ne_bytes());
    attribute(&mut body, libc::TCA_KIND, &[kind.as_bytes(), &[0]].concat());
    body
}

/// Appends a size table that subtracts the Ethernet header from every packet's length.
fn without_header(body: &mut Vec<u8>) {
    let mut base = vec![0; 24];
    base[4..8].copy_from_slice(&(-ETHERNET_BYTES).to_ne_bytes());
    let mut table = Vec::new();
    attribute(&mut table, STAB_BASE, &base);
    attribute(body, libc::TCA_STAB, &table);
}

/// Returns a request for a netem discipline.
pub fn netem(interface: u32, handle: u32, parent: u32, discipline: &Discipline) -> Vec<u8> {
    let mut body = object(interface, handle, parent, 0, "netem");
    let probability = match discipline.loss {
        Loss::Independent { probability } => fraction(probability),
        Loss::Bursts { .. } => 0,
    };
    // Latency, limit, loss, gap, duplication and jitter; latency and jitter follow as 64-bit values.
    let mut options: Vec<u8> =
        [0, LIMIT_PACKETS, probability, 0, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    attribute(&mut options, NETEM_LATENCY_64, &discipline.delay_ns.to_ne_bytes());
    attribute(&mut options, NETEM_JITTER_64, &discipline.spread_ns.to_ne_bytes());
    attribute(&mut options, NETEM_SEED, &discipline.seed.to_ne_bytes());
    if let Some(rate) = discipline.rate {
        let short = u32::try_from(rate).unwrap_or(u32::MAX);
        // The rate. There are no overheads or cells here, so these fields are 0.
        let plain: Vec<u8> = [short, 0, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        attribute(&mut options, NETEM_RATE, &plain);
        attribute(&mut options, NETEM_RATE_64, &rate.to_ne_bytes());
    }
    if let Some(table) = &discipline.table {
        let entries: Vec<u8> = table.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
        attribute(&mut options, NETEM_DELAY_DISTRIBUTION, &entries);
    }
    if let Loss::Bursts { enter, leave, good, bad } = discipline.loss {
        // The kernel's third number is the probability that a packet gets through in the bad state.
        let model: Vec<u8> =
            [enter, leave, 1.0 - bad, good].into_iter().flat_map(|share| fraction(share).to_ne_bytes()).collect();
        let mut nested = Vec::new();
        attribute(&mut nested, NETEM_LOSS_GILBERT_ELLIOTT, &model);
        attribute(&mut options, NETEM_LOSS | libc::NLA_F_NESTED as u16, &nested);
    }
    attribute(&mut body, libc::TCA_OPTIONS, &options);
    if parent == ROOT {
        without_header(&mut body);
    }
    body
}

/// Returns a probability in the kernel's fixed-point format.
fn fraction(probability: f64) -> u32 {
    (probability.clamp(0.0, 1.0) * f64::from(u32::MAX)).round() as u32
}

/// Returns a request for an interface's root discipline with classes. Packets without a class are not delayed.
pub fn root(interface: u32) -> Vec<u8> {
    let mut body = object(interface, ROOT_HANDLE, ROOT, 0, "htb");
    // Version, divisor of quanta, default class, and two that the kernel fills in.
    let init: Vec<u8> = [3u32, 1, 0, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    let mut options = Vec::new();
    attribute(&mut options, HTB_INIT, &init);
    attribute(&mut body, libc::TCA_OPTIONS, &options);
    without_header(&mut body);
    body
}

/// Returns a request for a class: an interface's, with this rate in bytes per second, or a sender's, which borrows from
/// it.
pub fn class(interface: u32, class: u32, parent: u32, rate: Option<u64>) -> Vec<u8> {
    /// Link layer without a rate table.
    const ETHERNET: u8 = 1;
    let mut body = object(interface, class, parent, 0, "htb");
    let ceiling = rate.unwrap_or(NO_TIME);
    let assured = if parent == ROOT_HANDLE { ceiling } else { 1 };
    let mut parameters = Vec::new();
    for rate in [assured, ceiling] {
        parameters.extend([0, ETHERNET, 0, 0, 0, 0, 0, 0]);
        parameters.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    }
    // Two bursts, the quantum, and a level and a priority of 0.
    parameters.extend([BURST, BURST, QUANTUM, 0, 0].into_iter().flat_map(u32::to_ne_bytes));
    let mut options = Vec::new();
    attribute(&mut options, HTB_PARAMETERS, &parameters);
    attribute(&mut options, HTB_RATE_64, &assured.to_ne_bytes());
    attribute(&mut options, HTB_CEILING_64, &ceiling.to_ne_bytes());
    attribute(&mut body, libc::TCA_OPTIONS, &options);
    body
}

/// Returns a request for a filter that puts a sender's packets into its class.
pub fn filter(interface: u32, source: Ipv4Addr, class: u32) -> Vec<u8> {
    /// Priority of the filter, and IPv4 in network byte order.
    const INFO: u32 = 1 << 16 | (libc::ETH_P_IP as u16).to_be() as u32;
    /// Offset of the source address in an IPv4 header.
    const SOURCE: i32 = 12;
    let mut body = object(interface, 0, ROOT_HANDLE, INFO, "u32");
    // Terminal, no shift, one key, padding; offsets and a hash, all 0; the key: mask, value, offset, mask of the
    // offset.
    let mut selector = vec![1, 0, 1, 0];
    selector.extend([0; 12]);
    selector.extend([0xff; 4]);
    selector.extend(source.octets());
    selector.extend(SOURCE.to_ne_bytes());
    selector.extend([0; 4]);
    let mut options = Vec::new();
    attribute(&mut options, U32_CLASS, &class.to_ne_bytes());
    attribute(&mut options, U32_SELECTOR, &selector);
    attribute(&mut body, libc::TCA_OPTIONS, &options);
    body
}

/// Returns a request for all disciplines in a namespace.
pub fn every_discipline() -> Vec<u8> {
    vec![0; TC_BYTES]
}

/// Decodes a discipline's interface, its handle, and its number of dropped packets.
pub fn dropped(discipline: &[u8]) -> Option<(u32, u32, u64)> {
    let attributes = discipline.get(TC_BYTES..)?;
    let queue = find(find(attributes, libc::TCA_STATS2)?, STATISTICS_QUEUE)?;
    // The queued packets and bytes precede the drops.
    let drops = queue.get(8..12).map(|_| u32_at(queue, 8))?;
    Some((u32_at(discipline, 4), u32_at(discipline, 8), u64::from(drops)))
}
