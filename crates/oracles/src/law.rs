//! What the oracles over signed statements hold against a replica.

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// What a replica signs contradicts what it signed earlier, of another kind or in another view.
    Order,
    /// A block is committed, or a certificate shown or voted on, without signed votes of a quorum behind it.
    Backing,
}

impl Law {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Law::Order => "statement-order",
            Law::Backing => "backing",
        }
    }
}

/// Something that an honest replica must not do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach {
    /// Which law is broken.
    pub law: Law,
    /// What was seen.
    pub what: String,
}
