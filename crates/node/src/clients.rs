//! Service to clients: scheduling, cost accounting and refusals.
//!
//! Links take [turns](quorate_gateway::turns) by cost. In each turn of the host, links that have carried something
//! genuine get up to [`GENUINE_NS_PER_TURN`] of work, and all others together up to [`STRANGERS_NS_PER_TURN`]: the
//! upper bound on the delay per turn that an attacker without keys can cause. The signatures of the two groups are
//! verified in separate batches, so a forged signature never forces a genuine one to be verified twice.

use crate::client_frames::{Arrival, Batch, ClientFrame, Statuses};
use crate::devices::Devices;
use crate::error::HostError;
use crate::gateway::FORGED;
use crate::host::Host;
use crate::network::{Frame, kind_of_request};
use bytes::Bytes;
use quorate_consensus::data::pool::{self, Totals};
use quorate_consensus::{Input, Protocol, Refusal};
use quorate_gateway::admission::{Amount, Load};
use quorate_gateway::budget::{
    BUNDLES_PER_BATCH, BYTES_PER_TURN, FRAMES_PER_TURN, GENUINE_NS_PER_TURN, MAX_FAULTS, STATUS_SAVED_NS, STATUS_SHARE,
    STRANGERS_NS_PER_TURN, answer_cost_ns,
};
use quorate_gateway::turns::Standing;
use quorate_hosting::{bad_expiry, refusal};
use quorate_transports::LinkId;
use quorate_types::limits::MAX_TEXT_BYTES;
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{Bundle, ClientId, ClientRequest, Digest, ReplicaReply, decode_message, question_digest};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::time::Instant;

/// Base cost of a frame, in nanoseconds.
const FRAME_NS: u64 = 1_000;
/// Cost of a bundle per byte, for hashing, in nanoseconds.
const BYTE_NS: u64 = 2;
/// Cost of a bundle's signature, in nanoseconds: about that of a single verification. In a batch it takes half.
const SIGNATURE_NS: u64 = 50_000;
/// Extra cost of a forged bundle, in nanoseconds: finding it among 256 takes 8 more batch verifications.
const FORGED_NS: u64 = 8 * SIGNATURE_NS;

impl<P: Protocol> Host<P> {
    /// Serves clients, starting with those known to be genuine.
    pub(crate) fn serve_clients(&mut self) -> Result<(), HostError> {
        let load = load_of(self.replica.parts().store.pool.totals());
        self.devices.gateway.admission.observe(self.now.0, load);
        let network = &self.devices.network;
        self.clients.turns.resume(|link| !network.is_congested(link));
        for source in std::mem::take(&mut self.clients.left) {
            self.consume(Input::Left(source));
            self.perform()?;
        }
        for (number, checked) in std::mem::take(&mut self.devices.checked) {
            let forged = self.devices.gateway.finish_check(checked);
            self.clients.batches.settle(number, forged);
        }
        self.take_batches()?;
        if self.clients.are_served() || self.devices.has_batches_enough() {
            return Ok(());
        }
        self.serve_some(Standing::Genuine, GENUINE_NS_PER_TURN)?;
        self.serve_some(Standing::Stranger, STRANGERS_NS_PER_TURN)
    }

    /// Serves frames of clients with this standing.
    fn serve_some(&mut self, standing: Standing, max_ns: u64) -> Result<(), HostError> {
        let (mut spent_ns, mut bytes, mut frames) = (0, 0, 0);
        let mut arrivals = Vec::new();
        while frames < FRAMES_PER_TURN && bytes < BYTES_PER_TURN && spent_ns < max_ns {
            let Some((link, waiting)) = self.clients.turns.next(standing) else { break };
            if self.devices.network.is_congested(link) {
                self.clients.turns.park(link, waiting);
                continue;
            }
            let ClientFrame { client, frame } = waiting;
            (frames, bytes) = (frames + 1, bytes + frame.bytes());
            self.devices.network.release(link, frame.bytes());
            self.devices.gateway.seals.take_spent_ns();
            let (served_ns, bundle) = self.serve(link, client, frame);
            let cost_ns = served_ns + self.devices.gateway.seals.take_spent_ns();
            if let Some(bundle) = bundle {
                let gateway = &self.devices.gateway;
                let is_first = !gateway.checks_signatures() || self.clients.batches.note(bundle.digest());
                let was_known = !is_first || gateway.is_verified(&bundle);
                arrivals.push(Arrival { link, bundle, was_known });
            }
            self.clients.turns.charge(link, cost_ns);
            spent_ns += cost_ns;
        }
        let per_batch = if self.devices.has_verifiers() { BUNDLES_PER_BATCH } else { FRAMES_PER_TURN };
        while !arrivals.is_empty() {
            let later = arrivals.split_off(per_batch.min(arrivals.len()));
            self.check(std::mem::replace(&mut arrivals, later));
        }
        self.take_batches()
    }

    /// Begins to verify bundles. Without other threads, this verifies them.
    fn check(&mut self, arrivals: Vec<Arrival>) {
        let number = self.clients.batches.next_number();
        let Devices { gateway, .. } = &mut self.devices;
        let _requests = stages::message(MessageKind::Request, arrivals.len());
        let _stage = gateway.checks_signatures().then(|| stages::enter(Stage::Authenticate));
        let forged = match gateway.begin_check(arrivals.iter().map(|arrival| &arrival.bundle)) {
            ControlFlow::Break(forged) => Some(forged),
            ControlFlow::Continue(task) => {
                let checked = self.devices.check_batch(number, task);
                checked.map(|checked| self.devices.gateway.finish_check(checked))
            }
        };
        self.clients.batches.push(Batch { arrivals, forged });
    }

    /// Hands verified bundles to the replica, each batch as one input.
    fn take_batches(&mut self) -> Result<(), HostError> {
        while let Some((arrivals, forged)) = self.clients.batches.pop() {
            let bundles = self.take_genuine(arrivals, &forged);
            self.charge(&bundles);
            self.submit(bundles)?;
        }
        Ok(())
    }

    /// Returns why a client must wait with a bundle that this replica does not know yet.
    fn over_quota(&mut self, client: ClientId, bundle: &Digest) -> Option<String> {
        let doorkeeper = &mut self.devices.gateway.doorkeeper;
        if !doorkeeper.has_quotas() || self.replica.is_known(bundle) {
            return None;
        }
        doorkeeper.over_quota(client, self.now)
    }

    /// Charges the quotas of clients for bundles that this replica does not know yet: anyone can repeat others.
    fn charge(&mut self, bundles: &[Bundle]) {
        if !self.devices.gateway.doorkeeper.has_quotas() {
            return;
        }
        let mut seen = HashSet::new();
        for bundle in bundles {
            let digest = bundle.digest();
            if seen.insert(digest) && !self.replica.is_known(&digest) {
                self.devices.gateway.doorkeeper.charge(bundle, self.now);
            }
        }
    }

    fn submit(&mut self, bundles: Vec<Bundle>) -> Result<(), HostError> {
        if bundles.is_empty() {
            return Ok(());
        }
        let sources = self.clients.sources(&*self.devices.network);
        let _requests = stages::message(MessageKind::Request, bundles.len());
        self.consume(Input::Submit { bundles, sources });
        self.rewrite();
        self.perform()?;
        self.answer_the_refused();
        self.feed_local()
    }

    /// Answers a client, or returns the bundle that it wants ordered, with the cost in nanoseconds.
    fn serve(&mut self, link: LinkId, client: ClientId, frame: Frame<ClientRequest>) -> (u64, Option<Bundle>) {
        let frame_ns = FRAME_NS + BYTE_NS * frame.bytes() as u64;
        let (_message, bytes) = (stages::message(MessageKind::Unread, 1), frame.bytes());
        let decoded = frame.message(self.devices.payload_path);
        if let Ok(request) = &decoded {
            let kind = kind_of_request(request);
            stages::name(kind);
            stages::received(kind, bytes);
        }
        let spent_ns = match decoded {
            Ok(ClientRequest::Submit(bundle)) => {
                let bundle = self.accept(link, client, bundle);
                let gateway = &self.devices.gateway;
                let signed = gateway.checks_certificates() || bundle.is_some() && gateway.checks_signatures();
                return (frame_ns + if signed { SIGNATURE_NS } else { 0 }, bundle);
            }
            Ok(
                ClientRequest::Query { id, .. }
                | ClientRequest::Status { id, .. }
                | ClientRequest::Height { id }
                | ClientRequest::Compare { id, .. },
            ) if !self.may_read(link, id) => return (frame_ns, None),
            Ok(ClientRequest::Query { id, question }) => self.answer(link, id, &question),
            Ok(ClientRequest::Status { id, history }) => {
                let begun = Instant::now();
                let json = self.recent_status(history);
                let bytes = json.len();
                self.devices.gateway.send(&mut *self.devices.network, link, &ReplicaReply::Status { id, json });
                self.charge_answer(link, bytes, begun)
            }
            Ok(ClientRequest::Height { id }) => {
                let height = self.devices.executor.height();
                self.devices.gateway.send(&mut *self.devices.network, link, &ReplicaReply::Height { id, height });
                return (frame_ns, None);
            }
            Ok(ClientRequest::Compare { id, values }) => {
                let answer = self.devices.gateway.compare(id, &values);
                self.devices.gateway.send(&mut *self.devices.network, link, &answer);
                return (frame_ns, None);
            }
            Ok(ClientRequest::Introduce { credential }) => {
                self.devices.gateway.seals.introduce(link, &credential);
                return (frame_ns, None);
            }
            Ok(ClientRequest::Prove { credential, signature }) => {
                let begun = Instant::now();
                if self.devices.gateway.readers.prove(link, client, &credential, &signature) {
                    self.is_genuine(link);
                }
                elapsed_ns(begun)
            }
            Err(error) => {
                self.clients.undecodable += 1;
                self.refuse(link, Digest::ZERO, error.to_string());
                self.fault(link);
                return (frame_ns, None);
            }
        };
        (frame_ns + spent_ns, None)
    }

    /// Answers a query. Returns its cost to the link, in nanoseconds.
    fn answer(&mut self, link: LinkId, id: u64, question: &Bytes) -> u64 {
        let begun = Instant::now();
        let Devices { executor, gateway, network, .. } = &mut self.devices;
        let reply = match executor.query(question) {
            Ok(answer) => ReplicaReply::Answer {
                id,
                question: question_digest(question),
                height: executor.height(),
                answer: Bytes::from(answer),
            },
            Err(panic) => ReplicaReply::Unanswered { id, why: panic.to_string(), again: false },
        };
        let bytes = if let ReplicaReply::Answer { answer, .. } = &reply { answer.len() } else { 0 };
        gateway.send(&mut **network, link, &reply);
        // Part of the time since it began.
        gateway.seals.take_spent_ns();
        self.charge_answer(link, bytes, begun)
    }

    /// Returns whether a question of this link's may be answered. If not, tells its client why.
    fn may_read(&mut self, link: LinkId, id: u64) -> bool {
        let Devices { gateway, network, .. } = &mut self.devices;
        match gateway.readers.refusal(link, network.crowd(link), id, self.now) {
            None => true,
            Some(refusal) => {
                gateway.send(&mut **network, link, &refusal);
                false
            }
        }
    }

    /// Charges a client's quota for an answer. Returns what it costs the link, in nanoseconds.
    fn charge_answer(&mut self, link: LinkId, bytes: usize, begun: Instant) -> u64 {
        let Devices { gateway, network, .. } = &mut self.devices;
        gateway.readers.charge(link, network.crowd(link), bytes, begun.elapsed(), self.now);
        answer_cost_ns(elapsed_ns(begun), bytes)
    }

    /// Answers an operator at once: there are few of them, and they ask when something is wrong.
    pub(crate) fn serve_operator(&mut self, link: LinkId, frame: Bytes) {
        match decode_message(frame) {
            Ok(ClientRequest::Status { id, history }) => {
                let json = self.recent_status(history);
                self.devices.gateway.send(&mut *self.devices.network, link, &ReplicaReply::Status { id, json });
            }
            Ok(_) => self.refuse(link, Digest::ZERO, FOR_STATUS_ONLY.to_owned()),
            Err(error) => self.refuse(link, Digest::ZERO, error.to_string()),
        }
    }

    fn accept(&mut self, link: LinkId, client: ClientId, bundle: Bundle) -> Option<Bundle> {
        let digest = bundle.digest();
        if let Some(authenticator) = bundle.authenticator() {
            self.devices.gateway.seals.introduce(link, authenticator.public_key);
        }
        if let Some(why) = self.devices.gateway.refusal(client, &bundle) {
            self.refuse(link, digest, why);
            return None;
        }
        if !self.devices.executor.begins_anew(&bundle) && !self.replica.expects(&digest) {
            if let Some(reply) = self.devices.gateway.kept_reply(&digest) {
                // Executed, so its signature has been verified.
                self.devices.gateway.introduce(client, link);
                self.devices.gateway.seals.send(&mut *self.devices.network, link, reply);
                return None;
            }
            // Bundles executed while this replica was away may still arrive, and anyone can replay them. Never order
            // them again.
            if let Some(reply) = self.devices.executor.settled(&bundle) {
                self.devices.gateway.answer_again(&mut *self.devices.network, link, reply);
                return None;
            }
        }
        if let Some(why) = bad_expiry(&bundle, self.devices.executor.height()) {
            // A temporary refusal: the bundle may have arrived before, and its outcome is known once it has expired.
            self.refuse_for_now(link, digest, why);
            return None;
        }
        if let Some(why) = self.devices.gateway.not_admitted(&bundle) {
            self.refuse(link, digest, why);
            return None;
        }
        if let Some(why) = self.over_quota(client, &digest) {
            self.refuse_for_now(link, digest, why);
            return None;
        }
        let address = self.clients.source(link, &*self.devices.network).crowd().unwrap_or_default();
        if !self.devices.gateway.admits(link, address, &bundle) && !self.replica.is_known(&digest) {
            self.devices.gateway.refuse_for_load(&mut *self.devices.network, link, &bundle);
            return None;
        }
        Some(bundle)
    }

    /// Returns the genuine bundles, noting the links on which they arrived. Marks the senders of these, and informs
    /// the senders of the forged ones.
    fn take_genuine(&mut self, arrivals: Vec<Arrival>, forged: &BTreeSet<Digest>) -> Vec<Bundle> {
        for link in self.devices.gateway.take_genuine(&arrivals, forged) {
            self.is_genuine(link);
        }
        self.clients.submitted.clear();
        let mut bundles = Vec::with_capacity(arrivals.len());
        for Arrival { link, bundle, .. } in arrivals {
            let digest = bundle.digest();
            if !forged.contains(&digest) {
                self.clients.submitted.push((link, digest));
                bundles.push(bundle);
                continue;
            }
            self.refuse(link, digest, FORGED.to_owned());
            let sealing_ns = self.devices.gateway.seals.take_spent_ns();
            self.clients.turns.charge(link, FORGED_NS + sealing_ns);
            self.fault(link);
        }
        bundles
    }

    /// Notes that a link's client has proved its key, or signed what it sent.
    fn is_genuine(&mut self, link: LinkId) {
        if self.clients.turns.standing(link) == Standing::Stranger {
            self.clients.turns.set_standing(link, Standing::Genuine);
            self.devices.network.vouch(link, true);
        }
    }

    /// Handles a frame that no honest client sends: the link loses its standing, and is cut if this repeats.
    fn fault(&mut self, link: LinkId) {
        self.clients.turns.set_standing(link, Standing::Stranger);
        self.devices.network.vouch(link, false);
        if self.clients.turns.fault(link) >= MAX_FAULTS {
            self.clients.turns.forget(link);
            let why = format!("{MAX_FAULTS} of its frames were forged bundles or invalid messages");
            self.devices.network.close(link, why);
        }
    }

    /// Tells clients that the core refused their bundles. Refusals are in order of arrival, so one pass finds all
    /// links.
    fn answer_the_refused(&mut self) {
        let mut next = 0;
        for (bundle, why) in std::mem::take(&mut self.devices.refused) {
            let waiting = &self.clients.submitted[next..];
            let Some(place) = waiting.iter().position(|(_, digest)| *digest == bundle) else { break };
            let link = waiting[place].0;
            next += place + 1;
            let gateway = &mut self.devices.gateway;
            let kept = if why == Refusal::Executed { gateway.kept_reply(&bundle) } else { None };
            let is_answered = !gateway.answers_bundles() || kept.is_some();
            if let Some(reply) = kept {
                gateway.seals.send(&mut *self.devices.network, link, reply);
            }
            if let Some(why) = refusal(why, is_answered) {
                self.refuse_for_now(link, bundle, why.to_owned());
            }
        }
    }

    fn refuse_for_now(&mut self, link: LinkId, bundle: Digest, why: String) {
        let refused = ReplicaReply::Refused { bundle, why, again: true };
        self.devices.gateway.send(&mut *self.devices.network, link, &refused);
    }

    /// Refuses a bundle permanently.
    fn refuse(&mut self, link: LinkId, bundle: Digest, why: String) {
        let refused = ReplicaReply::Refused { bundle, why, again: false };
        self.devices.gateway.send(&mut *self.devices.network, link, &refused);
    }

    /// Returns a new status, or the last one if new ones have taken too much time lately: many clients ask for it, and
    /// it is large.
    fn recent_status(&mut self, history: bool) -> Bytes {
        let now = self.now;
        let Statuses { json, saved_ns, saved_at } = &mut self.clients.statuses;
        let earned = now.since(*saved_at).as_nanos() as u64 / STATUS_SHARE;
        (*saved_ns, *saved_at) = ((*saved_ns + earned).min(STATUS_SAVED_NS), now);
        match &json[usize::from(history)] {
            Some(last) if *saved_ns == 0 => last.clone(),
            _ => {
                let begun = Instant::now();
                let fresh = self.status_json(history);
                let Statuses { json, saved_ns, .. } = &mut self.clients.statuses;
                *saved_ns = saved_ns.saturating_sub(begun.elapsed().as_nanos() as u64);
                json[usize::from(history)] = Some(fresh.clone());
                fresh
            }
        }
    }

    /// Encodes the status as JSON that fits a reply: drops the older half of the history until it does.
    fn status_json(&self, history: bool) -> Bytes {
        let mut status = self.status(history);
        loop {
            let json = serde_json::to_vec(&status).expect("a status has a form in JSON");
            if json.len() <= MAX_TEXT_BYTES {
                return json.into();
            }
            match status.history.len() {
                0 => {
                    status.evidence.truncate(status.evidence.len() / 2);
                    status.hearsay.truncate(status.hearsay.len() / 2);
                }
                samples => drop(status.history.drain(..samples.div_ceil(2))),
            }
        }
    }
}

fn elapsed_ns(begun: Instant) -> u64 {
    begun.elapsed().as_nanos() as u64
}

/// Returns the load as the admission of clients counts it.
fn load_of(totals: Totals) -> Load {
    let amount = |sum: pool::Amount| Amount { commands: sum.commands, bytes: sum.bytes };
    Load {
        open: amount(totals.open),
        executed: amount(totals.executed),
        executed_of_all: amount(totals.executed_of_all),
    }
}

const FOR_STATUS_ONLY: &str =
    "this listener answers only requests for the status; help: use the address of `client_listen`";
