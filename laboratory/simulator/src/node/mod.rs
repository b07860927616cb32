//! One replica and its devices in virtual time.
//!
//! Like the real host, it works in iterations. An iteration handles peers' messages, then timers, then a bounded share
//! of client requests; everything it sends leaves at its end. Each operation has a cost, and the sum of the costs is
//! the duration of the iteration.

mod gateway;
mod hearing;
mod iteration;
mod journal;
mod network;
mod restart;
mod sending;
mod status;
mod transfer;
mod verifiers;
mod writes;

pub use gateway::HONEST_LINK;
pub use restart::Reborn;

use crate::charges::{Charges, Checks, nanos};
use crate::chronicle::Chronicle;
use crate::clock::{Clock, NEVER, unix_ms};
use crate::faults::{FULL_SPEED, Leaves, Point};
use crate::hostile::Request;
use crate::keys::{Judge, ModelledCheck};
use crate::ledger::Ledger;
use crate::levels::SeenLevels;
use crate::network::MAX_CLIENT_MACHINES;
use crate::oracle::Oracle;
use crate::parcel::{Body, Parcel, Scratch};
use crate::signatures::Device;
use crate::steps::{StepKind, bundles_in};
use crate::transcript::Transcript;
use crate::work::Work;
use gateway::{Connections, SimDesk, open_desk};
use iteration::Iteration;
use journal::Journal;
use network::NetworkThread;
use quorate_adversary::byzantine::Behaviour;
use quorate_adversary::oracles::Property;
use quorate_applications::{Executor, Reply};
use quorate_client::ReplyMode;
use quorate_consensus::facts::Shape;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_consensus::seam::RecordId;
use quorate_consensus::{Action, Envelope, Halt, Input, Mark, Protocol, Refusal, Replica, Timer, seam::text};
use quorate_hosting::desk::BundleLimits;
use quorate_hosting::recording::Recorder;
use quorate_hosting::{DurabilityGate, EventLoop, Headroom, Outgoing, StateKeeper, WallClock};
use quorate_types::limits::MAX_REPLICAS;
use quorate_types::stages::MessageKind;
use quorate_types::{
    Block, Bundle, Certificate, ClientId, Digest, EpochId, Height, ReplicaId, ReplicaStages, Status, Time,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use transfer::Stored;
use verifiers::Verifiers;
use writes::Writes;

/// Maximum number of consecutive inputs from the node's own devices.
const LOCAL_INPUTS_PER_TURN: usize = 1024;
/// Words in a bit set of endpoints.
const WORDS: usize = (MAX_REPLICAS + MAX_CLIENT_MACHINES).div_ceil(64);
/// Bytes hashed per bundle digest in a block.
const DIGEST_BYTES: u64 = 32;

/// Destination of a parcel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    One(usize),
    /// To every other replica.
    Others,
}

/// Work that a node starts and the world completes.
pub enum Begun<M> {
    /// A crypto thread answers a question this many nanoseconds after the start of the iteration.
    Question(u64, Answer<M>),
    /// Records up to this one are written, starting at the end of the iteration.
    Flush(RecordId),
    /// The state of a checkpoint is written, starting at the end of the iteration.
    Keep(Height),
}

/// Answer of a crypto thread.
pub enum Answer<M> {
    Input(Input<M>),
    /// A numbered batch of clients' bundles is verified.
    Bundles(u64, ModelledCheck),
}

/// The part of the world that a node can access.
pub struct Surroundings<'a, M> {
    pub charges: &'a Charges,
    pub oracle: &'a mut Oracle,
    pub chronicle: &'a mut Chronicle,
    pub outgoing: &'a mut Vec<(Destination, Parcel<M>)>,
    pub begun: &'a mut Vec<Begun<M>>,
    pub transcript: &'a mut Transcript,
    pub recorder: Option<&'a mut Recorder>,
    pub scratch: &'a mut Scratch,
    /// The nearest replica of each client machine.
    pub homes: &'a [ReplicaId],
    /// Bundles committed by a machine's nearest replica: time, origin and digest.
    pub commits: &'a mut Vec<(Time, ClientId, Digest)>,
}

/// A peer's message: sender, size in bytes, contents.
type FromPeer<M> = (u16, u32, Arc<Envelope<M>>);

/// Parts from which a node is built.
pub struct Parts<P: Protocol> {
    pub me: ReplicaId,
    pub replicas: usize,
    pub epoch: EpochId,
    pub replica: Replica<P>,
    pub device: Device,
    pub executor: Executor,
    /// Feature levels that its application sees, if the schedule changes them.
    pub seen_levels: Option<SeenLevels>,
    /// Whether PREPARE and COMMIT carry MACs, which prove nothing to third parties.
    pub votes_by_mac: bool,
    /// Limits that a client's bundle must respect.
    pub limits: BundleLimits,
    /// Whether clients are modelled: honest ones count as authenticated from the beginning and ask no queries, and
    /// answers are not sent. Otherwise a test controls the clients.
    pub models_clients: bool,
    pub reply: ReplyMode,
    /// Size of the authentication of replies, in bytes; `None` without any.
    pub authenticator_bytes: Option<usize>,
    pub stages: ReplicaStages,
    pub behaviour: Option<Box<dyn Behaviour<P::Message>>>,
    pub salt: u64,
    /// Maximum acceptable queueing time of a client's command; zero is unlimited.
    pub max_queue: Duration,
    /// Whether the replica may restart after a crash.
    pub keeps_journal: bool,
    /// Frequency of the counter in which statuses report the stages of its work, in Hz; `None` if they are not
    /// reported.
    pub probes: Option<f64>,
    /// Whether the replica emits marks. A test checks that they do not affect its behaviour.
    pub marks: bool,
    /// Origin of each client machine's bundles.
    pub origins: Arc<[ClientId]>,
}

/// A simulated replica with its devices.
pub struct Node<P: Protocol> {
    parts: Parts<P>,
    /// Virtual time; `own` is the time on the replica's clock.
    now: Time,
    own: Time,
    clock: Clock,
    /// How much the wall clock is ahead of the true time, in milliseconds.
    pub skew_ms: i64,
    wall_clock: WallClock,
    started: bool,
    /// Inputs recovered from its journal, until it starts.
    recalled: VecDeque<Input<P::Message>>,
    /// Whether it is replaying its journal.
    recalls: bool,
    /// Crash points passed so far; the next field is the one to crash at.
    pub points: Point,
    pub struck_at: Option<Point>,
    /// Whether it crashed at that point. It does nothing for the rest of its iteration.
    pub struck: bool,
    /// Whether it has stopped for good because its state differs from the others'.
    pub halted: bool,
    /// Whether it is up.
    pub alive: bool,
    /// Counters after the replay of its journal in this life; `None` before.
    pub born: Option<Status>,
    /// Effect of the crash on its journal, while it is down and will restart.
    pub returns: Option<Leaves>,
    /// End of its pause.
    pub paused_until: Time,
    /// Slowdown of its CPU, in thousandths: 1000 is normal speed.
    pub speed: u64,
    /// Slowdown of its disk, in thousandths of the flush time in the cost table.
    pub disk: u64,
    /// Earliest timer known to the world.
    pub alarm_known: Time,
    peers: VecDeque<FromPeer<P::Message>>,
    /// The desk; `None` while it is in use.
    desk: Option<Box<SimDesk>>,
    connections: Connections,
    /// Clients' bundles that the replica refused, in order of arrival.
    refused: Vec<(Digest, Refusal)>,
    local: VecDeque<Input<P::Message>>,
    actions: Vec<Action<P::Message>>,
    alarms: [Time; Timer::ALL.len()],
    gate: DurabilityGate<P::Message>,
    journal: Journal,
    states: StateKeeper<Stored>,
    /// Height of the last state that it adopted. Blocks up to this height are not executed.
    adopted: Height,
    /// State that it is adopting, until the state is durable.
    adopting: Option<(Certificate, Frontier)>,
    verifiers: Verifiers,
    headroom: Headroom,
    /// The network thread; `None` if the core thread reads and writes.
    network: Option<NetworkThread>,
    /// All charges so far; the next field holds their total before this iteration, in picoseconds.
    ledger: Ledger,
    charged_before: u64,
    writes: Writes,
    executed: Vec<Reply>,
    busy_ns: u64,
    blocks: u64,
    bytes_sent: u64,
    messages_sent: u64,
}

impl<P: Protocol> Node<P> {
    /// Returns a replica that has not started.
    pub fn new(parts: Parts<P>, judge: Judge) -> Node<P> {
        Node {
            now: Time(0),
            own: Time(0),
            clock: Clock::default(),
            skew_ms: 0,
            wall_clock: WallClock::default(),
            started: false,
            recalled: VecDeque::new(),
            recalls: false,
            points: 0,
            struck_at: None,
            struck: false,
            halted: false,
            alive: true,
            born: None,
            returns: None,
            paused_until: Time(0),
            speed: FULL_SPEED,
            disk: FULL_SPEED,
            alarm_known: NEVER,
            peers: VecDeque::new(),
            desk: Some(open_desk(&parts, judge)),
            connections: Connections::new(parts.origins.len()),
            refused: Vec::new(),
            local: VecDeque::new(),
            actions: Vec::new(),
            alarms: [NEVER; Timer::ALL.len()],
            gate: DurabilityGate::default(),
            journal: Journal::new(parts.keeps_journal),
            states: StateKeeper::default(),
            adopted: Height(0),
            adopting: None,
            verifiers: Verifiers::new(parts.stages.verifiers.into(), parts.probes.is_some()),
            headroom: Headroom::default(),
            network: parts.stages.network.then(|| NetworkThread::new(parts.probes.is_some())),
            ledger: if parts.probes.is_some() { Ledger::with_probes() } else { Ledger::default() },
            charged_before: 0,
            writes: Writes::default(),
            executed: Vec::new(),
            busy_ns: 0,
            blocks: 0,
            bytes_sent: 0,
            messages_sent: 0,
            parts,
        }
    }

    pub fn take_in(&mut self, from: usize, parcel: Parcel<P::Message>) {
        match parcel.body {
            Body::Peer(message) => self.peers.push_back((from as u16, parcel.bytes, message)),
            Body::Request(bundle) => {
                let link = (from - self.parts.replicas) as u16;
                self.ask(link, Request::Bundle(bundle), parcel.bytes);
            }
            Body::Replies(_) => unreachable!("replies go to the clients"),
        }
    }

    /// Receives the answer of a device.
    pub fn answered(&mut self, answer: Answer<P::Message>) {
        match answer {
            Answer::Input(input) => self.local.push_back(input),
            Answer::Bundles(number, check) => {
                self.verifiers.has_checked();
                self.desk().settle(number, check);
            }
        }
    }

    /// Records that records up to this one are durable.
    pub fn flushed(&mut self, record: RecordId) {
        self.journal.flushed(record);
    }

    /// Returns the height up to which the replica has committed.
    pub fn committed_height(&self) -> Height {
        self.parts.replica.committed_height()
    }

    /// Returns whether a replica that lost its disk votes again, and has committed everything up to `height`.
    pub fn has_recovered(&self, height: Height) -> bool {
        self.alive && self.started && self.parts.replica.silence().is_none() && self.committed_height() >= height
    }

    /// Returns the time of the next timer or delayed message.
    pub fn next_alarm(&self) -> Time {
        let late = self.parts.behaviour.as_ref().and_then(|behaviour| behaviour.next());
        let own = self.alarms.iter().copied().min().unwrap_or(NEVER).min(late.unwrap_or(NEVER));
        self.clock.reaches(own)
    }

    /// Returns whether an iteration would have work.
    pub fn has_work(&self, now: Time) -> bool {
        let (awaited, desk) = (self.gate.awaited(), self.desk.as_ref().expect("nobody is at the desk"));
        let flushed = awaited.is_some_and(|record| self.journal.has(record) || self.journal.may_flush());
        !self.started
            || !self.peers.is_empty()
            || !desk.is_idle() && !self.verifiers.have_enough()
            || desk.has_checked()
            || !self.local.is_empty()
            || flushed
            || self.next_alarm() <= now
    }

    /// Runs an iteration, and returns its duration in nanoseconds.
    pub fn turn(&mut self, now: Time, world: &mut Surroundings<'_, P::Message>) -> u64 {
        (self.now, self.own) = (now, self.clock.shows(now));
        if P::FACTS.shape != Shape::Slots && self.verifiers.exist() && self.headroom.is_due(now) {
            self.headroom.update(now, self.busy_ns);
        }
        self.charged_before = self.ledger.total();
        self.ledger.begin_turn(self.role());
        world.charges.begin_turn(&mut self.ledger);
        self.ledger.charge(Work::Rounds, 1, world.charges.round);
        if !std::mem::replace(&mut self.started, true) {
            self.start(world);
        }
        self.read_wall_clock(world);
        self.misbehave_to_clients();
        let Ok(()) = Iteration { node: self, world }.iterate();
        let [to_replicas, to_clients] = self.writes.end_turn(self.parts.replicas);
        self.charge_sending(|ledger| {
            ledger.charge(Work::Writes, to_replicas, world.charges.write_call);
            let place = ledger.enter(MessageKind::Reply, 0);
            ledger.charge(Work::Writes, to_clients, world.charges.write_call);
            ledger.leave(place);
        });
        let elapsed = nanos(self.spent() * self.speed / FULL_SPEED);
        self.busy_ns += elapsed;
        elapsed
    }

    /// Returns the cost of this iteration so far, in picoseconds.
    fn spent(&self) -> u64 {
        self.ledger.total() - self.charged_before
    }

    /// Returns all charges of its core thread and of its verifiers.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        ledger.add(self.verifiers.ledger());
        if let Some(network) = &self.network {
            ledger.add(network.ledger());
        }
        ledger
    }

    fn start(&mut self, world: &mut Surroundings<'_, P::Message>) {
        self.recalls = true;
        let restored = self.restore(world);
        while let Some(input) = self.recalled.pop_front() {
            match &input {
                Input::Forgot => world.oracle.forgets(self.parts.me),
                Input::Recall { record, .. } => world.oracle.journals(self.parts.me, record, None),
                _ => {}
            }
            self.feed(input, world);
        }
        self.adopt_restored(restored, world);
        self.recalls = false;
        self.born = Some(self.status(false));
        self.wall_clock = WallClock::default();
        self.read_wall_clock(world);
        self.feed(Input::Start, world);
    }

    /// Returns the wall clock in milliseconds since the Unix epoch.
    fn unix_ms(&self) -> u64 {
        unix_ms(self.now).saturating_add_signed(self.skew_ms)
    }

    /// Tells the replica the wall clock if it was set, or the monotonic clock drifts away from it. Costs nothing.
    fn read_wall_clock(&mut self, world: &mut Surroundings<'_, P::Message>) {
        if let Some(origin_ms) = self.wall_clock.correction(self.own, self.unix_ms()) {
            let recorder = world.recorder.as_deref_mut();
            let (replica, input) = (&mut self.parts.replica, Input::Clock { origin_ms });
            quorate_hosting::recording::step(recorder, replica, self.own, input, &mut self.actions);
        }
    }

    fn ring_alarms(&mut self, world: &mut Surroundings<'_, P::Message>) {
        while let Some(timer) = self.due_alarm() {
            self.alarms[timer as usize] = NEVER;
            self.feed(Input::Timeout(timer), world);
        }
        if let Some(behaviour) = &mut self.parts.behaviour {
            behaviour.ring(self.own, &mut self.actions);
            self.perform_all(world);
        }
    }

    fn due_alarm(&self) -> Option<Timer> {
        let due = Timer::ALL.into_iter().filter(|timer| self.alarms[*timer as usize] <= self.own);
        due.min_by_key(|timer| self.alarms[*timer as usize])
    }

    fn feed(&mut self, input: Input<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        self.step(input, world);
        self.feed_local(world);
    }

    fn feed_local(&mut self, world: &mut Surroundings<'_, P::Message>) {
        for _ in 0..LOCAL_INPUTS_PER_TURN {
            let Some(input) = self.local.pop_front() else { break };
            self.step(input, world);
        }
    }

    fn step(&mut self, input: Input<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        if self.struck {
            return;
        }
        let own = match &input {
            Input::Receive { from, message } if *from == self.parts.me => Some(self.ledger.enter(message.kind(), 1)),
            _ => None,
        };
        self.think(input, world);
        self.misbehave();
        self.perform_all(world);
        own.into_iter().for_each(|place| self.ledger.leave(place));
    }

    /// Runs one step of the replica.
    fn think(&mut self, input: Input<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let kind = StepKind::of(&input);
        self.ledger.charge_step(kind, world.charges.steps[kind as usize]);
        self.ledger.charge(Work::Pooled, bundles_in(&input) as u64, world.charges.pool);
        if let Some(behaviour) = &mut self.parts.behaviour {
            behaviour.observe(&input);
        }
        let recorder = world.recorder.as_deref_mut();
        quorate_hosting::recording::step(recorder, &mut self.parts.replica, self.own, input, &mut self.actions);
        if !self.parts.marks {
            self.actions.retain(|action| !matches!(action, Action::Mark(_)));
        }
    }

    /// Applies the behaviour to the actions of a step.
    fn misbehave(&mut self) {
        if let Some(behaviour) = &mut self.parts.behaviour {
            behaviour.rewrite(self.own, &mut self.actions);
        }
    }

    fn perform_all(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            self.perform(action, world);
        }
        match self.struck {
            true => world.oracle.stops(),
            false => world.oracle.settles(),
        }
        self.actions = actions;
    }

    fn perform(&mut self, action: Action<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        if self.struck {
            return;
        }
        match action {
            Action::Send { to, message, after, sign } => match after {
                Some(after) if !self.journal.has(after) => self.gate.hold(after, Outgoing { to, message, sign }),
                _ => self.send(Outgoing { to, message, sign }, world),
            },
            Action::Persist { id, record } => {
                if self.passes() {
                    self.ledger.charge(Work::Records, 1, world.charges.record);
                    world.oracle.journals(self.parts.me, &record, Some(self.unix_ms()));
                    self.journal.append(id, record, world.charges.flush.is_zero());
                    self.passes();
                }
            }
            Action::Verify { job, certificates, votes } => {
                let (genuine, checks) = self.parts.device.verify(&certificates, &votes, world.charges);
                self.answer(checks, Input::Verdict { job, genuine }, world);
            }
            Action::Assemble { job, subject, votes } => {
                let (result, checks) = self.parts.device.assemble(&subject, votes, world.charges);
                self.answer(checks, Input::Assembled { job, result }, world);
            }
            Action::Arm { timer, after } => self.alarms[timer as usize] = self.own + after,
            Action::Commit { block, bundles } => self.commit(&block, &bundles, world),
            Action::Accuse(evidence) => world.oracle.accused(self.parts.me, &evidence),
            Action::Refuse { bundle, why } => self.refused.push((bundle, why)),
            // The simulated journal is never repaired: it is either complete or gone.
            Action::AcceptRepair { .. } => {}
            Action::Halt(why) => self.halt(&why, world),
            Action::Mark(mark) => self.marked(&mark, world),
            action => self.perform_on_state(action, world),
        }
    }

    /// Stops the replica. This ends the run, unless more disks were lost than the cluster tolerates.
    fn halt(&mut self, why: &Halt, world: &mut Surroundings<'_, P::Message>) {
        let me = self.parts.me;
        world.transcript.add(self.now, || format!("{me:?} {}", text::halt(why)));
        if world.oracle.may_halt(me, why) {
            world.chronicle.halted.push((me, self.now));
            (self.struck, self.halted) = (true, true);
            return;
        }
        world.oracle.report(Property::Agreement, format!("replica {me} {}", text::halt(why)));
    }

    fn marked(&mut self, mark: &Mark, world: &mut Surroundings<'_, P::Message>) {
        let me = self.parts.me;
        world.transcript.add(self.now, || format!("{me:?} {}", text::mark(mark)));
        match mark {
            Mark::Adopted { height, .. } => world.chronicle.adopts(self.now, me, *height, self.points),
            Mark::Voided { height, .. } => world.chronicle.voided.push((me, *height)),
            _ => {}
        }
    }

    /// Answers for the crypto device: immediately on this core if there is no other thread or this core is faster, and
    /// otherwise later on a separate thread.
    fn answer(&mut self, checks: Checks, input: Input<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let is_sooner_here = || checks.are_quick() || checks.are_few() && self.headroom.exists();
        if !self.verifiers.exist() || is_sooner_here() {
            checks.charge(&mut self.ledger);
            return self.local.push_back(input);
        }
        let done = self.verifiers.work(self.asks_at(), &checks, self.speed, self.ledger.place());
        world.begun.push(Begun::Question(done.since(self.now).as_nanos() as u64, Answer::Input(input)));
    }

    /// Passes a crash point. Returns false if the replica crashes there.
    fn passes(&mut self) -> bool {
        self.points += 1;
        self.struck |= self.struck_at == Some(self.points);
        !self.struck
    }

    fn commit(&mut self, block: &Block, bundles: &[Bundle], world: &mut Surroundings<'_, P::Message>) {
        let me = self.parts.me;
        if block.height <= self.adopted {
            return;
        }
        world.transcript.add(self.now, || format!("{me:?} commits {}", text::block(block)));
        world.oracle.committed(me, block, bundles);
        if world.oracle.violation.is_some() {
            return;
        }
        self.blocks += u64::from(!self.recalls);
        if world.homes.contains(&me) && !self.recalls {
            let at = self.now + Duration::from_nanos(nanos(self.spent() * self.speed / FULL_SPEED));
            world.commits.extend(bundles.iter().map(|bundle| (at, bundle.origin(), bundle.digest())));
        }
        let commands: usize = bundles.iter().map(Bundle::len).sum();
        let bytes: usize = bundles.iter().map(|bundle| bundle.body().len()).sum();
        let place = self.ledger.enter(MessageKind::Request, bundles.len());
        self.ledger.charge(Work::Commands, commands as u64, world.charges.command);
        self.ledger.charge(Work::CommandBytes, bytes as u64, world.charges.command_byte);
        world.charges.hash(&mut self.ledger, 1, DIGEST_BYTES * bundles.len() as u64);
        self.ledger.leave(place);
        let mut executed = std::mem::take(&mut self.executed);
        self.parts.executor.execute(block.into(), bundles, &mut executed);
        world.oracle.executed_at(me, block, self.parts.executor.time_ms());
        for (height, level) in self.parts.seen_levels.iter().flat_map(SeenLevels::take) {
            world.oracle.executed_at_level(me, height, level);
        }
        world.oracle.results(me, executed.iter().map(|reply| reply.results.body().len() as u64).sum());
        executed.iter().for_each(|reply| world.oracle.executed(me, reply));
        self.reply(&mut executed, world);
        self.executed = executed;
    }

    /// Changes the rate of its clock.
    pub fn drift(&mut self, now: Time, rate: u64) {
        self.clock.run_at(now, rate);
        self.alarm_known = NEVER;
    }
}
