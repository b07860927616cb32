//! Scheduling of turns: each actor on its own core, or all on a few.

use super::{Event, World};
use crate::clock::NEVER;
use crate::faults::FULL_SPEED;
use crate::node::{Begun, Destination, Surroundings};
use crate::parcel::Parcel;
use quorate_client::load::Stage;
use quorate_consensus::Protocol;
use quorate_types::ReplicaId;
use std::collections::VecDeque;
use std::time::Duration;

/// Cores, and the actors that have one or wait for one. Actors are the replicas and, after them, the clients'
/// machines. Each is one thread.
pub(super) struct Cores {
    /// Numbers of the cores without an actor.
    free: Vec<usize>,
    /// The last actor on each core.
    last: Vec<Option<usize>>,
    /// The core of each actor that has one.
    on: Vec<Option<usize>>,
    /// Actors that found no work after their last turn, so that their threads sleep.
    asleep: Vec<bool>,
    waiting: VecDeque<usize>,
    is_waiting: Vec<bool>,
}

impl Cores {
    /// Returns free cores; 0 means one for each actor.
    pub fn new(cores: usize, actors: usize) -> Cores {
        let cores = if cores == 0 { actors } else { cores };
        Cores {
            free: (0..cores).collect(),
            last: vec![None; cores],
            on: vec![None; actors],
            asleep: vec![false; actors],
            waiting: VecDeque::new(),
            is_waiting: vec![false; actors],
        }
    }

    fn wait(&mut self, actor: usize) {
        if self.on[actor].is_none() && !std::mem::replace(&mut self.is_waiting[actor], true) {
            self.waiting.push_back(actor);
        }
    }

    fn next(&mut self) -> Option<usize> {
        let next = if self.free.is_empty() { None } else { self.waiting.pop_front() };
        next.inspect(|next| self.is_waiting[*next] = false)
    }

    /// Takes a free core for an actor: the one that it had last, or else an unused one. Returns whether the actor slept
    /// before, and whether the core last ran another one.
    fn take(&mut self, actor: usize) -> (bool, bool) {
        let rank = |core: &usize| match self.last[*core] {
            Some(last) if last == actor => 0,
            None => 1,
            Some(_) => 2,
        };
        let best = (0..self.free.len()).min_by_key(|at| rank(&self.free[*at])).expect("the caller found a free core");
        let core = self.free.swap_remove(best);
        self.on[actor] = Some(core);
        let cold = self.last[core].replace(actor).is_some_and(|last| last != actor);
        (std::mem::take(&mut self.asleep[actor]), cold)
    }

    fn release(&mut self, actor: usize) {
        self.free.extend(self.on[actor].take());
    }
}

impl<P: Protocol> World<'_, P> {
    /// Queues an actor that may have work. It gets a turn after all events of this time, once a core is free.
    pub(super) fn wake(&mut self, actor: usize) {
        self.cores.wait(actor);
    }

    /// Assigns free cores to waiting actors, first come, first served.
    pub(super) fn give_turns(&mut self) {
        while let Some(actor) = self.cores.next() {
            if self.may_run(actor) && self.has_work(actor) {
                self.turn(actor);
            } else {
                self.cores.asleep[actor] = true;
            }
        }
    }

    fn may_run(&self, actor: usize) -> bool {
        self.nodes.get(actor).is_none_or(|node| node.alive && node.paused_until <= self.now)
    }

    fn has_work(&mut self, actor: usize) -> bool {
        match self.nodes.get(actor) {
            Some(node) => node.has_work(self.now),
            None => self.clients.machine(actor - self.nodes.len()).has_work(self.now),
        }
    }

    pub(super) fn on_turn_end(&mut self, actor: usize) {
        self.cores.release(actor);
        self.cores.wait(actor);
    }

    fn turn(&mut self, actor: usize) {
        let before = self.cores.take(actor);
        let is_client = actor >= self.replicas();
        let elapsed = if is_client { self.clients_turn(actor, before) } else { self.replica_turn(actor, before) };
        self.schedule_alarm(actor);
        if elapsed == 0 && !self.has_work(actor) {
            self.cores.release(actor);
            self.cores.asleep[actor] = true;
        } else {
            self.schedule.push(self.now + Duration::from_nanos(elapsed), Event::TurnEnd(actor as u16));
        }
    }

    /// Runs a turn of a replica that slept before (`woken`), or whose core last ran another thread (`cold`). Returns
    /// the nanoseconds that it takes.
    fn replica_turn(&mut self, actor: usize, (woken, cold): (bool, bool)) -> u64 {
        let mut surroundings = Surroundings {
            charges: self.tariffs.of(woken, cold),
            oracle: &mut self.oracle,
            chronicle: &mut self.chronicle,
            outgoing: &mut self.outgoing,
            begun: &mut self.begun,
            transcript: &mut self.transcript,
            recorder: self.recorder.as_mut(),
            scratch: &mut self.scratch,
            homes: self.clients.homes(),
            commits: &mut self.commits,
        };
        let view = self.nodes[actor].view();
        let elapsed = self.nodes[actor].turn(self.now, &mut surroundings);
        for (at, origin, bundle) in self.commits.drain(..) {
            self.clients.on_committed(ReplicaId(actor as u16), at, origin, &bundle);
        }
        let (end, life) = (self.now + Duration::from_nanos(elapsed), self.lives[actor]);
        let flushed = end + self.charges.flush * self.nodes[actor].disk as u32 / FULL_SPEED as u32;
        let mut begun = std::mem::take(&mut self.begun);
        for begun in begun.drain(..) {
            match begun {
                Begun::Question(after, input) => {
                    let at = self.now + Duration::from_nanos(after);
                    self.schedule.push(at, Event::Answer(actor as u16, life, Box::new(input)));
                }
                Begun::Flush(record) => {
                    self.schedule.push(flushed, Event::Flushed(actor as u16, life, record));
                }
                Begun::Keep(height) => {
                    self.schedule.push(flushed, Event::Kept(actor as u16, life, height));
                }
            }
        }
        self.begun = begun;
        let mut outgoing = std::mem::take(&mut self.outgoing);
        for (destination, parcel) in outgoing.drain(..) {
            match destination {
                Destination::One(to) => self.ship(end, actor, to, parcel),
                Destination::Others => self.ship_to_replicas(end, actor, parcel),
            }
        }
        self.outgoing = outgoing;
        if self.nodes[actor].struck && self.nodes[actor].alive {
            self.on_struck(actor);
        }
        if self.probe.is_some() && self.nodes[actor].view() != view {
            self.on_view_entered(actor);
        }
        elapsed
    }

    fn clients_turn(&mut self, me: usize, (woken, cold): (bool, bool)) -> u64 {
        let mut requests = std::mem::take(&mut self.requests);
        let (stage, machine) = (self.clients.stage(), me - self.replicas());
        let charges = self.tariffs.of(woken, cold);
        let elapsed = self.clients.turn(machine, self.now, charges, &mut self.oracle, &mut requests);
        let end = self.now + Duration::from_nanos(elapsed);
        if self.clients.begins(self.now) {
            self.wake_clients();
        }
        for (one, bundle, bytes) in requests.drain(..) {
            self.overhear(&bundle);
            let parcel = Parcel::request(bundle, bytes);
            match one {
                Some(to) => self.ship(end, me, to.index(), parcel),
                None => self.ship_to_replicas(end, me, parcel),
            }
        }
        self.requests = requests;
        let reached = self.clients.stage();
        if reached != stage && reached >= Stage::Measure {
            self.measure_lives();
        }
        elapsed
    }

    /// Starts the measured time, or ends it if it has started.
    fn measure_lives(&mut self) {
        if !self.lives_measured.has_begun() {
            let statuses = self.nodes.iter().map(|node| node.alive.then(|| node.status(false))).collect();
            self.seconds.begin(self.now, self.counts());
            return self.lives_measured.begin(statuses);
        }
        self.seconds.end(self.now, self.counts());
        for (replica, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.alive) {
            self.lives_measured.end(replica, node.born.as_ref(), || node.status(false));
        }
        self.lives_measured.close();
    }

    pub(super) fn schedule_alarm(&mut self, actor: usize) {
        let (next, late, known) = match self.nodes.get_mut(actor) {
            Some(node) => (node.next_alarm(), Duration::ZERO, &mut node.alarm_known),
            None => {
                let machine = self.clients.machine(actor - self.nodes.len());
                (machine.next_wake(), self.charges.client_late, &mut machine.wake_known)
            }
        };
        if next < *known {
            *known = next;
            self.schedule.push(next.max(self.now) + late, Event::Alarm(actor as u16));
        }
    }

    pub(super) fn on_alarm(&mut self, actor: usize) {
        let known = match self.nodes.get_mut(actor) {
            Some(node) if !node.alive => return,
            Some(node) => &mut node.alarm_known,
            None => &mut self.clients.machine(actor - self.nodes.len()).wake_known,
        };
        if *known > self.now {
            return;
        }
        *known = NEVER;
        self.trace.add(self.now.0, actor as u64 | 1 << 32, 0);
        if self.has_work(actor) {
            self.wake(actor);
        } else {
            self.schedule_alarm(actor);
        }
    }
}
