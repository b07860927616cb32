//! The links of a replica's clients, and its state, as used by the clients' desk.

use crate::network::{Frame, Network};
use crate::reply_sender::ReplySender;
use bytes::Bytes;
use quorate_applications::Executor;
use quorate_consensus::data::pool::Source;
use quorate_consensus::{Message, Protocol, Replica};
use quorate_crypto::BundleVerifier;
use quorate_hosting::desk::{ClientLinks, Desk, DeskHost, is_about_a_bundle, needs_authentication};
use quorate_network::transports::LinkId;
use quorate_types::codec::WIRE_VERSION;
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{ClientId, ClientRequest, Digest, Encoder, ReplicaReply, Wire};

/// Size of the buffer in which consecutive replies are encoded: they stay as long as they are cached, and expire in the
/// order of their encoding.
const REPLIES_CHUNK_BYTES: usize = 16 << 10;

/// A frame and its claimed sender.
pub(crate) type WaitingFrame = (ClientId, Frame<ClientRequest>);

pub(crate) type NodeDesk = Desk<LinkId, WaitingFrame, Bytes, BundleVerifier>;

/// Encodes and authenticates replies.
pub(crate) struct ReplyWriter {
    pub sender: ReplySender,
    encoder: Encoder,
}

impl ReplyWriter {
    pub fn new(sender: ReplySender) -> ReplyWriter {
        ReplyWriter { sender, encoder: Encoder::with_capacity(REPLIES_CHUNK_BYTES) }
    }
}

/// The links of a replica's clients.
pub(crate) struct Links<'a, M: Message> {
    pub network: &'a mut Network<M>,
    pub writer: &'a mut ReplyWriter,
}

impl<M: Message> ClientLinks for Links<'_, M> {
    type Link = LinkId;
    type Reply = Bytes;

    fn source(&self, link: LinkId) -> Source {
        Source::Client { source_group: self.network.source_group(link), link: link.0 }
    }

    fn is_congested(&self, link: LinkId) -> bool {
        self.network.is_congested(link)
    }

    fn release(&mut self, link: LinkId, bytes: usize) {
        self.network.release(link, bytes);
    }

    fn vouch(&mut self, link: LinkId, is_genuine: bool) {
        self.network.vouch(link, is_genuine);
    }

    fn close(&mut self, link: LinkId, why: String) {
        self.network.close(link, why);
    }

    fn encode(&mut self, reply: ReplicaReply) -> Bytes {
        let _stage = stages::enter(Stage::Marshal);
        let encoder = &mut self.writer.encoder;
        encoder.put_u8(WIRE_VERSION);
        reply.encode(encoder);
        encoder.take()
    }

    fn bytes(&self, reply: &Bytes) -> usize {
        reply.len()
    }

    fn tell(&mut self, link: LinkId, reply: ReplicaReply) -> u64 {
        let kind = if is_about_a_bundle(&reply) { MessageKind::Reply } else { MessageKind::Question };
        let _message = stages::message(kind, 1);
        let is_authenticated = needs_authentication(&reply);
        let frame = self.encode(reply);
        stages::sent(kind, frame.len());
        if is_authenticated {
            return self.repeat(link, frame);
        }
        self.network.send(link, frame);
        0
    }

    fn repeat(&mut self, link: LinkId, reply: Bytes) -> u64 {
        self.writer.sender.send(&mut **self.network, link, reply)
    }

    fn authenticates(&self) -> bool {
        self.writer.sender.are_used()
    }

    fn deliver(&mut self, link: LinkId, reply: Bytes, times: usize) {
        stages::sent(MessageKind::Reply, reply.len());
        std::iter::repeat_n(reply, times).for_each(|frame| self.network.send(link, frame));
    }

    fn deliver_together(&mut self, link: LinkId, replies: Vec<Bytes>, times: usize) {
        replies.iter().for_each(|reply| stages::sent(MessageKind::Reply, reply.len()));
        self.writer.sender.send_of_block(&mut **self.network, link, replies, times);
    }
}

/// A replica with the links of its clients.
pub(crate) struct AtDesk<'a, P: Protocol> {
    pub links: Links<'a, P::Message>,
    pub replica: &'a Replica<P>,
    pub executor: &'a Executor,
}

impl<'a, P: Protocol> DeskHost for AtDesk<'a, P> {
    type Links = Links<'a, P::Message>;

    fn links(&mut self) -> &mut Links<'a, P::Message> {
        &mut self.links
    }

    fn executor(&self) -> &Executor {
        self.executor
    }

    fn is_known(&self, bundle: &Digest) -> bool {
        self.replica.is_known(bundle)
    }

    fn expects(&self, bundle: &Digest) -> bool {
        self.replica.expects(bundle)
    }
}
