//! Torture: kills, pauses and restarts the processes of a cluster under load, and checks the observations of its
//! clients.
//!
//! No acknowledged command may be lost or executed twice, and afterwards the cluster must answer again.

mod checked_clients;
mod clients;
pub mod history;
pub mod history_checker;
pub mod plan;
mod verdict;

pub use checked_clients::CheckedClients;
pub use clients::Ground;
pub use verdict::Verdict;

use crate::bench::{BenchError, Processes, Setup};
use crate::partial;
use crate::spec::{BenchSpec, Host, Retention};
use plan::{Injection, Kind, Plan};
use quorate_applications::compare_histories;
use quorate_client::{ClientConfig, ClientError, StatusProbe};
use quorate_operator::testnet::client_config;
use quorate_types::Status;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Interval between checks of the cluster.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time from the return of all replicas to the first answer; more is a stall.
const MAX_RECOVERY: Duration = Duration::from_secs(60);
/// Timeout for reading the status of the replicas.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Duration of the undisturbed load at the start and the end, for comparison.
const UNDISTURBED: Duration = Duration::from_secs(2);

/// Log line of a replica that installed a state of its peers.
const TAKEN_OVER: &str = "adopted the peers' state";

/// Reason why there is no verdict.
#[derive(Debug, Error)]
pub enum TortureError {
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error("a client cannot continue: {0}")]
    Client(#[from] ClientError),
    #[error("cannot start a client's thread: {0}")]
    Thread(std::io::Error),
}

impl TortureError {
    /// Returns whether a disk fault of a replica ended the run.
    pub fn is_disk_trouble(&self) -> bool {
        matches!(self, TortureError::Bench(error) if error.is_disk_trouble())
    }

    /// Returns whether the arguments are wrong; false if the run itself failed.
    pub fn is_wrong_call(&self) -> bool {
        matches!(self, TortureError::Bench(error) if error.is_wrong_call())
    }
}

/// Tortures a cluster as specified by `spec`, as processes on this machine. Reports each fault to `on_blow`.
///
/// # Errors
/// If the cluster or its clients cannot run. A safety violation is part of the verdict, not an error.
pub fn run(spec: &BenchSpec, duration: Duration, on_blow: &mut dyn FnMut(f64, &str)) -> Result<Verdict, TortureError> {
    let spec = BenchSpec { host: Host::Processes, ..spec.clone() };
    spec.validate().map_err(BenchError::from)?;
    let retention = Retention::of(&spec);
    let setup = Setup::retaining(&spec, &retention)?;
    let mut processes = Processes::start(&setup, None)?;
    let config = client_config(&setup.template, processes.committee());
    let checked_clients = CheckedClients::start(&config, spec.clients as usize, spec.seed)?;
    let ground = checked_clients.ground.clone();
    let course = torment(&spec, duration, &mut processes, &ground, on_blow);
    let checker = checked_clients.finish()?;
    let course = course?;
    let divergence = if course.stalled_at.is_none() { divergence(&config).err() } else { None };
    Ok(Verdict {
        seed: spec.seed,
        minutes: duration.as_secs_f64() / 60.0,
        partial: partial::partial(|| format!("after {} injections", course.injections.len())),
        retention,
        seconds: ground.start.elapsed().as_secs_f64(),
        operations: checker.operations(),
        unanswered: checker.unknown(),
        keys: checker.keys(),
        violations: checker.violations().iter().map(|violation| format!("{violation:?}")).collect(),
        divergence,
        injections: course.injections,
        stalled_at: course.stalled_at,
        states_taken_over: processes.said(TAKEN_OVER),
        longest_recovery_seconds: course.longest_recovery.as_secs_f64(),
        operations_per_second: course.operations_per_second,
    })
}

#[derive(Default)]
struct Course {
    injections: Vec<(f64, String)>,
    stalled_at: Option<f64>,
    longest_recovery: Duration,
    operations_per_second: (f64, f64),
}

fn torment(
    spec: &BenchSpec,
    duration: Duration,
    processes: &mut Processes,
    ground: &Ground,
    on_blow: &mut dyn FnMut(f64, &str),
) -> Result<Course, TortureError> {
    let seconds = || ground.start.elapsed().as_secs_f64();
    let mut course = Course::default();
    let await_recovery = |course: &mut Course, processes: &mut Processes| -> Result<bool, TortureError> {
        match await_answer(ground, processes)? {
            Some(after) => course.longest_recovery = course.longest_recovery.max(after),
            None => course.stalled_at = Some(seconds()),
        }
        Ok(course.stalled_at.is_none())
    };
    if !await_recovery(&mut course, processes)? {
        return Ok(course);
    }
    course.operations_per_second.0 = undisturbed_rate(ground);
    let end = Instant::now() + duration;
    for injection in Plan::new(spec.seed, spec.quorum()) {
        pause(injection.calm);
        if Instant::now() >= end || !partial::goes_on() {
            break;
        }
        let (at, what) = (seconds(), injection.to_string());
        on_blow(at, &what);
        course.injections.push((at, what));
        strike(&injection, processes)?;
        if !await_recovery(&mut course, processes)? {
            return Ok(course);
        }
    }
    if partial::goes_on() {
        course.operations_per_second.1 = undisturbed_rate(ground);
    }
    Ok(course)
}

/// Waits for `time`, or until a request to end the run.
fn pause(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time && partial::goes_on() {
        thread::sleep(LOOK_INTERVAL.min(time));
    }
}

/// Injects a fault: takes its victims down and brings them back.
fn strike(injection: &Injection, processes: &mut Processes) -> Result<(), BenchError> {
    for victim in &injection.victims {
        match injection.kind {
            Kind::Kill => processes.kill(*victim)?,
            Kind::Pause => processes.pause(*victim)?,
        }
    }
    thread::sleep(injection.away);
    for victim in &injection.victims {
        match injection.kind {
            Kind::Kill => processes.restart(*victim)?,
            Kind::Pause => processes.resume(*victim)?,
        }
        thread::sleep(injection.stagger);
    }
    Ok(())
}

/// Waits until a command sent from now on must have been answered, and returns the elapsed time; `None` if it takes too
/// long. Each client has at most one command in flight, so one more answer than there are clients is enough.
fn await_answer(ground: &Ground, processes: &mut Processes) -> Result<Option<Duration>, BenchError> {
    let (start, before) = (Instant::now(), ground.answered.load(Ordering::SeqCst));
    let enough = before + ground.clients as u64 + 1;
    while ground.answered.load(Ordering::SeqCst) < enough {
        processes.check()?;
        if start.elapsed() > MAX_RECOVERY {
            return Ok(None);
        }
        thread::sleep(LOOK_INTERVAL);
    }
    Ok(Some(start.elapsed()))
}

fn undisturbed_rate(ground: &Ground) -> f64 {
    let (start, before) = (Instant::now(), ground.answered.load(Ordering::SeqCst));
    thread::sleep(UNDISTURBED);
    (ground.answered.load(Ordering::SeqCst) - before) as f64 / start.elapsed().as_secs_f64()
}

/// Fails if replicas executed different commands, or do not reach a common height after the load.
fn divergence(config: &ClientConfig) -> Result<(), String> {
    let mut probe = StatusProbe::connect(config).map_err(|error| error.to_string())?;
    let start = Instant::now();
    loop {
        let statuses = probe.read_histories(READ_TIMEOUT).map_err(|error| error.to_string())?;
        let known: Vec<&Status> = statuses.iter().flatten().collect();
        let level = known.len() == statuses.len() && known.windows(2).all(|pair| pair[0].height == pair[1].height);
        if level || start.elapsed() > MAX_RECOVERY {
            let histories: Vec<_> = known.iter().map(|status| (status.replica, status.history.clone())).collect();
            compare_histories(&histories).map_err(|divergence| divergence.to_string())?;
            let heights: Vec<String> =
                known.iter().map(|status| format!("replica {} at {}", status.replica, status.height)).collect();
            let uneven = || format!("replicas stay at different heights: {}", heights.join(", "));
            return if level { Ok(()) } else { Err(uneven()) };
        }
        thread::sleep(LOOK_INTERVAL);
    }
}
