//! Emulated network of a run: its effect on the packets, and its accuracy.

use crate::emulation::{Added, Emulator, Report};
use crate::record::{Value, describe, record};
use serde::{Deserialize, Serialize};

/// Share of the shortest emulated delay. A run is marked as distorted if the emulation adds more.
const MAX_ADDED_SHARE: f64 = 0.1;

record! {
    /// The emulated network of a run. Counts cover all replicas and clients, from the start of the load to its end.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct EmulationResult {
        /// Preset or file of the network.
        pub network: String,
        /// `netem`, in the kernel, or `router`, in user space.
        pub emulator: Emulator,
        /// Reason for the router if `--emulator auto` would have preferred netem; otherwise null.
        pub fallback: Option<String>,
        /// Priority of the router's thread: `real-time`, `high` or `normal`; null with netem.
        pub router_priority: Option<String>,
        /// Shortest mean delay between two endpoints, one way and without jitter.
        pub shortest_delay_us: f64 ["us"],
        /// Time that the emulator itself takes per packet; subtracted from all delays longer than it.
        pub emulator_us: f64 ["us"],
        /// Time that packets take beyond the emulated delay, before the run: `p50`, `p99`, `max`, and the numbers of
        /// `probes` and of `lost` ones; negative if packets are early.
        pub emulation_added_us: AddedTime ["us"],
        /// The same under load; null if no probe returned.
        pub emulation_added_loaded_us: Option<AddedTime> ["us"],
        /// Whether either median exceeds a tenth of the shortest delay.
        pub is_distorted: bool,
        /// Congestion control of TCP.
        pub congestion_control: String,
        /// Minimum retransmission timeout of TCP.
        pub rto_min_ms: f64 ["ms"],
        /// Settings that this host refused or lacks, with the reasons.
        pub not_set: Vec<String>,
        /// Packets sent by endpoints.
        pub packets: u64 ["packets"],
        /// Bytes of these packets, including IP headers.
        pub bytes_on_wire: u64 ["B"],
        /// Packets lost by chance.
        pub lost: u64 ["packets"],
        /// Packets lost to a cut link.
        pub cut: u64 ["packets"],
        /// Packets dropped by a full queue.
        pub queue_dropped: u64 ["packets"],
        /// Packets lost because this host could not keep up; not part of the emulated network.
        pub router_dropped: u64 ["packets"],
        /// Segments retransmitted by TCP.
        pub retransmissions: u64 ["segments"],
        /// Expired retransmission timeouts of TCP.
        pub rto_events: u64 ["timeouts"],
        /// Tail loss probes of TCP: segments sent to detect a loss at the end of a flight.
        pub tail_loss_probes: u64 ["segments"],
        /// CPU time of the router, including the kernel's work on its writes; null with netem.
        pub router_cpu_s: Option<f64> ["s"],
    }
}

/// Time beyond the emulated delay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct AddedTime {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    /// Probes that arrived; the next field counts the lost ones.
    pub probes: usize,
    pub lost: usize,
}

impl From<Added> for AddedTime {
    fn from(added: Added) -> AddedTime {
        let Added { p50_us, p99_us, max_us, probes, lost } = added;
        AddedTime { p50: p50_us, p99: p99_us, max: max_us, probes, lost }
    }
}

impl EmulationResult {
    pub(crate) fn of(
        report: &Report,
        network: &str,
        congestion_control: &str,
        rto_min_ms: f64,
        not_applied: &[String],
    ) -> EmulationResult {
        let (counts, kernel) = (report.counts, report.kernel);
        let most_us = report.shortest_delay_us * MAX_ADDED_SHARE;
        let is_far_off = |added: &Added| most_us > 0.0 && added.p50_us.abs() > most_us;
        EmulationResult {
            network: network.to_owned(),
            emulator: report.emulator,
            fallback: report.fallback.clone(),
            router_priority: report.priority.map(|priority| priority.name().to_owned()),
            shortest_delay_us: report.shortest_delay_us,
            emulator_us: report.correction_us,
            emulation_added_us: report.idle.into(),
            emulation_added_loaded_us: report.loaded.map(AddedTime::from),
            is_distorted: is_far_off(&report.idle) || report.loaded.as_ref().is_some_and(is_far_off),
            congestion_control: congestion_control.to_owned(),
            rto_min_ms,
            not_set: report.refused.iter().chain(not_applied).cloned().collect(),
            packets: counts.packets,
            bytes_on_wire: counts.bytes,
            lost: counts.lost,
            cut: counts.cut,
            queue_dropped: counts.queue_dropped,
            router_dropped: counts.overflowed + report.not_written + kernel.not_routed,
            retransmissions: kernel.retransmissions,
            rto_events: kernel.rto_events,
            tail_loss_probes: kernel.tail_loss_probes,
            router_cpu_s: report.router_cpu.map(|cpu| cpu.as_secs_f64()),
        }
    }

    /// Returns caveats for the reader of the result.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.is_distorted {
            let loaded = self.emulation_added_loaded_us.as_ref().map_or(0.0, |added| added.p50);
            all.push(format!(
                "the emulation is off by more than a tenth of the shortest delay of {:.0} us: {:.1} us before the run, \
                 {loaded:.1} us beside the load; offer less load, or use a longer delay or more cores",
                self.shortest_delay_us, self.emulation_added_us.p50,
            ));
        }
        if self.router_dropped > 0 {
            let dropped = self.router_dropped;
            all.push(format!("{dropped} packets were lost because this host could not keep up, not by the network"));
        }
        all.extend(self.not_set.iter().map(|setting| format!("not set on this host: {setting}")));
        all
    }

    /// Returns the lines of the table as pairs of name and text.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let lines = [
            ("emulated", "{network}, {congestion_control} TCP, minimum RTO {rto_min_ms}"),
            (
                self.emulator.name(),
                "adds {emulation_added_us} to the delays before the run, {emulation_added_loaded_us} beside the load",
            ),
            (
                "packets",
                "{packets:} of {bytes_on_wire}[, {lost} lost][, {cut} cut off][, {queue_dropped} dropped by queues]; \
                 TCP: {retransmissions} sent again, {rto_events}, {tail_loss_probes} as tail-loss probes",
            ),
        ];
        lines.into_iter().map(|(name, template)| (name, describe(self, template))).collect()
    }
}

impl Value for AddedTime {
    fn text(&self) -> Option<String> {
        Some(format!("{:.1} (p99 {:.1})", self.p50, self.p99))
    }
}
