//! The kernel's netem in place of the router: pairs of virtual interfaces connect each endpoint to a namespace in the
//! middle, which forwards the packets, with a traffic-control discipline for each link.
//!
//! A packet passes the sender's interface (netem with a rate, at the endpoint), the link (netem in its sender's class,
//! at the middle's interface to the receiver) and the receiver's interface (the root of these classes).

mod discipline;
mod fabric;
mod messages;

pub use discipline::{Discipline, Disciplines, lack};

use crate::emulation::error::EmulationError;
use crate::emulation::namespace::{INTERFACE, Namespace, TcpSettings, Traffic};
use crate::emulation::netlink::Netlink;
use crate::emulation::plan::{Change, Plan};
use crate::emulation::router::Outcome;
use crate::emulation::scheduler::Counts;
use fabric::{Drops, Fabric};
use messages::{ETHERNET_BYTES, ROOT_HANDLE, dropped, every_discipline};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The namespaces of a netem network.
pub struct Ends {
    /// Namespaces of the plan's endpoints, followed by the probes' namespace.
    pub namespaces: Vec<Namespace>,
    /// Destination of probes.
    pub mirror: Namespace,
}

/// A running netem network.
pub struct Netem {
    fabric: Arc<Mutex<Fabric>>,
    /// Sockets in the endpoints' namespaces, for their interfaces' counters.
    nics: Vec<Netlink>,
    changes: Vec<(Duration, Change)>,
    changer: Option<Changer>,
    before: Totals,
}

/// Thread that applies the changes of a plan.
struct Changer {
    thread: JoinHandle<io::Result<()>>,
    /// Ends the thread on drop.
    stop: Sender<()>,
}

/// Counters of the kernel since the start of the network.
#[derive(Clone, Copy, Default)]
struct Totals {
    sent: Traffic,
    drops: Drops,
    queue_dropped: u64,
    not_taken: u64,
}

impl Netem {
    /// Creates the namespaces and everything between them.
    ///
    /// # Errors
    /// If this process lacks the privileges, or the kernel lacks a feature.
    pub fn start(plan: &Plan, settings: &TcpSettings) -> Result<(Netem, Ends), EmulationError> {
        let create = |_| Namespace::bare();
        let mut namespaces = (0..=plan.ends).map(create).collect::<Result<Vec<_>, _>>()?;
        let mut mirror = Namespace::bare()?;
        let all: Vec<&Namespace> = namespaces.iter().chain([&mirror]).collect();
        let fabric = Fabric::new(plan, &all)?;
        let count = all.len();
        let mut nics = Vec::new();
        for (end, namespace) in namespaces.iter_mut().chain([&mut mirror]).enumerate() {
            let address = fabric::address_in(end, count);
            namespace.configure(end, address, plan.mtu_bytes, settings)?;
            namespace.keep_order(&[INTERFACE.to_owned()]).map_err(EmulationError::Namespace)?;
            let open = || -> io::Result<Netlink> {
                let mut netlink = Netlink::open()?;
                let ps_per_byte = if end < plan.ends { plan.egress_ps_per_byte } else { 0 };
                fabric::limit_egress(&mut netlink, ps_per_byte)?;
                Ok(netlink)
            };
            let opened = namespace.within(open).and_then(|opened| opened);
            let netlink =
                opened.map_err(|source| EmulationError::Interface { what: "shape the interface of", end, source })?;
            if end < plan.ends {
                nics.push(netlink);
            }
        }
        let changes = plan.changes.iter().map(|(at, change)| (Duration::from_nanos(at.0), change.clone())).collect();
        let fabric = Arc::new(Mutex::new(fabric));
        let netem = Netem { fabric, nics, changes, changer: None, before: Totals::default() };
        Ok((netem, Ends { namespaces, mirror }))
    }

    fn fabric(&self) -> MutexGuard<'_, Fabric> {
        self.fabric.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the delay of probes, from which the correction is subtracted, in nanoseconds.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn mirror(&self, delay_ns: u64) -> io::Result<()> {
        self.fabric().mirror(delay_ns)
    }

    /// Subtracts this many nanoseconds from each packet's delay.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn correct(&self, correction_ns: u64) -> io::Result<()> {
        self.fabric().correct(correction_ns)
    }

    /// Resets the counters, and starts the plan's changes.
    ///
    /// # Errors
    /// If the kernel does not report its counters, or a thread cannot be started.
    pub fn begin(&mut self, namespaces: &[Namespace]) -> io::Result<()> {
        self.before = self.totals(namespaces)?;
        let (fabric, changes, began) = (Arc::clone(&self.fabric), std::mem::take(&mut self.changes), Instant::now());
        let (stop, stopped) = channel();
        let run = move || {
            for (at, change) in changes {
                let wait = (began + at).saturating_duration_since(Instant::now());
                match stopped.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return Ok(()),
                }
                fabric.lock().unwrap_or_else(PoisonError::into_inner).change(&change)?;
            }
            Ok(())
        };
        let thread = thread::Builder::new().name("netem".into()).spawn(run)?;
        self.changer = Some(Changer { thread, stop });
        Ok(())
    }

    /// Ends the changes, and returns the counters since [`Netem::begin`].
    ///
    /// # Errors
    /// If the kernel refused a change or does not report its counters.
    pub fn stop(&mut self, namespaces: &[Namespace]) -> io::Result<Outcome> {
        if let Some(Changer { thread, stop }) = self.changer.take() {
            drop(stop);
            thread.join().expect("the changes do not panic")?;
        }
        let (now, before) = (self.totals(namespaces)?, self.before);
        let queue_dropped = now.queue_dropped.saturating_sub(before.queue_dropped);
        let counts = Counts {
            packets: now.sent.packets.saturating_sub(before.sent.packets) + queue_dropped,
            bytes: now.sent.bytes.saturating_sub(before.sent.bytes),
            lost: now.drops.lost.saturating_sub(before.drops.lost),
            cut: now.drops.cut.saturating_sub(before.drops.cut),
            queue_dropped,
            overflowed: 0,
        };
        let not_written = now.not_taken.saturating_sub(before.not_taken);
        Ok(Outcome { counts, cpu: None, not_written, priority: None })
    }

    /// Reads the counters. Traffic from endpoints to the probes' namespace does not belong to the network.
    fn totals(&mut self, namespaces: &[Namespace]) -> io::Result<Totals> {
        let (control, ends) = namespaces.split_last().expect("there is always the probes' namespace");
        let mut sent = Traffic::default();
        for end in ends {
            sent = sent.plus(end.own_interface()?.sent);
        }
        let beside = control.own_interface()?.received;
        sent.packets = sent.packets.saturating_sub(beside.packets);
        sent.bytes = sent.bytes.saturating_sub(beside.bytes);
        sent.bytes = sent.bytes.saturating_sub(sent.packets * u64::from(ETHERNET_BYTES.unsigned_abs()));
        let mut queue_dropped = 0;
        for nic in &mut self.nics {
            let mut add = |one: &[u8]| {
                if let Some((_, ROOT_HANDLE, drops)) = dropped(one) {
                    queue_dropped += drops;
                }
            };
            nic.list(libc::RTM_GETQDISC, &every_discipline(), &mut add)?;
        }
        let mut fabric = self.fabric();
        Ok(Totals { sent, drops: fabric.count()?, queue_dropped, not_taken: fabric.not_taken()? })
    }
}

impl Drop for Netem {
    fn drop(&mut self) {
        if let Some(Changer { thread, stop }) = self.changer.take() {
            drop(stop);
            // Best effort: nobody can handle an error in `drop`.
            let _ = thread.join();
        }
    }
}
