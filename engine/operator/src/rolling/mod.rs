//! Rolling restarts: one replica of a cluster after the other, without an interruption of the service.
//!
//! [`RollingRestart::run`] decides which replica is next, whether the others form a quorum without it, and when it is
//! ready again. How statuses are read, and how processes are stopped and started, is up to the caller: [`Fleet`]. The
//! module [`fleets`] has the implementations of `quorate restart`.

pub mod fleets;

use crate::standstill::{self, Looks, reached};
use quorate_node::monitoring::{MAX_READY_LAG_BLOCKS, unreadiness};
use quorate_types::{HostStatus, Quorum, ReplicaId, Status};
use std::error::Error;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Default time for a replica to become ready: it may have to fetch a state.
pub const READY_TIMEOUT: Duration = Duration::from_secs(600);
/// Default pause between two readings while a replica is not ready.
pub const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Inaccuracy allowed when a replica's own uptime is compared with the time since its stop.
const UPTIME_TOLERANCE: Duration = Duration::from_millis(100);

/// Reason why an operation on a replica failed.
pub type Trouble = Box<dyn Error + Send + Sync>;

/// Answers of all replicas, by replica id: the status, or the reason why there is none.
pub type Reading = Vec<Result<Status, String>>;

/// The replicas of a cluster, as an orchestrator reaches them.
pub trait Fleet {
    /// Queries all replicas.
    ///
    /// # Errors
    /// If no replica can be queried. A replica that does not answer is part of the result.
    fn read(&mut self) -> Result<Reading, Trouble>;

    /// Stops a replica by SIGTERM or an equivalent, and returns once its process has ended. Does nothing if
    /// [`start`](Fleet::start) also stops it.
    ///
    /// # Errors
    /// If it cannot be stopped.
    fn stop(&mut self, replica: ReplicaId) -> Result<(), Trouble>;

    /// Starts a replica. Does not wait until it is ready.
    ///
    /// # Errors
    /// If it cannot be started.
    fn start(&mut self, replica: ReplicaId) -> Result<(), Trouble>;

    /// Returns why a started replica will not become ready, if that is known: its process has ended.
    fn failure(&mut self, _replica: ReplicaId) -> Option<String> {
        None
    }
}

/// Progress of a rolling restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A replica is about to be stopped.
    Stops {
        replica: ReplicaId,
        /// Whether it is the leader of its view.
        leads: bool,
    },
    /// It is ready again.
    Ready {
        replica: ReplicaId,
        /// Time since it was stopped.
        after: Duration,
    },
}

/// Reason why no replica may be stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The cluster needs all its replicas.
    NoSpare { replicas: usize, quorum: usize },
    /// A replica is not healthy.
    Unhealthy { replica: ReplicaId, why: String },
    /// The cluster as a whole is not healthy.
    Standstill(String),
    /// A replica would no longer reach a quorum.
    Apart {
        replica: ReplicaId,
        /// The replica to be stopped.
        without: ReplicaId,
        /// Replicas that it reaches without that one, itself included.
        reaches: usize,
        quorum: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoSpare { replicas, quorum } => write!(
                f,
                "the cluster has {replicas} replicas and needs {quorum}, so it stops while one restarts; help: stop \
                 and start it yourself"
            ),
            Refusal::Unhealthy { replica, why } => write!(f, "replica {replica} {why}; help: repair it first"),
            Refusal::Standstill(why) => write!(f, "the cluster {why}; help: repair that first"),
            Refusal::Apart { replica, without, reaches, quorum } => write!(
                f,
                "without replica {without}, replica {replica} reaches {reaches} replicas including itself, and needs \
                 {quorum}; help: repair its links first"
            ),
        }
    }
}

/// Reason why a rolling restart ended early.
#[derive(Debug)]
pub enum RestartFault {
    /// The cluster is not in a condition in which a replica may be stopped.
    Refused(Refusal),
    /// The replicas cannot be queried.
    Read(Trouble),
    Stop {
        replica: ReplicaId,
        source: Trouble,
    },
    Start {
        replica: ReplicaId,
        source: Trouble,
    },
    /// A restarted replica is not ready.
    NotReady {
        replica: ReplicaId,
        after: Duration,
        why: String,
    },
    /// The caller ended it, after the last replica was ready again.
    Interrupted,
}

impl fmt::Display for RestartFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestartFault::Refused(refusal) => refusal.fmt(f),
            RestartFault::Read(source) => write!(f, "the replicas cannot be queried: {source}"),
            RestartFault::Stop { replica, source } => write!(f, "replica {replica} cannot be stopped: {source}"),
            RestartFault::Start { replica, source } => {
                write!(f, "replica {replica} was stopped and cannot be started: {source}; help: start it")
            }
            RestartFault::NotReady { replica, after, why } => {
                let seconds = after.as_secs();
                write!(f, "replica {replica} is not ready {seconds} s after its restart: it {why}; help: see its log")
            }
            RestartFault::Interrupted => f.write_str("a signal ended it"),
        }
    }
}

/// A rolling restart that ended early. No further replica was stopped.
#[derive(Debug)]
pub struct RestartError {
    pub fault: RestartFault,
    /// Replicas that were restarted and are ready, in this order.
    pub restarted: Vec<ReplicaId>,
    /// Replicas that were not stopped, by id.
    pub left: Vec<ReplicaId>,
}

impl fmt::Display for RestartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        match (self.restarted.is_empty(), &self.fault) {
            (true, RestartFault::Refused(_) | RestartFault::Read(_)) => f.write_str("; no replica was stopped"),
            _ => write!(f, "; restarted before: {}; not restarted: {}", list(&self.restarted), list(&self.left)),
        }
    }
}

impl Error for RestartError {}

fn list(replicas: &[ReplicaId]) -> String {
    match replicas.is_empty() {
        true => "none".to_owned(),
        false => replicas.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Limits of a rolling restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RollingRestart {
    pub quorum: Quorum,
    /// Time for a restarted replica to become ready, and then for the cluster to be healthy again.
    pub ready_timeout: Duration,
    /// Pause between two readings while it is not.
    pub poll_interval: Duration,
}

impl RollingRestart {
    /// Creates a restart with the default limits.
    pub fn new(quorum: Quorum) -> RollingRestart {
        RollingRestart { quorum, ready_timeout: READY_TIMEOUT, poll_interval: POLL_INTERVAL }
    }

    /// Restarts the replicas in `which`, each once: first those that do not lead, the leader last. `told` is called
    /// with each step; if it breaks, the restart ends as soon as no replica is stopped.
    ///
    /// # Errors
    /// [`RestartError`] at the first fault. A replica is only stopped while all replicas are healthy and the others
    /// form a quorum without it.
    pub fn run(
        &self,
        fleet: &mut dyn Fleet,
        which: &[ReplicaId],
        told: &mut dyn FnMut(Step) -> ControlFlow<()>,
    ) -> Result<Vec<ReplicaId>, RestartError> {
        let mut left = which.to_vec();
        left.sort_unstable();
        left.dedup();
        let mut restarted = Vec::with_capacity(left.len());
        while !left.is_empty() {
            // A fault before the first stop is reported immediately: the caller expects no wait.
            let patience = if restarted.is_empty() { Duration::ZERO } else { self.ready_timeout };
            let outcome = self.restart_next(fleet, &left, patience, told);
            match outcome {
                Ok((replica, ends)) => {
                    left.retain(|other| *other != replica);
                    restarted.push(replica);
                    if ends.is_break() && !left.is_empty() {
                        return Err(RestartError { fault: RestartFault::Interrupted, restarted, left });
                    }
                }
                Err((stopped, fault)) => {
                    left.retain(|other| Some(*other) != stopped);
                    return Err(RestartError { fault, restarted, left });
                }
            }
        }
        Ok(restarted)
    }

    /// Returns whether a replica may be stopped now, and which of `left` is next.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn next(&self, reading: &Reading, left: &[ReplicaId]) -> Result<(ReplicaId, bool), Refusal> {
        let leader = leader(reading);
        let next = left.iter().copied().find(|replica| Some(*replica) != leader).or(left.first().copied());
        let next = next.expect("the caller has a replica to restart");
        self.check(reading, next)?;
        Ok((next, Some(next) == leader))
    }

    fn restart_next(
        &self,
        fleet: &mut dyn Fleet,
        left: &[ReplicaId],
        patience: Duration,
        told: &mut dyn FnMut(Step) -> ControlFlow<()>,
    ) -> Result<(ReplicaId, ControlFlow<()>), (Option<ReplicaId>, RestartFault)> {
        let begun = Instant::now();
        let (replica, leads) = loop {
            let reading = fleet.read().map_err(|source| (None, RestartFault::Read(source)))?;
            match self.next(&reading, left) {
                Ok(next) => break next,
                Err(refusal) if begun.elapsed() >= patience => return Err((None, RestartFault::Refused(refusal))),
                Err(_) => std::thread::sleep(self.poll_interval),
            }
        };
        let before = told(Step::Stops { replica, leads });
        if before.is_break() {
            return Err((None, RestartFault::Interrupted));
        }
        let failed = |fault| (Some(replica), fault);
        let stopped = Instant::now();
        fleet.stop(replica).map_err(|source| failed(RestartFault::Stop { replica, source }))?;
        fleet.start(replica).map_err(|source| failed(RestartFault::Start { replica, source }))?;
        self.await_ready(fleet, replica, stopped).map_err(failed)?;
        Ok((replica, told(Step::Ready { replica, after: stopped.elapsed() })))
    }

    fn await_ready(&self, fleet: &mut dyn Fleet, replica: ReplicaId, stopped: Instant) -> Result<(), RestartFault> {
        let mut goal = None;
        loop {
            let reading = fleet.read().map_err(RestartFault::Read)?;
            // The others go on, so it catches up with the height that they have now, not with a later one.
            let goal = *goal.get_or_insert_with(|| self.height_of_others(&reading, replica));
            let Err(why) = self.is_ready(&reading, replica, stopped.elapsed(), goal) else { return Ok(()) };
            let why = fleet.failure(replica).ok_or(why);
            let after = stopped.elapsed();
            match why {
                Ok(why) => return Err(RestartFault::NotReady { replica, after, why }),
                Err(why) if after >= self.ready_timeout => {
                    return Err(RestartFault::NotReady { replica, after, why });
                }
                Err(_) => std::thread::sleep(self.poll_interval),
            }
        }
    }

    /// Returns why a replica that was stopped `since` ago is not ready.
    fn is_ready(&self, reading: &Reading, replica: ReplicaId, since: Duration, goal: u64) -> Result<(), String> {
        let status = reading[replica.index()].as_ref().map_err(|why| format!("does not answer: {why}"))?;
        let uptime = Duration::from_millis(status.uptime_ms);
        if uptime > since + UPTIME_TOLERANCE {
            return Err(format!("has run for {} s: it was not restarted", uptime.as_secs()));
        }
        if let Some(why) = self.unhealthy(reading, replica) {
            return Err(why);
        }
        if status.height.0 < goal {
            return Err(format!("is at height {}, and the others were at {goal} when it started", status.height));
        }
        let sees = |other: &Status| other.connected.contains(&replica);
        let seen = reading.iter().flatten().filter(|other| other.replica != replica && sees(other)).count();
        let needed = self.quorum.quorum() - 1;
        match seen < needed {
            true => Err(format!("is connected from {seen} other replicas, and needs {needed}")),
            false => Ok(()),
        }
    }

    /// Checks that all replicas are healthy, and that the others form a quorum without `without`.
    fn check(&self, reading: &Reading, without: ReplicaId) -> Result<(), Refusal> {
        let (replicas, quorum) = (reading.len(), self.quorum.quorum());
        if replicas - 1 < quorum {
            return Err(Refusal::NoSpare { replicas, quorum });
        }
        let ids = (0..).map(ReplicaId).take(replicas);
        if let Some((replica, why)) = ids.clone().find_map(|replica| Some((replica, self.unhealthy(reading, replica)?)))
        {
            return Err(Refusal::Unhealthy { replica, why });
        }
        let look = |(replica, answer): (ReplicaId, &Result<Status, String>)| {
            let now = answer.as_ref().ok().cloned();
            Looks { replica, earlier: now.clone(), now }
        };
        let looks: Vec<Looks> = ids.zip(reading).map(look).collect();
        if let Some(why) = standstill::of_cluster(&looks, self.quorum).into_iter().next() {
            return Err(Refusal::Standstill(why));
        }
        for status in reading.iter().flatten().filter(|status| status.replica != without) {
            let reaches = 1 + status.connected.iter().filter(|other| **other != without).count();
            if reaches < quorum {
                return Err(Refusal::Apart { replica: status.replica, without, reaches, quorum });
            }
        }
        Ok(())
    }

    /// Returns why a replica is not healthy, as a sentence about it.
    fn unhealthy(&self, reading: &Reading, replica: ReplicaId) -> Option<String> {
        let status = match &reading[replica.index()] {
            Ok(status) => status,
            Err(why) => return Some(format!("does not answer: {why}")),
        };
        // A replica of an earlier version does not report its host.
        let own = HostStatus { quorum: self.quorum.quorum(), ..HostStatus::default() };
        if let Some(why) = unreadiness(status, status.host.as_deref().unwrap_or(&own)).into_iter().next() {
            return Some(why);
        }
        let lag = self.height_of_others(reading, replica).saturating_sub(status.height.0);
        (lag > MAX_READY_LAG_BLOCKS).then(|| format!("is {lag} blocks behind the others"))
    }

    /// Returns the height that at least one honest replica among the others has reached.
    fn height_of_others(&self, reading: &Reading, replica: ReplicaId) -> u64 {
        let others = reading.iter().flatten().filter(|status| status.replica != replica);
        reached(others.map(|status| status.height.0).collect(), self.quorum.faults()).unwrap_or(0)
    }
}

/// Returns the leader in the highest view that a replica reports.
fn leader(reading: &Reading) -> Option<ReplicaId> {
    let newest = reading.iter().flatten().max_by_key(|status| (status.view, status.height))?;
    Some(newest.leader)
}
