//! The load of a deployment, which its client machines share, and the statuses that they read.

use super::fleet::{Fleet, now_ns};
use super::link::Link;
use super::protocol::Order;
use crate::bench::watched::{Loading, Probe};
use quorate_client::load::{LoadMode, LoadOptions, LoadProgress, LoadReport, STAGES};
use quorate_types::Status;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Time between the order to begin and the begin, besides the round trips.
const LEAD: Duration = Duration::from_secs(1);
/// Time for a report after the end of the load.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Load that runs on client machines.
pub struct FleetLoad {
    fleet: Rc<Fleet>,
    options: LoadOptions,
    begin: Instant,
}

impl FleetLoad {
    /// Lets all machines begin at the same time, corrected by the differences of their clocks, and the replicas' hosts
    /// count their traffic in the measured time.
    pub fn begin(fleet: &Rc<Fleet>, options: LoadOptions, profile: bool) -> FleetLoad {
        let slowest = fleet.offsets.iter().map(|offset| offset.error_ns).max().unwrap_or(0);
        let lead = LEAD + Duration::from_nanos(4 * slowest.max(0) as u64);
        let (begin, at_ns) = (Instant::now() + lead, now_ns() + lead.as_nanos() as i64);
        let step_ns = match options.mode {
            LoadMode::Open { rate, .. } => Duration::from_secs_f64(1.0 / rate).as_nanos() as u64,
            LoadMode::Closed { .. } => 0,
        };
        for (link, offset) in fleet.links.iter().zip(&fleet.offsets) {
            let at_ns = at_ns + offset.ns;
            let from_ns = at_ns + options.warmup.as_nanos() as i64;
            let to_ns = from_ns + options.duration.as_nanos() as i64;
            link.order(Order::Window { from_ns, to_ns, profile });
            if let Some(machine) = link.number.checked_sub(fleet.replicas) {
                link.order(Order::Begin { at_ns, offset_ns: step_ns * machine as u64 });
            }
        }
        FleetLoad { fleet: Rc::clone(fleet), options, begin }
    }

    /// Returns the merged report of the machines that have one, and the number of missing ones; `None` without a
    /// report.
    pub fn report(&self) -> Option<(LoadReport, usize)> {
        let machines = self.fleet.of_clients();
        let reports: Vec<LoadReport> = machines.iter().filter_map(|link| link.heard().report.clone()).collect();
        // The true gap is at most the shortest one: a time without an answer to any machine has none to this one.
        let gap = reports.iter().map(|report| report.longest_gap).min()?;
        Some((LoadReport::merged(&reports, &self.options, gap), machines.len() - reports.len()))
    }

    /// Returns the stage by this machine's clock: the machines' own reports of it are older.
    fn stage(&self, reported: &'static str) -> &'static str {
        let (warmup, duration) = (self.options.warmup, self.options.duration);
        match Instant::now().checked_duration_since(self.begin) {
            None => "ready",
            Some(elapsed) if elapsed < warmup => "warmup",
            Some(elapsed) if elapsed < warmup + duration => "measure",
            Some(_) => reported,
        }
    }
}

impl Loading for FleetLoad {
    fn progress(&self) -> LoadProgress {
        let place = |stage: &str| STAGES.iter().position(|known| *known == stage);
        let all: Vec<LoadProgress> =
            self.fleet.of_clients().iter().filter_map(|link| link.heard().progress.clone()).collect();
        let reported = all.iter().map(|own| own.stage).min_by_key(|stage| place(stage)).unwrap_or("connect");
        let mut sum = LoadProgress { stage: self.stage(reported), ..LoadProgress::default() };
        for own in all {
            sum.elapsed = sum.elapsed.max(own.elapsed);
            sum.preloaded += own.preloaded;
            sum.completed += own.completed;
            sum.throughput += own.throughput;
            (sum.p50_ms, sum.p99_ms) = (sum.p50_ms.max(own.p50_ms), sum.p99_ms.max(own.p99_ms));
            sum.in_flight += own.in_flight;
            sum.retries += own.retries;
            sum.refusals += own.refusals;
            sum.last_refusal = sum.last_refusal.take().or(own.last_refusal);
            sum.behind_ms = sum.behind_ms.max(own.behind_ms);
            sum.connected = sum.connected.max(own.connected);
        }
        sum
    }

    fn stop(&self) {
        self.fleet.of_clients().iter().for_each(|link| link.order(Order::StopLoad));
    }

    fn is_finished(&self) -> bool {
        let lasts = self.options.warmup + self.options.duration + self.options.drain + REPORT_TIMEOUT;
        let is_over = Instant::now().checked_duration_since(self.begin).is_some_and(|elapsed| elapsed > lasts);
        let has_ended = |link: &Link| link.heard().report.is_some() || !link.lives();
        is_over || self.fleet.of_clients().iter().all(has_ended)
    }
}

/// Statuses of the replicas, as the client machines read them.
pub struct FleetProbe {
    fleet: Rc<Fleet>,
    number: u64,
}

impl FleetProbe {
    pub fn new(fleet: &Rc<Fleet>) -> FleetProbe {
        FleetProbe { fleet: Rc::clone(fleet), number: 0 }
    }

    fn ask(&mut self, timeout: Duration, histories: bool) -> io::Result<Vec<Option<Status>>> {
        self.number += 1;
        let read = self.fleet.statuses(self.number, timeout, histories);
        // A later reading may succeed while a client machine is connected.
        let lives = self.fleet.of_clients().iter().any(Link::lives);
        read.or_else(|error| if lives { Ok(vec![None; self.fleet.replicas]) } else { Err(error) })
    }
}

impl Probe for FleetProbe {
    fn read(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        self.ask(timeout, false)
    }

    fn read_histories(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        self.ask(timeout, true)
    }
}
