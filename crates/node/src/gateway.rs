//! What goes back to clients: where to, in which form, and once more for those who ask again.

use crate::config::ReplyMode;
use crate::reply_cache::ReplyCache;
use bytes::Bytes;
use quorate_applications::Reply;
use quorate_transports::{LinkId, Transport};
use quorate_types::codec::WIRE_VERSION;
use quorate_types::{Bundle, ClientId, Digest, Encoder, Height, ReplicaId, ReplicaReply, Results, Wire};
use std::collections::HashMap;

/// What a replica says of executed bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answers {
    /// The outcome of every command.
    Outcomes,
    /// That it was executed, no more.
    Bare,
    /// Nothing.
    Nothing,
}

/// The limits that a bundle from a client must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BundleLimits {
    /// Most commands in a block.
    pub commands: usize,
    /// Most bytes of bundles in a block.
    pub bytes: usize,
}

/// The clients' side of a replica.
pub(crate) struct Gateway {
    answers: Answers,
    limits: BundleLimits,
    links: HashMap<ClientId, LinkId>,
    cache: ReplyCache,
    /// Replies are encoded side by side: they live as long as they are cached, and leave in the order they came.
    encoder: Encoder,
}

impl Gateway {
    pub fn new(me: ReplicaId, mode: ReplyMode, limits: BundleLimits, cache_bytes: usize, salt: u64) -> Gateway {
        let answers = match mode {
            ReplyMode::Each => Answers::Outcomes,
            ReplyMode::None if me == ReplicaId(0) => Answers::Bare,
            ReplyMode::None => Answers::Nothing,
        };
        let cache = ReplyCache::new(cache_bytes, salt);
        Gateway { answers, limits, links: HashMap::new(), cache, encoder: Encoder::default() }
    }

    /// From now on executed bundles are not answered.
    pub fn mute(&mut self) {
        self.answers = Answers::Nothing;
    }

    /// Whether executed bundles are answered at all.
    pub fn answers_bundles(&self) -> bool {
        self.answers != Answers::Nothing
    }

    /// A client is connected; its latest link is the one that counts.
    pub fn connected(&mut self, client: ClientId, link: LinkId) {
        self.links.insert(client, link);
    }

    /// A link of a client is gone.
    pub fn disconnected(&mut self, client: ClientId, link: LinkId) {
        if self.links.get(&client) == Some(&link) {
            self.links.remove(&client);
        }
    }

    /// The reply that was given to a bundle, if it is still kept.
    pub fn kept_reply(&self, bundle: &Digest) -> Option<Bytes> {
        self.cache.get(bundle).cloned()
    }

    /// Why a client's bundle cannot be ordered, if it cannot.
    pub fn refusal(&self, client: ClientId, bundle: &Bundle) -> Option<String> {
        let BundleLimits { commands, bytes } = self.limits;
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

    /// Sends a client anything but the outcome of a bundle.
    pub fn send(&mut self, transport: &mut dyn Transport, link: LinkId, reply: &ReplicaReply) {
        let frame = self.encode(reply);
        transport.send(link, frame);
    }

    /// Answers the bundles of a block. One that was ordered before has no effect the second time, and its client gets what it got
    /// then, as long as that is kept.
    pub fn deliver(&mut self, transport: &mut dyn Transport, replies: &mut Vec<Reply>) {
        if self.answers == Answers::Nothing {
            return replies.clear();
        }
        let mut last = None;
        for Reply { origin, bundle, height, results } in replies.drain(..) {
            let results = if self.answers == Answers::Bare { Results::bare() } else { results };
            let frame = match self.cache.get(&bundle) {
                Some(kept) => kept.clone(),
                None => {
                    let fresh = self.encode(&ReplicaReply::Executed { bundle, height, results });
                    self.cache.insert(bundle, fresh.clone());
                    fresh
                }
            };
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

    fn encode(&mut self, reply: &ReplicaReply) -> Bytes {
        self.encoder.put_u8(WIRE_VERSION);
        reply.encode(&mut self.encoder);
        self.encoder.take()
    }

    /// The state as this replica has it.
    pub fn answer(&mut self, transport: &mut dyn Transport, link: LinkId, id: u64, height: Height, answer: Vec<u8>) {
        self.send(transport, link, &ReplicaReply::Answer { id, height, answer: answer.into() });
    }
}
