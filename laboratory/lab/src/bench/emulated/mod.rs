//! A cluster in an emulated network: each replica and the clients in a network namespace of its own.

mod options;
mod plan;

pub use options::EmulationOptions;
pub use plan::{Resolved, resolve};

use super::error::BenchError;
use crate::emulation::{Emulation, Emulator, Entered, Plan, TcpSettings, address_of};
use crate::result::EmulationResult;
use crate::spec::BenchSpec;
use quorate_node::testnet::{self, Place};
use quorate_types::ReplicaId;
use std::os::fd::RawFd;
use std::sync::OnceLock;

/// First port of each replica. All replicas can share it, since each has a namespace of its own.
const PORT: u16 = 7000;

/// Returns the reason why this process cannot emulate networks on this host, found by starting the smallest network.
/// `None` if it can.
pub fn emulation_obstacle() -> Option<String> {
    static OBSTACLE: OnceLock<Option<String>> = OnceLock::new();
    let attempt = || {
        let congestion_control = EmulationOptions::default().congestion_control().to_owned();
        let settings = TcpSettings { congestion_control, values: Vec::new() };
        let started = Emulation::start(&Plan::uniform(1, 0), &settings, Emulator::Auto);
        started.err().map(|error| format!("emulated networks: {error}"))
    };
    OBSTACLE.get_or_init(attempt).clone()
}

/// Emulated network of a cluster. While it exists, the thread that started it is in a control namespace outside the
/// network, from which it reads the replicas' counters.
pub struct Emulated {
    emulation: Emulation,
    options: EmulationOptions,
    rto_min_ms: f64,
    not_applied: Vec<String>,
    replicas: usize,
    _beside: Entered,
}

impl Emulated {
    pub fn start(spec: &BenchSpec, options: &EmulationOptions, network: Resolved) -> Result<Emulated, BenchError> {
        let refuse = |source| BenchError::Emulation { network: options.name().to_owned(), source };
        let Resolved { plan, tcp, rto_min_ms, not_applied, .. } = network;
        let emulation = Emulation::start(&plan, &tcp, options.emulator.unwrap_or_default()).map_err(refuse)?;
        let beside = emulation.control().enter().map_err(BenchError::Status)?;
        let replicas = spec.quorum().replicas();
        Ok(Emulated { emulation, options: options.clone(), rto_min_ms, not_applied, replicas, _beside: beside })
    }

    /// Returns the addresses of the replicas.
    pub fn places(&self, base_port: u16) -> Result<Vec<Place>, BenchError> {
        let hosts: Vec<String> = (0..self.replicas).map(|replica| address_of(replica).to_string()).collect();
        Ok(testnet::places_on(&hosts, if base_port == 0 { PORT } else { base_port })?)
    }

    /// Returns the descriptor of a replica's namespace.
    pub fn namespace(&self, replica: ReplicaId) -> RawFd {
        self.emulation.namespace(replica.index()).descriptor()
    }

    /// Moves the calling thread to the clients until the returned value is dropped.
    pub fn enter_clients(&self) -> Result<Entered, BenchError> {
        self.emulation.namespace(self.replicas).enter().map_err(BenchError::Status)
    }

    /// Starts the counters and the faults of the links.
    pub fn begin(&mut self) -> Result<(), BenchError> {
        let name = self.options.name().to_owned();
        self.emulation.begin().map_err(|source| BenchError::Emulation { network: name, source })
    }

    /// Describes the emulator and its overhead, as measured before the run.
    pub fn describe(&self) -> String {
        let (delay_us, correction_us, idle) = self.emulation.measured();
        let (emulator, fallback) = self.emulation.emulator();
        let (network, p50_us, p99_us) = (self.options.name(), idle.p50_us, idle.p99_us);
        let why = fallback.map_or_else(String::new, |why| format!(" because {why}"));
        format!(
            "emulated network {network} by {}{why}; shortest delay {delay_us:.0} us; {emulator} takes \
             {correction_us:.1} us for a packet, which all delays are shortened by; it then adds {p50_us:.1} us (p99 \
             {p99_us:.1})",
            describe(emulator),
        )
    }

    /// Ends the network and returns its report.
    pub fn finish(&mut self) -> Result<EmulationResult, BenchError> {
        let name = self.options.name().to_owned();
        let report = self.emulation.finish();
        let report = report.map_err(|source| BenchError::Emulation { network: name.clone(), source })?;
        let (congestion_control, not_applied) = (self.options.congestion_control(), &self.not_applied);
        Ok(EmulationResult::of(&report, &name, congestion_control, self.rto_min_ms, not_applied))
    }
}

/// Describes an emulator in a sentence.
fn describe(emulator: Emulator) -> &'static str {
    match emulator {
        Emulator::Netem => "the kernel's netem",
        Emulator::Auto | Emulator::Router => "a router in user space",
    }
}
