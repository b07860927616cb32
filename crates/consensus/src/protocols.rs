//! The registry: the one place that lists the protocols. Whatever has to do with each of them is made from this list, tests too.

use crate::config::{Config, LeaderKind, VotesTo};
use crate::facts::{Facts, Shape};
use crate::replica::{Protocol, Replica};
use quorate_types::identity::ProofRequirements;
use quorate_types::{ClusterId, Quorum, ReplicaId};

/// Calls a macro with every protocol, after what it is to be given besides: `every_protocol!((path::of) given)` is
/// `path::of! { [given] chained { file: Rules, .. } others { name: Kind = make, .. } }`. A chained protocol is its file in `chained/rules`
/// and the name of its rules, which is that of its [`ProtocolKind`]; any other has a function that makes a replica.
#[macro_export]
macro_rules! every_protocol {
    (($($call:tt)+) $($given:tt)*) => {
        $($call)+! { [$($given)*]
            chained {
                chained_hotstuff: ChainedHotStuff,
                simple_hotstuff: SimpleHotStuff,
                fast_hotstuff: FastHotStuff,
                jolteon: Jolteon,
                hotstuff_2: HotStuff2,
            }
            others {
                basic_hotstuff: BasicHotStuff = $crate::basic::replica,
                pbft: Pbft = $crate::pbft::replica,
            }
        }
    };
}

/// Calls a macro with a name for a function and the [`ProtocolKind`] of every protocol: `call! { name: Kind, .. }`.
#[macro_export]
macro_rules! each_protocol {
    ([$($call:tt)+] chained { $($file:ident: $rules:ident,)+ } others { $($name:ident: $kind:ident = $make:expr,)+ }) => {
        $($call)+! { $($file: $rules,)+ $($name: $kind,)+ }
    };
    ($($call:tt)+) => {
        $crate::every_protocol!(($crate::each_protocol) $($call)+);
    };
}

/// Runs work that is generic in the protocol for the protocol of that kind: `dispatch!(kind, work)` is `work.run(make)`.
#[macro_export]
macro_rules! dispatch {
    ([$of:expr, $work:expr] chained { $($file:ident: $rules:ident,)+ } others { $($name:ident: $kind:ident = $make:expr,)+ }) => {
        match $of {
            $($crate::config::ProtocolKind::$rules => $work.run($crate::chained::replica::<$crate::chained::rules::$rules>),)+
            $($crate::config::ProtocolKind::$kind => $work.run($make),)+
        }
    };
    ($of:expr, $work:expr) => {
        $crate::every_protocol!(($crate::dispatch) $of, $work)
    };
}

macro_rules! kinds {
    ($($name:ident: $kind:ident,)+) => {
        /// Which protocol orders commands.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ProtocolKind {
            $($kind),+
        }

        impl ProtocolKind {
            /// Every protocol, in the order of the documentation.
            pub const ALL: &'static [ProtocolKind] = &[$(ProtocolKind::$kind),+];
        }

        quorate_types::named_choice!(ProtocolKind, "protocol");
    };
}
each_protocol!(kinds);

/// Makes a replica of a protocol; see [`Replica::new`].
pub type MakeReplica<P> = fn(Config, Quorum, ClusterId, ReplicaId, u64) -> Replica<P>;

/// Work that is the same for replicas of every protocol.
pub trait ForProtocol {
    /// What comes of it.
    type Output;
    /// Does it for one protocol.
    fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output;
}

/// Does the work for the protocol of that name.
pub fn for_protocol<W: ForProtocol>(kind: ProtocolKind, work: W) -> W::Output {
    dispatch!(kind, work)
}

struct FactsOf;

impl ForProtocol for FactsOf {
    type Output = &'static Facts;
    fn run<P: Protocol + 'static>(self, _make: MakeReplica<P>) -> &'static Facts {
        &P::FACTS
    }
}

impl ProtocolKind {
    /// What the protocol is.
    pub fn facts(self) -> &'static Facts {
        for_protocol(self, FactsOf)
    }

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Who may lead its views. PBFT's primary of view v is replica `v - 1 mod n`, who leads for as long as its view lasts.
    pub fn leaders(self) -> &'static [LeaderKind] {
        if self.has_slots() { &[LeaderKind::Fixed] } else { LeaderKind::ALL }
    }

    /// What it asks of signatures: each of them shows certificates to others, in proposals or in view changes.
    pub fn requires(self) -> ProofRequirements {
        ProofRequirements { transferable: true }
    }

    /// Whether it agrees on each slot by itself, in a window of slots.
    pub fn has_slots(self) -> bool {
        self.facts().shape == Shape::Slots
    }

    /// How many blocks in consecutive views must be certified before the first of them is committed.
    pub fn chain_length(self) -> usize {
        self.facts().shape.chain_length()
    }

    /// Whether blocks are certified by a chain of views, so that somebody of another view may collect the votes.
    pub fn is_chained(self) -> bool {
        matches!(self.facts().shape, Shape::Chain(_))
    }

    /// How many consecutive views must have live leaders before anything is committed. In a chain, where the next leader collects
    /// the votes, that is one more than there are blocks to certify; where everybody does, it is as many; where all phases of a block
    /// belong to one view, one suffices.
    pub fn live_leaders_in_a_row(self, votes: VotesTo) -> usize {
        match votes {
            VotesTo::Collector if self.is_chained() => self.chain_length() + 1,
            _ => self.chain_length(),
        }
    }
}
