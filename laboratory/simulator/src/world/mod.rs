//! The cluster and its event loop.
//!
//! This file has the events and the loop. [`turns`] runs actors on [`cores`], [`shipping`] delivers parcels,
//! [`trouble`] injects faults, [`liveness`] heals a core and checks its progress, and [`lasso`] detects livelocks.

mod addresses;
mod cores;
mod hostility;
mod lasso;
mod liveness;
mod lives;
mod off_path;
mod packets;
mod parts;
mod seconds;
mod shipping;
mod streams;
mod trouble;
mod turns;

pub use cores::Shares;
pub use liveness::{CATCH_UP_VIEW_TIMEOUTS, LIVENESS_VIEWS};
pub use lives::Life;
pub use off_path::CONNECTED_WITHIN_ROUND_TRIPS;
pub use packets::Connections;
pub use seconds::{Counts, Reading};
pub use trouble::{Trouble, trouble};

use crate::charges::{Charges, Tariffs};
use crate::chronicle::Chronicle;
use crate::clients::Clients;
use crate::keys::ClientKeys;
use crate::ledger::Charged;
use crate::links::Random;
use crate::network::{Links, Segment};
use crate::node::{Answer, Begun, Destination, Node, Reborn};
use crate::oracle::Oracle;
use crate::parcel::{Body, Parcel, Scratch};
use crate::schedule::Schedule;
use crate::spec::SimSpec;
use crate::trace::Trace;
use crate::transcript::Transcript;
use bytes::Bytes;
use cores::Cores;
use hostility::Attack;
use liveness::Probe;
use lives::Lives;
use off_path::{Foreign, OffPath};
use quorate_adversary::oracles::Property;
use quorate_client::load::Stage;
use quorate_consensus::Protocol;
use quorate_consensus::seam::RecordId;
use quorate_crypto::ClientAuthentication;
use quorate_hosting::recording::{Recorder, RecordingError};
use quorate_types::{Bundle, ClientId, Digest, Height, ReplicaId, Time};
use seconds::Seconds;
use shipping::Pairs;
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of events at one point in time; more indicate an endless loop.
const MAX_EVENTS_AT_ONCE: u64 = 20_000_000;
/// Maximum time after the load for all replicas to execute the same commands.
const SETTLE: Duration = Duration::from_secs(5);

/// Content in transit on a link.
enum Load<M> {
    /// A parcel for one life of the receiver.
    Parcel(u32, Parcel<M>),
    /// A segment of a stream. Identifies the lives of its two ends by their sum.
    Segment(u32, Box<Segment>),
    /// A packet from an address.
    Packet(SocketAddr, Bytes),
    /// A packet from an off-path attacker.
    Foreign(Foreign),
}

impl<M> Load<M> {
    fn bytes(&self) -> usize {
        match self {
            Load::Parcel(_, parcel) => parcel.bytes as usize,
            Load::Segment(_, segment) => segment.bytes as usize,
            Load::Packet(_, packet) => packet.len(),
            Load::Foreign(foreign) => foreign.bytes(),
        }
    }
}

enum Event<M> {
    /// A load arrives at a network interface, or has passed its queue.
    Arrive {
        from: u16,
        to: u16,
        queued: bool,
        load: Load<M>,
    },
    /// An endpoint's write to a stream is sent.
    Write {
        from: u16,
        to: u16,
        lives: u32,
    },
    /// Timer of one half of a connection.
    MachineAlarm(u64),
    /// Timer of a stream's end.
    StreamAlarm {
        me: u16,
        other: u16,
        lives: u32,
    },
    /// The end of an iteration or of one of its parts, with the part's number.
    TurnEnd(u16, u32),
    /// An idle core has woken up for an actor. The flag is set if it last ran another one.
    TurnBegin(u16, bool),
    Alarm(u16),
    /// A device answers a replica, in one of its lives.
    Answer(u16, u32, Box<Answer<M>>),
    Flushed(u16, u32, RecordId),
    /// A replica's network thread has read another endpoint's data, in one life of the replica.
    Read {
        from: u16,
        to: u16,
        life: u32,
        parcel: Parcel<M>,
    },
    /// The state of a checkpoint is durable.
    Kept(u16, u32, Height),
    Resume(u16),
    Change(u32),
    Restart(u16, u32),
    /// A hostile client's tick.
    Hostile(u16),
    /// Tick of an off-path sender.
    OffPath(u16),
    Heal,
    Probe,
}

/// Cluster in virtual time.
pub struct World<'a, P: Protocol> {
    pub spec: &'a SimSpec,
    pub now: Time,
    schedule: Schedule<Event<P::Message>>,
    pub nodes: Vec<Node<P>>,
    /// Number of restarts of each endpoint; 0 for client machines.
    lives: Vec<u32>,
    /// Creates a replica for a restart, given its salt.
    remake: &'a dyn Fn(ReplicaId, u64) -> Reborn<P>,
    salts: Random,
    client_keys: ClientKeys,
    pub clients: Clients,
    pub links: Links,
    pairs: Pairs<P::Message>,
    connections: Connections<P::Message>,
    pub oracle: Oracle,
    pub chronicle: Chronicle,
    pub trace: Trace,
    charges: Charges,
    tariffs: Tariffs,
    trouble: Trouble,
    cores: Cores,
    /// Maximum bytes of a stream per packet.
    packet_room: usize,
    /// Iterations in progress, by actor.
    parts: Vec<parts::UnderWay<P::Message>>,
    pub transcript: Transcript,
    pub recorder: Option<Recorder>,
    /// Result of writing a recording that broke off when the load was stopped early.
    pub broken_off: Result<(), RecordingError>,
    pub delivered: u64,
    pub events: u64,
    pub lives_measured: Lives,
    pub seconds: Seconds,
    charged_before: Option<Charged>,
    /// Charges over the measured time, once it is over.
    pub charged: Option<Charged>,
    /// The threads' shares of the cores: before the measured time, and then over it.
    pub shares: Vec<Shares>,
    goes_on: fn() -> bool,
    /// Whether the load was stopped early.
    pub stopped: bool,
    probe: Option<Probe>,
    attacks: Vec<Attack>,
    off_path: OffPath,
    pub crashed: Vec<ReplicaId>,
    pub lost_disks: Vec<ReplicaId>,
    pub restarts: u64,
    outgoing: Vec<(Destination, Parcel<P::Message>)>,
    begun: Vec<Begun<P::Message>>,
    requests: Vec<(Option<ReplicaId>, Bundle, usize)>,
    commits: Vec<(Time, ClientId, Digest)>,
    scratch: Scratch,
}

/// Number of events between two calls of `goes_on`, about 0.1 s of work.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 16;

/// Parts of a world.
pub struct Parts<'a, P: Protocol> {
    pub spec: &'a SimSpec,
    pub seed: u64,
    pub nodes: Vec<Node<P>>,
    pub remake: &'a dyn Fn(ReplicaId, u64) -> Reborn<P>,
    pub salts: Random,
    pub client_keys: ClientKeys,
    pub clients: Clients,
    pub links: Links,
    pub connections: Connections<P::Message>,
    pub oracle: Oracle,
    pub trouble: Trouble,
    pub goes_on: fn() -> bool,
}

/// Returns the costs of a replica's work, including all authentication in `spec`.
pub(crate) fn charges_of(spec: &SimSpec) -> Charges {
    let signatures = spec.costs.signatures_of(spec.scheme).expect("the caller checks the costs of the scheme");
    let replicas = spec.quorum.replicas();
    let mut charges = Charges::new(&spec.costs, spec.scheme, &signatures, replicas);
    if let Some(macs) = spec.macs {
        let costs = spec.costs.signatures_of(macs).expect("the caller checks the costs of the MACs");
        charges = charges.with_macs(macs, &costs, replicas);
        if spec.client_authentication == ClientAuthentication::Mac {
            charges = charges.with_client_macs(macs, &costs, replicas);
        }
    }
    if let Some(frames) = spec.costs.frames_of(&spec.wire) {
        charges = charges.with_frames(frames);
    }
    if let Some(seals) = spec.reply_seals {
        let costs = spec.costs.signatures_of(seals).expect("the caller checks the costs of reply authentication");
        charges = charges.with_seals(seals, &costs, replicas);
    }
    charges
}

impl<'a, P: Protocol> World<'a, P> {
    pub fn new(parts: Parts<'a, P>) -> World<'a, P> {
        let Parts {
            spec,
            seed,
            nodes,
            remake,
            salts,
            client_keys,
            clients,
            links,
            connections,
            oracle,
            trouble,
            goes_on,
        } = parts;
        let ends = nodes.len() + clients.machines();
        let mut charges = charges_of(spec);
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
            client_keys,
            clients,
            links,
            pairs: Pairs::new(spec, ends, trouble.cuts() || trouble.heal.is_some()),
            connections,
            oracle,
            trace: Trace::default(),
            tariffs: Tariffs::new(&charges, &spec.costs),
            trouble,
            packet_room: (spec.network.packets.mtu_bytes - spec.network.packets.header_bytes) as usize,
            cores: Cores::new(spec.cores, ends, spec.router, &charges, seed),
            charges,
            parts: (0..ends).map(|_| parts::UnderWay::default()).collect(),
            transcript: Transcript::new(false),
            recorder: None,
            broken_off: Ok(()),
            delivered: 0,
            events: 0,
            lives_measured: Lives::default(),
            seconds: Seconds::default(),
            charged_before: None,
            charged: None,
            shares: Vec::new(),
            goes_on,
            stopped: false,
            probe: None,
            attacks: Vec::new(),
            off_path: OffPath::new(spec, seed, spec.chaos.is_some()),
            crashed: Vec::new(),
            lost_disks: Vec::new(),
            restarts: 0,
            outgoing: Vec::new(),
            begun: Vec::new(),
            requests: Vec::new(),
            commits: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    fn replicas(&self) -> usize {
        self.nodes.len()
    }

    fn wake_clients(&mut self) {
        (0..self.clients.machines()).for_each(|machine| self.wake(self.nodes.len() + machine));
    }

    /// Handles events until the end of the run or the first violation.
    pub fn run(&mut self) {
        self.begin();
        let mut settle_until = None;
        let mut at_once = 0;
        while self.oracle.violation.is_none() {
            let Some((time, event)) = self.schedule.pop() else { break };
            at_once = if time == self.now { at_once + 1 } else { 0 };
            if at_once > MAX_EVENTS_AT_ONCE {
                return self.oracle.report(Property::Spin, format!("{at_once} events at {time:?}"));
            }
            assert!(time >= self.now, "time runs backwards");
            if self.chronicle.is_due(time) {
                let progress = self.nodes.iter().map(Node::progress);
                self.chronicle.sample(time, progress);
            }
            if self.seconds.are_due(time) {
                self.seconds.read(time, self.counts());
            }
            self.now = time;
            self.events += 1;
            if self.events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && !self.stopped && !(self.goes_on)() {
                self.stop();
            }
            self.on_event(event);
            // An iteration must see all simultaneous arrivals.
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

    fn counts(&self) -> Vec<Option<Counts>> {
        self.nodes.iter().map(|node| node.alive.then(|| Counts::of(&node.status(false)))).collect()
    }

    /// Ends the load early. It still waits for outstanding answers.
    fn stop(&mut self) {
        self.stopped = true;
        self.broken_off = self.recorder.take().map_or(Ok(()), |mut recorder| recorder.flush());
        self.clients.stop(self.now);
        self.wake_clients();
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
        (0..self.replicas()).for_each(|replica| self.wake(replica));
        self.wake_clients();
        self.give_turns();
    }

    /// Returns whether all live honest replicas have the same height.
    fn is_level(&self) -> bool {
        let live = (0..self.replicas()).filter(|at| self.nodes[*at].alive && !self.oracle.is_faulty(*at));
        let mut heights = live.map(|at| self.oracle.height(at));
        let first = heights.next();
        heights.all(|height| Some(height) == first)
    }

    fn on_event(&mut self, event: Event<P::Message>) {
        match event {
            Event::Arrive { from, to, queued, load } => {
                if !queued && self.links.has_ingress() {
                    let done = self.links.taken_in(self.now, usize::from(to), load.bytes());
                    return self.schedule.push(done, Event::Arrive { from, to, queued: true, load });
                }
                let (from, to) = (usize::from(from), usize::from(to));
                match load {
                    Load::Parcel(life, parcel) if life == self.lives[to] => self.deliver(from, to, parcel),
                    Load::Parcel(..) => {}
                    Load::Segment(lives, segment) => self.on_segment(from, to, lives, &segment),
                    Load::Packet(from, packet) => self.on_packet(from, to, packet),
                    Load::Foreign(foreign) => self.on_foreign(foreign),
                }
            }
            Event::MachineAlarm(half) => self.on_machine_alarm(half),
            Event::Write { from, to, lives } => self.on_write(usize::from(from), usize::from(to), lives),
            Event::StreamAlarm { me, other, lives } => self.on_stream_alarm(usize::from(me), usize::from(other), lives),
            Event::TurnEnd(actor, number) => self.on_part_end(usize::from(actor), number),
            Event::TurnBegin(actor, cold) => self.on_turn_begin(usize::from(actor), cold),
            Event::Alarm(actor) => self.on_alarm(usize::from(actor)),
            Event::Answer(replica, life, answer) => self.on_device(replica, life, |node| node.answered(*answer)),
            Event::Flushed(replica, life, record) => self.on_device(replica, life, |node| node.flushed(record)),
            Event::Read { from, to, life, parcel } => {
                self.on_device(to, life, |node| node.take_in(usize::from(from), parcel));
            }
            Event::Kept(replica, life, height) => self.on_device(replica, life, |node| node.kept(height)),
            Event::Resume(replica) => self.wake(usize::from(replica)),
            Event::Change(number) => self.on_change(number as usize),
            Event::Restart(replica, life) => {
                if self.lives[usize::from(replica)] == life {
                    self.restart(usize::from(replica));
                }
            }
            Event::Hostile(number) => self.on_hostile_tick(usize::from(number)),
            Event::OffPath(number) => self.on_off_path_tick(usize::from(number)),
            Event::Heal => self.heal(),
            Event::Probe => self.probe(),
        }
    }

    /// Passes a device's answer to a replica that is still in the same life.
    fn on_device(&mut self, replica: u16, life: u32, act: impl FnOnce(&mut Node<P>)) {
        let replica = usize::from(replica);
        if self.nodes[replica].alive && self.lives[replica] == life {
            act(&mut self.nodes[replica]);
            self.wake(replica);
        }
    }

    fn deliver(&mut self, from: usize, to: usize, parcel: Parcel<P::Message>) {
        self.delivered += 1;
        self.trace.add(self.now.0, (from as u64) << 16 | to as u64, parcel.checksum);
        if to >= self.replicas() {
            let machine = to - self.replicas();
            if let Body::Replies(replies) = parcel.body {
                self.clients.machine(machine).take_in(from, parcel.bytes, replies);
            }
        } else if self.nodes[to].alive {
            if let Some(read) = self.nodes[to].reads(self.now, from, &parcel, self.tariffs.of(true, false)) {
                let life = self.lives[to];
                return self.schedule.push(read, Event::Read { from: from as u16, to: to as u16, life, parcel });
            }
            self.nodes[to].take_in(from, parcel);
        } else {
            return;
        }
        self.wake(to);
    }
}
