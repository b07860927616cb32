//! One replica and its devices in virtual time.
//!
//! It works in turns, as the real host does: a turn takes what peers said, then what alarms ring, then a bounded share of what clients
//! said; what it sends leaves together at its end. Each thing that it does is charged, and the sum is how long the turn takes.

use crate::charges::{Charges, nanos};
use crate::faults::FULL_SPEED;
use crate::oracle::Oracle;
use crate::parcel::{Body, Parcel, Scratch};
use crate::signatures::Device;
use crate::transcript::Transcript;
use quorate_applications::{Executor, Reply};
use quorate_client::ReplyMode;
use quorate_consensus::digest_map::{DigestMap, Salt};
use quorate_consensus::seam::{Drop as DropReason, RecordId};
use quorate_consensus::{Action, Envelope, Input, Mark, Message, Protocol, Replica, Timer, To};
use quorate_types::{Block, Bundle, ClusterId, Digest, ReplicaId, ReplicaReply, Results, Status, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Most bundles of clients in one turn.
const CLIENT_FRAMES_PER_TURN: usize = 256;
/// Most bytes of clients in one turn.
const CLIENT_BYTES_PER_TURN: usize = 256 << 10;
/// Most inputs from the own devices in a row.
const LOCAL_INPUTS_PER_TURN: usize = 1024;
/// Replies that are kept for clients that ask again.
const REPLIES_KEPT: usize = 1 << 16;
/// Words of a set of endpoints.
const WORDS: usize = quorate_types::limits::MAX_REPLICAS / 64 + 1;
/// A time that never comes.
pub const NEVER: Time = Time(u64::MAX);
/// Bytes of a bundle's digest, for each of which a block is hashed.
const DIGEST_BYTES: u64 = 32;

/// Where a parcel goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// To one endpoint.
    One(usize),
    /// To every other replica.
    Others,
}

/// Something that a node began and the world finishes.
pub enum Begun<M> {
    /// A thread for signatures works on a question until so many nanoseconds after the turn began.
    Question(u64, Input<M>),
    /// Records up to this one are being written from the end of the turn on.
    Flush(RecordId),
}

/// What a node sees of the world.
pub struct Surroundings<'a, M> {
    pub charges: &'a Charges,
    pub oracle: &'a mut Oracle,
    pub outgoing: &'a mut Vec<(Destination, Parcel<M>)>,
    pub begun: &'a mut Vec<Begun<M>>,
    pub transcript: &'a mut Option<Transcript>,
    pub scratch: &'a mut Scratch,
}

/// A peer's message: whose, how many bytes, what it says.
type FromPeer<M> = (u16, u32, Arc<Envelope<M>>);

struct Held<M> {
    after: RecordId,
    to: To,
    message: Envelope<M>,
    sign: bool,
}

/// What a node is made of.
pub struct Parts<P: Protocol> {
    pub me: ReplicaId,
    pub replicas: usize,
    pub cluster: ClusterId,
    pub replica: Replica<P>,
    pub device: Device,
    pub executor: Executor,
    pub reply: ReplyMode,
    pub crypto_servers: usize,
    pub silent: bool,
    pub slow: Option<Duration>,
    pub salt: u64,
}

/// One replica.
pub struct Node<P: Protocol> {
    parts: Parts<P>,
    now: Time,
    started: bool,
    /// Whether it has not crashed.
    pub alive: bool,
    /// It does nothing before.
    pub paused_until: Time,
    /// Thousandths of its own time that its processor takes.
    pub speed: u64,
    /// The earliest alarm that the world knows of.
    pub alarm_known: Time,
    peers: VecDeque<FromPeer<P::Message>>,
    requests: VecDeque<(Bundle, u32)>,
    local: VecDeque<Input<P::Message>>,
    actions: Vec<Action<P::Message>>,
    alarms: [Time; Timer::ALL.len()],
    late: VecDeque<(Time, Action<P::Message>)>,
    held: VecDeque<Held<P::Message>>,
    appended: Option<RecordId>,
    flushing: Option<RecordId>,
    durable: Option<RecordId>,
    servers: Vec<Time>,
    /// Picoseconds of this turn.
    spent: u64,
    wrote_to: [u64; WORDS],
    replies: Vec<Reply>,
    kept: DigestMap<Arc<ReplicaReply>>,
    kept_order: VecDeque<Digest>,
    leader: ReplicaId,
    busy_ns: u64,
    blocks: u64,
    bytes_sent: u64,
    messages_sent: u64,
}

impl<P: Protocol> Node<P> {
    /// A replica that has not started.
    pub fn new(parts: Parts<P>) -> Node<P> {
        Node {
            now: Time(0),
            started: false,
            alive: true,
            paused_until: Time(0),
            speed: FULL_SPEED,
            alarm_known: NEVER,
            peers: VecDeque::new(),
            requests: VecDeque::new(),
            local: VecDeque::new(),
            actions: Vec::new(),
            alarms: [NEVER; Timer::ALL.len()],
            late: VecDeque::new(),
            held: VecDeque::new(),
            appended: None,
            flushing: None,
            durable: None,
            servers: vec![Time(0); parts.crypto_servers],
            spent: 0,
            wrote_to: [0; WORDS],
            replies: Vec::new(),
            kept: DigestMap::with_hasher(Salt(parts.salt)),
            kept_order: VecDeque::new(),
            leader: parts.me,
            busy_ns: 0,
            blocks: 0,
            bytes_sent: 0,
            messages_sent: 0,
            parts,
        }
    }

    /// A parcel has come in.
    pub fn take_in(&mut self, from: usize, parcel: Parcel<P::Message>) {
        match parcel.body {
            Body::Peer(message) => self.peers.push_back((from as u16, parcel.bytes, message)),
            Body::Request(bundle) => self.requests.push_back((bundle, parcel.bytes)),
            Body::Reply(_) => unreachable!("replies go to the clients"),
        }
    }

    /// A device has answered.
    pub fn answered(&mut self, input: Input<P::Message>) {
        self.local.push_back(input);
    }

    /// Records up to this one are durable.
    pub fn flushed(&mut self, record: RecordId) {
        self.durable = self.durable.max(Some(record));
        self.flushing = None;
    }

    /// When the next alarm rings, or what is held back is due.
    pub fn next_alarm(&self) -> Time {
        let late = self.late.front().map_or(NEVER, |(at, _)| *at);
        self.alarms.iter().copied().min().unwrap_or(NEVER).min(late)
    }

    /// Whether a turn would find something to do.
    pub fn has_work(&self, now: Time) -> bool {
        let flushed = self.held.front().is_some_and(|held| self.durable >= Some(held.after));
        !self.started
            || !self.peers.is_empty()
            || !self.requests.is_empty()
            || !self.local.is_empty()
            || flushed
            || self.next_alarm() <= now
    }

    /// Works through what there is, and says how many nanoseconds that takes.
    pub fn turn(&mut self, now: Time, world: &mut Surroundings<'_, P::Message>) -> u64 {
        self.now = now;
        self.spent = world.charges.turn;
        self.wrote_to = [0; WORDS];
        if !std::mem::replace(&mut self.started, true) {
            self.feed(Input::Start, world);
        }
        self.hear_peers(world);
        self.ring_alarms(world);
        self.serve_clients(world);
        self.feed_local(world);
        self.settle_journal(world);
        self.feed_local(world);
        let calls: u32 = self.wrote_to.iter().map(|word| word.count_ones()).sum();
        self.spent += u64::from(calls) * world.charges.write_call;
        let elapsed = nanos(self.spent * self.speed / FULL_SPEED);
        self.busy_ns += elapsed;
        elapsed
    }

    fn hear_peers(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let mut read_from = [0u64; WORDS];
        while let Some((from, bytes, message)) = self.peers.pop_front() {
            let (word, bit) = (usize::from(from) / 64, 1 << (from % 64));
            if read_from[word] & bit == 0 {
                read_from[word] |= bit;
                self.spent += world.charges.read_call;
            }
            self.spent += world.charges.receive + u64::from(bytes) * world.charges.receive_byte;
            let message = Arc::unwrap_or_clone(message);
            if let Envelope::Bundles(_) = message {
                self.spent += u64::from(bytes) * world.charges.hash_byte;
            }
            self.feed(Input::Receive { from: ReplicaId(from), message }, world);
        }
    }

    fn ring_alarms(&mut self, world: &mut Surroundings<'_, P::Message>) {
        while let Some(timer) = self.due_alarm() {
            self.alarms[timer as usize] = NEVER;
            self.feed(Input::Timeout(timer), world);
        }
        while self.late.front().is_some_and(|(at, _)| *at <= self.now) {
            if let Some((_, action)) = self.late.pop_front() {
                self.perform(action, world);
            }
        }
    }

    fn due_alarm(&self) -> Option<Timer> {
        let due = Timer::ALL.into_iter().filter(|timer| self.alarms[*timer as usize] <= self.now);
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
        self.spent += world.charges.step;
        self.parts.replica.step(self.now, input, &mut self.actions);
        self.perform_all(world);
    }

    fn perform_all(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            let Some(action) = self.behave(action) else { continue };
            self.perform(action, world);
        }
        self.actions = actions;
    }

    /// What a misbehaving replica makes of an action.
    fn behave(&mut self, action: Action<P::Message>) -> Option<Action<P::Message>> {
        let Action::Send { to, message, after, sign } = action else { return Some(action) };
        if self.parts.silent {
            let to_itself = to == To::All || to == To::One(self.parts.me);
            return to_itself.then_some(Action::Send { to: To::One(self.parts.me), message, after, sign });
        }
        let proposes = matches!(&message, Envelope::Protocol(message) if message.is_proposal());
        let action = Action::Send { to, message, after, sign };
        match self.parts.slow.filter(|_| proposes) {
            Some(delay) => {
                self.late.push_back((self.now + delay, action));
                None
            }
            None => Some(action),
        }
    }

    fn perform(&mut self, action: Action<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        match action {
            Action::Send { to, message, after, sign } => match after {
                Some(after) if self.durable < Some(after) => self.held.push_back(Held { after, to, message, sign }),
                _ => self.send(to, message, sign, world),
            },
            Action::Persist { id, .. } => {
                self.appended = Some(id);
                if world.charges.flush.is_zero() {
                    self.durable = Some(id);
                }
            }
            Action::Verify { job, certificates, votes } => {
                let (genuine, cost) = self.parts.device.verify(&certificates, &votes, world.charges);
                self.answer(cost, Input::Verdict { job, genuine }, world);
            }
            Action::Assemble { job, subject, votes } => {
                let (result, cost) = self.parts.device.assemble(&subject, votes, world.charges);
                self.answer(cost, Input::Assembled { job, result }, world);
            }
            Action::Arm { timer, after } => self.alarms[timer as usize] = self.now + after,
            Action::Disarm(timer) => self.alarms[timer as usize] = NEVER,
            Action::Commit { block, bundles } => self.commit(&block, &bundles, world),
            Action::DigestState { height } => {
                assert_eq!(self.parts.executor.height(), height, "blocks are executed as they are committed");
                let state = self.parts.executor.state_digest();
                self.local.push_back(Input::Executed { height, state });
            }
            Action::Accuse(evidence) => {
                let what = format!("replica {} accuses {} though nobody lies", self.parts.me, evidence.first.voter);
                world.oracle.complain("one-statement", what);
            }
            Action::Mark(mark) => self.marked(mark, world),
        }
    }

    fn marked(&mut self, mark: Mark, world: &mut Surroundings<'_, P::Message>) {
        if let Some(transcript) = world.transcript {
            transcript.mark(self.now, self.parts.me, &mark);
        }
        match mark {
            Mark::EnteredView { leader, .. } => self.leader = leader.unwrap_or(self.leader),
            Mark::Conflict { height } => {
                let what = format!("replica {} finds a conflict at height {height}", self.parts.me);
                world.oracle.complain("agreement", what);
            }
            _ => {}
        }
    }

    /// The answer of the crypto device: at once on this core, or later from a thread of its own.
    fn answer(&mut self, cost: u64, input: Input<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let asked = self.now + Duration::from_nanos(nanos(self.spent));
        let Some(server) = self.servers.iter_mut().min() else {
            self.spent += cost;
            return self.local.push_back(input);
        };
        *server = (*server).max(asked) + Duration::from_nanos(nanos(cost * self.speed / FULL_SPEED));
        world.begun.push(Begun::Question(server.since(self.now).as_nanos() as u64, input));
    }

    fn settle_journal(&mut self, world: &mut Surroundings<'_, P::Message>) {
        while self.held.front().is_some_and(|held| self.durable >= Some(held.after)) {
            if let Some(Held { to, message, sign, .. }) = self.held.pop_front() {
                self.send(to, message, sign, world);
            }
        }
        if self.appended > self.durable && self.flushing.is_none() {
            self.flushing = self.appended;
            world.begun.extend(self.appended.map(Begun::Flush));
        }
    }

    fn send(
        &mut self,
        to: To,
        mut message: Envelope<P::Message>,
        sign: bool,
        world: &mut Surroundings<'_, P::Message>,
    ) {
        let me = self.parts.me;
        if sign {
            self.sign(&mut message, world);
        }
        if let Some(transcript) = world.transcript {
            transcript.sends(self.now, me, to, &message);
        }
        let destination = match to {
            To::One(one) if one == me => return self.local.push_back(Input::Receive { from: me, message }),
            To::One(one) => Destination::One(one.index()),
            To::All | To::Others => Destination::Others,
        };
        if to == To::All {
            self.local.push_back(Input::Receive { from: me, message: message.clone() });
        }
        let copies = if destination == Destination::Others { self.parts.replicas - 1 } else { 1 };
        if copies == 0 {
            return;
        }
        let parcel = Parcel::peer(message, world.scratch);
        self.spent += world.charges.send;
        self.departs(destination, parcel, copies as u64, world);
    }

    fn departs(
        &mut self,
        to: Destination,
        parcel: Parcel<P::Message>,
        copies: u64,
        world: &mut Surroundings<'_, P::Message>,
    ) {
        let bytes = u64::from(parcel.bytes) * copies;
        self.spent += bytes * world.charges.send_byte;
        self.bytes_sent += bytes;
        self.messages_sent += copies;
        match to {
            Destination::One(one) => self.wrote_to[one / 64] |= 1 << (one % 64),
            Destination::Others => {
                for other in (0..self.parts.replicas).filter(|other| *other != self.parts.me.index()) {
                    self.wrote_to[other / 64] |= 1 << (other % 64);
                }
            }
        }
        world.outgoing.push((to, parcel));
    }

    fn sign(&mut self, message: &mut Envelope<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let Envelope::Protocol(message) = message else { panic!("only the protocol's messages are signed") };
        let vote = message.vote_to_sign().expect("a message that is to be signed has a vote in it");
        assert_eq!(vote.voter, self.parts.me, "a replica signs for itself");
        self.parts.device.sign(vote, &self.parts.cluster);
        self.spent += world.charges.sign;
        world.oracle.signs(self.parts.me, &vote.subject, &vote.attachment);
    }

    fn commit(&mut self, block: &Block, bundles: &[Bundle], world: &mut Surroundings<'_, P::Message>) {
        let me = self.parts.me;
        if let Some(transcript) = world.transcript {
            transcript.commits(self.now, me, block);
        }
        world.oracle.committed(me, block, bundles);
        if world.oracle.complaint.is_some() {
            return;
        }
        self.blocks += 1;
        let commands: usize = bundles.iter().map(Bundle::len).sum();
        self.spent += commands as u64 * world.charges.command;
        self.spent += DIGEST_BYTES * bundles.len() as u64 * world.charges.hash_byte;
        let mut replies = std::mem::take(&mut self.replies);
        self.parts.executor.execute(block.height, bundles, &mut replies);
        for reply in replies.drain(..) {
            world.oracle.executed(me, &reply);
            self.reply(reply, world);
        }
        self.replies = replies;
    }

    fn reply(&mut self, reply: Reply, world: &mut Surroundings<'_, P::Message>) {
        let Reply { bundle, height, results, .. } = reply;
        let results = match self.parts.reply {
            _ if self.parts.silent => return,
            ReplyMode::Each => results,
            ReplyMode::None if self.parts.me == ReplicaId(0) => Results::bare(),
            ReplyMode::None => return,
        };
        let fresh = || Arc::new(ReplicaReply::Executed { bundle, height, results });
        let reply = self.kept.get(&bundle).cloned().unwrap_or_else(fresh);
        if self.kept.insert(bundle, reply.clone()).is_none() {
            self.kept_order.push_back(bundle);
        }
        if self.kept_order.len() > REPLIES_KEPT {
            let oldest = self.kept_order.pop_front().expect("there is more than one");
            self.kept.remove(&oldest);
        }
        self.tell_clients(reply, world);
    }

    fn tell_clients(&mut self, reply: Arc<ReplicaReply>, world: &mut Surroundings<'_, P::Message>) {
        self.spent += world.charges.bundle;
        self.departs(Destination::One(self.parts.replicas), Parcel::reply(reply), 1, world);
    }

    /// Takes in what clients sent; the bundles reach the replica as one input.
    fn serve_clients(&mut self, world: &mut Surroundings<'_, P::Message>) {
        if self.requests.is_empty() {
            return;
        }
        self.spent += world.charges.read_call;
        let (mut bytes, mut bundles) = (0, Vec::new());
        for _ in 0..CLIENT_FRAMES_PER_TURN {
            let Some((bundle, size)) = self.requests.pop_front() else { break };
            bytes += size as usize;
            self.spent +=
                world.charges.receive + u64::from(size) * (world.charges.receive_byte + world.charges.hash_byte);
            match self.kept.get(&bundle.digest()).cloned() {
                Some(reply) => self.tell_clients(reply, world),
                None => bundles.push(bundle),
            }
            if bytes >= CLIENT_BYTES_PER_TURN {
                break;
            }
        }
        if bundles.is_empty() {
            return;
        }
        let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
        self.spent += world.charges.step;
        self.parts.replica.step(self.now, Input::Submit(bundles), &mut self.actions);
        self.refuse_those_not_taken(&digests, world);
        self.perform_all(world);
        self.feed_local(world);
    }

    fn refuse_those_not_taken(&mut self, digests: &[Digest], world: &mut Surroundings<'_, P::Message>) {
        let full = |action: &Action<P::Message>| {
            matches!(action, Action::Mark(Mark::Dropped { why: DropReason::PoolFull | DropReason::Repeated, .. }))
        };
        if !self.actions.iter().any(full) || self.parts.silent {
            return;
        }
        for bundle in digests {
            let replica = &self.parts.replica;
            if !replica.is_known(bundle) || replica.is_executed(bundle) {
                let why = "too many commands wait, or the reply is no longer kept".to_owned();
                self.tell_clients(Arc::new(ReplicaReply::Refused { bundle: *bundle, why }), world);
            }
        }
    }

    /// The current view.
    pub fn view(&self) -> u64 {
        self.parts.replica.view().0
    }

    /// Its counters.
    pub fn status(&self, history: bool) -> Status {
        Status {
            replica: self.parts.me,
            view: self.parts.replica.view(),
            leader: self.leader,
            height: self.parts.executor.height(),
            committed_commands: self.parts.executor.commands(),
            committed_blocks: self.blocks,
            view_timeouts: self.parts.replica.view_timeouts(),
            verifications: self.parts.device.verifications(),
            bytes_sent: self.bytes_sent,
            messages_sent: self.messages_sent,
            cpu_ns: self.busy_ns,
            busy_ns: self.busy_ns,
            peak_rss_kb: 0,
            dropped: self.parts.replica.dropped().iter().map(|(why, count)| (format!("{why:?}"), *count)).collect(),
            evidence: Vec::new(),
            history: if history { self.parts.executor.history() } else { Vec::new() },
        }
    }
}
