//! Client connections of a simulated replica: drives the [desk](quorate_hosting::desk), which handles requests.
//!
//! The network between hostile clients and replicas is not modelled: the first machine gets the replies to their
//! bundles, and answers to their queries only cost time.

use super::{Answer, Begun, Destination, Node, Parts, Surroundings};
use crate::charges::{Charges, Checks, nanos};
use crate::hostile::{MAX_UNREAD_BYTES, Request, VALUE_BYTES};
use crate::keys::{Judge, ModelledCheck};
use crate::ledger::Ledger;
use crate::parcel::{Parcel, size_of_reply};
use crate::work::Work;
use bytes::Bytes;
use quorate_applications::{Executor, Reply};
use quorate_consensus::data::pool::Source;
use quorate_consensus::{Input, Protocol};
use quorate_crypto::ClientAuthentication;
use quorate_hosting::desk::{
    AdmissionPolicy, AnswerQuotas, ClientFrame, ClientLinks, ClientTerms, ClientVerifier, Desk, DeskHost, DeskParts,
    Question, QuestionPolicy, Submission, is_about_a_bundle,
};
use quorate_hosting::{Answers, DEFAULT_REPLY_CACHE_BYTES, ReplyCache};
use quorate_network::gateway::admission::Admission;
use quorate_network::gateway::budget::{BUNDLES_PER_BATCH, FRAMES_PER_TURN};
use quorate_network::gateway::places::{self, Entrance, Holder, MAX_LINKS, MAX_LINKS_PER_ADDRESS};
use quorate_network::gateway::turns::Standing;
use quorate_types::stages::MessageKind;
use quorate_types::{Bundle, ClientId, ClientRequest, Digest, Domain, ReplicaReply, decode_message, question_digest};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The first honest client machine's link; further machines have consecutive numbers.
pub const HONEST_LINK: u16 = 0;
/// Address of the first machine and of all hostile clients. Sharing it is the harder case, since hostile and honest
/// clients then share one quota. Further machines have consecutive addresses.
const ADDRESS: u64 = 0;

/// A queued request, and its size in bytes.
type Waiting = (Request, u32);
pub(super) type SimDesk = Desk<u16, Waiting, Arc<ReplicaReply>, Judge>;

/// State of a replica's client connections.
pub struct Connections {
    /// Number of honest client machines.
    machines: u16,
    /// Unread bytes of answers, by link.
    unread: BTreeMap<u16, u64>,
    /// Links that hold connection slots, except hostile clients that send requests, which reconnect immediately.
    places: Vec<Holder<u64, u64>>,
    /// Number of connections so far, used as the next connection's ID and time.
    dialled: u64,
    /// Whether a proxy holds the connection slots. A proxy keeps the oldest connections.
    proxied: bool,
}

impl Connections {
    pub fn new(machines: usize) -> Connections {
        Connections {
            machines: machines as u16,
            unread: BTreeMap::new(),
            places: Vec::new(),
            // In `places`, the honest clients' links come first.
            dialled: machines as u64 - 1,
            proxied: false,
        }
    }

    fn is_honest(&self, link: u16) -> bool {
        link < self.machines
    }

    /// Returns the machine for replies on a link.
    fn machine(&self, link: u16) -> usize {
        if self.is_honest(link) { link.into() } else { 0 }
    }

    fn address(&self, link: u64) -> u64 {
        if link < u64::from(self.machines) { ADDRESS + link } else { ADDRESS }
    }

    /// Opens a silent connection.
    fn squat(&mut self) {
        self.dialled += 1;
        self.enter(self.dialled);
    }

    /// Connects an honest client machine if it has no slot. Returns whether it has one now.
    fn lets_honest_in(&mut self, link: u16) -> bool {
        self.dialled += 1;
        let id = u64::from(link);
        if !self.places.iter().any(|holder| holder.id == id) && !self.enter(id) {
            return false;
        }
        let honest = self.places.iter_mut().find(|holder| holder.id == id).expect("it has a place");
        (honest.genuine, honest.active) = (true, self.dialled);
        true
    }

    fn enter(&mut self, id: u64) -> bool {
        let (full, address) = (self.places.len() >= MAX_LINKS_PER_ADDRESS, self.address(id));
        match places::entrance(&self.places, address, MAX_LINKS, MAX_LINKS_PER_ADDRESS) {
            _ if self.proxied && full => return false,
            Entrance::Free => {}
            Entrance::Instead(other) => self.places.retain(|holder| holder.id != other),
            Entrance::AddressFull | Entrance::Full => return false,
        }
        self.places.push(Holder { id, address, genuine: false, silent: false, active: self.dialled });
        true
    }

    fn is_unread(&self, link: u16) -> bool {
        self.unread.get(&link).is_some_and(|bytes| *bytes >= MAX_UNREAD_BYTES)
    }

    fn answers_unread(&mut self, link: u16, bytes: u64) {
        if !self.is_honest(link) {
            *self.unread.entry(link).or_default() += bytes;
        }
    }
}

/// Returns an empty desk.
pub(super) fn open_desk<P: Protocol>(parts: &Parts<P>, verifier: Judge) -> Box<SimDesk> {
    let mut desk = Desk::new(DeskParts {
        answers: Answers::of(parts.me, parts.reply),
        limits: parts.limits,
        terms: ClientTerms::default(),
        verifier,
        cache: ReplyCache::new(DEFAULT_REPLY_CACHE_BYTES, parts.salt),
        admission: Admission::new(parts.max_queue, parts.replicas),
        policy: AdmissionPolicy::default(),
        questions: QuestionPolicy::open(AnswerQuotas::default()),
    });
    if parts.models_clients {
        parts.origins.iter().zip(HONEST_LINK..).for_each(|(origin, link)| desk.trust(*origin, link));
    }
    Box::new(desk)
}

/// View of a node for its desk.
pub(super) struct AtDesk<'a, 'b, P: Protocol> {
    node: &'a mut Node<P>,
    world: &'a mut Surroundings<'b, P::Message>,
}

impl<P: Protocol> AtDesk<'_, '_, P> {
    /// Sends replies to a machine in one message, or once per copy.
    fn send(&mut self, link: u16, parcel: Parcel<P::Message>, times: usize) {
        let to = Destination::One(self.node.parts.replicas + self.node.connections.machine(link));
        for parcel in std::iter::repeat_n(parcel, times) {
            self.node.departs(to, parcel, 1, self.world);
        }
    }

    fn send_alone(&mut self, link: u16, reply: Arc<ReplicaReply>, times: usize) {
        let place = self.node.ledger.enter(MessageKind::Reply, 1);
        self.node.ledger.charge(Work::Bundles, times as u64, self.world.charges.bundle);
        self.send(link, Parcel::reply(reply), times);
        self.node.ledger.leave(place);
    }

    /// Sends replies authenticated with `authenticator_bytes` bytes. The network thread signs replies to a block.
    /// Returns the time of the authentication on the core thread, in nanoseconds.
    fn send_sealed(
        &mut self,
        link: u16,
        replies: Vec<Arc<ReplicaReply>>,
        authenticator_bytes: usize,
        (of_block, times): (bool, usize),
    ) -> u64 {
        let place = self.node.ledger.enter(MessageKind::Reply, replies.len());
        self.node.ledger.charge(Work::Bundles, replies.len() as u64, self.world.charges.bundle);
        let charges = self.world.charges;
        let seals = charges.seals.as_ref().expect("the table has the costs of reply authentication");
        let parcel = Parcel::sealed(replies, authenticator_bytes);
        let bytes = u64::from(parcel.bytes);
        let charge = |ledger: &mut Ledger| {
            seals.sign(ledger);
            charges.hash(ledger, 1, bytes);
        };
        let before = self.node.ledger.total();
        match of_block && seals.are_signatures() {
            true => self.node.charge_sending(charge),
            false => charge(&mut self.node.ledger),
        }
        let took_ns = nanos(self.node.ledger.total() - before);
        self.send(link, parcel, times);
        self.node.ledger.leave(place);
        took_ns
    }
}

impl<P: Protocol> ClientLinks for AtDesk<'_, '_, P> {
    type Link = u16;
    type Reply = Arc<ReplicaReply>;

    fn source(&self, link: u16) -> Source {
        let link = u64::from(link);
        Source::Client { source_group: self.node.connections.address(link), link }
    }

    fn is_congested(&self, link: u16) -> bool {
        self.node.connections.is_unread(link)
    }

    fn release(&mut self, _: u16, _: usize) {}

    fn vouch(&mut self, _: u16, _: bool) {}

    /// Nothing to do: hostile clients reconnect immediately.
    fn close(&mut self, _: u16, _: String) {}

    fn encode(&mut self, reply: ReplicaReply) -> Arc<ReplicaReply> {
        Arc::new(reply)
    }

    fn bytes(&self, reply: &Arc<ReplicaReply>) -> usize {
        size_of_reply(reply).0
    }

    fn tell(&mut self, link: u16, reply: ReplicaReply) -> u64 {
        if is_about_a_bundle(&reply) {
            return self.repeat(link, Arc::new(reply));
        }
        // Only hostile clients ask queries, and the network to them is not modelled.
        if !self.node.parts.models_clients {
            self.send_alone(link, Arc::new(reply), 1);
        }
        0
    }

    fn repeat(&mut self, link: u16, reply: Arc<ReplicaReply>) -> u64 {
        match self.node.parts.authenticator_bytes {
            Some(authenticator_bytes) => self.send_sealed(link, vec![reply], authenticator_bytes, (false, 1)),
            None => {
                self.send_alone(link, reply, 1);
                0
            }
        }
    }

    fn authenticates(&self) -> bool {
        self.node.parts.authenticator_bytes.is_some()
    }

    /// A replica that replays its journal has no links.
    fn deliver(&mut self, link: u16, reply: Arc<ReplicaReply>, times: usize) {
        if !self.node.recalls {
            self.send_alone(link, reply, times);
        }
    }

    fn deliver_together(&mut self, link: u16, replies: Vec<Arc<ReplicaReply>>, times: usize) {
        let authenticator_bytes = self.node.parts.authenticator_bytes.expect("replies are sealed");
        if !self.node.recalls {
            self.send_sealed(link, replies, authenticator_bytes, (true, times));
        }
    }
}

impl<P: Protocol> DeskHost for AtDesk<'_, '_, P> {
    type Links = Self;

    fn links(&mut self) -> &mut Self {
        self
    }

    fn executor(&self) -> &Executor {
        &self.node.parts.executor
    }

    fn is_known(&self, bundle: &Digest) -> bool {
        self.node.parts.replica.is_known(bundle)
    }

    fn expects(&self, bundle: &Digest) -> bool {
        self.node.parts.replica.expects(bundle)
    }
}

impl<P: Protocol> Node<P> {
    fn at_desk<'b, T>(
        &mut self,
        world: &mut Surroundings<'b, P::Message>,
        act: impl FnOnce(&mut SimDesk, &mut AtDesk<'_, 'b, P>) -> T,
    ) -> T {
        let mut desk = self.desk.take().expect("nobody else is at the desk");
        let done = act(&mut desk, &mut AtDesk { node: self, world });
        self.desk = Some(desk);
        done
    }

    pub(super) fn desk(&mut self) -> &mut SimDesk {
        self.desk.as_mut().expect("nobody is at the desk")
    }

    /// Receives a request over a client's link. Honest clients count as authenticated from the beginning.
    pub fn ask(&mut self, link: u16, request: Request, bytes: u32) {
        if let Request::Nothing = request {
            self.connections.proxied |= self.connections.is_honest(link);
            return self.connections.squat();
        }
        if self.connections.is_honest(link) && !self.connections.lets_honest_in(link) {
            return;
        }
        if let Request::Bundle(bundle) | Request::Forged(bundle) = &request {
            let claimed = bundle.origin();
            self.desk().connected(claimed, link);
        }
        self.desk().push(link, (request, bytes));
        if self.connections.is_honest(link) && self.parts.models_clients {
            let origin = self.parts.origins[usize::from(link)];
            self.desk().trust(origin, link);
        }
    }

    /// Records that a client has connected and claims this ID.
    pub fn connect(&mut self, link: u16, client: ClientId) {
        self.desk().connected(client, link);
    }

    /// Records that a client's link has closed.
    pub fn disconnect(&mut self, link: u16, client: ClientId) {
        self.desk().disconnected(client, link);
    }

    /// Changes the admission policies.
    pub fn set_policies(&mut self, policy: AdmissionPolicy, questions: QuestionPolicy<u16>) {
        self.desk().set_policies(policy, questions);
    }

    /// Disconnects the honest clients, which reconnect for their next request. Received requests are still served.
    pub fn hang_up(&mut self) {
        let machines = u64::from(self.connections.machines);
        self.connections.places.retain(|holder| holder.id >= machines);
    }

    pub(super) fn serve_clients(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let (now, totals) = (self.now, self.parts.replica.parts().store.pool.totals());
        for source in self.at_desk(world, |desk, links| desk.begin_turn(now, totals, links)) {
            self.think(Input::Left(source), world);
            self.perform_all(world);
        }
        self.submit_batches(world);
        if self.desk().is_idle() || self.verifiers.have_enough() {
            return;
        }
        if self.network.is_none() {
            let place = self.ledger.enter(MessageKind::Request, 0);
            self.ledger.charge(Work::Reads, 1, world.charges.read_call);
            self.ledger.leave(place);
        }
        self.serve_some(Standing::Genuine, world);
        self.serve_some(Standing::Stranger, world);
    }

    fn serve_some(&mut self, standing: Standing, world: &mut Surroundings<'_, P::Message>) {
        self.desk().verifier().begin_round();
        self.desk().begin_round(standing);
        while let Some((link, (request, size))) = self.at_desk(world, |desk, links| desk.next(links)) {
            let place = self.ledger.enter(request.kind(), 1);
            self.serve(link, request, size, world);
            self.ledger.leave(place);
        }
        self.check(world);
        self.submit_batches(world);
    }

    fn serve(&mut self, link: u16, request: Request, size: u32, world: &mut Surroundings<'_, P::Message>) {
        // The network thread has already read the honest clients' frames, but not the attackers'.
        if self.network.is_none() || !self.connections.is_honest(link) {
            self.ledger.received(u64::from(size));
            self.ledger.charge(Work::Received, 1, world.charges.receive);
            self.ledger.charge(Work::ReceivedBytes, u64::from(size), world.charges.receive_byte);
            world.charges.receive_frame(&mut self.ledger, u64::from(size));
            world.charges.hash(&mut self.ledger, 1, u64::from(size));
        }
        let (client, request) = match request {
            Request::Bundle(bundle) => (bundle.origin(), Ok(ClientRequest::Submit(bundle))),
            Request::Forged(bundle) => {
                self.desk().verifier().forge(bundle.digest());
                (bundle.origin(), Ok(ClientRequest::Submit(bundle)))
            }
            Request::Frame(client, frame) => (client, decode_message(frame)),
            Request::Nothing => unreachable!("a link without requests is not served"),
        };
        let (now, bytes) = (self.now, size as usize);
        let frame = ClientFrame { link, client, bytes, request };
        if let Some(question) = self.at_desk(world, |desk, host| desk.serve(host, now, frame)) {
            self.answer_question(link, client, question, world);
        }
    }

    fn answer_question(
        &mut self,
        link: u16,
        client: ClientId,
        question: Question,
        world: &mut Surroundings<'_, P::Message>,
    ) {
        let (now, before, charges) = (self.now, self.ledger.total(), world.charges);
        let (reply, bytes) = match question {
            Question::Status { id, history } => {
                let fresh = self.desk().kept_status(now, history).is_none();
                let (bytes, cost) = (charges.status_bytes, if fresh { charges.status } else { 0 });
                self.ledger.charge(Work::Statuses, 1, bytes * charges.send_byte + cost);
                if fresh {
                    self.desk().keep_status(history, Bytes::new(), nanos(cost));
                }
                (ReplicaReply::Status { id, json: Bytes::new() }, bytes)
            }
            Question::Query { id, question } => {
                let reply = self.query(id, &question);
                let read = if let ReplicaReply::Answer { answer, .. } = &reply { answer.len() as u64 } else { 0 };
                let bytes = if self.parts.models_clients { VALUE_BYTES } else { read };
                self.ledger.sent(1, bytes);
                self.ledger.charge(Work::SentBytes, bytes, charges.send_byte);
                self.connections.answers_unread(link, bytes);
                (reply, bytes)
            }
            Question::Proof { credential, signature } => {
                return self.at_desk(world, |desk, links| desk.prove(links, link, client, &credential, &signature));
            }
        };
        let spent = Duration::from_nanos(nanos(self.ledger.total() - before));
        self.at_desk(world, |desk, links| {
            desk.answer(links, link, reply);
            desk.charge_answer(links, now, link, bytes as usize, spent);
        });
    }

    fn query(&mut self, id: u64, question: &Bytes) -> ReplicaReply {
        let executor = &mut self.parts.executor;
        match executor.query(question) {
            Ok(answer) => {
                let (height, answer) = (executor.height(), answer.into());
                ReplicaReply::Answer { id, question: question_digest(question), height, answer }
            }
            Err(panic) => ReplicaReply::Unanswered { id, why: panic.to_string(), again: false },
        }
    }

    /// Begins to verify a round's bundles. Without other threads, verifies them here.
    fn check(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let per_batch = if self.verifiers.exist() { BUNDLES_PER_BATCH } else { FRAMES_PER_TURN };
        while self.desk().unchecked() > 0 {
            let place = self.ledger.enter(MessageKind::Request, self.desk.as_ref().map_or(0, |desk| desk.unchecked()));
            let before = self.desk().verifications();
            let check = self.desk().begin_check(per_batch);
            self.charge_macs(before, world.charges);
            if let Some((number, check)) = check {
                let checks = self.checks_of(&check, world.charges);
                if self.verifiers.exist() {
                    self.verifiers.check_later(number, check, checks);
                } else {
                    checks.charge(&mut self.ledger);
                    self.desk().settle(number, check);
                }
            }
            self.ledger.leave(place);
        }
    }

    /// Charges one by one for the MACs verified since their number was `before`.
    fn charge_macs(&mut self, before: u64, charges: &Charges) {
        let verified = self.desk().verifications() - before;
        (0..verified).for_each(|_| charges.clients.verify(1).charge(&mut self.ledger));
    }

    /// Returns the cost of verifying bundles. Each forged one costs a separate verification.
    fn checks_of(&mut self, check: &ModelledCheck, charges: &Charges) -> Checks {
        let mut checks = charges.clients.verify(check.genuine.len() as u64);
        let for_forgery = match self.desk().verifier().kind() {
            ClientAuthentication::None => charges.signatures(Domain::Vote),
            _ => &charges.clients,
        };
        check.forged.iter().for_each(|_| checks.add(for_forgery.verify(1)));
        checks
    }

    /// Passes verified bundles to the replica, each batch as one input.
    fn submit_batches(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let now = self.now;
        while let Some(submission) = self.at_desk(world, |desk, host| desk.next_batch(host, now)) {
            let Submission { bundles, sources } = submission;
            let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
            world.oracle.heard_clients(self.parts.me, &digests);
            let place = self.ledger.enter(MessageKind::Request, bundles.len());
            self.think(Input::Submit { bundles, sources }, world);
            self.misbehave();
            self.perform_all(world);
            let refused = std::mem::take(&mut self.refused);
            self.at_desk(world, |desk, links| desk.refuse(links, refused));
            self.feed_local(world);
            self.ledger.leave(place);
        }
    }

    /// Answers the bundles of a block.
    pub(super) fn reply(&mut self, executed: &mut Vec<Reply>, world: &mut Surroundings<'_, P::Message>) {
        let copies = self.parts.behaviour.as_ref().map_or(0, |behaviour| behaviour.reply_copies());
        self.at_desk(world, |desk, links| {
            desk.set_copies(copies);
            desk.deliver(links, executed);
        });
    }

    /// Makes a misbehaving replica ignore or refuse its clients.
    pub(super) fn misbehave_to_clients(&mut self) {
        let Some(behaviour) = &self.parts.behaviour else { return };
        let (answers, refuses) = (behaviour.answers_clients(self.own), behaviour.refuses_clients(self.own));
        self.desk().mute(!answers);
        self.desk().refuse_all(refuses);
    }

    /// Passes waiting batches to idle threads. Each answer of a thread triggers an iteration, so no thread stays idle.
    pub(super) fn hand_out(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let now = self.asks_at();
        let before = self.ledger.enter(MessageKind::Request, 0);
        let place = self.ledger.place();
        self.ledger.leave(before);
        while let Some((done, number, check)) = self.verifiers.next_batch(now, self.speed, place) {
            let after_ns = done.since(self.now).as_nanos() as u64;
            world.begun.push(Begun::Question(after_ns, Answer::Bundles(number, check)));
        }
    }
}
