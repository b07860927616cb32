//! Iterations of actors on their cores.

use super::cores::Taken;
use super::{Event, World};
use crate::charges::nanos;
use crate::clock::NEVER;
use crate::faults::FULL_SPEED;
use crate::ledger::{Charged, Ledger};
use crate::node::{Begun, Destination, Surroundings};
use crate::parcel::Parcel;
use quorate_client::load::Stage;
use quorate_consensus::Protocol;
use quorate_types::ReplicaId;
use std::time::Duration;

impl<P: Protocol> World<'_, P> {
    /// Queues an actor that may have work. It gets an iteration after all events of this time, once a core is free.
    pub(super) fn wake(&mut self, actor: usize) {
        // A sleeping client machine does not notice replies.
        if actor >= self.replicas() && !self.has_work(actor) {
            return;
        }
        if self.cores.wait(self.now, actor)
            && let Some(running) = self.cores.preempted_by(self.now, actor)
        {
            self.suspend(running);
        }
    }

    /// Assigns free cores to waiting actors.
    pub(super) fn give_turns(&mut self) {
        while let Some((actor, core)) = self.cores.next(self.now) {
            if self.may_run(actor) && (self.parts[actor].is_suspended() || self.has_work(actor)) {
                self.turn(actor, core);
            } else {
                self.cores.sleep(actor);
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
        self.rest(actor);
        if self.cores.keeps(self.now, actor) && self.may_run(actor) && self.has_work(actor) {
            return self.run_turn(actor, false, false);
        }
        self.cores.release(self.now, actor);
        if self.cores.have_queues() && !self.has_work(actor) {
            return self.cores.sleep(actor);
        }
        self.cores.wait(self.now, actor);
    }

    /// Lets a client machine begin to wait after its iteration.
    fn rest(&mut self, actor: usize) {
        if actor >= self.replicas() && self.clients.machine(actor - self.replicas()).rest(self.now) {
            self.schedule_alarm(actor);
        }
    }

    fn turn(&mut self, actor: usize, core: usize) {
        let Taken { woken, cold, idle } = self.cores.take(self.now, actor, core);
        if self.resume(actor) {
            return;
        }
        let delay = self.cores.idle_delay;
        if idle && woken && !delay.is_zero() {
            return self.schedule.push(self.now + delay, Event::TurnBegin(actor as u16, cold));
        }
        self.run_turn(actor, woken, cold);
    }

    /// Begins the iteration of an actor that an idle core has woken.
    pub(super) fn on_turn_begin(&mut self, actor: usize, cold: bool) {
        if self.may_run(actor) && self.has_work(actor) {
            return self.run_turn(actor, true, cold);
        }
        self.cores.release(self.now, actor);
        self.cores.sleep(actor);
    }

    fn run_turn(&mut self, actor: usize, woken: bool, cold: bool) {
        let is_client = actor >= self.replicas();
        let before = (woken, cold);
        let elapsed = if is_client { self.clients_turn(actor, before) } else { self.replica_turn(actor, before) };
        if elapsed == 0 {
            self.rest(actor);
        }
        self.schedule_alarm(actor);
        if elapsed == 0 && !self.parts[actor].has_writes() && !self.has_work(actor) {
            self.cores.release(self.now, actor);
            self.cores.sleep(actor);
        } else {
            self.begin_part(actor, elapsed);
        }
    }

    /// Runs an iteration of a replica, given whether it slept before (`woken`), and whether another thread ran last on
    /// its core (`cold`). Returns its duration in nanoseconds.
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
        let mut elapsed = self.cores.with_interruptions(self.now, actor, elapsed);
        let (end, life) = (self.now + Duration::from_nanos(elapsed), self.lives[actor]);
        let flushed = end + self.charges.flush * self.nodes[actor].disk as u32 / FULL_SPEED as u32;
        let mut begun = std::mem::take(&mut self.begun);
        for begun in begun.drain(..) {
            match begun {
                Begun::Question(after, answer) => {
                    let at = self.now + Duration::from_nanos(after);
                    self.schedule.push(at, Event::Answer(actor as u16, life, Box::new(answer)));
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
        let end = self.nodes[actor].writes(end, self.tariffs.of(true, false));
        if self.cores.preempts() && !self.nodes[actor].struck && !self.nodes[actor].has_network_thread() {
            let each = nanos(self.charges.write_call * self.nodes[actor].speed / FULL_SPEED);
            elapsed = self.writes_later(actor, elapsed, each, outgoing.drain(..));
        }
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
        let mut elapsed = self.cores.with_interruptions(self.now, me, elapsed);
        let end = self.now + Duration::from_nanos(elapsed);
        if self.clients.begins(self.now) {
            self.wake_clients();
        }
        let mut outgoing = std::mem::take(&mut self.outgoing);
        for (one, bundle, bytes) in requests.drain(..) {
            self.overhear(&bundle);
            let to = one.map_or(Destination::Others, |one| Destination::One(one.index()));
            outgoing.push((to, Parcel::request(bundle, bytes)));
        }
        self.requests = requests;
        if self.cores.preempts() {
            elapsed = self.writes_later(me, elapsed, nanos(self.charges.client_further_write), outgoing.drain(..));
        }
        for (to, parcel) in outgoing.drain(..) {
            match to {
                Destination::One(to) => self.ship(end, me, to, parcel),
                Destination::Others => self.ship_to_replicas(end, me, parcel),
            }
        }
        self.outgoing = outgoing;
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
            self.charged_before = Some(self.charged());
            self.shares = self.cores.shares(self.now);
            return self.lives_measured.begin(statuses);
        }
        self.seconds.end(self.now, self.counts());
        if let Some(before) = self.charged_before.take() {
            self.charged = Some(self.charged().since(&before));
            let after = self.cores.shares(self.now);
            self.shares = after.iter().zip(&self.shares).map(|(after, before)| after.since(before)).collect();
        }
        for (replica, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.alive) {
            self.lives_measured.end(replica, node.born.as_ref(), || node.status(false));
        }
        self.lives_measured.close();
    }

    /// Returns all charges so far.
    fn charged(&self) -> Charged {
        let mut replicas = Ledger::default();
        self.nodes.iter().for_each(|node| replicas.add(&node.ledger()));
        Charged { replicas, clients: self.clients.ledger() }
    }

    pub(super) fn schedule_alarm(&mut self, actor: usize) {
        let (next, known) = match self.nodes.get_mut(actor) {
            Some(node) => (node.next_alarm(), &mut node.alarm_known),
            None => {
                let machine = self.clients.machine(actor - self.nodes.len());
                (machine.next_wake(), &mut machine.wake_known)
            }
        };
        if next < *known {
            *known = next;
            self.schedule.push(next.max(self.now), Event::Alarm(actor as u16));
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
