//! The client machines, and the load that they share.

mod machine;
mod report;

pub use report::{ClientMachine, LatencyMs};

use crate::charges::Charges;
use crate::keys::ClientKeys;
use crate::ledger::Ledger;
use crate::network::{Delay, Place};
use crate::oracle::Oracle;
use crate::spec::SimSpec;
use machine::Machine;
use quorate_client::SessionOptions;
use quorate_client::load::{LoadMode, LoadOptions, LoadReport, Stage};
use quorate_client::workload::Workload;
use quorate_crypto::ClientIdentity;
use quorate_types::{Bundle, ClientId, Digest, ReplicaId, Time};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Owner of the first machine's clients; further machines have consecutive numbers.
const FIRST_OWNER: u128 = 1;

/// Returns the identity of each machine's clients.
pub fn identities(machines: usize, keys: &ClientKeys) -> Vec<ClientIdentity> {
    (0..machines).map(|machine| keys.identity(FIRST_OWNER + machine as u128)).collect()
}

/// Returns the machine that sent bundles of an origin, given all machines' origins. Bundles of hostile clients and
/// probes, whose answers nobody awaits, count as the first machine's.
pub fn machine_of(origin: ClientId, origins: &[ClientId]) -> usize {
    origins.iter().position(|of| of.owner() == origin.owner()).unwrap_or(0)
}

/// Machines of the clients.
pub struct Clients {
    machines: Vec<Machine>,
    origins: Vec<ClientId>,
    /// The nearest replica of each machine.
    homes: Vec<ReplicaId>,
    /// Load of all machines together.
    options: LoadOptions,
    /// Time between the starts of consecutive machines in an open loop.
    offset: Duration,
    has_begun: bool,
    /// The earliest stage among all machines.
    stage: Stage,
    gap: Gap,
}

/// Longest time without an answer to any machine.
#[derive(Default)]
struct Gap {
    /// Completed commands of each machine in the measured time.
    completed: Vec<u64>,
    last_answer: Option<Time>,
    longest: Duration,
}

/// Source of commands shared by several machines, so that each command of a preload is executed once.
#[derive(Clone)]
struct Shared(Arc<Mutex<Box<dyn Workload>>>);

impl Workload for Shared {
    fn preload(&mut self, payload: &mut Vec<u8>) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).preload(payload)
    }

    fn next(&mut self, client: ClientId, payload: &mut Vec<u8>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next(client, payload);
    }
}

impl Clients {
    /// Splits a load over the machines at `places`, whose nearest replicas are `homes`. `late` is the wake-up delay of
    /// a waiting thread.
    pub fn new(
        spec: &SimSpec,
        places: &[Place],
        homes: Vec<ReplicaId>,
        workload: Box<dyn Workload>,
        identities: Vec<ClientIdentity>,
        late: Duration,
    ) -> Clients {
        let options = &spec.load;
        let counts: Vec<usize> = places.iter().map(|place| place.clients).collect();
        let parts = options.split(&counts);
        let is_alone = parts.len() == 1;
        let (dissemination, reply) = (spec.consensus.client_dissemination(), spec.reply);
        // A machine that serves clients everywhere has no home replica.
        let home = |at: usize| (!is_alone || places[at].home.is_some()).then_some(homes[at]);
        let session = |at| SessionOptions { dissemination, reply, home: home(at), ..SessionOptions::new(spec.quorum) };
        let shared = Shared(Arc::new(Mutex::new(workload)));
        let origins = identities.iter().map(ClientIdentity::origin).collect();
        let machine = |(at, (part, identity)): (usize, (LoadOptions, ClientIdentity))| {
            Machine::new(part, session(at), Box::new(shared.clone()), identity, is_alone, late)
        };
        let machines: Vec<Machine> = parts.into_iter().zip(identities).enumerate().map(machine).collect();
        let offset = match options.mode {
            LoadMode::Open { rate, .. } => Duration::from_secs_f64(1.0 / rate),
            LoadMode::Closed { .. } => Duration::ZERO,
        };
        Clients {
            gap: Gap { completed: vec![0; machines.len()], ..Gap::default() },
            machines,
            origins,
            homes,
            options: options.clone(),
            offset,
            has_begun: is_alone,
            stage: Stage::Preload,
        }
    }

    pub fn machines(&self) -> usize {
        self.machines.len()
    }

    /// Returns the nearest replica of each machine.
    pub fn homes(&self) -> &[ReplicaId] {
        &self.homes
    }

    /// Returns the machine with this number.
    pub fn machine(&mut self, machine: usize) -> &mut Machine {
        &mut self.machines[machine]
    }

    /// Returns the stage that all machines have reached.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Runs an iteration of a machine: handles all its replies and appends the bundles to send. Returns the duration of
    /// the iteration in nanoseconds.
    pub fn turn(
        &mut self,
        machine: usize,
        now: Time,
        charges: &Charges,
        oracle: &mut Oracle,
        sends: &mut Vec<(Option<ReplicaId>, Bundle, usize)>,
    ) -> u64 {
        let elapsed = self.machines[machine].turn(now, charges, oracle, sends);
        self.note_answers(machine, now);
        self.stage = self.machines.iter().map(Machine::stage).min().expect("a load has a machine");
        elapsed
    }

    /// Begins the load of all machines once each has executed its part of the preload. Returns whether the load begins
    /// now.
    pub fn begins(&mut self, now: Time) -> bool {
        if self.has_begun || !self.machines.iter_mut().all(|machine| machine.core().is_preloaded()) {
            return false;
        }
        self.has_begun = true;
        for (number, machine) in self.machines.iter_mut().enumerate() {
            machine.begin(now, self.offset * number as u32);
        }
        true
    }

    fn note_answers(&mut self, machine: usize, now: Time) {
        let core = self.machines[machine].core();
        let (completed, Some((start, _))) = (core.completed(), core.window()) else { return };
        let before = std::mem::replace(&mut self.gap.completed[machine], completed);
        if completed > before {
            let last = self.gap.last_answer.replace(now).unwrap_or(start);
            self.gap.longest = self.gap.longest.max(now.since(last));
        }
    }

    /// Handles the commit of a bundle at a replica.
    pub fn on_committed(&mut self, replica: ReplicaId, at: Time, origin: ClientId, bundle: &Digest) {
        let machine = machine_of(origin, &self.origins);
        if self.homes[machine] == replica {
            self.machines[machine].core().on_committed(at, bundle);
        }
    }

    /// Returns the charges of all machines.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        self.machines.iter().for_each(|machine| ledger.add(machine.ledger()));
        ledger
    }

    pub fn on_crash(&mut self, replica: ReplicaId) {
        self.machines.iter_mut().for_each(|machine| machine.core().on_disconnected(replica));
    }

    pub fn stop(&mut self, now: Time) {
        self.machines.iter_mut().for_each(|machine| machine.stop(now));
    }

    /// Returns the report of the whole load, which must be done, and the report of each machine.
    pub fn finish(mut self, now: Time, places: &[Place], delay: &Delay) -> (LoadReport, Vec<ClientMachine>) {
        let window = self.machines[0].core().window();
        let gap = window.map_or(Duration::ZERO, |(start, end)| {
            let last = self.gap.last_answer.unwrap_or(start);
            self.gap.longest.max(now.min(end).since(last))
        });
        let reports: Vec<LoadReport> = self.machines.into_iter().map(|machine| machine.finish(now)).collect();
        let figures = |((place, home), report): ((&Place, &ReplicaId), &LoadReport)| {
            ClientMachine::of(place.name(delay).map(str::to_owned), *home, place.clients, report)
        };
        let machines = places.iter().zip(&self.homes).zip(&reports).map(figures).collect();
        (LoadReport::merged(&reports, &self.options, gap), machines)
    }
}
