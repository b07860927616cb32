//! Ends of links.

use serde::{Deserialize, Serialize};

/// End of a link: a replica's number, or machines of the clients.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum End {
    Replica(u16),
    /// `clients`: all machines of the clients; `clients:K`: machine K, counted from 0; or a region: those in it.
    Named(String),
}

/// All machines of the clients.
const CLIENTS: &str = "clients";

impl End {
    /// Returns whether it names all machines of the clients.
    pub(crate) fn is_all_clients(&self) -> bool {
        matches!(self, End::Named(name) if name == CLIENTS)
    }

    /// Returns the number of the one machine that it names; `None` if it names others, or none.
    pub(crate) fn machine(&self) -> Option<usize> {
        let End::Named(name) = self else { return None };
        name.strip_prefix(CLIENTS)?.strip_prefix(':')?.parse().ok()
    }
}
