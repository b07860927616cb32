//! Faults of a run, and crashes and restarts.

use super::{Event, World};
use crate::chaos::{Chaos, chaos};
use crate::faults::{self, Change, FULL_SPEED, Leaves, Strike};
use crate::hostile::Request;
use crate::keys::genesis;
use crate::levels;
use crate::network::{Endpoints, Place, endpoint_name};
use crate::node::Node;
use crate::spec::SimSpec;
use quorate_consensus::Protocol;
use quorate_types::{FeatureLevel, Height, ReplicaId, Time};
use std::time::Duration;

/// Owner of the operator's commands.
const OPERATOR: u128 = 0x0f_e7a7;

/// Faults from the seed and the schedule.
pub struct Trouble {
    pub changes: Vec<(Time, Change)>,
    pub strikes: Vec<Strike>,
    /// Minimum time for a journal to become durable.
    pub flush: Duration,
    /// Time at which a core heals, and the replicas outside it.
    pub heal: Option<(Time, Vec<usize>)>,
    /// Maximum number of replicas that lack their disks at the same time.
    pub disks: usize,
    /// Replicas that lost their disks and have not recovered, with the heights that they must reach.
    pub lost: Vec<(usize, Height)>,
}

impl Trouble {
    /// Returns whether links are ever cut, or lose packets because of a fault.
    pub fn cuts(&self) -> bool {
        self.changes.iter().any(|(_, change)| matches!(change, Change::Cut(..) | Change::Lose(..)))
    }

    /// Returns whether a crashed replica restarts.
    pub fn restarts(&self) -> bool {
        !self.strikes.is_empty()
            || self
                .changes
                .iter()
                .any(|(_, change)| matches!(change, Change::Down(..) | Change::Upgrade(..) | Change::LoseDisk(..)))
    }
}

/// Returns the faults of a run, and the chaos of its seed.
pub fn trouble(spec: &SimSpec, machines: &[Place], seed: u64) -> (Trouble, Option<Chaos>) {
    let replicas = spec.quorum.replicas();
    let endpoints = Endpoints { replicas, machines, delay: &spec.network.delay };
    let changes = faults::changes(&spec.network.faults, &endpoints);
    let strikes = faults::strikes(&spec.network.faults);
    let heal = spec.network.heal_at().map(|at| (at, Vec::new()));
    let misbehaving = || faults::misbehaviour(&spec.network.faults).map(|(replica, _)| replica);
    let may_fail = spec.quorum.faults().saturating_sub(misbehaving().count());
    let mut trouble = Trouble { changes, strikes, flush: Duration::ZERO, heal, disks: may_fail, lost: Vec::new() };
    let Some(lasts) = spec.chaos else { return (trouble, None) };
    let mut chaos = chaos(seed, replicas, may_fail, lasts, &spec.consensus);
    let outside = chaos.outside.iter().map(|at| ReplicaId(*at as u16));
    let gone: Vec<ReplicaId> = outside.chain(misbehaving()).collect();
    if spec.consensus.stalls_with_silent(spec.quorum, &gone).is_some() {
        chaos.outside.clear();
        chaos.changes.retain(|(_, change)| !matches!(change, Change::Crash(_)));
    }
    trouble.changes.append(&mut chaos.changes);
    trouble.changes.sort_by_key(|(time, _)| *time);
    (trouble.flush, trouble.disks) = (chaos.flush, chaos.disks);
    trouble.heal = Some((Time(0) + lasts, chaos.outside.clone()));
    (trouble, Some(chaos))
}

impl<P: Protocol> World<'_, P> {
    pub(super) fn on_change(&mut self, number: usize) {
        // Faults do not start after the healing.
        if self.probe.is_some() {
            return;
        }
        let change = self.trouble.changes[number].1.clone();
        let (replicas, machines) = (self.nodes.len(), self.clients.machines());
        let name = |end| endpoint_name(end, replicas, machines);
        self.transcript.add(self.now, || format!("-- {}", change.describe(name)));
        match change {
            Change::Crash(replica) => self.crash(replica, None),
            Change::Down(replica, leaves, returns) => self.go_down(replica, leaves, returns),
            Change::Upgrade(replica, version, returns) => {
                self.connections.speak(replica, version);
                self.go_down(replica, Leaves::Stopped, returns);
            }
            Change::Level(level) => self.raise_level(level),
            Change::LoseDisk(replica, returns) => {
                let leaves = if self.may_lose_disk(replica) { Leaves::Nothing } else { Leaves::Flushed };
                self.go_down(replica, leaves, returns);
            }
            Change::Pause(replica, until) => {
                let paused = &mut self.nodes[replica].paused_until;
                *paused = until.max(*paused);
                let until = *paused;
                self.schedule.push(until, Event::Resume(replica as u16));
            }
            Change::OffPath(kind, packets_per_s, targets, until) => self.forge(kind, packets_per_s, targets, until),
            Change::Hostile(kind, shares_link, until) => self.attack(kind, shares_link, until),
            Change::Speed(replica, thousandths) => self.nodes[replica].speed = thousandths,
            Change::Disk(replica, thousandths) => self.nodes[replica].disk = thousandths,
            Change::Clock(replica, rate) => self.drift(replica, rate),
            Change::Skew(replica, ms) => self.nodes[replica].skew_ms = ms,
            Change::Cut(pairs, begins) => pairs.iter().for_each(|(from, to)| self.links.cut(*from, *to, begins)),
            Change::Lose(pairs, probability) => {
                pairs.iter().for_each(|(from, to)| self.links.lose(*from, *to, probability));
            }
            Change::Spike(pairs, by_ns) => pairs.iter().for_each(|(from, to)| self.links.spike(*from, *to, by_ns)),
        }
    }

    /// Sends a change of the feature level to all replicas that are up.
    fn raise_level(&mut self, level: FeatureLevel) {
        let (replicas, epoch) = (self.nodes.len(), genesis(self.spec).epoch());
        let height = self.nodes.iter().map(Node::committed_height).max().unwrap_or_default();
        let identity = self.client_keys.identity(OPERATOR);
        let finish = |builder| identity.finish(builder);
        let bundle = levels::change(&epoch, replicas, level, height, identity.origin(), finish);
        self.oracle.submitted(&bundle);
        self.oracle.orders_level(&bundle.digest(), level);
        // The honest client machines and the hostile clients have the links before.
        let link = (self.clients.machines() + self.attacks.len()) as u16;
        for replica in (0..replicas).filter(|replica| self.nodes[*replica].alive).collect::<Vec<_>>() {
            let bytes = bundle.body().len() as u32;
            self.nodes[replica].ask(link, Request::Bundle(bundle.clone()), bytes);
            self.wake(replica);
        }
    }

    fn go_down(&mut self, replica: usize, leaves: Leaves, returns: Time) {
        if self.nodes[replica].alive {
            self.crash(replica, Some(leaves));
            self.schedule.push(returns.max(self.now), Event::Restart(replica as u16, self.lives[replica]));
        }
    }

    /// Returns whether a replica may lose its disk now. A lost disk counts as a fault until its replica votes again and
    /// has executed everything that any replica had executed at the time of the loss.
    fn may_lose_disk(&mut self, replica: usize) -> bool {
        let (nodes, lost) = (&self.nodes, &mut self.trouble.lost);
        lost.retain(|(lost, height)| !nodes[*lost].has_recovered(*height));
        nodes[replica].alive && lost.len() < self.trouble.disks && lost.iter().all(|(one, _)| *one != replica)
    }

    fn drift(&mut self, replica: usize, rate: u64) {
        self.nodes[replica].drift(self.now, rate);
        self.schedule_alarm(replica);
    }

    /// Crashes a replica that has reached its strike point, or that has stopped.
    pub(super) fn on_struck(&mut self, replica: usize) {
        if self.nodes[replica].halted {
            return self.crash(replica, None);
        }
        let strike = self.trouble.strikes.iter().find(|strike| strike.replica == replica);
        let Strike { point, leaves, down, .. } = *strike.expect("only scheduled strikes happen");
        let line = || format!("-- R{replica} crashes at its point {point}; its journal: {leaves:?}");
        self.transcript.add(self.now, line);
        self.crash(replica, Some(leaves));
        self.schedule.push(self.now + down, Event::Restart(replica as u16, self.lives[replica]));
    }

    /// Crashes a replica, for good if `leaves` is `None`.
    pub(super) fn crash(&mut self, replica: usize, leaves: Option<Leaves>) {
        let name = ReplicaId(replica as u16);
        if self.nodes[replica].alive {
            self.crashed.push(name);
            if leaves == Some(Leaves::Nothing) {
                self.lost_disks.push(name);
                let highest = self.nodes.iter().map(Node::committed_height).max().unwrap_or_default();
                self.trouble.lost.push((replica, highest));
            }
            self.clients.on_crash(name);
            let node = &self.nodes[replica];
            self.lives_measured.end(replica, node.born.as_ref(), || node.status(false));
        }
        self.nodes[replica].crash(leaves);
        self.parts[replica].forget();
    }

    /// Restarts a replica, unless it crashed for good.
    pub(super) fn restart(&mut self, replica: usize) {
        let Some(leaves) = self.nodes[replica].returns.take() else { return };
        let name = ReplicaId(replica as u16);
        let salt = self.salts.bits();
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(name, salt);
        }
        self.transcript.add(self.now, || format!("-- {name:?} restarts"));
        self.restarts += 1;
        self.lives[replica] += 1;
        self.pairs.streams.close(replica);
        self.connections.close(replica);
        self.oracle.restarted(name);
        self.nodes[replica].restart((self.remake)(name, salt), leaves);
        self.wake(replica);
    }

    /// Ends all faults: restarts the replicas that are down, and resets clocks, speeds and links. Crashes `outside` for
    /// good.
    pub(super) fn end_trouble(&mut self, outside: &[usize]) {
        self.links.heal();
        self.links.calm();
        outside.iter().for_each(|replica| self.crash(*replica, None));
        for replica in 0..self.replicas() {
            self.restart(replica);
            let node = &mut self.nodes[replica];
            (node.paused_until, node.speed, node.disk, node.struck_at) = (Time(0), FULL_SPEED, FULL_SPEED, None);
            self.nodes[replica].skew_ms = 0;
            self.drift(replica, crate::clock::TRUE_RATE);
            self.wake(replica);
        }
    }
}
