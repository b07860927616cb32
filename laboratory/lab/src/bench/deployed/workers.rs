//! Hosts that run whole cells of experiments, each cell as one process on one host.

use super::copy;
use super::fleet::{START_TIMEOUT, STOP_TIMEOUT, await_all, wait};
use super::hosts::{self, Host};
use super::link::Link;
use super::prepare::{self, Prepared};
use super::protocol::{CellCall, CellOutput, Order, Preparation, RemoteFile};
use super::ssh::LOOK_INTERVAL;
use crate::bench::error::BenchError;
use crate::bench::progress::Watcher;
use crate::partial;
use crate::result::Machine;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Connected hosts, which have this program.
pub struct Workers {
    links: Vec<Link>,
    machines: Vec<Machine>,
    next: AtomicU64,
    /// Last field, so that agents clean up before their connections end.
    _prepared: Prepared,
}

/// End of a cell on a host.
#[derive(Debug)]
pub enum CellEnd {
    /// Its process ended.
    Ran(CellOutput),
    /// Its process was killed after the time limit.
    Late,
    /// The host no longer takes part, for this reason. The cell has no result.
    Lost(String),
    /// A signal ended this program's run.
    Interrupted,
}

impl Workers {
    /// Connects to the workers of a hosts file, checks them, and copies the program to those that lack it.
    ///
    /// # Errors
    /// The file's fault, or every obstacle on the hosts.
    pub fn start(file: &Path, watcher: &mut dyn Watcher) -> Result<Workers, BenchError> {
        let prepared = prepare::open(hosts::workers(&hosts::read(file)?), Vec::new(), false)?;
        prepared.warnings.iter().for_each(|warning| watcher.warn(warning));
        prepared.copy(watcher)?;
        let open = |(number, host): (usize, &Host)| {
            Link::open(&prepared.ssh, number, host, &copy::program(&host.directory, &prepared.digest))
        };
        let links: Vec<Link> =
            prepared.hosts.iter().enumerate().map(open).collect::<io::Result<_>>().map_err(BenchError::Ssh)?;
        for link in &links {
            let Host { directory, cores, .. } = &link.host;
            let (directory, files) = (directory.clone(), Vec::new());
            let preparation =
                Preparation { directory, files, cores: *cores, interface: None, qdisc: None, runs_cells: true };
            link.order(Order::Prepare(preparation));
        }
        await_all(&links, "prepare the runs", START_TIMEOUT, |link| link.heard().machine.is_some())?;
        let machines = links.iter().filter_map(|link| link.heard().machine.clone()).collect();
        Ok(Workers { links, machines, next: AtomicU64::new(0), _prepared: prepared })
    }

    pub fn count(&self) -> usize {
        self.links.len()
    }

    /// Returns the name of a host.
    pub fn name(&self, host: usize) -> &str {
        &self.links[host].host.name
    }

    /// Returns the number of simulations that a host runs at a time: its cores.
    pub fn slots(&self, host: usize) -> usize {
        self.machines[host].cores
    }

    pub fn machine(&self, host: usize) -> &Machine {
        &self.machines[host]
    }

    /// Returns whether a host still takes runs.
    pub fn lives(&self, host: usize) -> bool {
        self.links[host].lives()
    }

    /// Returns why measurements of the hosts cannot be compared; `None` if the hosts are alike.
    pub fn difference(&self) -> Option<String> {
        let kind = |machine: &Machine| format!("{} cores of {}", machine.cores, machine.cpu);
        let first = kind(&self.machines[0]);
        let other = (1..self.count()).find(|host| kind(&self.machines[*host]) != first)?;
        let (one, two, second) = (self.name(0), self.name(other), kind(&self.machines[other]));
        Some(format!("the hosts differ, so their measurements do not compare: {one} has {first}, {two} has {second}"))
    }

    /// Returns why a host cannot emulate networks; `None` if all can.
    pub fn no_emulation(&self) -> Option<String> {
        let obstacle = |link: &Link| Some(format!("host {}: {}", link.host.name, link.heard().no_emulation.clone()?));
        self.links.iter().find_map(obstacle)
    }

    /// Runs `quorate` with these arguments on a host, and waits for its end.
    pub fn run(&self, host: usize, words: Vec<String>, files: Vec<RemoteFile>, limit: Duration) -> CellEnd {
        let (link, begun) = (&self.links[host], Instant::now());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        link.order(Order::Run(CellCall { number, words, files }));
        loop {
            if let Some(output) = link.heard().ran.remove(&number) {
                return CellEnd::Ran(output);
            }
            if let Some(why) = link.failure() {
                return CellEnd::Lost(why);
            }
            if !partial::goes_on() {
                return CellEnd::Interrupted;
            }
            if begun.elapsed() > limit {
                link.order(Order::EndRun { number });
                return CellEnd::Late;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.links.iter().map(|link| &link.host.name)).finish()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.links.iter().for_each(|link| link.order(Order::End { keep: false }));
        wait(STOP_TIMEOUT, || self.links.iter().all(|link| link.heard().gone.is_some() || !link.obeys()));
        self.links.iter().for_each(Link::cut);
    }
}
