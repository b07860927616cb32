//! The clients of a host: a part of the load in a thread, and a probe of the replicas' statuses in another one.

use super::super::protocol::{LoadPart, Notice};
use crate::bench::generator::generator;
use crate::settings::{commands, load_options};
use quorate_client::load::{LoadHandle, LoadProgress};
use quorate_client::workload::Workload;
use quorate_client::{ClientConfig, StatusProbe};
use quorate_types::ClientId;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Bits by which a machine's number is shifted in its seed, so that no repetition of a run has it too.
const MACHINE_SHIFT: u32 = 40;

/// A request for statuses: its number, the timeout, and whether to ask for histories.
type Question = (u64, Duration, bool);

/// Load that an agent generates for the controller, in a thread of its own.
pub struct Clients {
    handle: LoadHandle,
    questions: Sender<Question>,
    told: Option<LoadProgress>,
}

impl Clients {
    /// Starts this machine's part of a load, whose end `tell` reports.
    pub fn start(part: &LoadPart, tell: &(impl Fn(Notice) + Clone + Send + 'static)) -> Result<Clients, String> {
        let spec = &part.spec;
        let config = ClientConfig::parse(&part.config, Path::new("client.toml")).map_err(|error| error.to_string())?;
        let options = load_options(spec).split(&part.clients).swap_remove(part.machine);
        let seeded =
            crate::spec::BenchSpec { seed: spec.seed ^ ((part.machine as u64) << MACHINE_SHIFT), ..spec.clone() };
        let inner = commands(&seeded).map_err(|error| error.to_string())?;
        let workload = Box::new(Part { inner, machine: part.machine, machines: part.clients.len(), next: 0 });
        let started = generator(spec, &config, options, workload).map_err(|error| error.to_string())?;
        let (generator, handle) = (started.0.joining_others(), started.1);
        let cannot = |error: std::io::Error| format!("cannot start the clients: {error}");
        let (told, load) = (tell.clone(), thread::Builder::new().name("clients".into()));
        load.spawn(move || {
            told(match generator.run() {
                Ok(report) => Notice::Report(Box::new(report)),
                Err(error) => Notice::LoadFailed(error.to_string()),
            });
        })
        .map_err(cannot)?;
        let (questions, asked) = channel();
        let (tell, replicas) = (tell.clone(), config.members.len());
        let probe = StatusProbe::connect(&config).map_err(|error| error.to_string())?;
        let probing = move || answer(probe, &asked, replicas, &tell);
        thread::Builder::new().name("statuses".into()).spawn(probing).map_err(cannot)?;
        Ok(Clients { handle, questions, told: None })
    }

    /// Sets the start of the load.
    pub fn begin(&self, at: std::time::Instant, offset: Duration) {
        self.handle.begin_at(at, offset);
    }

    /// Requests the statuses of all replicas.
    pub fn read(&self, number: u64, timeout: Duration, histories: bool) -> Result<(), String> {
        self.questions.send((number, timeout, histories)).map_err(|_| "the probe of statuses has ended".to_owned())
    }

    /// Returns the progress if it has changed.
    pub fn progress(&mut self) -> Option<LoadProgress> {
        let progress = self.handle.progress();
        let is_new = self.told.as_ref() != Some(&progress);
        is_new.then(|| self.told.insert(progress).clone())
    }

    pub fn stop(&self) {
        self.handle.stop();
    }

    pub fn abandon(&self) {
        self.handle.abandon();
    }
}

fn answer(mut probe: StatusProbe, asked: &Receiver<Question>, replicas: usize, tell: &impl Fn(Notice)) {
    while let Ok((number, timeout, histories)) = asked.recv() {
        let read = if histories { probe.read_histories(timeout) } else { probe.read(timeout) };
        // A probe whose transport fails knows of no replica.
        let statuses = read.unwrap_or_else(|_| vec![None; replicas]);
        tell(Notice::Statuses { number, statuses });
    }
}

/// Commands of one machine. Of a preload, which is the same on all machines, each executes every n-th command.
struct Part {
    inner: Box<dyn Workload>,
    machine: usize,
    machines: usize,
    next: usize,
}

impl Workload for Part {
    fn preload(&mut self, payload: &mut Vec<u8>) -> bool {
        let begin = payload.len();
        while self.inner.preload(payload) {
            let turn = self.next;
            self.next = (turn + 1) % self.machines;
            if turn == self.machine {
                return true;
            }
            payload.truncate(begin);
        }
        false
    }

    fn next(&mut self, client: ClientId, payload: &mut Vec<u8>) {
        self.inner.next(client, payload);
    }
}
