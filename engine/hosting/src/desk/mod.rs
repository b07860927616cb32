//! The clients' desk of a replica: decides on each client frame, without I/O.
//!
//! A host [queues](Desk::push) the frames of its clients. In each event-loop iteration it [begins](Desk::begin_turn) a
//! turn of the desk, and serves first the links known to be genuine, then the others:
//!
//! - [`Desk::next`] chooses a frame, and [`Desk::serve`] answers or refuses it, keeps its bundle, or returns a
//!   [`Question`] to the host.
//! - [`Desk::begin_check`] returns signatures to verify, on any thread; [`Desk::settle`] takes the outcome.
//! - [`Desk::next_batch`] returns verified bundles for the replica, and [`Desk::refuse`] informs the clients of refused
//!   bundles.
//! - [`Desk::deliver`] answers executed bundles.
//!
//! Links take [turns](quorate_network::gateway::turns) by cost. In each turn of the desk, genuine links get up to
//! [`GENUINE_NS_PER_TURN`](quorate_network::gateway::budget::GENUINE_NS_PER_TURN) of work, and all others together up
//! to [`STRANGERS_NS_PER_TURN`](quorate_network::gateway::budget::STRANGERS_NS_PER_TURN): the upper bound on the delay
//! per turn that an attacker without keys can cause. The signatures of the two groups are verified in separate batches,
//! so a forged signature never forces a genuine one to be verified twice.
//!
//! Most costs are nominal, since the desk has no clock. The host measures only the time for answers and for
//! authentication.

mod batches;
mod host;
mod policy;
mod questions;
mod quota;
mod replies;
mod service;
mod statuses;
mod submissions;
mod verifier;

pub use host::{ClientLinks, DeskHost};
pub use policy::{AdmissionPolicy, ClientKeys};
pub use questions::{AnswerQuotas, Askers, QuestionPolicy};
pub use replies::{is_about_a_bundle, needs_authentication};
pub use service::{ClientFrame, Question};
pub use submissions::Submission;
pub use verifier::ClientVerifier;

use crate::{Answers, ReplyCache};
use batches::Batches;
use quorate_applications::Executor;
use quorate_consensus::data::pool::{Amount as PoolAmount, Source, Totals};
use quorate_consensus::{Envelope, Protocol, Replica};
use quorate_crypto::ClientAuthentication;
use quorate_network::gateway::admission::{Admission, Amount, Load};
use quorate_network::gateway::turns::{Standing, Turns};
use quorate_types::{ClientId, Digest, Parameters, Time};
use replies::Gathered;
use service::Round;
use statuses::Statuses;
use std::collections::HashMap;
use std::hash::Hash;

/// Limits for a client's bundle.
#[derive(Clone, Copy, Debug)]
pub struct BundleLimits {
    /// Maximum number of commands in a block.
    pub commands: usize,
    /// Maximum bytes of bundles in a block.
    pub bytes: usize,
}

/// Parts of a replica's configuration, besides the genesis, that a client must know.
#[derive(Clone, Debug, Default)]
pub struct ClientTerms {
    /// Values by the keys of `client.toml`.
    pub parameters: Parameters,
    /// Maximum length of a client's frame, in bytes.
    pub max_frame_bytes: u32,
}

/// Parts from which a desk is built. `K` identifies a link, `R` is the representation of a kept reply.
pub struct DeskParts<K, R, V> {
    pub answers: Answers,
    pub limits: BundleLimits,
    pub terms: ClientTerms,
    pub verifier: V,
    pub cache: ReplyCache<R>,
    pub admission: Admission<K>,
    pub policy: AdmissionPolicy,
    pub questions: QuestionPolicy<K>,
}

/// The clients' desk of a replica. `F` is a queued frame.
pub struct Desk<K, F, R, V> {
    parts: DeskParts<K, R, V>,
    /// Whether it never reports about bundles, as a misbehaving replica.
    is_muted: bool,
    /// Whether it refuses all bundles, as a misbehaving replica.
    refuses_all: bool,
    turns: Turns<K, F>,
    round: Round<K>,
    batches: Batches<K>,
    /// Bundles of the last submission, with the links on which they arrived.
    submitted: Vec<(K, Digest)>,
    /// The link that receives a client's replies.
    links: HashMap<ClientId, K>,
    /// Source of the bundles on each link.
    sources: HashMap<K, Source>,
    /// The most recently used source.
    last: Option<(K, Source)>,
    /// Sources of closed links that are not reported to the replica yet.
    left: Vec<Source>,
    gathered: Gathered<K, R>,
    /// Additional copies of each reply to an executed bundle, or of each message with several replies.
    copies: usize,
    /// Time spent on authentication for the current frame, in nanoseconds.
    authentication_ns: u64,
    statuses: Statuses,
    undecodable: u64,
    forged_by_peers: u64,
    forged_by_clients: u64,
}

impl<K: Copy + Eq + Hash, F, R: Clone, V: ClientVerifier> Desk<K, F, R, V> {
    pub fn new(parts: DeskParts<K, R, V>) -> Desk<K, F, R, V> {
        Desk {
            parts,
            is_muted: false,
            refuses_all: false,
            turns: Turns::default(),
            round: Round::of(Standing::Genuine),
            batches: Batches::default(),
            submitted: Vec::new(),
            links: HashMap::new(),
            sources: HashMap::new(),
            last: None,
            left: Vec::new(),
            gathered: Gathered::default(),
            copies: 0,
            authentication_ns: 0,
            statuses: Statuses::default(),
            undecodable: 0,
            forged_by_peers: 0,
            forged_by_clients: 0,
        }
    }

    /// Replaces the admission policies for bundles and queries.
    pub fn set_policies(&mut self, policy: AdmissionPolicy, questions: QuestionPolicy<K>) {
        (self.parts.policy, self.parts.questions) = (policy, questions);
    }

    /// Changes the keys and quotas of the admission policies. Counts and debts remain.
    pub fn change_policies(&mut self, policy: AdmissionPolicy, questions: QuestionPolicy<K>) {
        self.parts.policy.change(policy);
        self.parts.questions.change(questions);
    }

    /// Stops or resumes answering and refusing bundles. Queries are still answered.
    pub fn mute(&mut self, is_muted: bool) {
        self.is_muted = is_muted;
    }

    /// Starts or stops refusing all client bundles as if the replica were overloaded.
    pub fn refuse_all(&mut self, refuses_all: bool) {
        self.refuses_all = refuses_all;
    }

    /// Sets the number of additional copies of replies to executed bundles.
    pub fn set_copies(&mut self, copies: usize) {
        self.copies = copies;
    }

    /// Records that a client has connected; its latest link receives its replies. If clients are authenticated, the
    /// link must first carry a genuine bundle of the client: an id is only a claim, and otherwise anybody who claimed
    /// it would receive the replies.
    pub fn connected(&mut self, client: ClientId, link: K) {
        if self.parts.verifier.kind() == ClientAuthentication::None {
            self.links.insert(client, link);
        }
    }

    /// Records that a client's link has closed: drops its frames and bundles.
    pub fn disconnected(&mut self, client: ClientId, link: K) {
        self.parts.questions.disconnected(link);
        if self.links.get(&client) == Some(&link) {
            self.links.remove(&client);
        }
        self.batches.forget(link);
        self.turns.forget(link);
        self.left.extend(self.sources.remove(&link));
        self.last = None;
    }

    /// Treats a link's client as authenticated, as if a genuine bundle had arrived on the link.
    pub fn trust(&mut self, client: ClientId, link: K) {
        self.links.insert(client, link);
        self.turns.set_standing(link, Standing::Genuine);
    }

    /// Queues a client's frame; [`Desk::begin_turn`] begins to serve the queues.
    #[inline]
    pub fn push(&mut self, link: K, frame: F) {
        self.turns.push(link, frame);
    }

    /// Returns whether no frame is queued.
    pub fn is_idle(&self) -> bool {
        self.turns.is_empty()
    }

    /// Records the replica's load, before clients are served. Resumes links whose clients have read their replies.
    /// Returns the sources of closed links, which the replica must learn first.
    pub fn begin_turn(&mut self, now: Time, totals: Totals, links: &impl ClientLinks<Link = K>) -> Vec<Source> {
        let amount = |sum: PoolAmount| Amount { commands: sum.commands, bytes: sum.bytes };
        let (open, executed) = (amount(totals.open), amount(totals.executed));
        let load = Load { open, executed, executed_of_all: amount(totals.executed_of_all) };
        self.parts.admission.observe(now.0, load);
        self.turns.resume(|link| !links.is_congested(link));
        std::mem::take(&mut self.left)
    }

    /// Returns the source of the bundles on a link. Bundles of one link are adjacent.
    fn source(&mut self, link: K, links: &impl ClientLinks<Link = K>) -> Source {
        match self.last {
            Some((last, source)) if last == link => source,
            _ => {
                let source = *self.sources.entry(link).or_insert_with(|| links.source(link));
                self.last = Some((link, source));
                source
            }
        }
    }

    fn address(&mut self, link: K, links: &impl ClientLinks<Link = K>) -> u64 {
        self.source(link, links).source_group().unwrap_or_default()
    }

    /// Returns whether bundles carry signatures to verify.
    pub fn checks_signatures(&self) -> bool {
        self.parts.verifier.kind() != ClientAuthentication::None
    }

    /// Drops bundles that need not be ordered from a peer's message, and returns whether the others are genuine. Honest
    /// peers verify the bundles that they forward, so it does not matter which one is forged. A peer is not to blame
    /// for a bundle without a MAC for this replica: such a bundle is dropped too, unless a decided block contains it.
    pub fn judge_message<P: Protocol>(
        &mut self,
        replica: &Replica<P>,
        executor: &Executor,
        message: &mut Envelope<P::Message>,
    ) -> bool {
        replica.screen(message, |bundle| executor.settled(bundle).is_some());
        let verifier = &mut self.parts.verifier;
        if verifier.kind() == ClientAuthentication::Mac {
            message.retain_bundles(|bundle| verifier.are_genuine([bundle]) || replica.is_decided(&bundle.digest()));
            return true;
        }
        let is_genuine = verifier.are_genuine(message.bundles());
        self.forged_by_peers += u64::from(!is_genuine);
        is_genuine
    }

    /// Closes the desk, and returns its verifier.
    pub fn into_verifier(self) -> V {
        self.parts.verifier
    }

    pub fn verifier(&mut self) -> &mut V {
        &mut self.parts.verifier
    }

    /// Returns the number of client signatures verified since the start.
    pub fn verifications(&self) -> u64 {
        self.parts.verifier.verifications()
    }

    pub fn admission(&self) -> &Admission<K> {
        &self.parts.admission
    }

    /// Returns the counts of refused and ignored messages, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let own = [
            ("undecodable-from-clients", self.undecodable),
            ("busy", self.parts.admission.refused_bundles()),
            ("forged-by-peers", self.forged_by_peers),
            ("forged-by-clients", self.forged_by_clients),
        ];
        let refusals = self.parts.policy.refusals().into_iter().chain(self.parts.questions.refusals());
        own.into_iter().chain(refusals).filter(|(_, count)| *count > 0)
    }
}
