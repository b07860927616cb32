//! What the harness has to know of a protocol: how a replica of it is made, and how its messages are told.

use super::story::Story;
use quorate_consensus::replica::Protocol;
use quorate_consensus::views::{Family, ViewEngine};
use quorate_consensus::{Config, Message, Replica};
use quorate_types::{ClusterId, Domain, Height, Quorum, ReplicaId, Subject, View};

/// A protocol that can be put on the stage.
pub trait Play: 'static {
    /// Its name, which is that of its configuration.
    const NAME: &'static str;
    /// The votes that an honest quorum signs on a block before anybody commits it.
    const VOTED_IN: Domain = Domain::Vote;
    /// Whether a bundle may be ordered twice although all are honest: in two slots, by two views. It is executed once for all that.
    const ORDERS_TWICE: bool = false;
    /// Whether what a leader said in one view reserves the next for its proposal, which need not wait for its own record then.
    const RESERVES: bool = false;
    type Message: Told;
    type Engine: Protocol<Message = Self::Message>;

    fn replica(config: Config, quorum: Quorum, cluster: ClusterId, me: ReplicaId, salt: u64) -> Replica<Self::Engine>;

    /// What tells apart the statements of one kind in one view of which a replica may sign each: the slot, where there are slots.
    fn slot(_subject: &Subject) -> Height {
        Height(0)
    }
}

/// A message that can be told of in a story. What is told begins with a verb in the third person.
pub trait Told: Message {
    /// The view that it belongs to, if it belongs to one.
    fn view(&self) -> Option<View>;
    /// What is told when another replica receives it.
    fn arrival(&self, story: &mut Story) -> Option<String>;
    /// What is told when it is sent; `others` names those to whom it goes, the sender left out.
    fn departure(&self, story: &mut Story, to: &[ReplicaId], others: &str) -> String;
}

/// A protocol with views, whose messages can be told of.
pub trait Viewed: Family<Message: Told> {}

impl<F: Family<Message: Told>> Viewed for F {}

impl<F: Viewed> Play for F {
    const NAME: &'static str = F::FACTS.name;
    const VOTED_IN: Domain = F::VOTES;
    const RESERVES: bool = true;
    type Message = <F as Family>::Message;
    type Engine = ViewEngine<F>;

    fn replica(config: Config, quorum: Quorum, cluster: ClusterId, me: ReplicaId, salt: u64) -> Replica<Self::Engine> {
        Replica::new(ViewEngine::new(&config, &cluster), config, quorum, cluster, me, salt)
    }
}
