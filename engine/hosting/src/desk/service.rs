//! Service to clients: selection of frames, their costs, and the decisions about them.

use super::batches::Arrival;
use super::{BundleLimits, ClientLinks, ClientTerms, ClientVerifier, Desk, DeskHost};
use crate::bad_expiry;
use bytes::Bytes;
use quorate_network::gateway::admission::Amount;
use quorate_network::gateway::budget::{
    BYTES_PER_TURN, FRAMES_PER_TURN, GENUINE_NS_PER_TURN, MAX_FAULTS, STRANGERS_NS_PER_TURN, answer_cost_ns,
};
use quorate_network::gateway::turns::Standing;
use quorate_types::{Bundle, ClientId, ClientRequest, DecodeError, Digest, Parameters, ReplicaReply, Time};
use std::hash::Hash;
use std::time::Duration;

/// Base cost of a frame, in nanoseconds.
const FRAME_NS: u64 = 1_000;
/// Cost of a bundle per byte, for hashing, in nanoseconds.
const BYTE_NS: u64 = 2;
/// Cost of verifying a bundle's signature individually, in nanoseconds. In a batch it takes half.
pub(super) const SIGNATURE_NS: u64 = 50_000;

/// A client's frame, decoded.
pub struct ClientFrame<K> {
    pub link: K,
    /// Identity claimed by the link's client.
    pub client: ClientId,
    pub bytes: usize,
    pub request: Result<ClientRequest, DecodeError>,
}

/// A query of an admitted client. The host answers it, and then charges its link for the time.
pub enum Question {
    Query {
        id: u64,
        question: Bytes,
    },
    Status {
        id: u64,
        history: bool,
    },
    /// Proof of a key, for [`Desk::prove`].
    Proof {
        credential: Bytes,
        signature: Bytes,
    },
}

/// Service to the links of one standing in one turn of the desk.
pub(super) struct Round<K> {
    standing: Standing,
    frames: usize,
    bytes: usize,
    spent_ns: u64,
    /// Accepted bundles.
    pub arrivals: Vec<Arrival<K>>,
}

impl<K> Round<K> {
    pub fn of(standing: Standing) -> Round<K> {
        Round { standing, frames: 0, bytes: 0, spent_ns: 0, arrivals: Vec::new() }
    }

    fn is_over(&self) -> bool {
        let max_ns = match self.standing {
            Standing::Genuine => GENUINE_NS_PER_TURN,
            Standing::Stranger => STRANGERS_NS_PER_TURN,
        };
        self.frames >= FRAMES_PER_TURN || self.bytes >= BYTES_PER_TURN || self.spent_ns >= max_ns
    }
}

impl<K: Copy + Eq + Hash, F, R: Clone, V: ClientVerifier> Desk<K, F, R, V> {
    /// Begins to serve links of this standing. All bundles of the last round must be [checked](Desk::begin_check).
    pub fn begin_round(&mut self, standing: Standing) {
        assert!(self.round.arrivals.is_empty(), "the bundles of a round are checked at its end");
        self.round = Round::of(standing);
    }

    /// Takes the next frame, if one is queued and the budget of the round is not used up. The host passes it to
    /// [`Desk::serve`].
    pub fn next(&mut self, links: &impl ClientLinks<Link = K>) -> Option<(K, F)> {
        while !self.round.is_over() {
            let (link, frame) = self.turns.next(self.round.standing)?;
            if !links.is_congested(link) {
                return Some((link, frame));
            }
            self.turns.park(link, frame);
        }
        None
    }

    /// Serves a frame: answers it, or keeps its bundle for verification, or returns a query for the host.
    pub fn serve<H>(&mut self, host: &mut H, now: Time, frame: ClientFrame<K>) -> Option<Question>
    where
        H: DeskHost<Links: ClientLinks<Link = K, Reply = R>>,
    {
        let ClientFrame { link, client, bytes, request } = frame;
        self.round.frames += 1;
        self.round.bytes += bytes;
        host.links().release(link, bytes);
        self.authentication_ns = 0;
        let (mut cost_ns, mut question) = (FRAME_NS + BYTE_NS * bytes as u64, None);
        match request {
            Ok(ClientRequest::Submit(bundle)) => {
                let is_accepted = self.take_bundle(host, now, link, client, bundle);
                if self.parts.verifier.requires_certificates() || is_accepted && self.checks_signatures() {
                    cost_ns += SIGNATURE_NS;
                }
            }
            Ok(ClientRequest::Introduce { .. }) => {}
            Ok(ClientRequest::Prove { credential, signature }) => {
                question = Some(Question::Proof { credential, signature });
            }
            Ok(request) => question = self.take_question(host, now, link, request),
            Err(error) => {
                self.undecodable += 1;
                self.refuse_for_good(host.links(), link, Digest::ZERO, error.to_string());
                self.fault(host.links(), link);
            }
        }
        let cost_ns = cost_ns + std::mem::take(&mut self.authentication_ns);
        self.charge(link, cost_ns);
        question
    }

    /// Charges a link for work in this round.
    pub fn charge(&mut self, link: K, cost_ns: u64) {
        self.turns.charge(link, cost_ns);
        self.round.spent_ns += cost_ns;
    }

    /// Answers a query that takes no time, and returns any other one that may be answered.
    fn take_question<H: DeskHost<Links: ClientLinks<Link = K>>>(
        &mut self,
        host: &mut H,
        now: Time,
        link: K,
        request: ClientRequest,
    ) -> Option<Question> {
        let (id, question) = match request {
            ClientRequest::Query { id, question } => (id, Asked::Host(Question::Query { id, question })),
            ClientRequest::Status { id, history } => (id, Asked::Host(Question::Status { id, history })),
            ClientRequest::Height { id } => (id, Asked::Height),
            ClientRequest::Compare { id, values } => (id, Asked::Terms(values)),
            ClientRequest::Support { id, .. } => (id, Asked::Nothing(FOR_OPERATORS)),
            ClientRequest::Submit(_) | ClientRequest::Introduce { .. } | ClientRequest::Prove { .. } => return None,
        };
        let address = self.address(link, host.links());
        let reply = match (self.parts.questions.refusal(link, address, id, now), question) {
            (Some(refusal), _) => refusal,
            (None, Asked::Host(question)) => return Some(question),
            (None, Asked::Nothing(why)) => ReplicaReply::Unanswered { id, why: why.to_owned(), again: false },
            (None, Asked::Height) => ReplicaReply::Height { id, height: host.executor().height() },
            (None, Asked::Terms(values)) => {
                let ClientTerms { parameters, max_frame_bytes } = &self.parts.terms;
                let differing = parameters.differing(&values);
                ReplicaReply::Compared { id, differing, max_frame_bytes: *max_frame_bytes }
            }
        };
        self.tell(host.links(), link, reply);
        None
    }

    /// Takes a link's proof of a key.
    pub fn prove(
        &mut self,
        links: &mut impl ClientLinks<Link = K>,
        link: K,
        client: ClientId,
        credential: &[u8],
        signature: &[u8],
    ) {
        if self.parts.questions.prove(link, client, credential, signature) {
            self.mark_genuine(links, link);
        }
    }

    /// Sends the answer to a query.
    pub fn answer(&mut self, links: &mut impl ClientLinks<Link = K>, link: K, reply: ReplicaReply) {
        self.tell(links, link, reply);
        // The host measures authentication as part of the answer.
        self.authentication_ns = 0;
    }

    /// Charges a client and its link for an answer of `bytes` that took `spent` to produce and send.
    pub fn charge_answer(
        &mut self,
        links: &impl ClientLinks<Link = K>,
        now: Time,
        link: K,
        bytes: usize,
        spent: Duration,
    ) {
        let address = self.address(link, links);
        self.parts.questions.charge(link, address, bytes, spent, now);
        self.charge(link, answer_cost_ns(spent.as_nanos() as u64, bytes));
    }

    /// Answers or refuses a bundle, or keeps it for verification. Returns whether it is kept.
    fn take_bundle<H>(&mut self, host: &mut H, now: Time, link: K, client: ClientId, bundle: Bundle) -> bool
    where
        H: DeskHost<Links: ClientLinks<Link = K, Reply = R>>,
    {
        if !self.accepts_from(host, now, link, client, &bundle) {
            return false;
        }
        let is_first = !self.checks_signatures() || self.batches.note(bundle.digest());
        let was_known = !is_first || self.parts.verifier.is_verified(&bundle.digest());
        self.round.arrivals.push(Arrival { link, bundle, was_known });
        true
    }

    /// Returns whether a bundle should be ordered. Otherwise informs its client of the reason, or of its outcome.
    fn accepts_from<H>(&mut self, host: &mut H, now: Time, link: K, client: ClientId, bundle: &Bundle) -> bool
    where
        H: DeskHost<Links: ClientLinks<Link = K, Reply = R>>,
    {
        let digest = bundle.digest();
        if let Some(why) = self.misfit(client, bundle) {
            self.refuse_for_good(host.links(), link, digest, why);
            return false;
        }
        if !host.executor().begins_anew(bundle) && !host.expects(&digest) {
            if let Some(reply) = self.kept_reply(&digest) {
                // The bundle was executed, so its signature has been verified. The client may have sent it to the
                // leader alone and now repeats it here, so the link receives the client's replies if no other one does.
                self.links.entry(client).or_insert(link);
                self.repeat(host.links(), link, reply);
                return false;
            }
            // Bundles executed while this replica was away may still arrive, and anybody can replay them. Never order
            // them again.
            if let Some(reply) = host.executor().settled(bundle) {
                self.answer_again(host.links(), link, reply);
                return false;
            }
        }
        if let Some(judgement) = host.executor().judge_change(bundle) {
            self.charge(link, SIGNATURE_NS * host.executor().level_signers() as u64);
            if let Err(fault) = judgement {
                self.refuse_for_good(host.links(), link, digest, fault.to_string());
                return false;
            }
        }
        if let Some(why) = bad_expiry(bundle, host.executor().height()) {
            // A temporary refusal: the bundle may have arrived before, and its outcome is known after it has expired.
            self.refuse_for_now(host.links(), link, digest, why);
            return false;
        }
        let certificate = self.parts.verifier.lacks_certificate(bundle);
        if let Some(why) = self.parts.policy.refusal(bundle, certificate) {
            self.refuse_for_good(host.links(), link, digest, why);
            return false;
        }
        let policy = &mut self.parts.policy;
        if policy.has_quotas()
            && !host.is_known(&digest)
            && let Some(why) = policy.over_quota(client, now)
        {
            self.refuse_for_now(host.links(), link, digest, why);
            return false;
        }
        let address = self.address(link, host.links());
        let is_admitted = self.parts.admission.admits(link, address, amount(bundle)) && !self.refuses_all;
        if !is_admitted && !host.is_known(&digest) {
            self.refuse_for_load(host.links(), link, bundle);
            return false;
        }
        true
    }

    /// Returns the reason why a client's bundle cannot be ordered; `None` if it can.
    fn misfit(&self, client: ClientId, bundle: &Bundle) -> Option<String> {
        let BundleLimits { commands, bytes } = self.parts.limits;
        if self.checks_signatures() && bundle.authenticator().is_none() {
            return Some(UNAUTHENTICATED.to_owned());
        }
        if bundle.origin() != client {
            return Some(format!(
                "the bundle's replies go to client {}, but this link is client {client}'s; help: make the bundle with \
                 the link's own id",
                bundle.origin()
            ));
        }
        if bundle.len() > commands {
            return Some(format!(
                "the bundle has {} commands, but a block takes {commands}; help: send smaller bundles, or raise \
                 `batch` on all replicas",
                bundle.len()
            ));
        }
        (bundle.body().len() > bytes).then(|| {
            format!(
                "the bundle has {} bytes, but a block takes {bytes}; help: send smaller bundles, or raise \
                 `batch_bytes` on all replicas",
                bundle.body().len()
            )
        })
    }

    /// Records that a link's client has proved its key, or has signed a bundle.
    pub(super) fn mark_genuine(&mut self, links: &mut impl ClientLinks<Link = K>, link: K) {
        if self.turns.standing(link) == Standing::Stranger {
            self.turns.set_standing(link, Standing::Genuine);
            links.vouch(link, true);
        }
    }

    /// Handles a frame that no honest client sends: the link loses its standing, and is closed after several faults.
    pub(super) fn fault(&mut self, links: &mut impl ClientLinks<Link = K>, link: K) {
        self.turns.set_standing(link, Standing::Stranger);
        links.vouch(link, false);
        if self.turns.fault(link) >= MAX_FAULTS {
            self.turns.forget(link);
            links.close(link, format!("{MAX_FAULTS} of its frames were forged bundles or invalid messages"));
        }
    }
}

/// The party that answers a query.
enum Asked {
    Host(Question),
    Height,
    Terms(Parameters),
    /// Nobody, for this reason.
    Nothing(&'static str),
}

pub(super) fn amount(bundle: &Bundle) -> Amount {
    Amount { commands: bundle.len() as u64, bytes: bundle.body().len() as u64 }
}

const FOR_OPERATORS: &str = "a replica signs that it supports a feature level only for its operators; help: ask at the \
     address of `admin_listen`";
const UNAUTHENTICATED: &str = "the bundle is not signed, but this cluster requires signatures; help: set \
     `client_authentication = \"ed25519\"` in client.toml";
