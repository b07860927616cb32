//! Seals on replies: which key each client's link has, and which replies leave together.

use crate::network::{DeferredFrame, Outlet};
use bytes::Bytes;
use quorate_crypto::{ReplyKey, ReplySealer};
use quorate_transports::LinkId;
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{ClientId, Encoder, SealedReplies};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// A message of sealed replies takes no further one from this size on, so that it stays far below a frame's limit.
const FULL_MESSAGE_BYTES: usize = 64 << 10;

/// The client of a link.
struct Recipient {
    client: ClientId,
    /// For codes, once the client has shown its key.
    key: Option<ReplyKey>,
}

/// Replies to one client, each encoded as a message of its own.
#[derive(Default)]
struct Group {
    replies: Vec<Bytes>,
    bytes: usize,
}

/// Sends replies, with seals if there is a sealer.
#[derive(Default)]
pub(crate) struct Seals {
    sealer: Option<Arc<ReplySealer>>,
    /// Every link of a client, if there is a sealer.
    recipients: HashMap<LinkId, Recipient>,
    /// Replies that wait for others to the same client, in the order of their first ones.
    groups: Vec<(LinkId, Group)>,
    /// Where a link's group is.
    places: HashMap<LinkId, usize>,
    encoder: Encoder,
    /// Copies of each reply to an executed bundle, or of each message with gathered ones, besides the first.
    copies: usize,
    /// Time that seals and agreements on keys took for single clients, in nanoseconds, since it was last taken.
    spent_ns: u64,
}

impl Seals {
    pub fn new(sealer: Option<ReplySealer>) -> Seals {
        Seals { sealer: sealer.map(Arc::new), ..Seals::default() }
    }

    /// From now on, sends this number of copies of replies to executed bundles, besides the first.
    pub fn set_copies(&mut self, copies: usize) {
        self.copies = copies;
    }

    /// Returns how often to send a reply to an executed bundle.
    pub fn times(&self) -> usize {
        self.copies + 1
    }

    /// Returns whether replies of one block should be [gathered](Seals::gather).
    pub fn are_used(&self) -> bool {
        self.sealer.is_some()
    }

    /// Notes that a client has connected.
    pub fn connected(&mut self, client: ClientId, link: LinkId) {
        if self.are_used() {
            self.recipients.insert(link, Recipient { client, key: None });
        }
    }

    /// Notes that a link has closed.
    pub fn disconnected(&mut self, link: LinkId) {
        self.recipients.remove(&link);
    }

    /// Agrees with a link's client on a key, if codes need one and the link has none. A client's id is derived from
    /// its credential, so a link has one key at most, and a false credential changes nothing.
    pub fn introduce(&mut self, link: LinkId, credential: &[u8]) {
        let Some(sealer) = self.sealer.as_ref().filter(|sealer| sealer.needs_keys()) else { return };
        if let Some(recipient) = self.recipients.get_mut(&link).filter(|recipient| recipient.key.is_none()) {
            let begun = Instant::now();
            recipient.key = sealer.key_of(recipient.client, credential);
            self.spent_ns += begun.elapsed().as_nanos() as u64;
        }
    }

    /// Returns the time that a client's frame has taken here, to be charged to its link: a seal takes from a
    /// microsecond to a millisecond, by its scheme.
    pub fn take_spent_ns(&mut self) -> u64 {
        std::mem::take(&mut self.spent_ns)
    }

    /// Sends an encoded reply. A link that is not a client's, or has no key for its codes, gets it without a seal: it
    /// is for operators, or tells a client what is wrong with its configuration.
    pub fn send(&mut self, transport: &mut dyn Outlet, link: LinkId, reply: Bytes) {
        if !self.are_used() {
            return transport.send(link, reply);
        }
        let begun = Instant::now();
        self.send_together(transport, link, vec![reply], 1);
        self.spent_ns += begun.elapsed().as_nanos() as u64;
    }

    /// Keeps an encoded reply until [`Seals::send_gathered`].
    pub fn gather(&mut self, transport: &mut dyn Outlet, link: LinkId, reply: Bytes) {
        let place = *self.places.entry(link).or_insert_with(|| {
            self.groups.push((link, Group::default()));
            self.groups.len() - 1
        });
        let group = &mut self.groups[place].1;
        group.bytes += reply.len();
        group.replies.push(reply);
        if group.bytes >= FULL_MESSAGE_BYTES {
            let Group { replies, .. } = std::mem::take(group);
            self.send_gathered_to(transport, link, replies);
        }
    }

    /// Sends the replies gathered so far, with one seal for each client.
    pub fn send_gathered(&mut self, transport: &mut dyn Outlet) {
        self.places.clear();
        for (link, group) in std::mem::take(&mut self.groups) {
            self.send_gathered_to(transport, link, group.replies);
        }
    }

    /// Sends replies of a block. If another thread sends, it signs them too; a code takes less time than that.
    fn send_gathered_to(&mut self, transport: &mut dyn Outlet, link: LinkId, replies: Vec<Bytes>) {
        let signs = self.sealer.as_ref().filter(|sealer| !sealer.needs_keys() && transport.has_io_thread());
        let (Some(sealer), Some(recipient)) = (signs, self.recipients.get(&link)) else {
            return self.send_together(transport, link, replies, self.times());
        };
        if replies.is_empty() {
            return;
        }
        let (sealer, client) = (sealer.clone(), recipient.client);
        let bytes = replies.iter().map(Bytes::len).sum();
        let encode = Box::new(move |encoder: &mut Encoder| {
            let _message = stages::message(MessageKind::Reply, replies.len());
            seal(&sealer, client, None, encoder, &replies)
        });
        transport.send_deferred(DeferredFrame { link, bytes, times: self.times(), encode });
    }

    fn send_together(&mut self, transport: &mut dyn Outlet, link: LinkId, replies: Vec<Bytes>, times: usize) {
        if replies.is_empty() {
            return;
        }
        let (sealer, recipient) = (self.sealer.as_ref(), self.recipients.get(&link));
        let known = sealer.zip(recipient).filter(|(sealer, to)| !sealer.needs_keys() || to.key.is_some());
        let Some((sealer, Recipient { client, key })) = known else {
            let copied = replies.into_iter().flat_map(|reply| std::iter::repeat_n(reply, times));
            return copied.for_each(|reply| transport.send(link, reply));
        };
        let frame = seal(sealer, *client, key.as_ref(), &mut self.encoder, &replies);
        std::iter::repeat_n(frame, times).for_each(|frame| transport.send(link, frame));
    }
}

fn seal(
    sealer: &ReplySealer,
    client: ClientId,
    key: Option<&ReplyKey>,
    encoder: &mut Encoder,
    replies: &[Bytes],
) -> Bytes {
    let _stage = stages::enter(Stage::Marshal);
    SealedReplies::encode(encoder, replies, |digest| {
        let _stage = stages::enter(Stage::Sign);
        sealer.seal(client, key, digest).expect("the key of a code is known")
    })
}
