//! Torture: a cluster of real processes is killed, stopped and started again and again under load, and what its clients saw is judged.
//!
//! Nothing acknowledged may be lost, nothing may be executed twice, and once the torture ends the cluster must answer again.

mod clients;
pub mod history;
pub mod judge;
pub mod plan;
mod verdict;
mod witnesses;

pub use clients::Ground;
pub use verdict::Verdict;
pub use witnesses::Witnesses;

use crate::bench::{BenchError, Processes};
use crate::partial;
use crate::spec::{BenchSpec, Host, Retention};
use plan::{Blow, Kind, Plan};
use quorate_applications::compare_histories;
use quorate_client::{ClientConfig, ClientError, StatusProbe};
use quorate_types::Status;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How often a cluster under torture is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long a cluster may take to answer again after all its replicas are back, before it counts as stalled.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);
/// How long a replica may take to tell its status.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// How long load runs undisturbed at the beginning and at the end, to compare.
const UNDISTURBED: Duration = Duration::from_secs(2);

/// What a replica says that has taken the others' state over.
const TAKEN_OVER: &str = "goes on from the others' state";

/// Why there is no verdict.
#[derive(Debug, Error)]
pub enum TortureError {
    /// The cluster cannot be run.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A client cannot work.
    #[error("a client cannot go on: {0}")]
    Client(#[from] ClientError),
    /// The operating system gives no thread.
    #[error("cannot start a client's thread: {0}")]
    Thread(std::io::Error),
}

impl TortureError {
    /// Whether a replica's disk ended the run.
    pub fn is_disk_trouble(&self) -> bool {
        matches!(self, TortureError::Bench(error) if error.is_disk_trouble())
    }

    /// Whether what the caller gave cannot be used, as against what happened on the way.
    pub fn is_wrong_call(&self) -> bool {
        matches!(self, TortureError::Bench(error) if error.is_wrong_call())
    }
}

/// Tortures a cluster of `spec`'s shape, as processes on this machine. `told` hears of each blow.
///
/// # Errors
/// If the cluster or its clients cannot be run; that the cluster broke its word is part of the verdict.
pub fn run(spec: &BenchSpec, duration: Duration, told: &mut dyn FnMut(f64, &str)) -> Result<Verdict, TortureError> {
    let spec = BenchSpec { host: Host::Processes, ..spec.clone() };
    spec.validate().map_err(BenchError::from)?;
    let retention = Retention::of(&spec);
    let mut processes = Processes::retaining(&spec, &retention)?;
    let config = processes.client_config(&spec);
    let witnesses = Witnesses::start(&config, spec.clients as usize, spec.seed)?;
    let ground = witnesses.ground.clone();
    let course = torment(&spec, duration, &mut processes, &ground, told);
    let judge = witnesses.finish()?;
    let course = course?;
    let divergence = match course.stalled_at {
        None => divergence(&config).err(),
        Some(_) => None,
    };
    Ok(Verdict {
        seed: spec.seed,
        partial: partial::partial(|| format!("after {} blows", course.blows.len())),
        retention,
        seconds: ground.start.elapsed().as_secs_f64(),
        operations: judge.operations(),
        unanswered: judge.unknown(),
        keys: judge.keys(),
        violations: judge.violations().iter().map(|violation| format!("{violation:?}")).collect(),
        divergence,
        blows: course.blows,
        stalled_at: course.stalled_at,
        states_taken_over: processes.said(TAKEN_OVER),
        longest_recovery_seconds: course.longest_recovery.as_secs_f64(),
        operations_per_second: course.operations_per_second,
    })
}

#[derive(Default)]
struct Course {
    blows: Vec<(f64, String)>,
    stalled_at: Option<f64>,
    longest_recovery: Duration,
    operations_per_second: (f64, f64),
}

fn torment(
    spec: &BenchSpec,
    duration: Duration,
    processes: &mut Processes,
    ground: &Ground,
    told: &mut dyn FnMut(f64, &str),
) -> Result<Course, TortureError> {
    let seconds = || ground.start.elapsed().as_secs_f64();
    let mut course = Course::default();
    let recovered = |course: &mut Course, processes: &mut Processes| -> Result<bool, TortureError> {
        match await_answer(ground, processes)? {
            Some(after) => course.longest_recovery = course.longest_recovery.max(after),
            None => course.stalled_at = Some(seconds()),
        }
        Ok(course.stalled_at.is_none())
    };
    if !recovered(&mut course, processes)? {
        return Ok(course);
    }
    course.operations_per_second.0 = undisturbed_rate(ground);
    let end = Instant::now() + duration;
    for blow in Plan::new(spec.seed, spec.quorum()) {
        calm(blow.calm);
        if Instant::now() >= end || !partial::goes_on() {
            break;
        }
        let (at, what) = (seconds(), blow.to_string());
        told(at, &what);
        course.blows.push((at, what));
        strike(&blow, processes)?;
        if !recovered(&mut course, processes)? {
            return Ok(course);
        }
    }
    if partial::goes_on() {
        course.operations_per_second.1 = undisturbed_rate(ground);
    }
    Ok(course)
}

/// Waits, but not for longer than the run goes on.
fn calm(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time && partial::goes_on() {
        thread::sleep(LOOK_INTERVAL.min(time));
    }
}

/// Lets a blow fall, and its victims come back.
fn strike(blow: &Blow, processes: &mut Processes) -> Result<(), BenchError> {
    for victim in &blow.victims {
        match blow.kind {
            Kind::Kill => processes.kill(*victim)?,
            Kind::Pause => processes.pause(*victim)?,
        }
    }
    thread::sleep(blow.away);
    for victim in &blow.victims {
        match blow.kind {
            Kind::Kill => processes.restart(*victim)?,
            Kind::Pause => processes.resume(*victim)?,
        }
        thread::sleep(blow.stagger);
    }
    Ok(())
}

/// How long it takes until a command sent from now on can have been answered; none if it takes too long. Answers that were under way
/// do not count: there is one for each client at most.
fn await_answer(ground: &Ground, processes: &mut Processes) -> Result<Option<Duration>, BenchError> {
    let (start, before) = (Instant::now(), ground.answered.load(Ordering::SeqCst));
    let enough = before + ground.clients as u64 + 1;
    while ground.answered.load(Ordering::SeqCst) < enough {
        processes.check()?;
        if start.elapsed() > RECOVERY_LIMIT {
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

/// Fails, and says how, if replicas executed different things, or do not all come to the same height though nobody sends commands.
fn divergence(config: &ClientConfig) -> Result<(), String> {
    let mut probe = StatusProbe::connect(config).map_err(|error| error.to_string())?;
    let start = Instant::now();
    loop {
        let statuses = probe.read_histories(READ_TIMEOUT).map_err(|error| error.to_string())?;
        let told: Vec<&Status> = statuses.iter().flatten().collect();
        let level = told.len() == statuses.len() && told.windows(2).all(|pair| pair[0].height == pair[1].height);
        if level || start.elapsed() > RECOVERY_LIMIT {
            let histories: Vec<_> = told.iter().map(|status| (status.replica, status.history.clone())).collect();
            compare_histories(&histories).map_err(|divergence| divergence.to_string())?;
            let heights: Vec<String> =
                told.iter().map(|status| format!("replica {} at {}", status.replica, status.height)).collect();
            return if level { Ok(()) } else { Err(format!("not all came to one height: {}", heights.join(", "))) };
        }
        thread::sleep(LOOK_INTERVAL);
    }
}
