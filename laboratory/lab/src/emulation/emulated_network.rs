//! An emulated network: namespaces, router and probes.

use crate::emulation::address::MAX_ENDS;
use crate::emulation::error::EmulationError;
use crate::emulation::namespace::{KernelCounters, Namespace, TcpSettings};
use crate::emulation::netem::{Ends, Netem, lack};
use crate::emulation::plan::Plan;
use crate::emulation::probe::{Added, Probe};
use crate::emulation::router::{Order, Outcome, Priority, Router};
use crate::emulation::scheduler::Counts;
use quorate_types::choice;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Probes before a run, in each of the two measurements.
const PROBES: usize = 200;
/// Delay of reflected probes, if the shortest link is not shorter.
const PROBE_DELAY_NS: u64 = 1_000_000;
/// Time between two probes during a run.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

choice!(
    /// Mechanism that delays and drops the packets of an emulated network.
    #[derive(Default)]
    Emulator, "emulator",
    /// The kernel's netem if it supports the network, otherwise the router.
    #[default]
    Auto = "auto",
    /// The kernel's netem, between pairs of virtual interfaces.
    Netem = "netem",
    /// A router in user space, between TUN devices.
    Router = "router",
);

/// Mechanism between the namespaces.
enum Between {
    Router(Router),
    Netem {
        netem: Netem,
        /// Destination of probes.
        mirror: Namespace,
    },
}

impl Between {
    /// Sets the delay of probes, from which the correction is subtracted, in nanoseconds.
    fn mirror(&self, delay_ns: u64) -> io::Result<()> {
        match self {
            Between::Router(router) => router.order(Order::Mirror(delay_ns)),
            Between::Netem { netem, .. } => netem.mirror(delay_ns)?,
        }
        Ok(())
    }

    /// Subtracts this many nanoseconds from each packet's delay.
    fn correct(&self, correction_ns: u64) -> io::Result<()> {
        match self {
            Between::Router(router) => router.order(Order::Correct(correction_ns)),
            Between::Netem { netem, .. } => netem.correct(correction_ns)?,
        }
        Ok(())
    }

    /// Resets the counters, and starts the plan's changes.
    fn begin(&mut self, namespaces: &[Namespace]) -> io::Result<()> {
        match self {
            Between::Router(router) => router.order(Order::Begin),
            Between::Netem { netem, .. } => netem.begin(namespaces)?,
        }
        Ok(())
    }

    /// Ends the changes, and returns the counters.
    fn stop(&mut self, namespaces: &[Namespace]) -> io::Result<Outcome> {
        match self {
            Between::Router(router) => Ok(router.stop().expect("a network is finished once")),
            Between::Netem { netem, .. } => netem.stop(namespaces),
        }
    }

    /// Opens the sockets for probes sent from the namespace `from`.
    fn probe(&self, from: &Namespace) -> io::Result<Probe> {
        match self {
            Between::Router(_) => from.within(Probe::reflected)?,
            Between::Netem { mirror, .. } => Probe::between(from, mirror),
        }
    }
}

/// A running emulated network. It vanishes when this value is dropped or the process ends, however it ends.
pub struct Emulation {
    /// Namespaces of the plan's endpoints, followed by the probes' namespace.
    namespaces: Vec<Namespace>,
    between: Between,
    /// Reason why netem was not used although it was preferred.
    fallback: Option<String>,
    probe_delay_ns: u64,
    shortest_delay_ns: u64,
    correction_ns: u64,
    idle: Added,
    loaded: Option<Loaded>,
    kernel_before: KernelCounters,
}

/// Probes during a run.
struct Loaded {
    thread: JoinHandle<io::Result<Vec<Option<i64>>>>,
    is_over: Arc<AtomicBool>,
}

/// Measurements and counters of an emulated network.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The shortest mean delay between two endpoints, without jitter.
    pub shortest_delay_us: f64,
    /// The emulator in use, and the reason if it is not the preferred netem.
    pub emulator: Emulator,
    pub fallback: Option<String>,
    /// Time that the emulation itself adds to a packet, subtracted from all longer delays.
    pub correction_us: f64,
    /// Time that packets took beyond the emulated delay, before the run.
    pub idle: Added,
    /// The same during the run; `None` if no probe arrived.
    pub loaded: Option<Added>,
    pub counts: Counts,
    pub kernel: KernelCounters,
    /// Packets from the router that the kernel refused.
    pub not_written: u64,
    /// CPU time of the router, including the kernel's work on its writes; `None` without a router.
    pub router_cpu: Option<Duration>,
    pub priority: Option<Priority>,
    /// Settings that the kernel refused, each once, with the reason.
    pub refused: Vec<String>,
}

impl Emulation {
    /// Starts a network with these settings of the kernel's TCP in each namespace, and measures the emulation's
    /// overhead.
    ///
    /// # Errors
    /// If this process lacks the privileges, or the host lacks a feature.
    pub fn start(plan: &Plan, settings: &TcpSettings, emulator: Emulator) -> Result<Emulation, EmulationError> {
        if plan.ends >= MAX_ENDS {
            return Err(EmulationError::Ends(plan.ends));
        }
        let (built, fallback) = match emulator {
            Emulator::Router => (over_router(plan, settings)?, None),
            Emulator::Netem => (over_netem(plan, settings)?, None),
            Emulator::Auto => match over_netem(plan, settings) {
                Ok(built) => (built, None),
                Err(EmulationError::Lack(what)) => (over_router(plan, settings)?, Some(format!("netem {what}"))),
                Err(EmulationError::Netem { step, source }) => {
                    (over_router(plan, settings)?, Some(format!("the kernel does not {step}: {source}")))
                }
                Err(other) => return Err(other),
            },
        };
        let (namespaces, between) = built;
        let shortest_delay_ns = plan.shortest_delay_ns();
        let mut emulation = Emulation {
            namespaces,
            between,
            fallback,
            probe_delay_ns: shortest_delay_ns.min(PROBE_DELAY_NS),
            shortest_delay_ns,
            correction_ns: 0,
            idle: Added::default(),
            loaded: None,
            kernel_before: KernelCounters::default(),
        };
        emulation.correct().map_err(EmulationError::Probe)?;
        Ok(emulation)
    }

    /// Measures the emulation's overhead, subtracts it from all delays, and measures the remainder.
    fn correct(&mut self) -> io::Result<()> {
        self.between.mirror(self.probe_delay_ns)?;
        let delay_ns = self.probe_delay_ns;
        let mut probe = self.between.probe(self.control())?;
        let mut measure = || -> io::Result<Added> {
            let times = probe.series(PROBES)?;
            let added = Added::of(&times, delay_ns);
            if added.probes == 0 { Err(io::Error::other("no probe came back")) } else { Ok(added) }
        };
        let first = measure()?;
        self.correction_ns = (first.p50_us.max(0.0) * 1e3) as u64;
        self.between.correct(self.correction_ns)?;
        self.idle = measure()?;
        Ok(())
    }

    /// Returns the emulator in use, and the reason if it is not the preferred netem.
    pub fn emulator(&self) -> (Emulator, Option<&str>) {
        let emulator = match self.between {
            Between::Router(_) => Emulator::Router,
            Between::Netem { .. } => Emulator::Netem,
        };
        (emulator, self.fallback.as_deref())
    }

    /// Returns the namespace of an endpoint.
    pub fn namespace(&self, end: usize) -> &Namespace {
        &self.namespaces[end]
    }

    /// Returns the control namespace outside the network: its packets are neither delayed nor lost.
    pub fn control(&self) -> &Namespace {
        self.namespaces.last().expect("there is always the probes' namespace")
    }

    /// Begins the run: resets the counters, starts the plan's changes, and probes until the end.
    ///
    /// # Errors
    /// If the kernel does not report its counters, or the probes cannot start.
    pub fn begin(&mut self) -> Result<(), EmulationError> {
        self.kernel_before = self.kernel().map_err(EmulationError::Probe)?;
        let mut probe = self.between.probe(self.control()).map_err(EmulationError::Probe)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let run = move || {
            let mut times = Vec::new();
            while !until.load(Ordering::Relaxed) {
                times.push(probe.once()?);
                thread::sleep(PROBE_INTERVAL);
            }
            Ok(times)
        };
        let thread = thread::Builder::new().name("probe".into()).spawn(run).map_err(EmulationError::Probe)?;
        self.loaded = Some(Loaded { thread, is_over });
        self.between.begin(&self.namespaces).map_err(EmulationError::Run)
    }

    /// Returns the shortest delay, the emulation's overhead that was subtracted from it, and the remainder, in
    /// microseconds.
    pub fn measured(&self) -> (f64, f64, Added) {
        (self.shortest_delay_ns as f64 / 1e3, self.correction_ns as f64 / 1e3, self.idle)
    }

    /// Ends the network and returns the measurements since [`Emulation::begin`].
    ///
    /// # Errors
    /// If the kernel does not report its counters, or the probes failed.
    ///
    /// # Panics
    /// If it was finished before.
    pub fn finish(&mut self) -> Result<Report, EmulationError> {
        let loaded = self.loaded.take().map(Loaded::end).transpose().map_err(EmulationError::Probe)?;
        let loaded = loaded.map(|times| Added::of(&times, self.probe_delay_ns)).filter(|added| added.probes > 0);
        let after = self.kernel().map_err(EmulationError::Probe)?;
        let before = self.kernel_before;
        let kernel = KernelCounters {
            retransmissions: after.retransmissions.saturating_sub(before.retransmissions),
            rto_events: after.rto_events.saturating_sub(before.rto_events),
            tail_loss_probes: after.tail_loss_probes.saturating_sub(before.tail_loss_probes),
            not_routed: after.not_routed.saturating_sub(before.not_routed),
        };
        let mut refused: Vec<String> = self.namespaces.iter().flat_map(|one| one.refused.iter().cloned()).collect();
        refused.sort();
        refused.dedup();
        let (emulator, fallback) = self.emulator();
        let fallback = fallback.map(str::to_owned);
        let stopped = self.between.stop(&self.namespaces).map_err(EmulationError::Run)?;
        let Outcome { counts, cpu, not_written, priority } = stopped;
        Ok(Report {
            emulator,
            fallback,
            shortest_delay_us: self.shortest_delay_ns as f64 / 1e3,
            correction_us: self.correction_ns as f64 / 1e3,
            idle: self.idle,
            loaded,
            counts,
            kernel,
            not_written,
            router_cpu: cpu,
            priority,
            refused,
        })
    }

    /// Returns the kernel's counters, summed over the endpoints' namespaces.
    fn kernel(&self) -> io::Result<KernelCounters> {
        let ends = &self.namespaces[..self.namespaces.len() - 1];
        ends.iter().try_fold(KernelCounters::default(), |sum, one| Ok(sum.plus(one.counters()?)))
    }
}

/// Starts the namespaces of a plan's endpoints with a router between them.
fn over_router(plan: &Plan, settings: &TcpSettings) -> Result<(Vec<Namespace>, Between), EmulationError> {
    let create = |end| Namespace::create(end, plan.mtu_bytes, settings);
    let mut namespaces = (0..=plan.ends).map(create).collect::<Result<Vec<_>, _>>()?;
    let tuns = namespaces.iter_mut().map(|namespace| namespace.tun.take().expect("the router's have one")).collect();
    let router = Router::start(plan.clone(), tuns).map_err(EmulationError::Router)?;
    Ok((namespaces, Between::Router(router)))
}

/// Starts the namespaces of a plan's endpoints with netem between them.
fn over_netem(plan: &Plan, settings: &TcpSettings) -> Result<(Vec<Namespace>, Between), EmulationError> {
    lack(plan).map_or(Ok(()), |what| Err(EmulationError::Lack(what)))?;
    let (netem, Ends { namespaces, mirror }) = Netem::start(plan, settings)?;
    Ok((namespaces, Between::Netem { netem, mirror }))
}

impl Loaded {
    fn end(self) -> io::Result<Vec<Option<i64>>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the probes do not panic")
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        // Best effort: nobody can handle an error in `drop`.
        let _ = self.loaded.take().map(Loaded::end);
    }
}
