//! Client connections of a simulated replica.

use super::{Destination, Node, Parts, Surroundings};
use crate::charges::{Charges, nanos};
use crate::clients::machine_of;
use crate::hostile::{MAX_UNREAD_BYTES, Request};
use crate::keys::Judge;
use crate::ledger::Ledger;
use crate::parcel::Parcel;
use crate::work::Work;
use quorate_applications::Reply;
use quorate_consensus::data::pool::{self, Source};
use quorate_consensus::{Envelope, Input, Protocol, Refusal};
use quorate_gateway::admission::{Amount, Load};
use quorate_gateway::budget::{
    BYTES_PER_TURN, FRAMES_PER_TURN, GENUINE_NS_PER_TURN, MAX_FAULTS, STATUS_SAVED_NS, STATUS_SHARE,
    STRANGERS_NS_PER_TURN,
};
use quorate_gateway::places::{self, Entrance, Holder, MAX_LINKS, MAX_LINKS_PER_ADDRESS};
use quorate_gateway::turns::Standing;
use quorate_hosting::{Answers, bad_expiry, refusal};
use quorate_types::stages::MessageKind;
use quorate_types::{Bundle, ClientId, Digest, Domain, ReplicaReply, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The link of the first machine of honest clients. The others have the next ones.
pub const HONEST_LINK: u16 = 0;
/// Address of the first machine and of all hostile clients. Sharing it is the harder case, since hostile and honest
/// clients share its quota. Each further machine has the next one.
const ADDRESS: u64 = 0;

/// State of a replica's client connections.
pub struct Door {
    /// Number of machines of honest clients.
    machines: u16,
    /// Bytes of answers that are not read, by link.
    unread: BTreeMap<u16, u64>,
    /// Time spent on statuses in nanoseconds, less the allowance accrued up to `status_at`.
    status_ns: u64,
    status_at: Time,
    /// Links that hold connection slots, except those of hostile clients that send requests, which reconnect at once.
    places: Vec<Holder<u64, u64>>,
    /// Number of connections so far. It gives each a name and a time.
    dialled: u64,
    /// Whether a proxy holds the connection slots, which keeps the oldest connections.
    proxied: bool,
}

impl Door {
    pub fn new(machines: usize) -> Door {
        Door {
            machines: machines as u16,
            unread: BTreeMap::new(),
            status_ns: 0,
            status_at: Time(0),
            places: Vec::new(),
            // In `places`, the honest clients' links come first.
            dialled: machines as u64 - 1,
            proxied: false,
        }
    }

    fn is_honest(&self, link: u16) -> bool {
        link < self.machines
    }

    fn address(&self, link: u64) -> u64 {
        if link < u64::from(self.machines) { ADDRESS + link } else { ADDRESS }
    }

    /// Opens a connection that sends nothing.
    fn squat(&mut self) {
        self.dialled += 1;
        self.enter(self.dialled);
    }

    /// Connects a machine of honest clients if it has no slot. Returns whether it has one now.
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

    /// Returns the cost of answering with a status, in picoseconds: it is computed anew, or the last one is sent again.
    fn status(&mut self, now: Time, charges: &Charges) -> u64 {
        let allowed = now.since(self.status_at).as_nanos() as u64 / STATUS_SHARE;
        self.status_at = now;
        self.status_ns = self.status_ns.saturating_sub(allowed);
        let sent = charges.status_bytes * charges.send_byte;
        if self.status_ns >= STATUS_SAVED_NS {
            return sent;
        }
        self.status_ns += nanos(charges.status);
        sent + charges.status
    }
}

impl<P: Protocol> Node<P> {
    /// Receives a request over a client's link. The honest clients count as authenticated from the beginning.
    pub fn ask(&mut self, link: u16, request: Request, bytes: u32) {
        if let Request::Nothing = request {
            self.door.proxied |= self.door.is_honest(link);
            return self.door.squat();
        }
        if self.door.is_honest(link) && !self.door.lets_honest_in(link) {
            return;
        }
        self.requests.push(link, (request, bytes));
        if self.door.is_honest(link) {
            self.requests.set_standing(link, Standing::Genuine);
        }
    }

    /// Disconnects the honest clients, which reconnect for their next request. Received requests are still served.
    pub fn hang_up(&mut self) {
        let machines = u64::from(self.door.machines);
        self.door.places.retain(|holder| holder.id >= machines);
    }

    /// Handles client requests as the node does: authenticated clients first, then strangers.
    pub(super) fn serve_clients(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let totals = self.parts.replica.parts().store.pool.totals();
        let amount = |sum: pool::Amount| Amount { commands: sum.commands, bytes: sum.bytes };
        let load = Load {
            open: amount(totals.open),
            executed: amount(totals.executed),
            executed_of_all: amount(totals.executed_of_all),
        };
        self.admission.observe(self.now.0, load);
        if self.requests.is_empty() || self.verifiers.have_enough() {
            return;
        }
        if self.network.is_none() {
            let place = self.ledger.enter(MessageKind::Request, 0);
            self.ledger.charge(Work::Reads, 1, world.charges.read_call);
            self.ledger.leave(place);
        }
        self.serve_some(Standing::Genuine, GENUINE_NS_PER_TURN, world);
        self.serve_some(Standing::Stranger, STRANGERS_NS_PER_TURN, world);
    }

    /// Serves links in turns by cost; the bundles reach the replica as one input.
    fn serve_some(&mut self, standing: Standing, max_ns: u64, world: &mut Surroundings<'_, P::Message>) {
        let (mut frames, mut bytes, mut spent_ns) = (0, 0, 0);
        let (mut bundles, mut sources, mut signatures) = (Vec::new(), Vec::new(), 0);
        while frames < FRAMES_PER_TURN && bytes < BYTES_PER_TURN && spent_ns < max_ns {
            let Some((link, (request, size))) = self.requests.next(standing) else { break };
            if self.door.is_unread(link) {
                self.requests.park(link, (request, size));
                continue;
            }
            (frames, bytes) = (frames + 1, bytes + size as usize);
            let (before, mut forged_ns) = (self.ledger.total(), 0);
            let place = self.ledger.enter(request.kind(), 1);
            // The thread of the network has read what honest clients sent, but not what attackers did.
            if self.network.is_none() || !self.door.is_honest(link) {
                self.ledger.received(u64::from(size));
                self.ledger.charge(Work::Received, 1, world.charges.receive);
                self.ledger.charge(Work::ReceivedBytes, u64::from(size), world.charges.receive_byte);
                world.charges.receive_frame(&mut self.ledger, u64::from(size));
                world.charges.hash(&mut self.ledger, 1, u64::from(size));
            }
            match request {
                Request::Bundle(bundle) => {
                    if let Some(bundle) = self.accept(link, bundle, world)
                        && self.admit(link, &bundle, &mut signatures, world)
                    {
                        self.requests.set_standing(link, Standing::Genuine);
                        bundles.push(bundle);
                        let link = u64::from(link);
                        sources.push(Source::Client { crowd: self.door.address(link), link });
                    }
                }
                Request::Forged => {
                    forged_ns = self.charge_forgery(world.charges);
                    self.blame(link);
                }
                Request::Nothing => unreachable!("a link without requests is not served"),
                Request::Status => {
                    self.ledger.charge(Work::Statuses, 1, self.door.status(self.now, world.charges));
                }
                Request::Query(answer) => {
                    self.ledger.sent(1, answer);
                    self.ledger.charge(Work::SentBytes, answer, world.charges.send_byte);
                    self.door.answers_unread(link, answer);
                }
            }
            self.ledger.leave(place);
            let cost_ns = nanos(self.ledger.total() - before) + forged_ns;
            self.requests.charge(link, cost_ns);
            spent_ns += cost_ns;
        }
        if self.verifiers.take_clients(signatures) && !self.parts.judge.judges_alone() {
            return self.verify_later(bundles, sources, signatures, world);
        }
        let place = self.ledger.enter(MessageKind::Request, bundles.len());
        world.charges.clients.verify(signatures).charge(&mut self.ledger);
        self.ledger.leave(place);
        if bundles.is_empty() {
            return;
        }
        let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
        world.oracle.heard_clients(self.parts.me, &digests);
        let place = self.ledger.enter(MessageKind::Request, bundles.len());
        self.think(Input::Submit { bundles, sources }, world);
        self.misbehave();
        self.perform_all(world);
        self.feed_local(world);
        self.ledger.leave(place);
    }

    /// Charges for a forged bundle, and returns the nanoseconds that another thread spends on it.
    fn charge_forgery(&mut self, charges: &Charges) -> u64 {
        let checks = match self.parts.judge {
            Judge::Unauthenticated => charges.signatures(Domain::Vote).verify(1),
            _ => charges.clients.verify(1),
        };
        if !self.verifiers.exist() || self.parts.judge.judges_alone() {
            checks.charge(&mut self.ledger);
            return 0;
        }
        self.verifiers.work(self.asks_at(), &checks, self.speed, self.ledger.place());
        nanos(checks.picoseconds)
    }

    /// Judges a client's bundle. Refuses it and blames its link if it is forged. Counts in `signatures` those to charge
    /// for as one batch; a code is charged for at once.
    fn admit(
        &mut self,
        link: u16,
        bundle: &Bundle,
        signatures: &mut u64,
        world: &mut Surroundings<'_, P::Message>,
    ) -> bool {
        let (genuine, checks) = self.parts.judge.check(bundle);
        match self.parts.judge.judges_alone() {
            true => world.charges.clients.verify(checks).charge(&mut self.ledger),
            false => *signatures += checks,
        }
        if !genuine {
            self.blame(link);
            let why = "forged".to_owned();
            let refusal = ReplicaReply::Refused { bundle: bundle.digest(), why, again: false };
            self.tell_clients(bundle.origin(), Arc::new(refusal), world);
        }
        genuine
    }

    /// Counts a forgery that arrived on a link, and disconnects it after too many.
    fn blame(&mut self, link: u16) {
        self.requests.set_standing(link, Standing::Stranger);
        if self.requests.fault(link) >= MAX_FAULTS {
            self.requests.forget(link);
        }
    }

    /// Charges for verifying the clients' signatures in a peer's message that were not verified before, in one batch.
    /// Drops bundles without a code for this replica, unless a decided block names them, as the node does.
    pub(super) fn judge_message(&mut self, message: &mut Envelope<P::Message>, charges: &Charges) {
        let Parts { judge, replica, .. } = &mut self.parts;
        let (mut checked, judges_alone) = (0, judge.judges_alone());
        let mut check = |bundle: &Bundle| {
            let (genuine, checks) = judge.check(bundle);
            checked += checks;
            genuine
        };
        if judges_alone {
            message.retain_bundles(|bundle| check(bundle) || replica.is_decided(&bundle.digest()));
        } else {
            for bundle in message.bundles() {
                check(bundle);
            }
        }
        charges.clients.verify(checked).charge(&mut self.ledger);
    }

    /// Answers a bundle, or returns it to be ordered.
    fn accept(&mut self, link: u16, bundle: Bundle, world: &mut Surroundings<'_, P::Message>) -> Option<Bundle> {
        let (digest, origin) = (bundle.digest(), bundle.origin());
        if self.parts.replica.expects(&digest) {
            return Some(bundle);
        }
        if let Some(reply) = self.replies.get(&digest).cloned() {
            self.tell_clients(origin, reply, world);
            return None;
        }
        if let Some(reply) = self.parts.executor.settled(&bundle) {
            self.answer_again(reply, world);
            return None;
        }
        if let Some(why) = bad_expiry(&bundle, self.parts.executor.height()) {
            let refusal = ReplicaReply::Refused { bundle: digest, why, again: true };
            self.tell_clients(origin, Arc::new(refusal), world);
            return None;
        }
        let amount = Amount { commands: bundle.len() as u64, bytes: bundle.body().len() as u64 };
        let behaviour = self.parts.behaviour.as_ref();
        let refuses_all = behaviour.is_some_and(|behaviour| behaviour.refuses_clients(self.own));
        let admits = self.admission.admits(link, self.door.address(u64::from(link)), amount) && !refuses_all;
        if !admits && !self.parts.replica.is_known(&digest) {
            let retry_after_ms = self.admission.refuse(amount);
            self.tell_clients(origin, Arc::new(ReplicaReply::Busy { bundle: digest, retry_after_ms }), world);
            return None;
        }
        Some(bundle)
    }

    /// Answers the clients of a bundle that was not accepted.
    pub(super) fn refuse(&mut self, bundle: Digest, why: Refusal, world: &mut Surroundings<'_, P::Message>) {
        let is_answered = self.answers() == Answers::Nothing || self.replies.get(&bundle).is_some();
        if let Some(why) = refusal(why, is_answered) {
            let origin = world.oracle.origin_of(&bundle).unwrap_or_default();
            let refusal = ReplicaReply::Refused { bundle, why: why.to_owned(), again: true };
            self.tell_clients(origin, Arc::new(refusal), world);
        }
    }

    /// Answers a bundle that was executed before and whose original reply is not kept.
    fn answer_again(&mut self, reply: Reply, world: &mut Surroundings<'_, P::Message>) {
        let Some(results) = self.answers().form(reply.results) else { return };
        let (bundle, height) = (reply.bundle, reply.height);
        self.tell_clients(reply.origin, Arc::new(ReplicaReply::Executed { bundle, height, results }), world);
    }

    fn answers(&self) -> Answers {
        Answers::of(self.parts.me, self.parts.reply)
    }

    /// Answers the clients, unless the bundle had already been executed before a crash.
    pub(super) fn reply(&mut self, reply: Reply, world: &mut Surroundings<'_, P::Message>) {
        let Reply { origin, bundle, height, results, is_new } = reply;
        let Some(results) = self.answers().form(results) else { return };
        let reply = self.replies.get_or_keep(bundle, is_new, || {
            let bytes = results.body().len();
            (Arc::new(ReplicaReply::Executed { bundle, height, results }), bytes)
        });
        if self.recalls {
            return;
        }
        // Sealed replies are copied when they are sealed.
        let times = if self.parts.seal_bytes.is_some() { 1 } else { 1 + self.parts.replica.reply_copies() };
        for reply in std::iter::repeat_n(reply, times) {
            self.prepare_reply(origin, reply, world);
        }
    }

    /// Answers a client on its own.
    fn tell_clients(&mut self, origin: ClientId, reply: Arc<ReplicaReply>, world: &mut Surroundings<'_, P::Message>) {
        self.prepare_reply(origin, reply, world);
        self.seal_replies(false, world);
    }

    /// Sends a reply, or keeps it for [`Node::seal_replies`].
    fn prepare_reply(&mut self, origin: ClientId, reply: Arc<ReplicaReply>, world: &mut Surroundings<'_, P::Message>) {
        let behaviour = self.parts.behaviour.as_ref();
        if behaviour.is_some_and(|behaviour| !behaviour.answers_clients(self.own)) {
            return;
        }
        let place = self.ledger.enter(MessageKind::Reply, 1);
        self.ledger.charge(Work::Bundles, 1, world.charges.bundle);
        let machine = machine_of(origin, &self.parts.origins);
        match self.parts.seal_bytes {
            Some(_) => self.unsealed.entry(machine).or_default().push(reply),
            None => self.departs(Destination::One(self.parts.replicas + machine), Parcel::reply(reply), 1, world),
        }
        self.ledger.leave(place);
    }

    /// Sends the replies that wait for a seal, with one for each machine. The thread of the network signs those of a
    /// block.
    pub(super) fn seal_replies(&mut self, of_block: bool, world: &mut Surroundings<'_, P::Message>) {
        let Some(seal_bytes) = self.parts.seal_bytes else { return };
        for (machine, replies) in std::mem::take(&mut self.unsealed) {
            let place = self.ledger.enter(MessageKind::Reply, replies.len());
            let charges = world.charges.seals.as_ref().expect("the table has the costs of the seals");
            let parcel = Parcel::sealed(replies, seal_bytes);
            let bytes = u64::from(parcel.bytes);
            let charge = |ledger: &mut Ledger| {
                charges.sign(ledger);
                world.charges.hash(ledger, 1, bytes);
            };
            match of_block && charges.are_signatures() {
                true => self.charge_sending(charge),
                false => charge(&mut self.ledger),
            }
            for parcel in std::iter::repeat_n(parcel, 1 + self.parts.replica.reply_copies()) {
                self.departs(Destination::One(self.parts.replicas + machine), parcel, 1, world);
            }
            self.ledger.leave(place);
        }
    }
}
