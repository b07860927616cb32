//! Names of the protocols and static facts about them, for code that lists, names, describes or checks them.
//!
//! Each protocol declares its own facts next to its rules, so [`ProtocolKind::facts`] is defined where the protocols
//! are known, in [`replica::make`](crate::replica::make).

use quorate_types::identity::ProofRequirements;
use quorate_types::{Choice, Domain};

macro_rules! kinds {
    ([] chained { $($file:ident: $rules:ident,)+ } others { $($name:ident: $kind:ident = $engine:ty,)+ }) => {
        /// A protocol that orders commands.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ProtocolKind {
            $($rules,)+
            $($kind,)+
        }

        impl ProtocolKind {
            /// The protocols that a configuration may name: [`ALL`](ProtocolKind::ALL), and with the feature
            /// `laboratory` those for measurements.
            pub const NAMED: &'static [ProtocolKind] = &[$(ProtocolKind::$rules,)+ $(ProtocolKind::$kind,)+];
        }
    };
}
crate::every_kind! { (kinds) }

macro_rules! replicating {
    ($($name:ident: $kind:ident,)+) => {
        impl ProtocolKind {
            /// All protocols under which replicas agree, in the order of the documentation.
            pub const ALL: &'static [ProtocolKind] = &[$(ProtocolKind::$kind),+];
        }
    };
}
crate::each_protocol!(replicating);

impl Choice for ProtocolKind {
    const WHAT: &'static str = "protocol";

    fn names() -> Vec<&'static str> {
        ProtocolKind::NAMED.iter().map(|kind| kind.name()).collect()
    }
}
quorate_types::by_name!(ProtocolKind, ProtocolKind::NAMED.iter().copied());

/// Static facts about one protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The name used on the command line and in files.
    pub name: &'static str,
    /// The name used in headings.
    pub title: &'static str,
    /// Description of the protocol, in a few sentences.
    pub essence: &'static str,
    /// The phases of a view or a slot.
    pub shape: Shape,
    /// The constraint on a voter.
    pub bound_by: Bond,
    /// Whether a timeout signs the whole highest certificate instead of only its view.
    pub timeouts_carry_certificates: bool,
    /// Whether the leader of the next view proposes on the block that it has just voted for, before that is certified.
    /// All replicas then collect the votes, since none can vote for such a block without the certificate of its parent.
    pub optimistic_proposals: bool,
    /// How long a leader whose view began with timeouts waits for the highest lock of any honest replica, in message
    /// delays; 0 if the timeouts bound the locks. If it waits, only timely certificates raise a lock, so that no
    /// replica is locked on one that the leader had no chance to hear of.
    pub awaited_delays: u32,
    /// Whether certificates of votes are shown to third parties, in proposals or view changes.
    pub shows_votes: bool,
    /// Whether replicas make up for lost messages: they repeat statements, ask for what they lack, and agree on
    /// checkpoints. Without, a slot succeeds or fails by the messages that arrive, and replicas execute different
    /// commands: for measurements only.
    pub repairs_losses: bool,
}

/// Way in which blocks are certified and committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One certificate per view. A block is committed when it is the first of this many certified blocks in consecutive
    /// views.
    Chain(usize),
    /// A block is certified in a prepare, a pre-commit and a commit phase, all in the same view.
    Phases,
    /// Each slot of a window is decided independently.
    Slots,
}

impl Shape {
    /// Returns the number of blocks in consecutive views that must be certified to commit the first of them.
    pub const fn chain_length(self) -> usize {
        match self {
            Shape::Chain(length) => length,
            Shape::Phases | Shape::Slots => 1,
        }
    }

    /// Returns the domain of the last certificate that a block needs before it is committed.
    pub const fn decides(self) -> Domain {
        match self {
            Shape::Chain(_) => Domain::Vote,
            Shape::Phases | Shape::Slots => Domain::Commit,
        }
    }
}

/// Constraint that a voter's signed statements put on its later votes, as any observer can check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bond {
    /// The locked block: the proposal extends it, or carries a newer certificate.
    LockedBlock,
    /// The view of the lock: the proposal's certificate is at least as recent.
    LockedView,
    /// The previous view: the proposal's certificate is from that view, or as high as its timeouts report.
    Timeouts,
    /// The prepared block of the slot.
    Slot,
}

impl ProtocolKind {
    /// Returns the name used on the command line and in files.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the requirements on the signature scheme. Every protocol shows signed statements to third parties: in
    /// proposals, view changes or checkpoints.
    pub fn requires(self) -> ProofRequirements {
        ProofRequirements { transferable: true }
    }

    /// Returns the requirements on what authenticates votes.
    pub fn requires_of_votes(self) -> ProofRequirements {
        ProofRequirements { transferable: self.facts().shows_votes }
    }

    /// Returns whether the protocol agrees on each slot of a window separately.
    pub fn has_slots(self) -> bool {
        self.facts().shape == Shape::Slots
    }

    /// Returns how many blocks in consecutive views must be certified to commit the first of them.
    pub fn chain_length(self) -> usize {
        self.facts().shape.chain_length()
    }

    /// Returns whether a chain of views certifies blocks, so that the next leader may collect the votes.
    pub fn is_chained(self) -> bool {
        matches!(self.facts().shape, Shape::Chain(_))
    }
}
