//! The agents of a run: starts replicas and clients through them, and stops and cleans up.

use super::check::fault;
use super::copy;
use super::hosts::Host;
use super::link::Link;
use super::prepare::{Prepared, finished};
use super::protocol::{LoadPart, Order, Preparation, RemoteFile};
use super::ssh::{Job, LOOK_INTERVAL, run_all};
use crate::bench::error::BenchError;
use crate::partial;
use quorate_types::{Fault, ReplicaId, Status};
use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Time for an agent to prepare its host or start its replica.
pub const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for an agent to kill a replica.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for agents to stop their replicas, and to clean up.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for `perf` to write its samples after the measured time.
const PROFILE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the transfer of a recording.
const FETCH_TIMEOUT: Duration = Duration::from_secs(900);
/// Readings of each host's clock. The one with the shortest round trip counts.
const CLOCK_READINGS: u64 = 8;
/// Margin of a status's timeout for the way to the agent and back.
const STATUS_MARGIN: Duration = Duration::from_secs(2);

/// Difference between a host's clock and this machine's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Offset {
    pub ns: i64,
    /// Half the round trip in which it was measured: its maximum error.
    pub error_ns: i64,
}

/// The agents of a run.
pub struct Fleet {
    /// Replicas in their order, then client machines.
    pub links: Vec<Link>,
    pub replicas: usize,
    pub offsets: Vec<Offset>,
    /// Hosts whose failure was reported, with the reasons.
    reported: RefCell<Vec<(usize, String)>>,
    keep: bool,
    /// Last field, so that agents clean up before their connections end.
    pub prepared: Prepared,
}

impl Fleet {
    /// Starts an agent on each prepared host.
    ///
    /// # Errors
    /// If `ssh` cannot be started.
    pub fn open(prepared: Prepared, replicas: usize, keep: bool) -> Result<Fleet, BenchError> {
        let open = |(number, host): (usize, &Host)| {
            Link::open(&prepared.ssh, number, host, &copy::program(&host.directory, &prepared.digest))
        };
        let links = prepared.hosts.iter().enumerate().map(open).collect::<io::Result<_>>().map_err(BenchError::Ssh)?;
        Ok(Fleet { links, replicas, offsets: Vec::new(), reported: RefCell::default(), keep, prepared })
    }

    /// Creates the run's directory on each host, with its files, and reads the hosts' clocks.
    ///
    /// # Errors
    /// The hosts on which it failed.
    pub fn prepare(&mut self, mut files: Vec<Vec<RemoteFile>>) -> Result<(), BenchError> {
        for (link, files) in self.links.iter().zip(files.drain(..)) {
            let Host { directory, cores, interface, qdisc, .. } = link.host.clone();
            let preparation = Preparation { directory, files, cores, interface, qdisc, runs_cells: false };
            link.order(Order::Prepare(preparation));
        }
        self.await_all("prepare the run", START_TIMEOUT, |link| link.heard().directory.is_some())?;
        let mut offsets: Vec<Option<Offset>> = vec![None; self.links.len()];
        for number in 1..=CLOCK_READINGS {
            let mut sent = Vec::new();
            for link in &self.links {
                sent.push((now_ns(), Instant::now()));
                link.order(Order::Clock { number });
            }
            let has_read = |link: &Link| link.heard().clock.is_some_and(|(read, ..)| read == number);
            self.await_all("read the clock", START_TIMEOUT, has_read)?;
            for ((link, (sent_ns, sent)), best) in self.links.iter().zip(sent).zip(&mut offsets) {
                let (_, clock_ns, arrived) = link.heard().clock.expect("it was read");
                let error_ns = arrived.duration_since(sent).as_nanos() as i64 / 2;
                if best.is_none_or(|best| error_ns < best.error_ns) {
                    *best = Some(Offset { ns: clock_ns - (sent_ns + error_ns), error_ns });
                }
            }
        }
        self.offsets = offsets.into_iter().flatten().collect();
        Ok(())
    }

    pub fn of_replicas(&self) -> &[Link] {
        &self.links[..self.replicas]
    }

    pub fn of_clients(&self) -> &[Link] {
        &self.links[self.replicas..]
    }

    /// Starts all replicas.
    ///
    /// # Errors
    /// The hosts on which it failed.
    pub fn start_replicas(&self) -> Result<(), BenchError> {
        self.of_replicas().iter().for_each(|link| link.order(Order::Start));
        let starts = |link: &Link| link.number >= self.replicas || link.heard().starts > 0;
        self.await_all("start the replica", START_TIMEOUT, starts)
    }

    /// Connects the clients, and waits until all have executed their part of the preload.
    ///
    /// # Errors
    /// The hosts on which it failed.
    pub fn load(&self, parts: Vec<LoadPart>, limit: Duration) -> Result<(), BenchError> {
        for (link, part) in self.of_clients().iter().zip(parts) {
            link.order(Order::Load(Box::new(part)));
        }
        let is_ready = |link: &Link| {
            let stage = link.heard().progress.as_ref().map(|progress| progress.stage);
            link.number < self.replicas || stage == Some("ready")
        };
        self.await_all("connect the clients", limit, is_ready)
    }

    /// Waits until `is_done` holds for all hosts.
    fn await_all(&self, what: &str, limit: Duration, is_done: impl Fn(&Link) -> bool) -> Result<(), BenchError> {
        await_all(&self.links, what, limit, is_done)
    }

    /// Kills a replica with SIGKILL.
    pub fn kill(&self, replica: ReplicaId) {
        let link = &self.links[replica.index()];
        link.heard().killed = false;
        link.order(Order::Kill);
        wait(KILL_TIMEOUT, || link.heard().killed || !link.obeys());
    }

    /// Restarts a killed replica.
    pub fn restart(&self, replica: ReplicaId) {
        let link = &self.links[replica.index()];
        let before = link.heard().starts;
        link.order(Order::Start);
        wait(START_TIMEOUT, || link.heard().starts > before || !link.obeys());
    }

    /// Returns a sentence for each host that has failed since the last call.
    ///
    /// # Errors
    /// If all client machines have failed: there is nothing left to measure.
    pub fn check(&self) -> Result<Vec<String>, BenchError> {
        let mut told = Vec::new();
        for link in &self.links {
            // A client machine with a report has done its part.
            let is_done = link.heard().report.is_some();
            let is_known = self.reported.borrow().iter().any(|(number, _)| *number == link.number);
            if let Some(why) = link.failure().filter(|_| !is_known && !is_done) {
                told.push(format!("host {} failed: {why}", link.host.name));
                self.reported.borrow_mut().push((link.number, why));
            }
        }
        let is_lost = |link: &Link| link.heard().report.is_none() && !link.lives();
        if self.of_clients().iter().all(is_lost) {
            let lost = |link: &Link| fault(&link.host, link.failure().unwrap_or_default(), HELP);
            return Err(BenchError::Hosts(self.of_clients().iter().map(lost).collect()));
        }
        Ok(told)
    }

    /// Returns the reason why a host failed; `None` if it did not.
    pub fn failure(&self, number: usize) -> Option<String> {
        self.reported.borrow().iter().find(|(failed, _)| *failed == number).map(|(_, why)| why.clone())
    }

    /// Reads the statuses of all replicas from the first client machine that answers.
    ///
    /// # Errors
    /// If none answers.
    pub fn statuses(&self, number: u64, timeout: Duration, histories: bool) -> io::Result<Vec<Option<Status>>> {
        let timeout_ms = timeout.as_millis() as u64;
        for link in self.of_clients().iter().filter(|link| link.obeys()) {
            link.order(Order::Statuses { number, timeout_ms, histories });
            let answer = |link: &Link| link.heard().statuses.take_if(|(read, _)| *read == number);
            let begun = Instant::now();
            while begun.elapsed() < timeout + STATUS_MARGIN && link.obeys() {
                if let Some((_, statuses)) = answer(link) {
                    return Ok(statuses);
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        Err(io::Error::new(io::ErrorKind::NotConnected, "no client machine answers"))
    }

    /// Stops the replicas in order and waits for their outputs.
    pub fn stop(&self) {
        self.links.iter().for_each(|link| link.order(Order::Stop));
        wait(STOP_TIMEOUT, || self.links.iter().all(|link| link.heard().stopped.is_some() || !link.obeys()));
    }

    /// Waits until `perf` has written its samples on all hosts.
    pub fn await_profiles(&self) {
        wait(PROFILE_TIMEOUT, || self.links.iter().all(|link| link.heard().profile.is_some() || !link.obeys()));
    }

    /// Fetches outputs of commands in the runs' directories, each to a file. Returns a sentence for each that failed.
    ///
    /// # Errors
    /// If `ssh` cannot be started or a file not be written.
    pub fn fetch(&self, files: &[(usize, String, PathBuf)]) -> Result<Vec<String>, BenchError> {
        let mut jobs = Vec::new();
        for (number, remote, to) in files {
            let link = &self.links[*number];
            let directory = link.heard().directory.clone();
            let Some(directory) = directory.filter(|_| link.obeys()) else { continue };
            let command = self.prepared.ssh.run(*number, &link.host, &format!("cd {directory} && {remote}"));
            jobs.push(Job { host: *number, command, out: to.clone() });
        }
        let failed = |done: &super::ssh::Done| {
            let name = &self.links[done.host].host.name;
            Some(format!("host {name}: a file could not be fetched: {}", done.failure()?))
        };
        let said = finished(run_all(jobs, FETCH_TIMEOUT))?.iter().filter_map(failed).collect();
        // The messages of the commands, which `said` has. A file that stays does no harm.
        files.iter().for_each(|(_, _, to)| drop(fs::remove_file(to.with_extension("err"))));
        Ok(said)
    }

    /// Ends the agents, which clean up. Returns the directories that they kept.
    pub fn end(&self) -> Vec<Option<String>> {
        self.links.iter().for_each(|link| link.order(Order::End { keep: self.keep }));
        wait(STOP_TIMEOUT, || self.links.iter().all(|link| link.heard().gone.is_some() || !link.obeys()));
        self.links.iter().map(|link| link.heard().gone.clone().flatten()).collect()
    }
}

/// Remedy for the failure of a host.
pub const HELP: &str = "see to it, or name another one in the hosts file";

impl Drop for Fleet {
    fn drop(&mut self) {
        if self.links.iter().any(|link| link.heard().gone.is_none() && link.obeys()) {
            self.end();
        }
        self.links.iter().for_each(Link::cut);
    }
}

/// Waits until `is_done` holds for all hosts.
///
/// # Errors
/// The hosts that failed, or for which it does not hold within `limit`.
pub fn await_all(
    links: &[Link],
    what: &str,
    limit: Duration,
    is_done: impl Fn(&Link) -> bool,
) -> Result<(), BenchError> {
    let begun = Instant::now();
    loop {
        if !partial::goes_on() {
            return Err(BenchError::Interrupted);
        }
        let failed = |link: &Link| Some(fault(&link.host, format!("cannot {what}: {}", link.failure()?), HELP));
        let faults: Vec<Fault> = links.iter().filter_map(failed).collect();
        if !faults.is_empty() {
            return Err(BenchError::Hosts(faults));
        }
        let late: Vec<&Link> = links.iter().filter(|link| !is_done(link)).collect();
        if late.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > limit {
            let what = format!("did not {what} within {} s", limit.as_secs());
            let faults = late.iter().map(|link| fault(&link.host, what.clone(), HELP)).collect();
            return Err(BenchError::Hosts(faults));
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Waits until `happened`, at most for `limit`.
pub fn wait(limit: Duration, happened: impl Fn() -> bool) {
    let begun = Instant::now();
    while begun.elapsed() < limit && !happened() {
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Returns this machine's time in nanoseconds since 1970.
pub fn now_ns() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
