//! Connection to the agent of one host.

use super::hosts::Host;
use super::protocol::{BEAT_INTERVAL, CellOutput, Notice, Order, SILENCE_LIMIT, Traffic};
use super::ssh::{Ssh, last_lines, start};
use crate::bench::scratch::Offspring;
use crate::result::Machine;
use quorate_client::load::{LoadProgress, LoadReport};
use quorate_types::Status;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// Maximum length of a notice in bytes: a load's report with all its samples, or a replica's output.
const MAX_NOTICE_BYTES: u64 = 256 << 20;

/// Reports of an agent.
#[derive(Default)]
pub struct Heard {
    last: Option<Instant>,
    /// Whether the connection has ended.
    closed: bool,
    pub machine: Option<Machine>,
    /// Why the host cannot emulate networks.
    pub no_emulation: Option<String>,
    /// The run's directory on the host.
    pub directory: Option<String>,
    /// Number of the last reading of the clock, its value, and its time of arrival.
    pub clock: Option<(u64, i64, Instant)>,
    pub starts: u32,
    pub killed: bool,
    pub progress: Option<LoadProgress>,
    pub report: Option<LoadReport>,
    pub statuses: Option<(u64, Vec<Option<Status>>)>,
    pub traffic: Option<Traffic>,
    /// File of the sampled call stacks on the host, or why there is none.
    pub profile: Option<Result<String, String>>,
    /// Output and recordings of the stopped replica.
    pub stopped: Option<(String, Vec<String>)>,
    /// Ended processes of cells, by number, until they are taken.
    pub ran: BTreeMap<u64, CellOutput>,
    /// Whether the agent has cleaned up, and the path of a kept directory.
    pub gone: Option<Option<String>>,
    /// Why the host no longer takes part.
    failure: Option<String>,
}

impl Heard {
    fn on(&mut self, notice: Notice) {
        match notice {
            Notice::Prepared { directory, machine, no_emulation } => {
                (self.directory, self.machine) = (Some(directory), Some(machine));
                self.no_emulation = no_emulation;
            }
            Notice::Clock { number, now_ns } => self.clock = Some((number, now_ns, Instant::now())),
            Notice::Started { starts } => self.starts = starts,
            Notice::Killed => self.killed = true,
            Notice::Progress(progress) => self.progress = Some(progress),
            Notice::Report(report) => self.report = Some(*report),
            Notice::Statuses { number, statuses } => self.statuses = Some((number, statuses)),
            Notice::Traffic(traffic) => self.traffic = Some(traffic),
            Notice::Profiled(profile) => self.profile = Some(profile),
            Notice::Stopped { log, recordings } => self.stopped = Some((log, recordings)),
            Notice::Ran { number, output } => {
                self.ran.insert(number, *output);
            }
            Notice::Gone { kept } => self.gone = Some(kept),
            Notice::LoadFailed(why) => self.fail(format!("its load failed: {why}")),
            Notice::Failed(why) => self.fail(why),
            Notice::Ended { status, is_disk_trouble, log } => {
                let disk = if is_disk_trouble { ": disk failure" } else { "" };
                let log = log.lines().map(str::trim).collect::<Vec<_>>().join("; ");
                self.fail(format!("its replica ended by itself ({status}{disk}): {log}"));
            }
            Notice::Beat => {}
        }
    }

    /// Keeps the first reason why the host no longer takes part.
    fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }
}

/// Connection to an agent. Dropping it ends the agent, which cleans up.
pub struct Link {
    pub number: usize,
    pub host: Host,
    child: Mutex<Offspring>,
    orders: Sender<Order>,
    heard: Arc<Mutex<Heard>>,
    errors: PathBuf,
}

impl Link {
    /// Starts the agent `program` on a host.
    ///
    /// # Errors
    /// If `ssh` or the threads for its pipes cannot be started.
    pub fn open(ssh: &Ssh, number: usize, host: &Host, program: &str) -> io::Result<Link> {
        let errors = ssh.file(number, "agent").with_extension("err");
        let mut command = ssh.run(number, host, &format!("exec {program} {AGENT}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&errors)?);
        let mut child = start(&mut command)?;
        let (Some(input), Some(output)) = child.take_pipes() else { unreachable!("both are pipes") };
        let heard = Arc::new(Mutex::new(Heard { last: Some(Instant::now()), ..Heard::default() }));
        let (orders, pending) = channel();
        thread::Builder::new().name("orders".into()).spawn(move || write(input, &pending))?;
        let listening = Arc::clone(&heard);
        thread::Builder::new().name("notices".into()).spawn(move || listen(output, &listening))?;
        Ok(Link { number, host: host.clone(), child: Mutex::new(child), orders, heard, errors })
    }

    /// Sends an order. A host that is gone gets none.
    pub fn order(&self, order: Order) {
        // An error means that the connection has ended, which `failure` reports.
        let _ = self.orders.send(order);
    }

    pub fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason why the host no longer takes part; `None` if it does.
    pub fn failure(&self) -> Option<String> {
        let mut heard = self.heard();
        let is_silent = heard.last.is_some_and(|last| last.elapsed() > SILENCE_LIMIT);
        if heard.failure.is_none() && heard.gone.is_none() && (heard.closed || is_silent) {
            let said = last_lines(&self.errors);
            let why = match heard.closed {
                true if said.is_empty() => "its connection ended".to_owned(),
                true => format!("its connection ended: {said}"),
                false => format!("it hangs: silent for {} s", SILENCE_LIMIT.as_secs()),
            };
            heard.fail(why);
        }
        heard.failure.clone()
    }

    pub fn lives(&self) -> bool {
        self.failure().is_none()
    }

    /// Returns whether the agent can still execute orders. Its replica may have failed.
    pub fn obeys(&self) -> bool {
        let heard = self.heard();
        !heard.closed && heard.last.is_some_and(|last| last.elapsed() <= SILENCE_LIMIT)
    }

    /// Kills the connection.
    pub fn cut(&self) {
        // An error means that it has already ended.
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}

/// Command of the agent.
pub const AGENT: &str = "deployed-agent";

/// Writes orders, and a beat if there is none.
fn write(mut input: impl Write, pending: &Receiver<Order>) {
    loop {
        let order = match pending.recv_timeout(BEAT_INTERVAL) {
            Ok(order) => order,
            Err(RecvTimeoutError::Timeout) => Order::Beat,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut line = serde_json::to_vec(&order).expect("orders are plain data");
        line.push(b'\n');
        if input.write_all(&line).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

/// Reads notices until the connection ends.
fn listen(output: impl Read, heard: &Mutex<Heard>) {
    let heard = || heard.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut output, mut line) = (BufReader::new(output), Vec::new());
    loop {
        line.clear();
        let read = output.by_ref().take(MAX_NOTICE_BYTES).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(notice) => {
                let mut heard = heard();
                heard.last = Some(Instant::now());
                heard.on(notice);
            }
            Err(error) => heard().fail(format!("its agent sent a notice that cannot be read: {error}")),
        }
    }
    heard().closed = true;
}
