//! Hosts of a run on other machines.

use super::Machine;
use crate::record::record;
use crate::text::figure;
use quorate_types::choice;
use serde::{Deserialize, Serialize};

choice!(
    /// Work of a host.
    HostRole, "role",
    /// Runs one replica.
    Replica = "replica",
    /// Runs a part of the clients.
    Client = "client",
    /// Runs whole cells of experiments; takes no part in a deployment.
    Worker = "worker",
);

record! {
    /// The machines of a run with `--host deployed`.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct DeploymentResult {
        /// Number of hosts to which the program was copied; the others had it.
        pub copied: usize ["hosts"],
        /// Maximum error of the start of a client machine's measured time: half the longest of the round trips in which
        /// the machines' clocks were read.
        pub window_error_ms: f64 ["ms"],
        /// One entry per host: the replicas in their order, then the client machines.
        pub hosts: Vec<HostResult>,
    }
}

record! {
    /// One machine of a deployment.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct HostResult {
        /// Name in the hosts file.
        pub name: String,
        /// `replica` or `client`.
        pub role: HostRole,
        /// Region in the hosts file; otherwise null.
        pub region: Option<String>,
        /// Address for replicas and clients.
        pub address: String,
        /// Processor, cores, memory and kernel.
        pub machine: Machine,
        /// Governor of the processor; null if the host reports none.
        pub governor: Option<String>,
        /// Time by which its clock was ahead of the laboratory's before the run; the start of the load is corrected by
        /// it.
        pub clock_offset_ms: f64 ["ms"],
        /// Maximum error of this offset.
        pub clock_error_ms: f64 ["ms"],
        /// Commands completed per second of the measured time by this client machine; null for replicas.
        pub throughput_ops: Option<f64> ["commands/s"],
        /// Bytes sent by its `interface` in the measured time, including headers and other programs' bytes; null
        /// without one.
        pub sent_bytes: Option<u64> ["B"],
        /// Bytes received by it.
        pub received_bytes: Option<u64> ["B"],
        /// Reason why the host failed during the run; null if it did not.
        pub failure: Option<String>,
        /// Kept directory of the run; null without `--keep`.
        pub kept: Option<String>,
    }
}

impl DeploymentResult {
    /// Returns the lines of the table: a host each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.hosts.iter().map(HostResult::line).collect()
    }
}

impl HostResult {
    fn line(&self) -> String {
        let region = self.region.as_ref().map(|region| format!(" in {region}")).unwrap_or_default();
        let Machine { cpu, cores, .. } = &self.machine;
        let load = self.throughput_ops.map(|ops| format!(", {} commands/s", figure(ops))).unwrap_or_default();
        let failure = self.failure.as_ref().map(|why| format!(", FAILED: {why}")).unwrap_or_default();
        let kept = self.kept.as_ref().map(|path| format!(", kept in {path}")).unwrap_or_default();
        let (name, role) = (&self.name, &self.role);
        format!("{name}{region}: {role}, {cores} cores of {cpu}{load}{failure}{kept}")
    }
}
