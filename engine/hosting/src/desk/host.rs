//! The host as seen by the clients' desk.

use quorate_applications::Executor;
use quorate_consensus::data::pool::Source;
use quorate_types::{Digest, ReplicaReply};
use std::hash::Hash;

/// The links of a replica's clients.
pub trait ClientLinks {
    /// Id of one connection.
    type Link: Copy + Eq + Hash;
    /// A reply in the representation in which it is kept and sent.
    type Reply: Clone;
    /// Returns the source of the bundles on a link: the client's address and the link.
    fn source(&self, link: Self::Link) -> Source;
    /// Returns whether a client has too many unread replies to be served now.
    fn is_congested(&self, link: Self::Link) -> bool;
    /// Releases the memory of a frame that was served.
    fn release(&mut self, link: Self::Link, bytes: usize);
    /// Records whether a link carries genuine data.
    fn vouch(&mut self, link: Self::Link, is_genuine: bool);
    fn close(&mut self, link: Self::Link, why: String);
    fn encode(&mut self, reply: ReplicaReply) -> Self::Reply;
    /// Returns the length of an encoded reply.
    fn bytes(&self, reply: &Self::Reply) -> usize;
    /// Sends a single reply, authenticated if it [requires that](super::needs_authentication) and the replica
    /// authenticates replies. Returns the nanoseconds spent on authentication.
    fn tell(&mut self, link: Self::Link, reply: ReplicaReply) -> u64;
    /// Sends a reply again, like [`ClientLinks::tell`].
    fn repeat(&mut self, link: Self::Link, reply: Self::Reply) -> u64;
    /// Returns whether the replica authenticates replies. If so, the replies of a block are sent together.
    fn authenticates(&self) -> bool;
    /// Sends `times` copies of a reply to an executed bundle, without authentication.
    fn deliver(&mut self, link: Self::Link, reply: Self::Reply, times: usize);
    /// Sends `times` copies of replies to executed bundles, with one authenticator for all.
    fn deliver_together(&mut self, link: Self::Link, replies: Vec<Self::Reply>, times: usize);
}

/// The links of a replica's clients, its state machine and its application.
pub trait DeskHost {
    type Links: ClientLinks;
    fn links(&mut self) -> &mut Self::Links;
    fn executor(&self) -> &Executor;
    /// Returns [`quorate_consensus::Replica::is_known`].
    fn is_known(&self, bundle: &Digest) -> bool;
    /// Returns [`quorate_consensus::Replica::expects`].
    fn expects(&self, bundle: &Digest) -> bool;
}
