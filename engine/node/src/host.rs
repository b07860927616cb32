//! The production host of one replica: a single thread that does everything inline, unless the network or the
//! verification of signatures have their own threads.
//!
//! An iteration writes queued frames, waits for the network until the next alarm, and works in the
//! [order](EventLoop::iterate) of all hosts. All frames of an iteration are sent in one batch at the beginning of the
//! next one.
//!
//! A frame that is not a valid message is counted and dropped, but its link is kept: the sender is authenticated, so
//! closing the link would only make it redial, and framing stays intact after a bad frame. A client receives the
//! reason.

use crate::alarms::wait_until;
use crate::devices::Devices;
use crate::disk::FreeSpace;
use crate::durability::Memory;
use crate::error::HostError;
use crate::laboratory::Wrapper;
use crate::measure;
use crate::monitoring::{Phase, StatusPort};
use crate::network::{Arrival, Frame};
use crate::observer::NodeEvent;
use crate::peers::PeerFrames;
use crate::progress::Progress;
use crate::reload::{self, Reload, Reloads};
use quorate_consensus::facts::Shape;
use quorate_consensus::{Action, Envelope, Input, Protocol, Replica};
use quorate_hosting::recording::Recorder;
use quorate_hosting::{EventLoop, WallClock};
use quorate_network::transports::{PathChange, Refusal, Remote};
use quorate_storage::CpuAccount;
use quorate_storage::account::thread_cpu_ns;
use quorate_types::host_status::LinkCounts;
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{Bundle, Difference, ReplicaId, Signers, Status, Time, meter};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Maximum number of inputs from a replica's own devices per iteration. Without it, a cluster of one replica would
/// never poll the network again.
const LOCAL_INPUTS_PER_TURN: usize = 1024;

/// Minimum execution time for which queued messages are written first, in nanoseconds. An iteration of a pipeline
/// commits several small blocks; then all messages are sent in one write at its end.
const LONG_EXECUTION_NS: u64 = 50_000;
/// Execution time on a typical processor, in nanoseconds: per bundle, per command, and per 16 bytes.
const BUNDLE_NS: u64 = 300;
const COMMAND_NS: u64 = 40;
const SIXTEEN_BYTES_NS: u64 = 5;

/// Interval between readings of the wall clock.
const WALL_CLOCK_INTERVAL: Duration = Duration::from_millis(100);

/// Order to a host to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Order {
    Run = 0,
    /// Write everything queued, then stop.
    Finish = 1,
    /// Stop as in a crash.
    Crash = 2,
}

/// Shared flag from which a host reads its [`Order`].
#[derive(Clone, Default)]
pub(crate) struct Orders(Arc<AtomicU8>);

impl Orders {
    pub fn give(&self, order: Order) {
        self.0.fetch_max(order as u8, Ordering::SeqCst);
    }

    fn read(&self) -> Order {
        match self.0.load(Ordering::Relaxed) {
            0 => Order::Run,
            1 => Order::Finish,
            _ => Order::Crash,
        }
    }
}

/// Requests of other threads to a host.
#[derive(Clone, Default)]
pub(crate) struct Requests {
    pub orders: Orders,
    pub status_port: StatusPort,
    pub reloads: Reloads,
}

/// A replica that is ready to run on any thread.
pub(crate) trait RunningNode: Send {
    /// Runs until ordered to stop or until a fatal error. Returns the final counters.
    fn run(self: Box<Self>) -> Result<Status, HostError>;
    /// Recovers and starts, without the loop.
    fn begin(&mut self) -> Result<(), HostError>;
    /// Runs an iteration at a time set by the caller, without waiting for the network.
    fn turn_at(&mut self, now: Time) -> Result<(), HostError>;
}

/// One replica of a protocol, with its devices.
pub(crate) struct Host<P: Protocol> {
    pub(crate) replica: Replica<P>,
    pub(crate) devices: Devices<P::Message>,
    memory: Memory,
    wrapper: Option<Wrapper<P::Message>>,
    pub(crate) recorder: Option<Recorder>,
    orders: Orders,
    pub(crate) account: CpuAccount,
    pub(crate) started: Instant,
    pub(crate) now: Time,
    wall_clock: WallClock,
    wall_clock_read: Time,
    pub(crate) actions: Vec<Action<P::Message>>,
    pub(crate) events: Vec<Arrival<P::Message>>,
    peers: PeerFrames<Frame<Envelope<P::Message>>>,
    /// Peers that have sent an invalid message or a forged bundle on their current link.
    garbling: Signers,
    /// Replicas that receive only short packets.
    pub(crate) short_paths: BTreeMap<ReplicaId, PathChange>,
    /// Peers whose latest handshake reported a different configuration.
    pub(crate) disagreements: BTreeMap<ReplicaId, Vec<Difference>>,
    pub(crate) undecodable_from_peers: u64,
    pub(crate) progress: Progress,
    /// Iterations of the event loop.
    pub(crate) iterations: u64,
    /// Links to clients and operators.
    pub(crate) links: LinkCounts,
    status_port: StatusPort,
    reloads: Reloads,
    pub free_space: FreeSpace,
}

impl<P: Protocol> RunningNode for Host<P> {
    fn run(mut self: Box<Self>) -> Result<Status, HostError> {
        let _counts = self.account.enter();
        meter::time_with(thread_cpu_ns);
        stages::begin_thread();
        self.come_back()?;
        self.read_clock();
        self.start()?;
        self.status_port.enter(Phase::Running);
        loop {
            match self.orders.read() {
                Order::Run => {
                    let leads = self.replica.leader() == Some(self.devices.me);
                    self.devices.network.leads(leads);
                    stages::begin_turn(leads);
                    self.turn()?;
                    stages::end_turn();
                }
                Order::Finish => {
                    self.status_port.enter(Phase::Stopping);
                    self.finish()?;
                    break;
                }
                Order::Crash => break,
            }
        }
        self.devices.tell(NodeEvent::Stopped { height: self.replica.committed_height() });
        Ok(self.status(true))
    }

    fn begin(&mut self) -> Result<(), HostError> {
        self.come_back()?;
        self.start()
    }

    fn turn_at(&mut self, now: Time) -> Result<(), HostError> {
        self.devices.network.poll(Some(Duration::ZERO), &mut self.events)?;
        self.now = now;
        self.work()
    }
}

impl<P: Protocol> Host<P> {
    pub fn new(
        replica: Replica<P>,
        devices: Devices<P::Message>,
        memory: Memory,
        wrapper: Option<Wrapper<P::Message>>,
        recorder: Option<Recorder>,
        requests: Requests,
    ) -> Host<P> {
        let Requests { orders, status_port, reloads } = requests;
        let peers = PeerFrames::new(usize::from(devices.replicas));
        let progress = Progress::new(usize::from(devices.replicas));
        Host {
            replica,
            devices,
            memory,
            wrapper,
            recorder,
            orders,
            account: CpuAccount::current().unwrap_or_default(),
            started: Instant::now(),
            now: Time(0),
            wall_clock: WallClock::default(),
            wall_clock_read: Time(0),
            actions: Vec::new(),
            events: Vec::new(),
            peers,
            garbling: Signers::empty(),
            short_paths: BTreeMap::new(),
            disagreements: BTreeMap::new(),
            undecodable_from_peers: 0,
            progress,
            iterations: 0,
            links: LinkCounts::default(),
            status_port,
            reloads,
            free_space: FreeSpace::default(),
        }
    }

    fn read_clock(&mut self) {
        let elapsed = u64::try_from(self.started.elapsed().as_nanos()).expect("no host runs for 500 years");
        self.now = Time(elapsed);
    }

    fn come_back(&mut self) -> Result<(), HostError> {
        self.recover(self.memory)?;
        self.devices.start_threads(self.recorder.is_some())
    }

    fn start(&mut self) -> Result<(), HostError> {
        self.read_wall_clock();
        self.feed(Input::Start)
    }

    /// Tells the replica the wall clock if it has been corrected.
    fn read_wall_clock(&mut self) {
        self.wall_clock_read = self.now;
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        if let Some(origin_ms) = self.wall_clock.correction(self.now, unix_ms) {
            self.consume(Input::Clock { origin_ms });
        }
    }

    fn turn(&mut self) -> Result<(), HostError> {
        let wait = self.wait();
        self.devices.announce_questions();
        self.devices.network.defer_clients(self.replica.patience(self.now));
        self.devices.network.poll(wait, &mut self.events)?;
        self.read_clock();
        if self.now.since(self.wall_clock_read) >= WALL_CLOCK_INTERVAL {
            self.read_wall_clock();
        }
        if self.free_space.is_due(self.now) {
            self.read_free_space()?;
        }
        self.iterations += 1;
        self.work()?;
        self.reloads.take().into_iter().for_each(|read| self.reload(read));
        if self.status_port.is_asked() {
            self.status_port.answer(self.status(false));
        }
        Ok(())
    }

    /// Reads the free space of the disk, and stops the replica in order if there is too little.
    fn read_free_space(&mut self) -> Result<(), HostError> {
        let Some(directory) = &self.devices.directory else { return Ok(()) };
        let Some(free) = measure::free_bytes(directory) else { return Ok(()) };
        self.free_space.read(self.now, free);
        let reserve = self.devices.min_free_bytes;
        if free >= reserve {
            return Ok(());
        }
        let path = directory.clone();
        self.status_port.enter(Phase::Stopping);
        self.finish()?;
        Err(HostError::NoRoom { path, free, reserve })
    }

    /// Takes over the configuration that was read again, and reports the changes.
    fn reload(&mut self, read: reload::Outcome) {
        match read {
            Ok(Reload { differences, policies, log_level }) => {
                if let Some((policy, questions)) = policies {
                    self.devices.desk.change_policies(policy, questions);
                }
                // Said before the level changes and after, since either level may hide it.
                self.devices.tell(NodeEvent::Reloaded(differences));
                log_level.into_iter().for_each(|level| self.devices.tell(NodeEvent::LogLevel(level)));
            }
            Err(why) => self.devices.tell(NodeEvent::NotReloaded(why)),
        }
    }

    /// Handles all arrivals and due timers.
    fn work(&mut self) -> Result<(), HostError> {
        self.progress.at_height(self.now, self.replica.committed_height());
        if P::FACTS.shape != Shape::Slots {
            self.devices.measure_headroom(self.now);
        }
        let mut events = std::mem::take(&mut self.events);
        for arrival in events.drain(..) {
            self.take_arrival(arrival);
        }
        self.events = events;
        self.tell_refusals();
        if let Some(wrapper) = &self.wrapper {
            self.devices.desk.mute(!wrapper.answers_clients(self.now));
            self.devices.desk.refuse_all(wrapper.refuses_clients(self.now));
        }
        self.iterate()?;
        self.keep_state()?;
        self.keep_recording()
    }

    /// Compacts and truncates the journal and writes the state, when due.
    fn keep_state(&mut self) -> Result<(), HostError> {
        if self.devices.is_sum_due() {
            self.step(Input::Summarize)?;
            self.devices.summed();
        }
        self.devices.go_on_with_states(self.replica.settled_height())
    }

    /// Makes the recording durable before any output of this iteration leaves the process.
    fn keep_recording(&mut self) -> Result<(), HostError> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        recorder.flush()?;
        if recorder.is_full() {
            self.recorder = None;
            self.devices.tell(NodeEvent::RecordingFull);
        }
        Ok(())
    }

    fn wait(&self) -> Option<Duration> {
        // The replica's own messages of this iteration may have produced records that wait for the disk, and possibly
        // no peer will ever send again.
        let unwritten = self.devices.is_writing_due();
        let serves = !self.devices.desk.is_idle() && !self.devices.has_batches_enough();
        if unwritten || !self.devices.local.is_empty() || serves {
            return Some(Duration::ZERO);
        }
        let delayed = self.wrapper.as_ref().and_then(|wrapper| wrapper.next());
        let alarm = wait_until(self.now, self.devices.alarms.next(), delayed);
        alarm.into_iter().chain(self.devices.signing_due()).min()
    }

    /// Passes one input to the replica, then performs its actions and everything that follows from them.
    fn feed(&mut self, input: Input<P::Message>) -> Result<(), HostError> {
        self.step(input)?;
        self.feed_local()
    }

    /// Replays an input from before the restart, without injected misbehaviour.
    pub(crate) fn take(&mut self, input: Input<P::Message>) -> Result<(), HostError> {
        self.consume(input);
        self.perform()
    }

    fn step(&mut self, input: Input<P::Message>) -> Result<(), HostError> {
        let _own_message = match &input {
            Input::Receive { from, message } if *from == self.devices.me => Some(stages::message(message.kind(), 1)),
            _ => None,
        };
        self.consume(input);
        self.rewrite();
        self.perform()
    }

    /// Lets a misbehaving replica replace the actions of an honest one, or copies its messages.
    pub(crate) fn rewrite(&mut self) {
        if let Some(wrapper) = &mut self.wrapper {
            wrapper.rewrite(self.now, &mut self.actions);
        }
    }

    /// The only place where the replica takes an input.
    pub(crate) fn consume(&mut self, input: Input<P::Message>) {
        if let Some(wrapper) = &mut self.wrapper {
            wrapper.observe(&input);
        }
        let _stage = stages::enter(Stage::Step);
        quorate_hosting::recording::step(self.recorder.as_mut(), &mut self.replica, self.now, input, &mut self.actions);
    }

    pub(crate) fn perform(&mut self) -> Result<(), HostError> {
        let mut actions = std::mem::take(&mut self.actions);
        self.devices.desk.set_copies(self.wrapper.as_ref().map_or(0, |wrapper| wrapper.reply_copies()));
        if self.recorder.is_none() && actions.iter().any(|action| matches!(action, Action::Commit { .. })) {
            // The others process the messages while this replica executes.
            actions.sort_by_key(concerns_state);
            let first = actions.iter().position(concerns_state).expect("a commit is among them");
            let execution_ns: u64 = actions.iter().map(execution_ns).sum();
            for action in actions.drain(..first) {
                self.devices.perform(self.now, action)?;
            }
            if execution_ns >= LONG_EXECUTION_NS {
                self.devices.network.flush_replicas();
            }
        }
        for action in actions.drain(..) {
            self.devices.perform(self.now, action)?;
        }
        self.actions = actions;
        Ok(())
    }

    fn take_arrival(&mut self, arrival: Arrival<P::Message>) {
        match arrival {
            Arrival::Peer { from, frame } => self.peers.push(from, frame),
            Arrival::Operator { link, frame } => self.serve_operator(link, frame),
            Arrival::Client { link, client, frame } => self.devices.desk.push(link, (client, frame)),
            Arrival::Connected { link, remote, .. } => {
                match remote {
                    Remote::Operator(_) => self.links.operators += 1,
                    Remote::Client(client) => {
                        self.links.clients += 1;
                        self.devices.writer.sender.connected(client, link);
                        self.devices.desk.connected(client, link);
                    }
                    Remote::Replica(replica) => {
                        self.disagreements.remove(&replica);
                        self.short_paths.remove(&replica);
                        self.progress.connected(self.now, replica);
                        self.garbling = self.garbling.iter().filter(|other| *other != replica).collect()
                    }
                }
                self.devices.tell(NodeEvent::Connected(remote));
            }
            Arrival::Disconnected { link, remote, why } => {
                match remote {
                    Remote::Operator(_) => self.links.operators -= 1,
                    Remote::Client(client) => {
                        self.links.clients -= 1;
                        self.devices.writer.sender.disconnected(link);
                        self.devices.desk.disconnected(client, link);
                    }
                    Remote::Replica(_) => {}
                }
                self.devices.tell(NodeEvent::Lost { remote, why });
            }
            Arrival::Path { remote, change } => {
                if let Remote::Replica(replica) = remote {
                    match change {
                        PathChange::Vanish { .. } => drop(self.short_paths.insert(replica, change)),
                        PathChange::Pass { .. } => drop(self.short_paths.remove(&replica)),
                        PathChange::Moved { .. } => {}
                    }
                }
                self.devices.tell(NodeEvent::Path { remote, change });
            }
        }
    }

    fn take_peer_frame(&mut self, from: ReplicaId, frame: Frame<Envelope<P::Message>>) -> Result<(), HostError> {
        let (_message, bytes) = (stages::message(MessageKind::Unread, 1), frame.bytes());
        match frame.message(self.devices.payload_path) {
            Ok(mut message) => {
                stages::name(message.kind());
                self.progress.heard(self.now, from, message.kind());
                if matches!(message.kind(), MessageKind::Proposal | MessageKind::PrePrepare) {
                    self.devices.meters.heard_proposal(self.now, from);
                }
                stages::received(message.kind(), bytes);
                let Devices { desk, executor, .. } = &mut self.devices;
                if desk.judge_message(&self.replica, executor, &mut message) {
                    return self.feed(Input::Receive { from, message });
                }
                if self.garbling.insert(from) {
                    self.devices.tell(NodeEvent::Forged { from });
                }
                Ok(())
            }
            Err(error) => {
                self.undecodable_from_peers += 1;
                if self.garbling.insert(from) {
                    self.devices.tell(NodeEvent::Undecodable { from, why: error.to_string() });
                }
                Ok(())
            }
        }
    }

    fn tell_refusals(&mut self) {
        for refusal in self.devices.network.take_refusals() {
            let Refusal { address, dialled, why } = refusal;
            if let Some((peer, differences)) = why.disagreement() {
                let differences = differences.to_vec();
                self.disagreements.insert(peer, differences.clone());
                self.devices.tell(NodeEvent::Disagrees { peer, differences });
                continue;
            }
            self.devices.tell(NodeEvent::Unauthenticated { address, dialled, why: why.to_string() });
        }
    }
}

impl<P: Protocol> EventLoop for Host<P> {
    type Error = HostError;

    fn hear_peers(&mut self) -> Result<(), HostError> {
        while let Some((from, frame)) = self.peers.pop() {
            self.take_peer_frame(from, frame)?;
        }
        Ok(())
    }

    fn take_answers(&mut self) -> Result<(), HostError> {
        self.devices.take_answers();
        self.devices.take_checkpoints()
    }

    fn feed_local(&mut self) -> Result<(), HostError> {
        for _ in 0..LOCAL_INPUTS_PER_TURN {
            let Some(input) = self.devices.local.pop_front() else { break };
            self.step(input)?;
        }
        Ok(())
    }

    fn ring_alarms(&mut self) -> Result<(), HostError> {
        while let Some(timer) = self.devices.alarms.ring(self.now) {
            self.feed(Input::Timeout(timer))?;
        }
        if let Some(wrapper) = &mut self.wrapper {
            wrapper.ring(self.now, &mut self.actions);
            self.perform()?;
        }
        // Agreement does not wait until clients are served.
        self.devices.announce_questions();
        Ok(())
    }

    fn serve_clients(&mut self) -> Result<(), HostError> {
        Host::serve_clients(self)
    }

    fn settle_journal(&mut self) -> Result<(), HostError> {
        self.devices.sign_waiting();
        self.devices.settle_journal()
    }
}

/// Estimates the time that an action spends executing commands, in nanoseconds.
fn execution_ns<M>(action: &Action<M>) -> u64 {
    let Action::Commit { bundles, .. } = action else { return 0 };
    let of = |bundle: &Bundle| {
        BUNDLE_NS + bundle.len() as u64 * COMMAND_NS + bundle.body().len() as u64 * SIXTEEN_BYTES_NS / 16
    };
    bundles.iter().map(of).sum()
}

/// Returns whether an action reads or changes the application's state, or stops the replica. These actions keep their
/// relative order; none of the other actions depends on them.
fn concerns_state<M>(action: &Action<M>) -> bool {
    match action {
        Action::Commit { .. }
        | Action::DigestState { .. }
        | Action::StateStable { .. }
        | Action::ReadState { .. }
        | Action::ReceiveState { .. }
        | Action::KeepChunk { .. }
        | Action::AdoptState { .. }
        | Action::Halt(_) => true,
        Action::Send { .. }
        | Action::Persist { .. }
        | Action::Verify { .. }
        | Action::Assemble { .. }
        | Action::Arm { .. }
        | Action::Accuse(_)
        | Action::Refuse { .. }
        | Action::AcceptRepair { .. }
        | Action::Mark(_) => false,
    }
}
