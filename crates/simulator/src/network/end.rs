//! Who a link connects.

use serde::{Deserialize, Serialize};

/// An end of a link: a replica's number, or `"clients"`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum End {
    /// A replica.
    Replica(u16),
    /// The clients' machine, by the name `clients`.
    Named(String),
}
