//! What is known of a protocol besides how it runs: whatever lists, names, describes or judges protocols reads it here.

use quorate_types::Domain;

/// What a protocol is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The name on the command line and in files.
    pub name: &'static str,
    /// The name in headings.
    pub title: &'static str,
    /// How it works, in a few sentences.
    pub essence: &'static str,
    /// What a view, or a slot, consists of.
    pub shape: Shape,
    /// What binds a voter.
    pub bound_by: Bond,
    /// Whether a timeout is signed together with the whole highest certificate, and not only with its view.
    pub timeouts_carry_certificates: bool,
}

/// How blocks are certified and committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One certificate a view. A block is committed when so many blocks in consecutive views are certified, of which it is the first.
    Chain(usize),
    /// All certificates of a block belong to one view: of a prepare, a pre-commit and a commit phase.
    Phases,
    /// Each slot of a window is agreed on by itself.
    Slots,
}

impl Shape {
    /// How many blocks in consecutive views must be certified before the first of them is committed.
    pub const fn chain_length(self) -> usize {
        match self {
            Shape::Chain(length) => length,
            Shape::Phases | Shape::Slots => 1,
        }
    }

    /// The votes of which the last certificate of a block is made before it is committed.
    pub const fn decides(self) -> Domain {
        match self {
            Shape::Chain(_) => Domain::Vote,
            Shape::Phases | Shape::Slots => Domain::Commit,
        }
    }
}

/// What a voter holds against a proposal, as anybody can tell from what it has signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bond {
    /// The locked block: it is extended, or the proposal's certificate is newer.
    LockedBlock,
    /// The view of the lock: the proposal's certificate is of no earlier one.
    LockedView,
    /// The view before: the proposal's certificate is of that view, or as high as its timeouts tell.
    Timeouts,
    /// What is prepared in the slot.
    Slot,
}
