//! The interface between a protocol and the surrounding shell.

use crate::facts::Facts;
use crate::protocols::parts::Parts;
use crate::protocols::turn::Turn;
use crate::recovery::journal::{Record, Standing};
use crate::seam::{Drop, Message, Timer};
use crate::voting::leader::Duties;
use crate::voting::safety::Promise;
use crate::voting::tally::Counting;
use quorate_types::{Certificate, Digest, Domain, Height, ReplicaId, Subject, Time, View, Vote};
use std::time::Duration;

/// Result of screening a message before its certificates are verified.
#[derive(Debug)]
pub enum Admission {
    /// Ignore the message.
    Drop(Drop),
    /// Count this vote.
    Tally(Vote),
    /// Handle the message once these certificates are verified; immediately if there are none.
    Check(Vec<Certificate>),
    /// Handle the message once these certificates and signatures are verified.
    CheckSigned(Vec<Certificate>, Vec<Vote>),
}

/// Event that the shell passes to a protocol.
#[derive(Debug)]
pub enum Event<M> {
    Start,
    /// A message with verified certificates.
    Message {
        from: ReplicaId,
        message: M,
    },
    /// A quorum of votes formed this certificate.
    Certified(Certificate),
    /// A quorum voted for the subject, in a domain without certificates.
    Agreed(Subject),
    /// A newer checkpoint became stable: a quorum certified its state.
    Stable,
    /// The replica adopted a state above its committed height from peers, without the blocks before it.
    Adopted,
    Timeout(Timer),
    /// This many new commands arrived.
    Work(usize),
    /// A block is complete: its ancestors and bundles have arrived.
    Whole(Digest),
    /// A bundle arrived that the execution of final blocks was waiting for.
    Supplied,
    /// A peer answered with a verified standing.
    Shown {
        from: ReplicaId,
        standing: Standing,
    },
}

/// Protocol-specific part of the journal; blocks and commits have already been restored in the shared parts.
#[derive(Debug)]
pub enum Recalled<'a, M> {
    /// A statement of this replica, which [`Safety`](crate::voting::safety::Safety) has already restored.
    Promise(&'a Promise),
    /// A certificate on which its statements were based.
    Certificate(Certificate),
    /// A message that may have to be resent: the replica's own (then unsigned) or a peer's.
    Message(M),
    /// Evidence of peers' progress.
    Standing(Standing),
    /// All blocks that this replica claims to be prepared; see [`Record::Claims`].
    Claims(Vec<Certificate>),
}

/// Consensus protocol on top of the shared parts.
pub trait Protocol: Send {
    type Message: Message;
    const FACTS: Facts;
    /// Screens a message cheaply and without side effects; `from` is a committee member.
    fn admit(&self, parts: &Parts, from: ReplicaId, message: &Self::Message) -> Admission;
    fn handle(&mut self, event: Event<Self::Message>, turn: &mut Turn<'_, Self::Message>);
    /// Moves to a higher view without evidence that it has begun; see [`Replica::force_view`].
    fn force_view(&mut self, view: View, turn: &mut Turn<'_, Self::Message>);
    /// Restores one journal entry. Entries are passed in journal order and before [`Event::Start`], which resumes from
    /// there.
    fn recall(&mut self, recalled: Recalled<'_, Self::Message>, parts: &mut Parts);
    /// Returns the records at the beginning of a truncated journal, in addition to the promises and the uncommitted
    /// blocks.
    fn summary(&self, parts: &Parts) -> Vec<Record>;
    /// Returns the evidence that proves this replica's view to peers.
    fn standing(&self, parts: &Parts) -> Standing;
    /// Returns an upper bound on the views in which any replica can have voted, given one honest replica's verified
    /// standing. `None` if the standing is inconsistent.
    fn spoken_up_to(&self, standing: &Standing, parts: &Parts) -> Option<View>;
    /// Returns the leader of the current view, or `None` while it cannot be determined.
    fn leader(&self, parts: &Parts) -> Option<ReplicaId>;
    /// Returns how long clients' frames may stay unread to reduce wake-ups; `None` if they are needed now.
    fn patience(&self, _now: Time, _parts: &Parts) -> Option<Duration> {
        None
    }
    /// Returns the height up to which agreement no longer needs blocks; lagging replicas may still need them.
    fn settled(&self, parts: &Parts) -> Height {
        parts.store.committed()
    }
    /// Returns whether honest replicas have accepted a bundle, because agreement has decided a block that names it.
    fn is_decided(&self, _bundle: &Digest, _parts: &Parts) -> bool {
        false
    }
    /// Asserts the protocol's invariants; runs after every step.
    fn invariants(&self, parts: &Parts);
    /// Returns the duties of leaders. Blocks record whether leaders performed them.
    fn duties() -> Duties {
        Duties::default()
    }
    /// Returns how votes of a domain are counted.
    fn counting(_domain: Domain) -> Counting {
        Counting::default()
    }
}
