//! The clients' side of a replica: whose bundles are taken, and what goes back: where to, in which form, and once more for those who
//! ask again.

use bytes::Bytes;
use quorate_applications::Reply;
use quorate_crypto::{BundleVerifier, ClientAuthentication};
use quorate_hosting::{Answers, ReplyCache};
use quorate_transports::{LinkId, Transport};
use quorate_types::codec::WIRE_VERSION;
use quorate_types::{Bundle, ClientId, Digest, Encoder, Height, ReplicaId, ReplicaReply, ReplyMode, Wire};
use std::collections::{BTreeSet, HashMap};

/// The limits that a bundle from a client must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BundleLimits {
    /// Most commands in a block.
    pub commands: usize,
    /// Most bytes of bundles in a block.
    pub bytes: usize,
}

/// What a check of clients' bundles has found.
pub(crate) struct Checked {
    /// The bundles that their clients did not sign.
    pub forged: BTreeSet<Digest>,
    /// The links over which a genuine bundle came first, not always each once.
    pub genuine: Vec<LinkId>,
}

/// The clients' side of a replica.
pub(crate) struct Gateway {
    answers: Answers,
    limits: BundleLimits,
    links: HashMap<ClientId, LinkId>,
    verifier: BundleVerifier,
    forged_by_peers: u64,
    forged_by_clients: u64,
    cache: ReplyCache<Bytes>,
    /// Replies are encoded side by side: they live as long as they are cached, and leave in the order they came.
    encoder: Encoder,
}

impl Gateway {
    pub fn new(
        me: ReplicaId,
        mode: ReplyMode,
        limits: BundleLimits,
        verifier: BundleVerifier,
        cache_bytes: usize,
        salt: u64,
    ) -> Gateway {
        let answers = Answers::of(me, mode);
        let cache = ReplyCache::new(cache_bytes, salt);
        Gateway {
            answers,
            limits,
            links: HashMap::new(),
            verifier,
            forged_by_peers: 0,
            forged_by_clients: 0,
            cache,
            encoder: Encoder::default(),
        }
    }

    /// From now on executed bundles are not answered.
    pub fn mute(&mut self) {
        self.answers = Answers::Nothing;
    }

    /// Whether executed bundles are answered at all.
    pub fn answers_bundles(&self) -> bool {
        self.answers != Answers::Nothing
    }

    /// A client is connected; its latest link is the one that counts. Where clients are authenticated that is not enough, for an id is
    /// a claim, and another's replies would go to whoever makes it: there a link counts once a bundle of the client's comes over it.
    pub fn connected(&mut self, client: ClientId, link: LinkId) {
        if self.verifier.kind() == ClientAuthentication::None {
            self.links.insert(client, link);
        }
    }

    /// A link of a client is gone.
    pub fn disconnected(&mut self, client: ClientId, link: LinkId) {
        if self.links.get(&client) == Some(&link) {
            self.links.remove(&client);
        }
    }

    /// The reply that was given to a bundle, if it is still kept.
    pub fn kept_reply(&self, bundle: &Digest) -> Option<Bytes> {
        self.cache.get(bundle).filter(|_| self.answers_bundles()).cloned()
    }

    /// Why a client's bundle cannot be ordered, if it cannot.
    pub fn refusal(&self, client: ClientId, bundle: &Bundle) -> Option<String> {
        let BundleLimits { commands, bytes } = self.limits;
        if self.verifier.kind() != ClientAuthentication::None && bundle.authenticator().is_none() {
            return Some(UNAUTHENTICATED.to_owned());
        }
        if bundle.origin() != client {
            return Some(format!(
                "the bundle's replies go to client {}, and this link is client {client}'s; make the bundle with its own id",
                bundle.origin()
            ));
        }
        if bundle.len() > commands {
            return Some(format!(
                "the bundle has {} commands and a block takes {commands}; send smaller bundles, or raise `batch` on all replicas",
                bundle.len()
            ));
        }
        (bundle.body().len() > bytes).then(|| {
            format!(
                "the bundle has {} bytes and a block takes {bytes}; send smaller bundles, or raise `batch_bytes` on all replicas",
                bundle.body().len()
            )
        })
    }

    /// Whether bundles have signatures to check.
    pub fn checks_signatures(&self) -> bool {
        self.verifier.kind() != ClientAuthentication::None
    }

    /// Checks clients' bundles, each of which came over the link beside it. The links of the genuine ones are their clients'.
    pub fn check(&mut self, links: &[(LinkId, Digest)], bundles: &[Bundle]) -> Checked {
        let mut genuine: Vec<LinkId> = Vec::new();
        let mut note = |link: LinkId| {
            if genuine.last() != Some(&link) {
                genuine.push(link);
            }
        };
        if !self.checks_signatures() {
            links.iter().for_each(|(link, _)| note(*link));
            return Checked { forged: BTreeSet::new(), genuine };
        }
        let known: Vec<bool> = bundles.iter().map(|bundle| self.verifier.is_verified(&bundle.digest())).collect();
        let forged = self.verifier.forged(bundles);
        self.forged_by_clients += forged.len() as u64;
        for ((bundle, (link, digest)), known) in bundles.iter().zip(links).zip(known) {
            if forged.contains(digest) {
                continue;
            }
            // Whoever has seen a bundle can repeat it, and is given neither the replies nor the standing of a client that is here.
            let may_be_repeated = known && self.links.get(&bundle.origin()).is_some_and(|held| held != link);
            if !may_be_repeated {
                note(*link);
                self.links.insert(bundle.origin(), *link);
            }
        }
        Checked { forged, genuine }
    }

    /// Whether none of the bundles in a peer's message is forged. Honest peers check what they pass on, so which it is does not matter.
    pub fn vouches(&mut self, bundles: &[Bundle]) -> bool {
        let genuine = self.verifier.are_genuine(bundles);
        self.forged_by_peers += u64::from(!genuine);
        genuine
    }

    /// Signatures of clients checked since the start.
    pub fn verifications(&self) -> u64 {
        self.verifier.verifications()
    }

    /// What was not acted on for being forged: messages of peers, and bundles of clients.
    pub fn forgeries(&self) -> [(&'static str, u64); 2] {
        [("forged-by-peers", self.forged_by_peers), ("forged-by-clients", self.forged_by_clients)]
    }

    /// Sends a client anything but the outcome of a bundle.
    pub fn send(&mut self, transport: &mut dyn Transport, link: LinkId, reply: &ReplicaReply) {
        let frame = encode(&mut self.encoder, reply);
        transport.send(link, frame);
    }

    /// Answers the bundles of a block. One that was ordered before has no effect the second time, and its client gets what it got
    /// then, as long as that is kept.
    pub fn deliver(&mut self, transport: &mut dyn Transport, replies: &mut Vec<Reply>) {
        let mut last = None;
        for Reply { origin, bundle, height, results } in replies.drain(..) {
            let Some(results) = self.answers.form(results) else { continue };
            let encoder = &mut self.encoder;
            let frame = self.cache.get_or_keep(bundle, || {
                let fresh = encode(encoder, &ReplicaReply::Executed { bundle, height, results });
                let bytes = fresh.len();
                (fresh, bytes)
            });
            let link = match last {
                Some((client, link)) if client == origin => link,
                _ => self.links.get(&origin).copied(),
            };
            last = Some((origin, link));
            if let Some(link) = link {
                transport.send(link, frame);
            }
        }
    }

    /// Answers a bundle that need not be ordered, as it was executed before and the reply of then is not kept.
    pub fn answer_again(&mut self, transport: &mut dyn Transport, link: LinkId, reply: Reply) {
        let Reply { bundle, height, results, .. } = reply;
        let Some(results) = self.answers.form(results) else { return };
        self.send(transport, link, &ReplicaReply::Executed { bundle, height, results });
    }

    /// The state as this replica has it.
    pub fn answer(&mut self, transport: &mut dyn Transport, link: LinkId, id: u64, height: Height, answer: Vec<u8>) {
        self.send(transport, link, &ReplicaReply::Answer { id, height, answer: answer.into() });
    }
}

fn encode(encoder: &mut Encoder, reply: &ReplicaReply) -> Bytes {
    encoder.put_u8(WIRE_VERSION);
    reply.encode(encoder);
    encoder.take()
}

const UNAUTHENTICATED: &str = "the bundle does not show whose it is, and this cluster takes none that does not; \
     have the client sign: `client_authentication = \"ed25519\"` in client.toml";

/// The answer to a forged bundle.
pub(crate) const FORGED: &str = "the bundle is not signed by the client that it names; \
     sign it as it is sent, for this cluster, with the key that the client's id is made of";
