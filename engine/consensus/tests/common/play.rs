//! Properties of a protocol that the harness needs: how to create a replica, and how to describe the protocol's
//! messages.

use super::story::Story;
use quorate_consensus::Protocol;
use quorate_consensus::protocols::views::{Family, ViewEngine};
use quorate_consensus::{Config, Message, Replica};
use quorate_types::{Domain, EpochId, Height, Quorum, ReplicaId, Subject, View};

/// Protocol that the harness can run.
pub trait Play: 'static {
    /// The name of the protocol in the configuration.
    const NAME: &'static str;
    /// Domain of the votes that an honest quorum signs on a block before any replica commits it.
    const VOTED_IN: Domain = Domain::Vote;
    /// Whether two views may order a bundle twice, in two slots, although all replicas are honest. It is executed only
    /// once.
    const ORDERS_TWICE: bool = false;
    /// Whether a leader's statement in one view reserves the next view for its proposal, which then need not wait for
    /// its own record.
    const RESERVES: bool = false;
    type Message: Told;
    type Engine: Protocol<Message = Self::Message>;

    fn replica(config: Config, quorum: Quorum, epoch: EpochId, me: ReplicaId, salt: u64) -> Replica<Self::Engine>;

    /// Returns a replica's claims about its past, besides the statements that it signed.
    fn claims(_replica: &Replica<Self::Engine>) -> Vec<Subject> {
        Vec::new()
    }

    /// Returns the property that distinguishes several statements of one kind in one view: the slot, in protocols with
    /// slots.
    fn slot(_subject: &Subject) -> Height {
        Height(0)
    }
}

/// Message that a story can describe. A description begins with a verb in the third person.
pub trait Told: Message {
    /// Returns the view of the message, if it has one.
    fn view(&self) -> Option<View>;
    /// Describes the arrival of the message, if the story mentions it.
    fn arrival(&self, story: &mut Story) -> Option<String>;
    /// Describes the sending of the message. `others` names the recipients without the sender.
    fn departure(&self, story: &mut Story, to: &[ReplicaId], others: &str) -> String;
}

/// Protocol with views whose messages a story can describe.
pub trait Viewed: Family<Message: Told> {}

impl<F: Family<Message: Told>> Viewed for F {}

impl<F: Viewed> Play for F {
    const NAME: &'static str = F::FACTS.name;
    const VOTED_IN: Domain = F::VOTES;
    const RESERVES: bool = true;
    type Message = <F as Family>::Message;
    type Engine = ViewEngine<F>;

    fn replica(config: Config, quorum: Quorum, epoch: EpochId, me: ReplicaId, salt: u64) -> Replica<Self::Engine> {
        Replica::new(ViewEngine::new(&config, &epoch), config, quorum, epoch, me, salt)
    }
}
