//! The cluster and its event loop.
//!
//! This file has the events and the loop; [`turns`] gives processors to those who have something to do, [`shipping`] carries parcels,
//! [`trouble`] changes the world, [`liveness`] heals it and asks whether it works, and [`lasso`] looks whether it goes round in circles.

mod hostility;
mod lasso;
mod liveness;
mod lives;
mod packets;
mod shipping;
mod trouble;
mod turns;

pub use liveness::{CATCH_UP_VIEW_TIMEOUTS, LIVENESS_VIEWS};
pub use lives::Life;
pub use packets::Connections;
pub use trouble::{Trouble, trouble};

use crate::charges::Charges;
use crate::chronicle::Chronicle;
use crate::clients::Clients;
use crate::network::{Links, Segment};
use crate::node::{Begun, Destination, Node, Reborn};
use crate::oracle::Oracle;
use crate::parcel::{Body, Parcel, Scratch};
use crate::random::Random;
use crate::schedule::Schedule;
use crate::spec::SimSpec;
use crate::trace::Trace;
use crate::transcript::Transcript;
use bytes::Bytes;
use hostility::Attack;
use liveness::Probe;
use lives::Lives;
use quorate_client::load::Stage;
use quorate_consensus::seam::RecordId;
use quorate_consensus::{Input, Protocol};
use quorate_recording::Recorder;
use quorate_types::{Bundle, Height, ReplicaId, Time};
use shipping::Pairs;
use std::time::Duration;
use turns::Cores;

/// More events than this at one instant, and somebody spins.
const MOST_EVENTS_AT_ONCE: u64 = 20_000_000;
/// How long all replicas may take, after the load, to execute what the quickest has.
const SETTLE: Duration = Duration::from_secs(5);

enum Event<M> {
    /// Reaches a network card, or has passed through its queue. It was sent to a replica in that life of it.
    Arrive {
        from: u16,
        to: u16,
        queued: bool,
        life: u32,
        parcel: Parcel<M>,
    },
    /// A part of a stream, which is of those lives of its ends together.
    Segment {
        from: u16,
        to: u16,
        queued: bool,
        lives: u32,
        segment: Segment,
    },
    /// An acknowledgement on its way back to `from`.
    Acknowledge {
        from: u16,
        to: u16,
        lives: u32,
        upto: u64,
    },
    /// A packet of a machine, of the connection with that number.
    Packet {
        from: u16,
        to: u16,
        queued: bool,
        number: u32,
        packet: Bytes,
    },
    /// A machine's timer.
    MachineAlarm {
        me: u16,
        other: u16,
        number: u32,
    },
    Retransmit {
        from: u16,
        to: u16,
        lives: u32,
    },
    TurnEnd(u16),
    Alarm(u16),
    /// Of a device of a replica, in that life of it.
    Answer(u16, u32, Box<Input<M>>),
    Flushed(u16, u32, RecordId),
    /// The state of a checkpoint is durable.
    Kept(u16, u32, Height),
    Resume(u16),
    Change(u32),
    /// A replica comes back.
    Restart(u16, u32),
    /// A hostile client sends.
    Hostile(u16),
    Heal,
    Probe,
}

/// A cluster in virtual time.
pub struct World<'a, P: Protocol> {
    spec: &'a SimSpec,
    pub now: Time,
    schedule: Schedule<Event<P::Message>>,
    pub nodes: Vec<Node<P>>,
    /// How often each endpoint has come back; the clients never do.
    lives: Vec<u32>,
    /// Makes a replica that comes back, with that salt.
    remake: &'a dyn Fn(ReplicaId, u64) -> Reborn<P>,
    salts: Random,
    pub clients: Clients,
    pub links: Links,
    pairs: Pairs<P::Message>,
    connections: Connections<P::Message>,
    pub oracle: Oracle,
    pub chronicle: Chronicle,
    pub trace: Trace,
    charges: Charges,
    trouble: Trouble,
    cores: Cores,
    pub transcript: Option<Transcript>,
    pub recorder: Option<Recorder>,
    pub delivered: u64,
    pub events: u64,
    pub lives_measured: Lives,
    goes_on: fn() -> bool,
    /// Whether the load was stopped before its time.
    pub stopped: bool,
    probe: Option<Probe>,
    attacks: Vec<Attack>,
    pub crashed: Vec<ReplicaId>,
    pub restarts: u64,
    outgoing: Vec<(Destination, Parcel<P::Message>)>,
    begun: Vec<Begun<P::Message>>,
    requests: Vec<(Option<ReplicaId>, Bundle, usize)>,
    scratch: Scratch,
}

/// Events between two looks at whether the run is to go on: about a tenth of a second of work.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 16;

/// What a world is made of.
pub struct Parts<'a, P: Protocol> {
    pub spec: &'a SimSpec,
    pub nodes: Vec<Node<P>>,
    pub remake: &'a dyn Fn(ReplicaId, u64) -> Reborn<P>,
    pub salts: Random,
    pub clients: Clients,
    pub links: Links,
    pub connections: Connections<P::Message>,
    pub oracle: Oracle,
    pub trouble: Trouble,
    pub goes_on: fn() -> bool,
}

impl<'a, P: Protocol> World<'a, P> {
    /// A cluster that has not started.
    pub fn new(parts: Parts<'a, P>) -> World<'a, P> {
        let Parts { spec, nodes, remake, salts, clients, links, connections, oracle, trouble, goes_on } = parts;
        let ends = nodes.len() + 1;
        let mut charges = Charges::new(&spec.costs, &spec.signature_costs());
        charges.flush = charges.flush.max(trouble.flush);
        World {
            spec,
            chronicle: Chronicle::new(nodes.len()),
            now: Time(0),
            schedule: Schedule::default(),
            nodes,
            lives: vec![0; ends],
            remake,
            salts,
            clients,
            links,
            pairs: Pairs::new(spec, ends, trouble.cuts() || trouble.heal.is_some()),
            connections,
            oracle,
            trace: Trace::default(),
            charges,
            trouble,
            cores: Cores::new(spec.cores, ends),
            transcript: None,
            recorder: None,
            delivered: 0,
            events: 0,
            lives_measured: Lives::default(),
            goes_on,
            stopped: false,
            probe: None,
            attacks: Vec::new(),
            crashed: Vec::new(),
            restarts: 0,
            outgoing: Vec::new(),
            begun: Vec::new(),
            requests: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    fn replicas(&self) -> usize {
        self.nodes.len()
    }

    /// Lets everything happen until the run is over or an oracle speaks.
    pub fn run(&mut self) {
        self.begin();
        let mut settle_until = None;
        let mut at_once = 0;
        while self.oracle.complaint.is_none() {
            let Some((time, event)) = self.schedule.pop() else { break };
            at_once = if time == self.now { at_once + 1 } else { 0 };
            if at_once > MOST_EVENTS_AT_ONCE {
                return self.oracle.complain("spin", format!("{at_once} events at {time:?}"));
            }
            assert!(time >= self.now, "time does not run backwards");
            if self.chronicle.is_due(time) {
                let progress = self.nodes.iter().map(Node::progress);
                self.chronicle.sample(time, progress);
            }
            self.now = time;
            self.events += 1;
            if self.events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && !self.stopped && !(self.goes_on)() {
                self.stop();
            }
            self.happen(event);
            // Whoever works sees all that has come in at the same time.
            if self.schedule.next() != Some(self.now) {
                self.give_turns();
            }
            if self.clients.stage() == Stage::Done {
                let until = *settle_until.get_or_insert(self.now + SETTLE);
                if self.now >= until || self.is_level() {
                    break;
                }
            }
        }
    }

    /// Ends the load before its time; what was sent is still waited for.
    fn stop(&mut self) {
        self.stopped = true;
        self.clients.stop(self.now);
        self.wake(self.replicas());
    }

    fn begin(&mut self) {
        for (number, (at, _)) in self.trouble.changes.iter().enumerate() {
            self.schedule.push(*at, Event::Change(number as u32));
        }
        for strike in &self.trouble.strikes {
            self.nodes[strike.replica].struck_at = Some(strike.point);
        }
        if let Some((at, _)) = &self.trouble.heal {
            self.schedule.push(*at, Event::Heal);
        }
        (0..=self.replicas()).for_each(|actor| self.wake(actor));
        self.give_turns();
    }

    /// Whether all live replicas that do not misbehave have executed the same.
    fn is_level(&self) -> bool {
        let live = (0..self.replicas()).filter(|at| self.nodes[*at].alive && !self.oracle.is_faulty(*at));
        let mut heights = live.map(|at| self.oracle.height(at));
        let first = heights.next();
        heights.all(|height| Some(height) == first)
    }

    fn happen(&mut self, event: Event<P::Message>) {
        match event {
            Event::Arrive { from, to, queued, life, parcel } => {
                if !queued && self.links.has_ingress() {
                    let done = self.links.taken_in(self.now, usize::from(to), parcel.bytes as usize);
                    return self.schedule.push(done, Event::Arrive { from, to, queued: true, life, parcel });
                }
                if life == self.lives[usize::from(to)] {
                    self.deliver(usize::from(from), usize::from(to), parcel);
                }
            }
            Event::Segment { from, to, queued, lives, segment } => {
                if !queued && self.links.has_ingress() {
                    let done = self.links.taken_in(self.now, usize::from(to), segment.bytes as usize);
                    return self.schedule.push(done, Event::Segment { from, to, queued: true, lives, segment });
                }
                self.segment(usize::from(from), usize::from(to), lives, segment);
            }
            Event::Packet { from, to, queued, number, packet } => {
                if !queued && self.links.has_ingress() {
                    let done = self.links.taken_in(self.now, usize::from(to), packet.len());
                    return self.schedule.push(done, Event::Packet { from, to, queued: true, number, packet });
                }
                self.packet(usize::from(from), usize::from(to), number, packet);
            }
            Event::MachineAlarm { me, other, number } => {
                self.machine_alarm(usize::from(me), usize::from(other), number);
            }
            Event::Acknowledge { from, to, lives, upto } => {
                self.on_stream(usize::from(from), usize::from(to), lives, |stream, now, todo| {
                    stream.acknowledged(now, upto, todo)
                });
            }
            Event::Retransmit { from, to, lives } => {
                self.on_stream(usize::from(from), usize::from(to), lives, |stream, now, todo| stream.ring(now, todo));
            }
            Event::TurnEnd(actor) => self.turn_ends(usize::from(actor)),
            Event::Alarm(actor) => self.alarm(usize::from(actor)),
            Event::Answer(replica, life, input) => {
                if self.lives_on(usize::from(replica), life) {
                    self.nodes[usize::from(replica)].answered(*input);
                    self.wake(usize::from(replica));
                }
            }
            Event::Flushed(replica, life, record) => {
                if self.lives_on(usize::from(replica), life) {
                    self.nodes[usize::from(replica)].flushed(record);
                    self.wake(usize::from(replica));
                }
            }
            Event::Kept(replica, life, height) => {
                if self.lives_on(usize::from(replica), life) {
                    self.nodes[usize::from(replica)].kept(height);
                    self.wake(usize::from(replica));
                }
            }
            Event::Resume(replica) => self.wake(usize::from(replica)),
            Event::Change(number) => self.change(number as usize),
            Event::Restart(replica, life) => {
                if self.lives[usize::from(replica)] == life {
                    self.restart(usize::from(replica));
                }
            }
            Event::Hostile(number) => self.hostile_tick(usize::from(number)),
            Event::Heal => self.heal(),
            Event::Probe => self.probe(),
        }
    }

    /// Whether a replica is still in that life.
    fn lives_on(&self, replica: usize, life: u32) -> bool {
        self.nodes[replica].alive && self.lives[replica] == life
    }

    fn deliver(&mut self, from: usize, to: usize, parcel: Parcel<P::Message>) {
        self.delivered += 1;
        self.trace.add(self.now.0, (from as u64) << 16 | to as u64, parcel.checksum);
        if to == self.replicas() {
            if let Body::Reply(reply) = parcel.body {
                self.clients.take_in(from, parcel.bytes, reply);
            }
        } else if self.nodes[to].alive {
            self.nodes[to].take_in(from, parcel);
        } else {
            return;
        }
        self.wake(to);
    }
}
