//! The agent on a host: executes the laboratory's orders, and cleans up when the laboratory is gone.

mod cells;
mod clients;
mod files;
mod profile;
mod replica;
mod shape;

pub use replica::{HOME as REPLICA_HOME, RECORDING};

use super::protocol::{BEAT_INTERVAL, Notice, Order, Preparation, SILENCE_LIMIT, Traffic};
use crate::affinity::Pinned;
use crate::bench::emulated::emulation_obstacle;
use crate::bench::scratch::Directory;
use crate::partial;
use crate::result::Machine;
use cells::Cells;
use clients::Clients;
use files::write_files;
use profile::Profile;
use replica::Replica;
use shape::Shape;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Interval between checks of the replica, the load and the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Input of the agent's loop.
enum Heard {
    Order(Box<Order>),
    /// A notice of another thread, to pass on.
    Notice(Box<Notice>),
    /// The laboratory is gone, or sent an order that cannot be read.
    Lost(String),
}

/// The run on this host.
struct Agent {
    heard: Receiver<Heard>,
    sender: Sender<Heard>,
    replica: Option<Replica>,
    clients: Option<Clients>,
    cells: Cells,
    traffic: Option<Metering>,
    interface: Option<String>,
    profile: Option<Profile>,
    /// After the replica, whose traffic it shapes.
    shape: Option<Shape>,
    /// Last fields, so that processes and threads end before their directory and their cores are given up.
    run: Option<Run>,
    _pinned: Option<Pinned>,
}

/// The run's directory, which is the current one, in the laboratory's.
struct Run {
    own: Directory,
    laboratory: PathBuf,
}

/// Traffic to be counted.
struct Metering {
    from_ns: i64,
    to_ns: i64,
    begun: Option<Traffic>,
}

/// Executes orders from standard input until it ends. Any end of the agent also ends the replica and removes the run's
/// directory.
///
/// # Errors
/// The reason, if it is not an order to end.
pub fn serve() -> Result<(), String> {
    let (sender, heard) = channel();
    let orders = sender.clone();
    let reader = move || {
        for line in io::stdin().lock().lines() {
            let order = line.map_err(|error| error.to_string());
            let order = order.and_then(|line| serde_json::from_str(&line).map_err(|error| error.to_string()));
            let heard = match order {
                Ok(order) => Heard::Order(Box::new(order)),
                Err(error) => Heard::Lost(format!("an order cannot be read: {error}")),
            };
            if orders.send(heard).is_err() {
                return;
            }
        }
        // An error means that the agent has ended.
        let _ = orders.send(Heard::Lost("the laboratory is gone".to_owned()));
    };
    thread::Builder::new().name("orders".into()).spawn(reader).map_err(|error| format!("cannot start: {error}"))?;
    let agent = Agent {
        heard,
        sender,
        replica: None,
        clients: None,
        cells: Cells::default(),
        traffic: None,
        interface: None,
        profile: None,
        shape: None,
        run: None,
        _pinned: None,
    };
    agent.run()
}

impl Agent {
    fn run(mut self) -> Result<(), String> {
        let (mut last_order, mut last_beat) = (Instant::now(), Instant::now());
        loop {
            match self.heard.recv_timeout(LOOK_INTERVAL) {
                Ok(Heard::Order(order)) => {
                    last_order = Instant::now();
                    if let Order::End { keep } = *order {
                        return self.end(keep);
                    }
                    if let Err(why) = self.obey(*order) {
                        say(&Notice::Failed(why))?;
                    }
                }
                Ok(Heard::Notice(notice)) => say(&notice)?,
                Ok(Heard::Lost(why)) => return Err(why),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the agent has a sender of its own"),
            }
            if !partial::goes_on() {
                return Err("a signal ended the agent".to_owned());
            }
            if last_order.elapsed() > SILENCE_LIMIT {
                return Err(format!("the laboratory was silent for {} s", SILENCE_LIMIT.as_secs()));
            }
            self.look()?;
            if last_beat.elapsed() >= BEAT_INTERVAL {
                last_beat = Instant::now();
                say(&Notice::Beat)?;
            }
        }
    }

    fn obey(&mut self, order: Order) -> Result<(), String> {
        let tell = |notice: Notice| say(&notice);
        match order {
            Order::Prepare(preparation) => self.prepare(preparation),
            Order::Clock { number } => tell(Notice::Clock { number, now_ns: now_ns() }),
            Order::Start => {
                let replica = match self.replica.as_mut() {
                    Some(replica) => replica,
                    None => self.replica.insert(Replica::new()?),
                };
                replica.start()?;
                tell(Notice::Started { starts: replica.starts() })
            }
            Order::Kill => {
                self.replica.as_mut().ok_or("there is no replica to kill")?.kill()?;
                tell(Notice::Killed)
            }
            Order::Load(part) => {
                self.clients = Some(Clients::start(&part, &self.sender_of_notices())?);
                Ok(())
            }
            Order::Begin { at_ns, offset_ns } => {
                let clients = self.clients.as_ref().ok_or("there is no load to begin")?;
                let wait = u64::try_from(at_ns.saturating_sub(now_ns())).unwrap_or(0);
                clients.begin(Instant::now() + Duration::from_nanos(wait), Duration::from_nanos(offset_ns));
                Ok(())
            }
            Order::Window { from_ns, to_ns, profile } => {
                self.profile = profile.then(|| Profile::new(from_ns, to_ns));
                self.traffic = self.interface.is_some().then_some(Metering { from_ns, to_ns, begun: None });
                Ok(())
            }
            Order::Statuses { number, timeout_ms, histories } => {
                let clients = self.clients.as_ref().ok_or("there are no clients to ask for statuses")?;
                clients.read(number, Duration::from_millis(timeout_ms), histories)
            }
            Order::StopLoad => {
                self.clients.iter().for_each(Clients::stop);
                Ok(())
            }
            Order::Stop => {
                let (log, recordings) = self.replica.as_mut().map_or_else(Default::default, Replica::stop);
                tell(Notice::Stopped { log, recordings })
            }
            Order::Run(call) => {
                let directory = &self.run.as_ref().ok_or("the host is not prepared")?.own;
                self.cells.start(call, directory.path())
            }
            Order::EndRun { number } => {
                self.cells.end(number);
                Ok(())
            }
            Order::End { .. } | Order::Beat => Ok(()),
        }
    }

    /// Returns a function that passes notices of other threads on.
    fn sender_of_notices(&self) -> impl Fn(Notice) + Clone + Send + 'static {
        let sender = self.sender.clone();
        // An error means that the agent has ended.
        move |notice| drop(sender.send(Heard::Notice(Box::new(notice))))
    }

    fn prepare(&mut self, preparation: Preparation) -> Result<(), String> {
        let Preparation { directory, files, cores, interface, qdisc, runs_cells } = preparation;
        if let Some(cores) = cores {
            self._pinned = Some(Pinned::to(cores).map_err(|error| format!("cannot use {cores} cores: {error}"))?);
        }
        let cannot = |path: &Path, error: io::Error| format!("cannot write {}: {error}", path.display());
        let laboratory = fs::canonicalize(&directory).map_err(|error| cannot(Path::new(&directory), error))?;
        let runs = laboratory.join("runs");
        fs::create_dir_all(&runs).map_err(|error| cannot(&runs, error))?;
        let own = Directory::below(&runs).map_err(|(path, error)| cannot(&path, error))?;
        write_files(own.path(), &files)?;
        std::env::set_current_dir(own.path()).map_err(|error| cannot(own.path(), error))?;
        if let Some((interface, qdisc)) = interface.as_ref().zip(qdisc) {
            self.shape = Some(Shape::set(interface, &qdisc)?);
        }
        let shown = own.path().display().to_string();
        (self.run, self.interface) = (Some(Run { own, laboratory }), interface);
        let no_emulation = runs_cells.then(emulation_obstacle).flatten();
        say(&Notice::Prepared { directory: shown, machine: Machine::here(), no_emulation })
    }

    /// Reports the end of the replica, the load's progress, and the traffic.
    fn look(&mut self) -> Result<(), String> {
        if let Some((status, is_disk_trouble, log)) = self.replica.as_mut().and_then(Replica::ended) {
            say(&Notice::Ended { status, is_disk_trouble, log })?;
        }
        for (number, output) in self.cells.ended() {
            say(&Notice::Ran { number, output: Box::new(output) })?;
        }
        if let Some(progress) = self.clients.as_mut().and_then(Clients::progress) {
            say(&Notice::Progress(progress))?;
        }
        let sampled = self.replica.as_ref().map_or(Some(std::process::id()), Replica::process);
        if let Some(profile) = self.profile.as_mut().and_then(|profile| profile.look(now_ns(), sampled)) {
            say(&Notice::Profiled(profile))?;
        }
        let Some((metering, interface)) = self.traffic.as_mut().zip(self.interface.as_ref()) else { return Ok(()) };
        let now = now_ns();
        if metering.begun.is_none() && now >= metering.from_ns {
            metering.begun = Some(traffic(interface));
        }
        let Some(begun) = metering.begun.filter(|_| now >= metering.to_ns) else { return Ok(()) };
        let ended = traffic(interface);
        self.traffic = None;
        say(&Notice::Traffic(Traffic {
            sent_bytes: ended.sent_bytes.saturating_sub(begun.sent_bytes),
            received_bytes: ended.received_bytes.saturating_sub(begun.received_bytes),
        }))
    }

    fn end(mut self, keep: bool) -> Result<(), String> {
        self.clients.iter().for_each(Clients::abandon);
        (self.replica, self.clients, self.profile, self.shape) = (None, None, None, None);
        self.cells = Cells::default();
        let kept = match self.run.take() {
            Some(Run { own, laboratory }) if keep => {
                let kept = own.keep_below(&laboratory.join("kept"));
                Some(kept.map_err(|error| format!("cannot keep the run's directory: {error}"))?.display().to_string())
            }
            _ => None,
        };
        say(&Notice::Gone { kept })
    }
}

/// Sends a notice. An error means that the laboratory is gone.
fn say(notice: &Notice) -> Result<(), String> {
    let mut line = serde_json::to_vec(notice).map_err(|error| format!("a notice cannot be written: {error}"))?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).map_err(|error| format!("the laboratory is gone: {error}"))
}

/// Returns this host's time in nanoseconds since 1970.
fn now_ns() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// Reads the counters of an interface, as documented in proc(5); 0 if it is gone.
fn traffic(interface: &str) -> Traffic {
    let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let of = |line: &str| Some(line.trim_start().strip_prefix(interface)?.strip_prefix(':')?.to_owned());
    let counters = text.lines().find_map(of).unwrap_or_default();
    let counter = |at| counters.split_whitespace().nth(at).and_then(|word| word.parse().ok()).unwrap_or(0);
    Traffic { sent_bytes: counter(8), received_bytes: counter(0) }
}
