//! The line of the replica that sends the most, which limits a cluster with a fixed leader.

use super::{Growth, per};
use crate::record::record;
use crate::spec::{BenchSpec, Dissemination, WorkloadKind};
use quorate_types::line::{ETHERNET_BYTES, TCP_HEADER_BYTES, UDP_HEADER_BYTES};
use quorate_types::{ReplicaId, Status};
use serde::{Deserialize, Serialize};

const BITS_PER_BYTE: f64 = 8.0;
const BITS_PER_MBIT: f64 = 1e6;

record! {
    /// Messages that leave the leader, and their packets on a line of Ethernet.
    ///
    /// Bytes on the line include the headers of Ethernet, IPv4, and TCP or UDP. Each write to a TCP stream fills
    /// packets of its own; acknowledgements are left out. Packets of a transport over UDP are counted, with their
    /// acknowledgements.
    #[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
    pub struct LineFigures {
        /// The replica that sends the most bytes: the leader, if it is fixed.
        pub replica: ReplicaId,
        /// Rate of the line, of `--line-rate`.
        pub line_rate_bits_per_s: f64 ["bit/s"],
        /// Bytes that the replica with the most to send, the leader, sends per committed command: to replicas and
        /// clients, framing and channel included.
        pub bytes_per_command: f64 ["B" as leader_bytes_per_command],
        /// The same on its line, with the headers of Ethernet, IP and TCP or UDP.
        pub line_bytes_per_command: f64 ["B" as line_bytes_per_command],
        /// Bytes of messages that leave the leader, by the bytes on its line.
        pub goodput_percent: f64 ["%" as goodput_percent],
        /// Payloads that its proposals carry to the other replicas, by the bytes on its line; null if proposals carry
        /// digests, or payloads differ in size.
        pub values_percent: Option<f64> ["%" as leader_values_percent],
        /// Bytes of messages that leave the leader per second.
        pub goodput_mbit_per_s: f64 ["Mbit/s" as goodput_mbit_per_s],
        /// Bytes on its line per second.
        pub line_mbit_per_s: f64 ["Mbit/s"],
        /// Bytes on the leader's line per second, by the line's rate.
        pub line_used_percent: f64 ["%" as line_used_percent],
        /// Commands per second that the leader's line would carry with as many bytes for each.
        pub line_limit_per_s: f64 ["commands/s" as line_limit_per_s],
    }
}

/// Bytes of a replica's messages, and on the line.
struct Sent {
    replica: ReplicaId,
    bytes: u64,
    line_bytes: u64,
}

impl LineFigures {
    /// Returns the figures of a measured time in which `commands` were committed; `None` if none were, or if the
    /// packets are unknown: those of a simulated transport over packets, and of older replicas.
    pub(crate) fn of(spec: &BenchSpec, growth: &Growth<'_>, commands: u64, throughput: f64) -> Option<LineFigures> {
        let Sent { replica, bytes, line_bytes } = sent(growth)?;
        let (own, on_line) = (per(bytes as f64, commands)?, per(line_bytes as f64, commands)?);
        let mbit_per_s = |bytes: f64| bytes * throughput * BITS_PER_BYTE / BITS_PER_MBIT;
        let carries =
            spec.node.consensus.dissemination == Dissemination::Leader && spec.workload == WorkloadKind::Fixed;
        let values = f64::from(spec.payload) * f64::from(spec.replicas - 1);
        let rate = spec.line_rate.0;
        Some(LineFigures {
            replica,
            line_rate_bits_per_s: rate,
            bytes_per_command: own,
            line_bytes_per_command: on_line,
            goodput_percent: 100.0 * own / on_line,
            values_percent: carries.then_some(100.0 * values / on_line),
            goodput_mbit_per_s: mbit_per_s(own),
            line_mbit_per_s: mbit_per_s(on_line),
            line_used_percent: 100.0 * mbit_per_s(on_line) * BITS_PER_MBIT / rate,
            line_limit_per_s: rate / BITS_PER_BYTE / on_line,
        })
    }
}

/// Returns what the replica with the most bytes sent; `None` if it counted no packets.
fn sent(growth: &Growth<'_>) -> Option<Sent> {
    let bytes = growth.by_replica(|status| status.bytes_sent);
    let (replica, bytes) = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let of = |counter: fn(&Status) -> u64| growth.by_replica(counter)[&replica];
    let over_udp = of(|status| status.packets_sent) * (UDP_HEADER_BYTES + ETHERNET_BYTES);
    let over_tcp = of(|status| status.stream_packets) * (TCP_HEADER_BYTES + ETHERNET_BYTES);
    let headers = over_udp + over_tcp;
    (headers > 0).then_some(Sent { replica, bytes, line_bytes: bytes + headers })
}
