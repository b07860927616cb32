//! The clients' side of a replica: checks bundles, and sends replies, including cached ones to clients that retry.

use crate::client_frames::Arrival;
use crate::client_rules::Doorkeeper;
use crate::network::Outlet;
use crate::parameters::ClientTerms;
use crate::readers::Readers;
use crate::seals::Seals;
use bytes::Bytes;
use quorate_applications::Reply;
use quorate_crypto::{BundleTask, BundleVerifier, CheckedBundles, ClientAuthentication};
use quorate_gateway::admission::{Admission, Amount};
use quorate_hosting::{Answers, ReplyCache};
use quorate_transports::LinkId;
use quorate_types::codec::WIRE_VERSION;
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{Bundle, ClientId, Digest, Encoder, Parameters, ReplicaId, ReplicaReply, ReplyMode, Wire};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

/// Limits that a client's bundle must respect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BundleLimits {
    /// Maximum number of commands in a block.
    pub commands: usize,
    /// Maximum number of bytes of bundles in a block.
    pub bytes: usize,
}

/// The clients' side of a replica.
pub(crate) struct Gateway {
    answers: Answers,
    /// A misbehaving replica answers nothing.
    is_muted: bool,
    /// A misbehaving replica refuses all bundles.
    refuses_all: bool,
    pub admission: Admission<LinkId>,
    pub doorkeeper: Doorkeeper,
    pub readers: Readers,
    limits: BundleLimits,
    links: HashMap<ClientId, LinkId>,
    verifier: BundleVerifier,
    forged_by_peers: u64,
    forged_by_clients: u64,
    /// Encoded replies without seals, which are for one session of a client.
    cache: ReplyCache<Bytes>,
    pub seals: Seals,
    terms: ClientTerms,
    /// Encodes replies next to each other: they stay as long as they are cached, and expire in the order in which they
    /// were encoded.
    encoder: Encoder,
}

impl Gateway {
    pub fn new(
        me: ReplicaId,
        mode: ReplyMode,
        limits: BundleLimits,
        verifier: BundleVerifier,
        cache: ReplyCache<Bytes>,
        admission: Admission<LinkId>,
        readers: Readers,
    ) -> Gateway {
        let answers = Answers::of(me, mode);
        Gateway {
            answers,
            is_muted: false,
            refuses_all: false,
            admission,
            doorkeeper: Doorkeeper::default(),
            readers,
            limits,
            links: HashMap::new(),
            verifier,
            forged_by_peers: 0,
            forged_by_clients: 0,
            cache,
            seals: Seals::default(),
            terms: ClientTerms::default(),
            encoder: Encoder::with_capacity(REPLIES_CHUNK_BYTES),
        }
    }

    /// Admits only clients that the doorkeeper admits.
    pub fn with_doorkeeper(self, doorkeeper: Doorkeeper) -> Gateway {
        Gateway { doorkeeper, ..self }
    }

    /// Compares clients' configurations with these terms.
    pub fn with_terms(self, terms: ClientTerms) -> Gateway {
        Gateway { terms, ..self }
    }

    /// Returns the answer to a comparison.
    pub fn compare(&self, id: u64, values: &Parameters) -> ReplicaReply {
        let ClientTerms { parameters, max_frame_bytes } = &self.terms;
        ReplicaReply::Compared { id, differing: parameters.differing(values), max_frame_bytes: *max_frame_bytes }
    }

    /// Seals replies.
    pub fn with_seals(self, seals: Seals) -> Gateway {
        Gateway { seals, ..self }
    }

    /// Stops answering executed bundles, or starts again.
    pub fn mute(&mut self, is_muted: bool) {
        self.is_muted = is_muted;
    }

    /// Refuses all bundles of clients as if the replica were overloaded, or stops doing so.
    pub fn refuse_all(&mut self, refuses_all: bool) {
        self.refuses_all = refuses_all;
    }

    /// Returns whether a client's bundle may wait for its execution here. `address` is that of its link.
    pub fn admits(&mut self, link: LinkId, address: u64, bundle: &Bundle) -> bool {
        self.admission.admits(link, address, amount(bundle)) && !self.refuses_all
    }

    /// Tells a client to send a bundle again later.
    pub fn refuse_for_load(&mut self, transport: &mut dyn Outlet, link: LinkId, bundle: &Bundle) {
        let retry_after_ms = self.admission.refuse(amount(bundle));
        self.send(transport, link, &ReplicaReply::Busy { bundle: bundle.digest(), retry_after_ms });
    }

    /// Returns whether executed bundles are answered.
    pub fn answers_bundles(&self) -> bool {
        self.answers() != Answers::Nothing
    }

    fn answers(&self) -> Answers {
        if self.is_muted { Answers::Nothing } else { self.answers }
    }

    /// Notes that a client has connected; its latest link receives its replies. If clients are authenticated, the link
    /// must first carry a genuine bundle of the client's: an id is only a claim, and anyone who claimed it would
    /// receive the replies.
    pub fn connected(&mut self, client: ClientId, link: LinkId) {
        self.seals.connected(client, link);
        if self.verifier.kind() == ClientAuthentication::None {
            self.links.insert(client, link);
        }
    }

    /// Notes a genuine bundle of the client's that arrived on a link and was known before. The client may have sent it
    /// to the leader alone and now repeats it here, so the link receives its replies if no other one does.
    pub fn introduce(&mut self, client: ClientId, link: LinkId) {
        self.links.entry(client).or_insert(link);
    }

    /// Notes that a client's link has closed.
    pub fn disconnected(&mut self, client: ClientId, link: LinkId) {
        self.seals.disconnected(link);
        self.readers.disconnected(link);
        if self.links.get(&client) == Some(&link) {
            self.links.remove(&client);
        }
    }

    /// Returns the reply to a bundle, if it is still cached.
    pub fn kept_reply(&mut self, bundle: &Digest) -> Option<Bytes> {
        if !self.answers_bundles() {
            return None;
        }
        self.cache.get(bundle).cloned()
    }

    /// Returns the reason why a client's bundle cannot be ordered, if any.
    pub fn refusal(&self, client: ClientId, bundle: &Bundle) -> Option<String> {
        let BundleLimits { commands, bytes } = self.limits;
        if self.verifier.kind() != ClientAuthentication::None && bundle.authenticator().is_none() {
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

    /// Returns whether bundles carry certificates to verify.
    pub fn checks_certificates(&self) -> bool {
        self.verifier.requires_certificates()
    }

    /// Returns the reason why a bundle's client is not admitted, if any.
    pub fn not_admitted(&mut self, bundle: &Bundle) -> Option<String> {
        let certificate = self.verifier.lacks_certificate(bundle);
        self.doorkeeper.refusal(bundle, certificate)
    }

    /// Returns whether bundles carry signatures to verify.
    pub fn checks_signatures(&self) -> bool {
        self.verifier.kind() != ClientAuthentication::None
    }

    /// Returns whether a client's bundle was verified before.
    pub fn is_verified(&self, bundle: &Bundle) -> bool {
        self.verifier.is_verified(&bundle.digest())
    }

    /// Begins to verify clients' bundles: the forged ones, if that is known at once, or a task for any thread.
    pub fn begin_check<'a>(
        &mut self,
        bundles: impl IntoIterator<Item = &'a Bundle>,
    ) -> ControlFlow<BTreeSet<Digest>, BundleTask> {
        self.verifier.begin(bundles)
    }

    /// Returns the forged bundles that a task has found.
    pub fn finish_check(&mut self, checked: CheckedBundles) -> BTreeSet<Digest> {
        self.verifier.finish(checked)
    }

    /// Assigns the links of genuine bundles to their clients. Returns the links over which a genuine bundle arrived
    /// first; some of them may occur more than once.
    pub fn take_genuine(&mut self, arrivals: &[Arrival], forged: &BTreeSet<Digest>) -> Vec<LinkId> {
        self.forged_by_clients += forged.len() as u64;
        let mut genuine: Vec<LinkId> = Vec::new();
        for Arrival { link, bundle, was_known } in arrivals {
            if forged.contains(&bundle.digest()) {
                continue;
            }
            if self.checks_signatures() {
                // Anyone who has seen a bundle can replay it. The sender of a replay must get neither the replies nor
                // the standing of a connected client.
                if *was_known && self.links.get(&bundle.origin()).is_some_and(|held| held != link) {
                    continue;
                }
                self.links.insert(bundle.origin(), *link);
            }
            if genuine.last() != Some(link) {
                genuine.push(*link);
            }
        }
        genuine
    }

    /// Returns whether all bundles in a peer's message are genuine. Honest peers check what they forward, so it does
    /// not matter which one is forged.
    pub fn vouches(&mut self, bundles: &[Bundle]) -> bool {
        let genuine = self.verifier.are_genuine(bundles);
        self.forged_by_peers += u64::from(!genuine);
        genuine
    }

    /// Returns whether each replica judges a bundle by a code of its own.
    pub fn judges_alone(&self) -> bool {
        self.verifier.kind() == ClientAuthentication::Mac
    }

    /// Returns whether a bundle that a peer passed on is genuine here. The peer is not to blame if it is not.
    pub fn accepts(&mut self, bundle: &Bundle) -> bool {
        self.verifier.are_genuine([bundle])
    }

    /// Returns the number of client signatures verified since the start.
    pub fn verifications(&self) -> u64 {
        self.verifier.verifications()
    }

    /// Returns the number of forgeries that were ignored: messages of peers, and bundles of clients.
    pub fn forgeries(&self) -> [(&'static str, u64); 2] {
        [("forged-by-peers", self.forged_by_peers), ("forged-by-clients", self.forged_by_clients)]
    }

    /// Sends a client any message other than the outcomes of a block. A status, a challenge, the refusal of an answer, and
    /// a comparison, on which no result depends, get no seal.
    pub fn send(&mut self, transport: &mut dyn Outlet, link: LinkId, reply: &ReplicaReply) {
        let kind = match reply {
            ReplicaReply::Executed { .. } | ReplicaReply::Refused { .. } | ReplicaReply::Busy { .. } => {
                MessageKind::Reply
            }
            _ => MessageKind::Question,
        };
        let _message = stages::message(kind, 1);
        let frame = encode(&mut self.encoder, reply);
        stages::sent(kind, frame.len());
        match reply {
            ReplicaReply::Status { .. }
            | ReplicaReply::Challenge { .. }
            | ReplicaReply::Unanswered { .. }
            | ReplicaReply::Compared { .. } => transport.send(link, frame),
            _ => self.seals.send(transport, link, frame),
        }
    }

    /// Answers the bundles of a block. A bundle that was ordered before has no effect the second time, and its client
    /// gets the first reply again, as long as it is cached.
    pub fn deliver(&mut self, transport: &mut dyn Outlet, replies: &mut Vec<Reply>) {
        let mut last = None;
        for Reply { origin, bundle, height, results, is_new } in replies.drain(..) {
            let Some(results) = self.answers().form(results) else { continue };
            let encoder = &mut self.encoder;
            let frame = self.cache.get_or_keep(bundle, is_new, || {
                let fresh = encode(encoder, &ReplicaReply::Executed { bundle, height, results });
                let bytes = fresh.len();
                (fresh, bytes)
            });
            stages::sent(MessageKind::Reply, frame.len());
            let link = match last {
                Some((client, link)) if client == origin => link,
                _ => self.links.get(&origin).copied(),
            };
            last = Some((origin, link));
            match link {
                Some(link) if self.seals.are_used() => self.seals.gather(transport, link, frame),
                Some(link) => {
                    std::iter::repeat_n(frame, self.seals.times()).for_each(|frame| transport.send(link, frame));
                }
                None => {}
            }
        }
        if self.seals.are_used() {
            self.seals.send_gathered(transport);
        }
    }

    /// Answers a bundle that was executed before, without a cached reply; it is not ordered again.
    pub fn answer_again(&mut self, transport: &mut dyn Outlet, link: LinkId, reply: Reply) {
        let Reply { bundle, height, results, .. } = reply;
        let Some(results) = self.answers().form(results) else { return };
        self.send(transport, link, &ReplicaReply::Executed { bundle, height, results });
    }
}

fn amount(bundle: &Bundle) -> Amount {
    Amount { commands: bundle.len() as u64, bytes: bundle.body().len() as u64 }
}

fn encode(encoder: &mut Encoder, reply: &ReplicaReply) -> Bytes {
    let _stage = stages::enter(Stage::Marshal);
    encoder.put_u8(WIRE_VERSION);
    reply.encode(encoder);
    encoder.take()
}

/// Memory in which replies are encoded next to each other.
const REPLIES_CHUNK_BYTES: usize = 16 << 10;

const UNAUTHENTICATED: &str = "the bundle is not signed, but this cluster requires signatures; help: set \
     `client_authentication = \"ed25519\"` in client.toml";

/// Reply to a forged bundle.
pub(crate) const FORGED: &str = "the bundle is not signed by the client that it names; \
     help: sign the unchanged bundle for this cluster, with the key that the client's id is derived from";
