//! The invariants of signed statements, and their violations.

/// Invariant of signed statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// A replica must not contradict its earlier statements, of any kind or view.
    Order,
    /// Every committed block, and every certificate that is shown or voted on, needs signed votes of a quorum.
    Backing,
}

impl Law {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Law::Order => "statement-order",
            Law::Backing => "backing",
        }
    }
}

/// Violation of an invariant by an honest replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach {
    pub law: Law,
    pub what: String,
}

/// Returns a violation of [`Law::Backing`].
pub(crate) fn unbacked(what: String) -> Result<(), Breach> {
    Err(Breach { law: Law::Backing, what })
}
