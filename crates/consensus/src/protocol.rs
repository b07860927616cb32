//! What a protocol is to the shell around it.

use crate::facts::Facts;
use crate::journal::{Record, Standing};
use crate::leader::Duties;
use crate::outbox::Outbox;
use crate::parts::Parts;
use crate::safety::Promise;
use crate::seam::{Drop, Message, Timer};
use crate::tally::Counting;
use quorate_types::{Certificate, Digest, Domain, Height, ReplicaId, Subject, Time, View, Vote};

/// What a cheap look at a message says.
#[derive(Debug)]
pub enum Admission {
    /// Not to be acted on.
    Drop(Drop),
    /// A vote to be counted.
    Tally(Vote),
    /// To be handled when these certificates are genuine; none means at once.
    Check(Vec<Certificate>),
    /// To be handled when these certificates and signatures are genuine.
    CheckSigned(Vec<Certificate>, Vec<Vote>),
}

/// What the shell tells a protocol.
#[derive(Debug)]
pub enum Event<M> {
    /// Begin.
    Start,
    /// A message whose certificates are genuine.
    Message {
        /// The sender.
        from: ReplicaId,
        /// What it says.
        message: M,
    },
    /// A quorum has voted.
    Certified(Certificate),
    /// A quorum has voted, in a kind of vote that is not certified.
    Agreed(Subject),
    /// A quorum vouches for the state at a checkpoint, the newest there is.
    Stable,
    /// The state after what is committed came from others, without the blocks before it.
    Adopted,
    /// An alarm rang.
    Timeout(Timer),
    /// So many commands came in.
    Work(usize),
    /// A block is whole now: its ancestors and bundles are here.
    Whole(Digest),
    /// A peer was asked how far it is, and this is genuine.
    Shown {
        /// The peer.
        from: ReplicaId,
        /// What it shows.
        standing: Standing,
    },
}

/// What the journal holds of a protocol's own; blocks and commits are in the shared parts already.
#[derive(Debug)]
pub enum Recalled<'a, M> {
    /// The replica has said this, and [`Safety`] knows.
    Promise(&'a Promise),
    /// A certificate on which it stood.
    Certificate(Certificate),
    /// A message of its own or another's that may have to be said or shown again; unsigned, if it is its own.
    Message(M),
    /// What showed it how far others had come.
    Standing(Standing),
}

/// A consensus protocol on the shared parts.
pub trait Protocol: Send {
    /// What its replicas say to each other.
    type Message: Message;
    /// What it is.
    const FACTS: Facts;
    /// A cheap look without side effects; `from` is in the committee.
    fn admit(&self, parts: &Parts, from: ReplicaId, message: &Self::Message) -> Admission;
    /// Acts.
    fn handle(&mut self, now: Time, event: Event<Self::Message>, parts: &mut Parts, out: &mut Outbox<Self::Message>);
    /// Moves to a higher view that nothing shows to have begun; see [`Replica::force_view`].
    fn force_view(&mut self, now: Time, view: View, parts: &mut Parts, out: &mut Outbox<Self::Message>);
    /// Takes in what the journal holds, in its order and before [`Event::Start`], which then goes on from there.
    fn recall(&mut self, recalled: Recalled<'_, Self::Message>, parts: &mut Parts);
    /// What has to be recalled besides the promises and the uncommitted blocks: what a shortened journal begins with.
    fn summary(&self, parts: &Parts) -> Vec<Record>;
    /// What shows others in which view this replica is.
    fn standing(&self, parts: &Parts) -> Standing;
    /// The highest view in which any replica can have spoken before one that has this genuine standing said so, if nobody but that
    /// one is known to be honest; none if the parts of the standing do not fit together.
    fn spoken_up_to(&self, standing: &Standing, parts: &Parts) -> Option<View>;
    /// The leader of the current view, if it can be told yet.
    fn leader(&self, parts: &Parts) -> Option<ReplicaId>;
    /// Up to this height nobody needs blocks any more to agree on; those who lag behind may.
    fn settled(&self, parts: &Parts) -> Height {
        parts.store.committed()
    }
    /// Holds after every step.
    fn invariants(&self, parts: &Parts);
    /// What leaders are to do, and what blocks tell of it.
    fn duties() -> Duties {
        Duties::default()
    }
    /// How the votes of a kind are counted.
    fn counting(_domain: Domain) -> Counting {
        Counting::default()
    }
}
