//! An emulated network: namespaces, router and probes.

use crate::address::MAX_ENDS;
use crate::error::EmulationError;
use crate::namespace::{KernelCounters, Namespace, TcpSettings};
use crate::plan::Plan;
use crate::probe::{Added, Probe};
use crate::router::{Order, Outcome, Priority, Router};
use crate::scheduler::Counts;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Probes before a run, for each of the two measurements.
const PROBES: usize = 200;
/// Delay of the reflected probes, unless the shortest link is shorter.
const PROBE_DELAY_NS: u64 = 1_000_000;
/// Time between two probes during a run.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// A running emulated network. It vanishes when this value is dropped, or the process ends in any way.
pub struct Emulation {
    /// Those of the plan's endpoints, and after them that of the probes.
    namespaces: Vec<Namespace>,
    router: Router,
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

/// What happened in an emulated network.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The shortest mean delay between two endpoints, without jitter.
    pub shortest_delay_us: f64,
    /// Time that the router takes for a packet, by which it shortens all delays that are longer.
    pub correction_us: f64,
    /// Time that packets took beyond the emulated delay before the run.
    pub idle: Added,
    /// The same during the run; `None` if no probe arrived.
    pub loaded: Option<Added>,
    pub counts: Counts,
    pub kernel: KernelCounters,
    /// Packets that the kernel did not take from the router.
    pub not_written: u64,
    /// CPU time of the router, which includes the kernel's work on the packets that it writes.
    pub router_cpu: Duration,
    pub priority: Priority,
    /// Settings that the kernel refused, with its reasons, each once.
    pub refused: Vec<String>,
}

impl Emulation {
    /// Starts a network with these settings of the kernel's TCP in each namespace, and measures what its router adds.
    ///
    /// # Errors
    /// If this process may not, or the host lacks what it takes.
    pub fn start(plan: Plan, settings: &TcpSettings) -> Result<Emulation, EmulationError> {
        if plan.ends >= MAX_ENDS {
            return Err(EmulationError::Ends(plan.ends));
        }
        let create = |end| Namespace::create(end, plan.mtu_bytes, settings);
        let namespaces = (0..=plan.ends).map(create).collect::<Result<Vec<_>, _>>()?;
        let tuns = namespaces.iter().map(|namespace| namespace.tun.try_clone()).collect::<io::Result<Vec<_>>>();
        let shortest_delay_ns = plan.shortest_delay_ns();
        let router = tuns.and_then(|tuns| Router::start(plan, tuns)).map_err(EmulationError::Router)?;
        let mut emulation = Emulation {
            namespaces,
            router,
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

    /// Measures what the router adds, takes it off all delays, and measures what remains.
    fn correct(&mut self) -> io::Result<()> {
        self.router.order(Order::Mirror(self.probe_delay_ns));
        let delay_ns = self.probe_delay_ns;
        let measure = |namespace: &Namespace| -> io::Result<Added> {
            let times = namespace.within(|| Probe::open()?.series(PROBES))??;
            let added = Added::of(&times, delay_ns);
            if added.probes == 0 { Err(io::Error::other("no probe came back")) } else { Ok(added) }
        };
        let first = measure(self.control())?;
        self.correction_ns = (first.p50_us.max(0.0) * 1e3) as u64;
        self.router.order(Order::Correct(self.correction_ns));
        self.idle = measure(self.control())?;
        Ok(())
    }

    /// Returns the namespace of an endpoint.
    pub fn namespace(&self, end: usize) -> &Namespace {
        &self.namespaces[end]
    }

    /// Returns a namespace beside the network: its packets take no time and are never lost.
    pub fn control(&self) -> &Namespace {
        self.namespaces.last().expect("there is always that of the probes")
    }

    /// Begins the run: resets the counters, starts the plan's changes, and keeps probing.
    ///
    /// # Errors
    /// If the kernel does not report its counters, or the probes cannot start.
    pub fn begin(&mut self) -> Result<(), EmulationError> {
        self.kernel_before = self.kernel().map_err(EmulationError::Probe)?;
        let mut probe = self.control().within(Probe::open).and_then(|opened| opened).map_err(EmulationError::Probe)?;
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
        self.router.order(Order::Begin);
        Ok(())
    }

    /// Returns the shortest delay and the router's own time, which is taken off it, in microseconds, and what remains.
    pub fn measured(&self) -> (f64, f64, Added) {
        (self.shortest_delay_ns as f64 / 1e3, self.correction_ns as f64 / 1e3, self.idle)
    }

    /// Ends the network and returns what happened since [`Emulation::begin`].
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
        let Outcome { counts, cpu, not_written, priority } = self.router.stop().expect("a network is finished once");
        Ok(Report {
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

    /// Returns the sum of the kernel's counters in the endpoints' namespaces.
    fn kernel(&self) -> io::Result<KernelCounters> {
        let ends = &self.namespaces[..self.namespaces.len() - 1];
        ends.iter().try_fold(KernelCounters::default(), |sum, one| Ok(sum.plus(one.counters()?)))
    }
}

impl Loaded {
    fn end(self) -> io::Result<Vec<Option<i64>>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the probes do not panic")
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        // Errors do not matter any more.
        let _ = self.loaded.take().map(Loaded::end);
    }
}
