//! The properties that a run can violate.

use quorate_types::choice;
use serde::{Deserialize, Serialize};

choice!(
    /// Invariant that a run can violate.
    Property, "property",
    /// The chains executed by honest replicas are prefixes of one chain.
    Agreement = "agreement",
    /// Heights have no gaps, and each block extends the previous one.
    Contiguity = "contiguity",
    /// An honest replica makes at most one statement of a kind in a view, and with slots, for each slot.
    OneStatement = "one-statement",
    /// Replicas execute only bundles sent by clients, in the blocks that name them, and only once if all are honest.
    Validity = "validity",
    /// No honest replica is proven to misbehave.
    Accusation = "accusation",
    /// After the network heals, commands are executed within a bounded number of views.
    Liveness = "liveness",
    /// An honest replica's statement does not contradict its statements of other kinds or in other views.
    Order = "statement-order",
    /// Certificates that honest replicas send or vote on, and their commits, are backed by a quorum's signed votes.
    Backing = "backing",
    /// Each bundle of a block with a quorum of votes is in the journals of f+1 honest replicas.
    Availability = "availability",
    /// No honest replica is in a view far above the views that a quorum can have caused.
    Views = "view-gap",
    /// Tables stay within their bounds.
    Memory = "memory",
    /// Requests of others cause an honest replica a bounded amount of work.
    Work = "work",
    /// Honest clients are served within a time limit despite hostile ones.
    Served = "served",
    /// Blocks have times near the clocks of honest replicas, and are executed at equal times everywhere.
    Time = "time",
    /// Each block is executed at one feature level everywhere, which begins where a signed change says.
    Level = "level",
    /// Off-path packets neither start, move, delay nor end a connection, nor receive long answers.
    OffPath = "off-path",
    /// Time advances: events do not continue forever at one instant.
    Spin = "spin",
    /// No input makes a replica panic.
    Panic = "panic",
);

/// Violation of a property.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    pub property: Property,
    /// Description of the violation.
    pub what: String,
}

/// Returns a violation of [`Property::Backing`].
pub(crate) fn unbacked(what: String) -> Result<(), Violation> {
    Err(Violation { property: Property::Backing, what })
}
