//! Authentication of replies, and the key of each client's link.

use crate::network::{DeferredFrame, Outlet};
use bytes::Bytes;
use quorate_crypto::{ReplyAuthenticator, ReplyKey};
use quorate_network::transports::LinkId;
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{AuthenticatedReplies, ClientId, Encoder};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// The client of a link.
struct Recipient {
    client: ClientId,
    /// Key for MACs, once the client has sent its key.
    key: Option<ReplyKey>,
}

/// Sends replies, authenticated if there is an authenticator.
#[derive(Default)]
pub(crate) struct ReplySender {
    authenticator: Option<Arc<ReplyAuthenticator>>,
    /// All client links, if there is an authenticator.
    recipients: HashMap<LinkId, Recipient>,
    encoder: Encoder,
}

impl ReplySender {
    pub fn new(authenticator: Option<ReplyAuthenticator>) -> ReplySender {
        ReplySender { authenticator: authenticator.map(Arc::new), ..ReplySender::default() }
    }

    /// Returns whether replies are authenticated.
    pub fn are_used(&self) -> bool {
        self.authenticator.is_some()
    }

    /// Records that a client has connected.
    pub fn connected(&mut self, client: ClientId, link: LinkId) {
        if self.are_used() {
            self.recipients.insert(link, Recipient { client, key: None });
        }
    }

    /// Records that a link has closed.
    pub fn disconnected(&mut self, link: LinkId) {
        self.recipients.remove(&link);
    }

    /// Agrees with a link's client on a key, if MACs need one and the link has none. A client's id is derived from its
    /// credential, so a link has at most one key, and a false credential changes nothing. Returns the nanoseconds spent
    /// on this.
    pub fn introduce(&mut self, link: LinkId, credential: &[u8]) -> u64 {
        let Some(authenticator) = self.authenticator.as_ref().filter(|authenticator| authenticator.needs_keys()) else {
            return 0;
        };
        let recipient = self.recipients.get_mut(&link).filter(|recipient| recipient.key.is_none());
        let Some(recipient) = recipient else { return 0 };
        let begun = Instant::now();
        recipient.key = authenticator.key_of(recipient.client, credential);
        begun.elapsed().as_nanos() as u64
    }

    /// Sends an encoded reply. A link that is not a client's, or has no MAC key, gets it without an authenticator: it
    /// is for operators, or informs a client about an error in its configuration. Returns the nanoseconds spent on the
    /// authenticator, from a microsecond to a millisecond depending on its scheme.
    pub fn send(&mut self, transport: &mut dyn Outlet, link: LinkId, reply: Bytes) -> u64 {
        if !self.are_used() {
            transport.send(link, reply);
            return 0;
        }
        let begun = Instant::now();
        self.send_together(transport, link, vec![reply], 1);
        begun.elapsed().as_nanos() as u64
    }

    /// Sends replies of a block. If another thread sends, it also signs; a MAC is cheaper to compute than to pass on.
    pub fn send_of_block(&mut self, transport: &mut dyn Outlet, link: LinkId, replies: Vec<Bytes>, times: usize) {
        let signs = self
            .authenticator
            .as_ref()
            .filter(|authenticator| !authenticator.needs_keys() && transport.has_io_thread());
        let (Some(authenticator), Some(recipient)) = (signs, self.recipients.get(&link)) else {
            return self.send_together(transport, link, replies, times);
        };
        let (authenticator, client) = (authenticator.clone(), recipient.client);
        let bytes = replies.iter().map(Bytes::len).sum();
        let encode = Box::new(move |encoder: &mut Encoder| {
            let _message = stages::message(MessageKind::Reply, replies.len());
            authenticate(&authenticator, client, None, encoder, &replies)
        });
        transport.send_deferred(DeferredFrame { link, bytes, times, encode });
    }

    fn send_together(&mut self, transport: &mut dyn Outlet, link: LinkId, replies: Vec<Bytes>, times: usize) {
        let (authenticator, recipient) = (self.authenticator.as_ref(), self.recipients.get(&link));
        let known =
            authenticator.zip(recipient).filter(|(authenticator, to)| !authenticator.needs_keys() || to.key.is_some());
        let Some((authenticator, Recipient { client, key })) = known else {
            let copied = replies.into_iter().flat_map(|reply| std::iter::repeat_n(reply, times));
            return copied.for_each(|reply| transport.send(link, reply));
        };
        let frame = authenticate(authenticator, *client, key.as_ref(), &mut self.encoder, &replies);
        std::iter::repeat_n(frame, times).for_each(|frame| transport.send(link, frame));
    }
}

fn authenticate(
    authenticator: &ReplyAuthenticator,
    client: ClientId,
    key: Option<&ReplyKey>,
    encoder: &mut Encoder,
    replies: &[Bytes],
) -> Bytes {
    let _stage = stages::enter(Stage::Marshal);
    AuthenticatedReplies::encode(encoder, replies, |digest| {
        let _stage = stages::enter(Stage::Sign);
        authenticator.authenticate(client, key, digest).expect("the key of a MAC is known")
    })
}
