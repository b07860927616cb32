//! Link of the replica that sends the most, which limits a cluster with a fixed leader.

use super::{Growth, per};
use crate::record::record;
use crate::spec::{BenchSpec, Dissemination, WorkloadKind};
use quorate_types::line::{ETHERNET_BYTES, TCP_HEADER_BYTES, UDP_HEADER_BYTES};
use quorate_types::{ReplicaId, Status};
use serde::{Deserialize, Serialize};

const BITS_PER_BYTE: f64 = 8.0;
const BITS_PER_MBIT: f64 = 1e6;

record! {
    /// Messages sent by the leader, and their packets on an Ethernet link.
    ///
    /// Bytes on the link include the headers of Ethernet, IPv4, and TCP or UDP. Each write to a TCP stream counts as
    /// packets of its own; acknowledgements are left out. Packets of a transport over UDP are counted, including
    /// acknowledgements.
    #[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
    pub struct LineFigures {
        /// Replica that sends the most bytes: the leader, if it is fixed.
        pub replica: ReplicaId,
        /// Link rate, from `--line-rate`.
        pub line_rate_bits_per_s: f64 ["bit/s"],
        /// Bytes sent per committed command by the replica that sends the most, the leader: to replicas and clients,
        /// including framing and channel.
        pub bytes_per_command: f64 ["B" as leader_bytes_per_command],
        /// The same on its link, including Ethernet, IP and TCP or UDP headers.
        pub line_bytes_per_command: f64 ["B" as line_bytes_per_command],
        /// Share of message bytes in the bytes on the leader's link.
        pub goodput_percent: f64 ["%" as goodput_percent],
        /// Share of the payloads that its proposals carry to the other replicas in the bytes on its link; null if
        /// proposals carry digests, or payloads differ in size.
        pub values_percent: Option<f64> ["%" as leader_values_percent],
        /// Bytes of the leader's messages per second.
        pub goodput_mbit_per_s: f64 ["Mbit/s" as goodput_mbit_per_s],
        /// Bytes on its link per second.
        pub line_mbit_per_s: f64 ["Mbit/s"],
        /// Utilization of the leader's link.
        pub line_used_percent: f64 ["%" as line_used_percent],
        /// Commands per second at full utilization of the leader's link, with as many bytes per command.
        pub line_limit_per_s: f64 ["commands/s" as line_limit_per_s],
    }
}

/// Bytes of a replica's messages, and their bytes on the link.
struct Sent {
    replica: ReplicaId,
    bytes: u64,
    line_bytes: u64,
}

impl LineFigures {
    /// Returns the figures of a measured time in which `commands` were committed; `None` if none were, or if the
    /// packets are unknown, as in simulated packet transports and older replicas.
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

/// Returns the bytes sent by the replica that sends the most; `None` if it counted no packets.
fn sent(growth: &Growth<'_>) -> Option<Sent> {
    let bytes = growth.by_replica(|status| status.bytes_sent);
    let (replica, bytes) = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let of = |counter: fn(&Status) -> u64| growth.by_replica(counter)[&replica];
    let over_udp = of(|status| status.packets_sent) * (UDP_HEADER_BYTES + ETHERNET_BYTES);
    let over_tcp = of(|status| status.stream_packets) * (TCP_HEADER_BYTES + ETHERNET_BYTES);
    let headers = over_udp + over_tcp;
    (headers > 0).then_some(Sent { replica, bytes, line_bytes: bytes + headers })
}
