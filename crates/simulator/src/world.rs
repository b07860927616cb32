//! The cluster and its event loop.

use crate::charges::Charges;
use crate::clients::Clients;
use crate::faults::{self, Change, FULL_SPEED};
use crate::network::{Links, Segment, Stream, StreamOptions, Todo, TransportKind};
use crate::node::{Begun, Destination, NEVER, Node, Surroundings};
use crate::oracle::Oracle;
use crate::parcel::{Body, Parcel, Scratch};
use crate::schedule::Schedule;
use crate::spec::SimSpec;
use crate::trace::Trace;
use crate::transcript::Transcript;
use quorate_client::load::Stage;
use quorate_consensus::seam::RecordId;
use quorate_consensus::{Input, Protocol};
use quorate_types::{Bundle, BundleBuilder, ClientId, Digest, ReplicaId, Status, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// More events than this at one instant, and somebody spins.
const MOST_EVENTS_AT_ONCE: u64 = 20_000_000;
/// How long all replicas may take, after the load, to execute what the quickest has.
const SETTLE: Duration = Duration::from_secs(5);
/// The session that asks whether a healed cluster works.
const PROBE: ClientId = ClientId(1 << 40);
/// Views of a healed core within which it has to make progress, whatever n; and for each replica as many more as the second.
pub const LIVENESS_VIEWS: (u64, u64) = (12, 4);
/// View timeouts within which every replica of a healed core has to have caught up, once a quorum of it makes progress.
pub const CATCH_UP_VIEW_TIMEOUTS: u32 = 60;
/// A view lasts at most so many view timeouts, however often it was given up before.
const LONGEST_VIEW: u32 = 64;

enum Event<M> {
    /// Reaches a network card, or has passed through its queue.
    Arrive {
        from: u16,
        to: u16,
        queued: bool,
        parcel: Parcel<M>,
    },
    Segment {
        from: u16,
        to: u16,
        queued: bool,
        segment: Segment,
    },
    /// An acknowledgement on its way back to `from`.
    Acknowledge {
        from: u16,
        to: u16,
        upto: u64,
    },
    Retransmit {
        from: u16,
        to: u16,
    },
    TurnEnd(u16),
    Alarm(u16),
    Answer(u16, Box<Input<M>>),
    Flushed(u16, RecordId),
    Resume(u16),
    Change(u32),
    Heal,
    Probe,
}

/// The stream of an ordered pair that has spoken.
type PairStream<M> = Box<Stream<Parcel<M>>>;

/// A command that asks a healed core whether it works.
#[derive(Clone)]
struct Probe {
    bundle: Bundle,
    /// A quorum has to have executed it in this view at the latest.
    last_view: u64,
    /// And by this time, all replicas once a quorum has.
    until: Time,
    by_quorum: bool,
}

/// What the seed decides of a run besides the links.
pub struct Trouble {
    /// Changes in order of time.
    pub changes: Vec<(Time, Change)>,
    /// When a core is healed, and who is outside of it.
    pub heal: Option<(Time, Vec<usize>)>,
}

/// A cluster in virtual time.
pub struct World<'a, P: Protocol> {
    spec: &'a SimSpec,
    pub now: Time,
    schedule: Schedule<Event<P::Message>>,
    pub nodes: Vec<Node<P>>,
    pub clients: Clients,
    pub links: Links,
    /// In place of the streams of a network that loses nothing: when the last message of each pair arrives.
    last_arrival: Vec<Time>,
    streams: Vec<Option<PairStream<P::Message>>>,
    is_lossy: bool,
    pub oracle: Oracle,
    pub trace: Trace,
    charges: Charges,
    trouble: Trouble,
    busy: Vec<bool>,
    /// Shared cores: how many are free, and who waits for one.
    free_cores: usize,
    waiting: VecDeque<usize>,
    is_waiting: Vec<bool>,
    pub transcript: Option<Transcript>,
    pub delivered: u64,
    pub events: u64,
    /// Messages that found a full queue.
    pub not_queued: u64,
    pub first: Vec<Status>,
    pub last: Vec<Status>,
    probe: Option<Probe>,
    pub crashed: Vec<ReplicaId>,
    outgoing: Vec<(Destination, Parcel<P::Message>)>,
    begun: Vec<Begun<P::Message>>,
    requests: Vec<(Option<ReplicaId>, Bundle, usize)>,
    todo: Vec<Todo>,
    letters: Vec<Parcel<P::Message>>,
    scratch: Scratch,
}

impl<'a, P: Protocol> World<'a, P> {
    /// A cluster that has not started.
    pub fn new(
        spec: &'a SimSpec,
        nodes: Vec<Node<P>>,
        clients: Clients,
        links: Links,
        oracle: Oracle,
        trouble: Trouble,
    ) -> World<'a, P> {
        let ends = nodes.len() + 1;
        let cuts = trouble.changes.iter().any(|(_, change)| matches!(change, Change::Cut(..)));
        World {
            spec,
            now: Time(0),
            schedule: Schedule::default(),
            clients,
            links,
            last_arrival: vec![Time(0); ends * ends],
            streams: (0..ends * ends).map(|_| None).collect(),
            is_lossy: spec.network.loses() || cuts || trouble.heal.is_some(),
            oracle,
            trace: Trace::default(),
            charges: Charges::new(&spec.costs, spec.scheme != quorate_crypto::SchemeKind::None),
            trouble,
            busy: vec![false; ends],
            free_cores: if spec.cores == 0 { ends } else { spec.cores },
            waiting: VecDeque::new(),
            is_waiting: vec![false; ends],
            transcript: None,
            delivered: 0,
            events: 0,
            not_queued: 0,
            first: Vec::new(),
            last: Vec::new(),
            probe: None,
            crashed: Vec::new(),
            outgoing: Vec::new(),
            begun: Vec::new(),
            requests: Vec::new(),
            todo: Vec::new(),
            letters: Vec::new(),
            scratch: Scratch::default(),
            nodes,
        }
    }

    fn replicas(&self) -> usize {
        self.nodes.len()
    }

    /// Lets everything happen until the run is over or an oracle speaks.
    pub fn run(&mut self) {
        for number in 0..self.trouble.changes.len() {
            self.schedule.push(self.trouble.changes[number].0, Event::Change(number as u32));
        }
        if let Some((at, _)) = &self.trouble.heal {
            self.schedule.push(*at, Event::Heal);
        }
        for replica in 0..self.replicas() {
            self.wake(replica);
        }
        self.wake(self.replicas());
        let mut settle_until = None;
        let mut at_once = 0;
        while self.oracle.complaint.is_none() {
            let Some((time, event)) = self.schedule.pop() else { break };
            at_once = if time == self.now { at_once + 1 } else { 0 };
            if at_once > MOST_EVENTS_AT_ONCE {
                return self.oracle.complain("spin", format!("{at_once} events at {time:?}"));
            }
            assert!(time >= self.now, "time does not run backwards");
            self.now = time;
            self.events += 1;
            self.happen(event);
            if self.clients.stage() == Stage::Done {
                let until = *settle_until.get_or_insert(self.now + SETTLE);
                if self.now >= until || self.is_level() {
                    break;
                }
            }
        }
    }

    /// Whether all live replicas have executed the same.
    fn is_level(&self) -> bool {
        let live = (0..self.replicas()).filter(|at| self.nodes[*at].alive);
        let mut heights = live.map(|at| self.oracle.height(at));
        let first = heights.next();
        heights.all(|height| Some(height) == first)
    }

    fn happen(&mut self, event: Event<P::Message>) {
        match event {
            Event::Arrive { from, to, queued, parcel } => {
                if !queued && self.links.has_ingress() {
                    let done = self.links.taken_in(self.now, usize::from(to), parcel.bytes as usize);
                    return self.schedule.push(done, Event::Arrive { from, to, queued: true, parcel });
                }
                self.deliver(usize::from(from), usize::from(to), parcel);
            }
            Event::Segment { from, to, queued, segment } => {
                if !queued && self.links.has_ingress() {
                    let done = self.links.taken_in(self.now, usize::from(to), segment.bytes as usize);
                    return self.schedule.push(done, Event::Segment { from, to, queued: true, segment });
                }
                self.segment(usize::from(from), usize::from(to), segment);
            }
            Event::Acknowledge { from, to, upto } => {
                self.on_stream(usize::from(from), usize::from(to), |stream, now, todo| {
                    stream.acknowledged(now, upto, todo)
                });
            }
            Event::Retransmit { from, to } => {
                self.on_stream(usize::from(from), usize::from(to), |stream, now, todo| stream.ring(now, todo));
            }
            Event::TurnEnd(actor) => self.turn_ends(usize::from(actor)),
            Event::Alarm(actor) => self.alarm(usize::from(actor)),
            Event::Answer(replica, input) => {
                self.nodes[usize::from(replica)].answered(*input);
                self.wake(usize::from(replica));
            }
            Event::Flushed(replica, record) => {
                self.nodes[usize::from(replica)].flushed(record);
                self.wake(usize::from(replica));
            }
            Event::Resume(replica) => self.wake(usize::from(replica)),
            Event::Change(number) => self.change(number as usize),
            Event::Heal => self.heal(),
            Event::Probe => self.probe(),
        }
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

    /// Gives an actor a turn, now or when a core is free.
    fn wake(&mut self, actor: usize) {
        if self.busy[actor] || self.is_waiting[actor] || !self.may_run(actor) {
            return;
        }
        if self.free_cores == 0 {
            self.is_waiting[actor] = true;
            return self.waiting.push_back(actor);
        }
        self.turn(actor);
    }

    fn may_run(&mut self, actor: usize) -> bool {
        self.nodes.get(actor).is_none_or(|node| node.alive && node.paused_until <= self.now)
    }

    fn has_work(&mut self, actor: usize) -> bool {
        match self.nodes.get(actor) {
            Some(node) => node.has_work(self.now),
            None => self.clients.has_work(self.now),
        }
    }

    fn turn_ends(&mut self, actor: usize) {
        self.busy[actor] = false;
        self.free_cores += 1;
        if !self.is_waiting[actor] && self.has_work(actor) && self.may_run(actor) {
            self.is_waiting[actor] = true;
            self.waiting.push_back(actor);
        }
        while self.free_cores > 0 {
            let Some(next) = self.waiting.pop_front() else { return };
            self.is_waiting[next] = false;
            if self.may_run(next) {
                self.turn(next);
            }
        }
    }

    fn turn(&mut self, actor: usize) {
        let elapsed = match actor == self.replicas() {
            true => self.clients_turn(),
            false => self.replica_turn(actor),
        };
        self.schedule_alarm(actor);
        if elapsed > 0 || self.has_work(actor) {
            self.busy[actor] = true;
            self.free_cores -= 1;
            self.schedule.push(self.now + Duration::from_nanos(elapsed), Event::TurnEnd(actor as u16));
        }
    }

    fn replica_turn(&mut self, actor: usize) -> u64 {
        let mut surroundings = Surroundings {
            charges: &self.charges,
            oracle: &mut self.oracle,
            outgoing: &mut self.outgoing,
            begun: &mut self.begun,
            transcript: &mut self.transcript,
            scratch: &mut self.scratch,
        };
        let elapsed = self.nodes[actor].turn(self.now, &mut surroundings);
        let end = self.now + Duration::from_nanos(elapsed);
        let mut begun = std::mem::take(&mut self.begun);
        for begun in begun.drain(..) {
            match begun {
                Begun::Question(after, input) => {
                    let at = self.now + Duration::from_nanos(after);
                    self.schedule.push(at, Event::Answer(actor as u16, Box::new(input)));
                }
                Begun::Flush(record) => {
                    self.schedule.push(end + self.charges.flush, Event::Flushed(actor as u16, record));
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
        elapsed
    }

    fn clients_turn(&mut self) -> u64 {
        let mut requests = std::mem::take(&mut self.requests);
        let stage = self.clients.stage();
        let elapsed = self.clients.turn(self.now, &self.charges, &mut self.oracle, &mut requests);
        let (end, me) = (self.now + Duration::from_nanos(elapsed), self.replicas());
        for (one, bundle, bytes) in requests.drain(..) {
            let parcel = Parcel::request(bundle, bytes);
            match one {
                Some(to) => self.ship(end, me, to.index(), parcel),
                None => self.ship_to_replicas(end, me, parcel),
            }
        }
        self.requests = requests;
        let reached = self.clients.stage();
        if reached != stage && reached >= Stage::Measure {
            let statuses = || self.nodes.iter().map(|node| node.status(false)).collect::<Vec<_>>();
            if self.first.is_empty() {
                self.first = statuses();
            } else if self.last.is_empty() {
                self.last = statuses();
            }
        }
        elapsed
    }

    fn schedule_alarm(&mut self, actor: usize) {
        let (next, known) = match self.nodes.get_mut(actor) {
            Some(node) => (node.next_alarm(), &mut node.alarm_known),
            None => (self.clients.next_wake(), &mut self.clients.wake_known),
        };
        if next < *known {
            *known = next;
            self.schedule.push(next.max(self.now), Event::Alarm(actor as u16));
        }
    }

    fn alarm(&mut self, actor: usize) {
        let known = match self.nodes.get_mut(actor) {
            Some(node) if !node.alive => return,
            Some(node) => &mut node.alarm_known,
            None => &mut self.clients.wake_known,
        };
        if *known > self.now {
            return;
        }
        *known = NEVER;
        self.trace.add(self.now.0, actor as u64 | 1 << 32, 0);
        match self.has_work(actor) {
            true => self.wake(actor),
            false => self.schedule_alarm(actor),
        }
    }

    fn ship_to_replicas(&mut self, at: Time, from: usize, parcel: Parcel<P::Message>) {
        let mut others = (0..self.replicas()).filter(|to| *to != from);
        let last = others.next_back();
        for to in others {
            self.ship(at, from, to, parcel.clone());
        }
        if let Some(to) = last {
            self.ship(at, from, to, parcel);
        }
    }

    /// Puts a parcel on its way.
    fn ship(&mut self, at: Time, from: usize, to: usize, parcel: Parcel<P::Message>) {
        let is_stream = self.spec.network.transport.kind == TransportKind::Stream;
        if is_stream && self.is_lossy {
            let bytes = parcel.bytes as usize;
            return self.ship_on_stream(at, from, to, parcel, bytes);
        }
        let fate = self.links.send(at, from, to, parcel.bytes as usize);
        let (ends, pair) = ((from as u16, to as u16), from * (self.replicas() + 1) + to);
        if let Some(again) = fate.again.filter(|_| !is_stream) {
            let event = Event::Arrive { from: ends.0, to: ends.1, queued: false, parcel: parcel.clone() };
            self.schedule.push(again, event);
        }
        if let Some(mut arrives) = fate.arrives {
            if is_stream {
                arrives = arrives.max(self.last_arrival[pair]);
                self.last_arrival[pair] = arrives;
            }
            self.schedule.push(arrives, Event::Arrive { from: ends.0, to: ends.1, queued: false, parcel });
        }
    }

    fn ship_on_stream(&mut self, at: Time, from: usize, to: usize, parcel: Parcel<P::Message>, bytes: usize) {
        if self.nodes.get(to).is_some_and(|node| !node.alive) {
            return;
        }
        let transport = &self.spec.network.transport;
        let nanos = |ms: f64| (ms * 1e6) as u64;
        let options = StreamOptions {
            initial_ns: nanos(transport.rto_initial_ms),
            least_ns: nanos(transport.rto_least_ms),
            most_ns: nanos(transport.rto_most_ms),
            fast_retransmit: transport.fast_retransmit,
        };
        let (limit, room) = (transport.queue_bytes, self.links.packet_room());
        let pair = from * (self.replicas() + 1) + to;
        let stream = self.streams[pair].get_or_insert_with(|| Box::new(Stream::new(options)));
        if stream.unacknowledged_bytes() + bytes as u64 > limit {
            self.not_queued += 1;
            return;
        }
        let mut todo = std::mem::take(&mut self.todo);
        stream.send(at, parcel, bytes, room, &mut todo);
        self.follow(at, from, to, todo);
    }

    /// Does what a stream asks for.
    fn follow(&mut self, at: Time, from: usize, to: usize, mut todo: Vec<Todo>) {
        let (sender, receiver) = (from as u16, to as u16);
        for todo in todo.drain(..) {
            match todo {
                Todo::Send(segment) => {
                    let fate = self.links.send(at, from, to, segment.bytes as usize);
                    for arrives in [fate.arrives, fate.again].into_iter().flatten() {
                        let event = Event::Segment { from: sender, to: receiver, queued: false, segment };
                        self.schedule.push(arrives, event);
                    }
                }
                Todo::Wake(at) => self.schedule.push(at, Event::Retransmit { from: sender, to: receiver }),
            }
        }
        self.todo = todo;
    }

    fn on_stream(
        &mut self,
        from: usize,
        to: usize,
        act: impl FnOnce(&mut Stream<Parcel<P::Message>>, Time, &mut Vec<Todo>),
    ) {
        let dead = |at: usize| self.nodes.get(at).is_some_and(|node| !node.alive);
        let pair = from * (self.replicas() + 1) + to;
        if dead(from) || dead(to) {
            return self.streams[pair] = None;
        }
        let Some(stream) = self.streams[pair].as_mut() else { return };
        let mut todo = std::mem::take(&mut self.todo);
        act(stream, self.now, &mut todo);
        self.follow(self.now, from, to, todo);
    }

    fn segment(&mut self, from: usize, to: usize, segment: Segment) {
        if self.nodes.get(to).is_some_and(|node| !node.alive) {
            return;
        }
        let pair = from * (self.replicas() + 1) + to;
        let Some(stream) = self.streams[pair].as_mut() else { return };
        let mut letters = std::mem::take(&mut self.letters);
        let upto = stream.arrived(segment.number, &mut letters);
        if let Some(arrives) = self.links.send(self.now, to, from, 0).arrives {
            self.schedule.push(arrives, Event::Acknowledge { from: from as u16, to: to as u16, upto });
        }
        for parcel in letters.drain(..) {
            self.deliver(from, to, parcel);
        }
        self.letters = letters;
    }

    fn change(&mut self, number: usize) {
        let change = self.trouble.changes[number].1.clone();
        // After the healing nothing begins any more.
        if self.probe.is_some() {
            return;
        }
        if let Some(transcript) = &mut self.transcript {
            transcript.changes(self.now, &change);
        }
        match change {
            Change::Crash(replica) => self.crash(replica),
            Change::Pause(replica, until) => {
                let paused = &mut self.nodes[replica].paused_until;
                *paused = until.max(*paused);
                let until = *paused;
                self.schedule.push(until, Event::Resume(replica as u16));
            }
            Change::Speed(replica, thousandths) => self.nodes[replica].speed = thousandths,
            Change::Cut(pairs, begins) => pairs.iter().for_each(|(from, to)| self.links.cut(*from, *to, begins)),
            Change::Spike(pairs, by_ns) => pairs.iter().for_each(|(from, to)| self.links.spike(*from, *to, by_ns)),
        }
    }

    fn crash(&mut self, replica: usize) {
        if std::mem::replace(&mut self.nodes[replica].alive, false) {
            self.crashed.push(ReplicaId(replica as u16));
            self.clients.lost(ReplicaId(replica as u16));
        }
    }

    /// The trouble is over for a core of the replicas, and the others are gone for good.
    fn heal(&mut self) {
        let outside = self.trouble.heal.as_ref().map_or(Vec::new(), |(_, outside)| outside.clone());
        if let Some(transcript) = &mut self.transcript {
            transcript.says(self.now, &format!("healed; outside the core: {outside:?}"));
        }
        self.links.heal();
        self.links.calm();
        outside.iter().for_each(|replica| self.crash(*replica));
        for replica in 0..self.replicas() {
            let node = &mut self.nodes[replica];
            (node.paused_until, node.speed) = (Time(0), FULL_SPEED);
            self.wake(replica);
        }
        let mut builder = BundleBuilder::new(PROBE);
        builder.push(PROBE, 1, b"are you there");
        let bundle = builder.finish();
        self.oracle.submitted(&bundle);
        let (base, each) = LIVENESS_VIEWS;
        let highest = self.nodes.iter().map(|node| node.view()).max().unwrap_or(0);
        let views = base + each * self.replicas() as u64;
        let longest = self.spec.consensus.view_timeout() * LONGEST_VIEW * views as u32;
        self.probe = Some(Probe { bundle, last_view: highest + views, until: self.now + longest, by_quorum: false });
        self.probe();
    }

    /// Asks the core whether it works, and looks whether it has answered.
    fn probe(&mut self) {
        let Some(Probe { bundle, last_view, until, by_quorum }) = self.probe.clone() else { return };
        let core: Vec<usize> = (0..self.replicas()).filter(|at| self.nodes[*at].alive).collect();
        let digest: Digest = bundle.digest();
        let missing: Vec<usize> = core.iter().copied().filter(|at| !self.oracle.is_executed_by(&digest, *at)).collect();
        if missing.is_empty() {
            return self.clients_stop();
        }
        let done = core.len() - missing.len();
        if !by_quorum && done >= self.spec.quorum.quorum() {
            let until = self.now + self.spec.consensus.view_timeout() * CATCH_UP_VIEW_TIMEOUTS;
            self.probe = Some(Probe { bundle: bundle.clone(), last_view, until, by_quorum: true });
        } else if self.now > until || !by_quorum && self.quorum_view(&core) > last_view {
            let what = format!(
                "replicas {missing:?} of the healed core {core:?} have not executed a command sent at the healing; \
                 at {:?} a quorum is in view {}, and view {last_view} was the last for a quorum to do it in",
                self.now,
                self.quorum_view(&core)
            );
            return self.oracle.complain("liveness", what);
        }
        let bytes = bundle.body().len();
        for replica in core {
            let clients = self.replicas();
            self.nodes[replica].take_in(clients, Parcel::request(bundle.clone(), bytes));
            self.wake(replica);
        }
        self.schedule.push(self.now + self.spec.consensus.view_timeout() / 2, Event::Probe);
    }

    /// The highest view that a quorum has reached.
    fn quorum_view(&self, core: &[usize]) -> u64 {
        let mut views: Vec<u64> = core.iter().map(|at| self.nodes[*at].view()).collect();
        views.sort_unstable_by(|one, other| other.cmp(one));
        views.get(self.spec.quorum.quorum() - 1).copied().unwrap_or(0)
    }

    fn clients_stop(&mut self) {
        self.clients.stop(self.now);
        self.wake(self.replicas());
    }

    /// Segments that streams sent again.
    pub fn retransmissions(&self) -> u64 {
        self.streams.iter().flatten().map(|stream| stream.retransmissions).sum()
    }
}

/// What the seed and the schedule have in store.
pub fn trouble(spec: &SimSpec, seed: u64) -> (Trouble, Option<faults::Chaos>) {
    let replicas = spec.quorum.replicas();
    let mut changes = faults::changes(&spec.network.faults, replicas);
    let Some(lasts) = spec.chaos else { return (Trouble { changes, heal: None }, None) };
    let may_fail = spec.quorum.faults().saturating_sub(spec.silent.len());
    let mut chaos = faults::chaos(seed, replicas, may_fail, lasts, spec.consensus.view_timeout());
    let gone: Vec<ReplicaId> =
        chaos.outside.iter().map(|at| ReplicaId(*at as u16)).chain(spec.silent.iter().copied()).collect();
    if spec.consensus.stalls_with_silent(spec.quorum, &gone).is_some() {
        chaos.outside.clear();
        chaos.changes.retain(|(_, change)| !matches!(change, Change::Crash(_)));
    }
    changes.append(&mut chaos.changes);
    changes.sort_by_key(|(time, _)| *time);
    let heal = Some((Time(0) + lasts, chaos.outside.clone()));
    (Trouble { changes, heal }, Some(chaos))
}
