//! Ends of links.

use serde::{Deserialize, Serialize};

/// End of a link: a replica's number, or client machines.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum End {
    Replica(u16),
    /// `clients`: all client machines; `clients:K`: machine K, from 0; or a region: the machines in it.
    Named(String),
}

/// All client machines.
const CLIENTS: &str = "clients";

impl End {
    /// Returns whether it names all client machines.
    pub(crate) fn is_all_clients(&self) -> bool {
        matches!(self, End::Named(name) if name == CLIENTS)
    }

    /// Returns the machine's number if it names a single one.
    pub(crate) fn machine(&self) -> Option<usize> {
        let End::Named(name) = self else { return None };
        name.strip_prefix(CLIENTS)?.strip_prefix(':')?.parse().ok()
    }
}
