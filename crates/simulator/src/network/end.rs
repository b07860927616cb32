//! Ends of links.

use serde::{Deserialize, Serialize};

/// End of a link: a replica's number, or `"clients"`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum End {
    Replica(u16),
    /// The clients' machine, named `clients`.
    Named(String),
}

impl End {
    /// Returns the endpoint's index in a cluster of `replicas`, where the clients come last.
    pub(crate) fn index(&self, replicas: usize) -> usize {
        match self {
            End::Replica(replica) => usize::from(*replica),
            End::Named(_) => replicas,
        }
    }
}
