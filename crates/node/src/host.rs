//! The real host of one replica: one thread that does everything inline.
//!
//! A turn is: write what is queued and wait for the network until the next alarm; step the replica through what its peers say,
//! then through its alarms, then through a bounded share of what clients say; perform what it asks for. What a turn sends leaves
//! together at the beginning of the next.
//!
//! A frame that is no message is counted and dropped, and its link is kept: the sender is authenticated, so cutting the link would
//! only have it dialled again, and its next frame begins at a known place whatever this one was. A client is told what was wrong.

use crate::alarms::wait_until;
use crate::devices::Devices;
use crate::durability::Memory;
use crate::error::HostError;
use crate::gateway::FORGED;
use crate::measure;
use crate::observer::NodeEvent;
use bytes::Bytes;
use quorate_byzantine::Behaviour;
use quorate_consensus::seam::Drop as DropReason;
use quorate_consensus::{Action, Envelope, Input, Mark, Protocol, Replica};
use quorate_recording::Recorder;
use quorate_transports::{Event, LinkId, Refusal, Remote};
use quorate_types::limits::MAX_TEXT_BYTES;
use quorate_types::{
    Bundle, ClientId, ClientRequest, Digest, ReplicaId, ReplicaReply, Signers, Status, Time, decode_message,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Most frames of clients in one turn, so that peers do not wait long behind them.
const CLIENT_FRAMES_PER_TURN: usize = 256;
/// Most bytes of clients' frames in one turn: each byte is hashed.
const CLIENT_BYTES_PER_TURN: usize = 256 << 10;
/// Most bytes of clients' frames that wait for their turn; more are dropped and counted, and the clients send them again.
const CLIENT_BACKLOG_BYTES: usize = 64 << 20;
/// Most inputs from the own devices in one turn: a cluster of one replica would else never look at the network again.
const LOCAL_INPUTS_PER_TURN: usize = 1024;

/// How a host is asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Order {
    /// Go on.
    Run = 0,
    /// Write what is queued, then end.
    Finish = 1,
    /// End as a crash would.
    Crash = 2,
}

/// Where a host reads its [`Order`].
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

/// A replica that is ready to run on some thread.
pub(crate) trait RunningNode: Send {
    /// Runs until it is told otherwise or cannot go on; returns its last counters.
    fn run(self: Box<Self>) -> Result<Status, HostError>;
}

struct ClientFrame {
    link: LinkId,
    client: ClientId,
    frame: Bytes,
}

/// One replica of a protocol and its devices.
pub(crate) struct Host<P: Protocol> {
    pub(crate) replica: Replica<P>,
    pub(crate) devices: Devices<P::Message>,
    memory: Memory,
    behaviour: Option<Box<dyn Behaviour<P::Message>>>,
    pub(crate) recorder: Option<Recorder>,
    orders: Orders,
    started: Instant,
    now: Time,
    pub(crate) actions: Vec<Action<P::Message>>,
    pub(crate) events: Vec<Event>,
    client_frames: VecDeque<ClientFrame>,
    client_backlog_bytes: usize,
    /// The bundles of this turn and the links they came on.
    submitted: Vec<(LinkId, Digest)>,
    /// Peers whose present link has carried a frame that is no message, or a forged bundle.
    garbling: Signers,
    undecodable_from_peers: u64,
    undecodable_from_clients: u64,
    backlog_drops: u64,
}

impl<P: Protocol> RunningNode for Host<P> {
    fn run(mut self: Box<Self>) -> Result<Status, HostError> {
        self.recover(self.memory)?;
        self.feed(Input::Start)?;
        loop {
            match self.orders.read() {
                Order::Run => self.turn()?,
                Order::Finish => {
                    self.finish()?;
                    break;
                }
                Order::Crash => break,
            }
        }
        self.devices.tell(NodeEvent::Stopped { height: self.replica.committed_height() });
        Ok(self.status(true))
    }
}

impl<P: Protocol> Host<P> {
    pub fn new(
        replica: Replica<P>,
        devices: Devices<P::Message>,
        memory: Memory,
        behaviour: Option<Box<dyn Behaviour<P::Message>>>,
        recorder: Option<Recorder>,
        orders: Orders,
    ) -> Host<P> {
        Host {
            replica,
            devices,
            memory,
            behaviour,
            recorder,
            orders,
            started: Instant::now(),
            now: Time(0),
            actions: Vec::new(),
            events: Vec::new(),
            client_frames: VecDeque::new(),
            client_backlog_bytes: 0,
            submitted: Vec::new(),
            garbling: Signers::empty(),
            undecodable_from_peers: 0,
            undecodable_from_clients: 0,
            backlog_drops: 0,
        }
    }

    fn read_clock(&mut self) {
        let elapsed = u64::try_from(self.started.elapsed().as_nanos()).expect("no host runs for 500 years");
        self.now = Time(elapsed);
    }

    fn turn(&mut self) -> Result<(), HostError> {
        let wait = self.wait();
        self.devices.transport.poll(wait, &mut self.events)?;
        self.read_clock();
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.take_event(event)?;
        }
        self.events = events;
        self.tell_refusals();
        self.devices.take_checkpoints()?;
        self.feed_local()?;
        self.ring_alarms()?;
        self.serve_clients()?;
        self.feed_local()?;
        self.devices.settle_journal()?;
        self.feed_local()?;
        self.keep_state()?;
        self.keep_recording()
    }

    /// Has the journal summed up and cut, and the state written, when that is due.
    fn keep_state(&mut self) -> Result<(), HostError> {
        if self.devices.is_sum_due() {
            self.step(Input::Summarize)?;
            self.devices.summed();
        }
        self.devices.go_on_with_states(self.replica.settled_height())
    }

    /// Has the recording outlive this process before anything that this turn sends leaves it.
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
        // What the own statements have led to at the end of a turn may wait for the disk already, and nobody else need say anything more.
        let unwritten = self.devices.is_writing_due();
        if unwritten || !self.devices.local.is_empty() || !self.client_frames.is_empty() {
            return Some(Duration::ZERO);
        }
        let behaviour = self.behaviour.as_ref().and_then(|behaviour| behaviour.next());
        wait_until(self.now, self.devices.alarms.next(), behaviour)
    }

    /// Gives the replica one input and performs what it asks for, and what follows from that.
    fn feed(&mut self, input: Input<P::Message>) -> Result<(), HostError> {
        self.step(input)?;
        self.feed_local()
    }

    /// Gives the replica an input of its own past, whatever it may do with the present.
    pub(crate) fn take(&mut self, input: Input<P::Message>) -> Result<(), HostError> {
        self.consume(input);
        self.perform()
    }

    fn step(&mut self, input: Input<P::Message>) -> Result<(), HostError> {
        self.consume(input);
        if let Some(behaviour) = &mut self.behaviour {
            behaviour.rewrite(self.now, &mut self.actions);
        }
        self.perform()
    }

    /// The one place where the replica takes an input.
    pub(crate) fn consume(&mut self, input: Input<P::Message>) {
        if let Some(behaviour) = &mut self.behaviour {
            behaviour.observe(&input);
        }
        quorate_recording::step(self.recorder.as_mut(), &mut self.replica, self.now, input, &mut self.actions);
    }

    pub(crate) fn perform(&mut self) -> Result<(), HostError> {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            self.devices.perform(self.now, action)?;
        }
        self.actions = actions;
        Ok(())
    }

    fn feed_local(&mut self) -> Result<(), HostError> {
        for _ in 0..LOCAL_INPUTS_PER_TURN {
            let Some(input) = self.devices.local.pop_front() else { break };
            self.step(input)?;
        }
        Ok(())
    }

    fn take_event(&mut self, event: Event) -> Result<(), HostError> {
        match event {
            Event::Received { remote: Remote::Replica(from), frame, .. } => return self.take_peer_frame(from, frame),
            Event::Received { remote: Remote::Client(client), link, frame } => {
                if self.client_backlog_bytes + frame.len() > CLIENT_BACKLOG_BYTES {
                    self.backlog_drops += 1;
                } else {
                    self.client_backlog_bytes += frame.len();
                    self.client_frames.push_back(ClientFrame { link, client, frame });
                }
            }
            Event::Connected { link, remote } => {
                match remote {
                    Remote::Client(client) => self.devices.gateway.connected(client, link),
                    Remote::Replica(replica) => {
                        self.garbling = self.garbling.iter().filter(|other| *other != replica).collect()
                    }
                }
                self.devices.tell(NodeEvent::Connected(remote));
            }
            Event::Disconnected { link, remote, why } => {
                if let Remote::Client(client) = remote {
                    self.devices.gateway.disconnected(client, link);
                }
                self.devices.tell(NodeEvent::Lost { remote, why });
            }
        }
        Ok(())
    }

    fn take_peer_frame(&mut self, from: ReplicaId, frame: Bytes) -> Result<(), HostError> {
        match decode_message::<Envelope<P::Message>>(frame) {
            Ok(message) if self.devices.gateway.vouches(message.bundles()) => {
                self.feed(Input::Receive { from, message })
            }
            Ok(_) => {
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
        for refusal in self.devices.transport.take_refusals() {
            let Refusal { address, why, .. } = refusal;
            self.devices.tell(NodeEvent::Unauthenticated { address, why: why.to_string() });
        }
    }

    fn ring_alarms(&mut self) -> Result<(), HostError> {
        while let Some(timer) = self.devices.alarms.ring(self.now) {
            self.feed(Input::Timeout(timer))?;
        }
        if let Some(behaviour) = &mut self.behaviour {
            if !behaviour.answers_clients(self.now) {
                self.devices.gateway.mute();
            }
            behaviour.ring(self.now, &mut self.actions);
            self.perform()?;
        }
        Ok(())
    }

    /// Takes clients' frames in; the bundles among them reach the replica as one input.
    fn serve_clients(&mut self) -> Result<(), HostError> {
        let (mut bytes, mut bundles) = (0, Vec::new());
        self.submitted.clear();
        for _ in 0..CLIENT_FRAMES_PER_TURN {
            let Some(ClientFrame { link, client, frame }) = self.client_frames.pop_front() else { break };
            bytes += frame.len();
            self.client_backlog_bytes -= frame.len();
            if let Some(bundle) = self.serve(link, client, frame) {
                self.submitted.push((link, bundle.digest()));
                bundles.push(bundle);
            }
            if bytes >= CLIENT_BYTES_PER_TURN {
                break;
            }
        }
        self.refuse_forged(&mut bundles);
        if bundles.is_empty() {
            return Ok(());
        }
        self.consume(Input::Submit(bundles));
        let is_turned_away = |action: &Action<P::Message>| {
            matches!(action, Action::Mark(Mark::Dropped { why: DropReason::PoolFull | DropReason::Repeated, .. }))
        };
        let turned_away = self.actions.iter().any(is_turned_away);
        if let Some(behaviour) = &mut self.behaviour {
            behaviour.rewrite(self.now, &mut self.actions);
        }
        self.perform()?;
        if turned_away {
            self.answer_those_not_taken();
        }
        self.feed_local()
    }

    /// Answers a client, or returns the bundle that it wants ordered.
    fn serve(&mut self, link: LinkId, client: ClientId, frame: Bytes) -> Option<Bundle> {
        match decode_message(frame) {
            Ok(ClientRequest::Submit(bundle)) => return self.accept(link, client, bundle),
            Ok(ClientRequest::Query { id, question }) => {
                let Devices { executor, gateway, transport, .. } = &mut self.devices;
                gateway.answer(&mut **transport, link, id, executor.height(), executor.query(&question));
            }
            Ok(ClientRequest::Status { id, history }) => {
                let json = self.status_json(history);
                self.devices.gateway.send(&mut *self.devices.transport, link, &ReplicaReply::Status { id, json });
            }
            Err(error) => {
                self.undecodable_from_clients += 1;
                self.refuse(link, Digest::ZERO, error.to_string());
            }
        }
        None
    }

    fn accept(&mut self, link: LinkId, client: ClientId, bundle: Bundle) -> Option<Bundle> {
        let digest = bundle.digest();
        if let Some(why) = self.devices.gateway.refusal(client, &bundle) {
            self.refuse(link, digest, why);
            return None;
        }
        if let Some(reply) = self.devices.gateway.kept_reply(&digest) {
            self.devices.transport.send(link, reply);
            return None;
        }
        // Whoever was away finds old bundles in its sockets, and anybody can repeat what he has seen: the log has no room for either.
        if let Some(reply) = self.devices.executor.executed_before(&bundle) {
            self.devices.gateway.answer_again(&mut *self.devices.transport, link, reply);
            return None;
        }
        Some(bundle)
    }

    /// Takes the forged ones out of the turn's bundles and tells their senders.
    fn refuse_forged(&mut self, bundles: &mut Vec<Bundle>) {
        let forged = self.devices.gateway.forged(&self.submitted, bundles);
        if forged.is_empty() {
            return;
        }
        bundles.retain(|bundle| !forged.contains(&bundle.digest()));
        for (link, digest) in self.submitted.extract_if(.., |(_, digest)| forged.contains(digest)).collect::<Vec<_>>() {
            self.refuse(link, digest, FORGED.to_owned());
        }
    }

    /// Tells the clients whose bundles found no room, or were executed so long ago that the reply is no longer kept. One that completed
    /// a block in this very turn is executed and answered by now.
    fn answer_those_not_taken(&mut self) {
        for (link, digest) in std::mem::take(&mut self.submitted) {
            let gateway = &self.devices.gateway;
            let forgotten = gateway.answers_bundles() && gateway.kept_reply(&digest).is_none();
            if !self.replica.is_known(&digest) {
                self.refuse(link, digest, POOL_FULL.to_owned());
            } else if forgotten && self.replica.is_executed(&digest) {
                self.refuse(link, digest, FORGOTTEN_REPLY.to_owned());
            }
        }
    }

    fn refuse(&mut self, link: LinkId, bundle: Digest, why: String) {
        self.devices.gateway.send(&mut *self.devices.transport, link, &ReplicaReply::Refused { bundle, why });
    }

    fn status(&self, history: bool) -> Status {
        let counters = self.devices.transport.counters();
        Status {
            replica: self.devices.me,
            view: self.replica.view(),
            leader: self.devices.leader,
            height: self.replica.committed_height(),
            committed_commands: self.devices.executor.commands(),
            committed_blocks: self.devices.blocks,
            view_timeouts: self.replica.view_timeouts(),
            verifications: self.devices.crypto.verifications() + self.devices.gateway.verifications(),
            bytes_sent: counters.bytes_sent,
            messages_sent: counters.frames_sent,
            cpu_ns: measure::thread_cpu_ns(),
            busy_ns: measure::thread_busy_ns(),
            peak_rss_kb: measure::peak_rss_kb(),
            dropped: self.dropped(counters.frames_dropped),
            evidence: self.replica.evidence().iter().map(ToString::to_string).collect(),
            history: if history { self.devices.executor.history() } else { Vec::new() },
        }
    }

    fn dropped(&self, not_queued: u64) -> BTreeMap<String, u64> {
        let of_the_replica =
            self.replica.dropped().iter().map(|(why, count)| (kebab_case(&format!("{why:?}")), *count));
        let of_the_host = [
            ("undecodable-from-peers", self.undecodable_from_peers),
            ("undecodable-from-clients", self.undecodable_from_clients),
            ("client-backlog-full", self.backlog_drops),
            ("not-queued", not_queued),
        ];
        let of_the_host =
            of_the_host.into_iter().chain(self.devices.gateway.forgeries()).filter(|(_, count)| *count > 0);
        of_the_replica.chain(of_the_host.map(|(why, count)| (why.to_owned(), count))).collect()
    }

    /// The status as text that fits a reply: if it does not, the earlier half of the history is left out, until it does.
    fn status_json(&self, history: bool) -> Bytes {
        let mut status = self.status(history);
        loop {
            let json = serde_json::to_vec(&status).expect("a status has a form in JSON");
            if json.len() <= MAX_TEXT_BYTES {
                return json.into();
            }
            match status.history.len() {
                0 => status.evidence.truncate(status.evidence.len() / 2),
                samples => drop(status.history.drain(..samples.div_ceil(2))),
            }
        }
    }
}

const POOL_FULL: &str =
    "too many commands wait to be ordered; send the bundle again later, or raise `pool_bundles` and `pool_bytes`";

const FORGOTTEN_REPLY: &str = "the bundle was executed before, and its reply is no longer kept; \
     send its commands in another bundle to learn that they are executed, or raise `reply_cache_bytes`";

/// `NotTheLeader` as `not-the-leader`.
fn kebab_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}
