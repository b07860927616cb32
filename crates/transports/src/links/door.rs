//! The listener through which a link arrived: for peers, clients or operators, so that a firewall can tell them apart.

use crate::Remote;
use crate::error::LinkError;

/// Who may connect through a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// Peers, and clients if they have no listener of their own.
    Anybody,
    Peers,
    Clients,
    /// Operators, who identify themselves as clients and are served separately.
    Operators,
}

impl Door {
    pub const ALL: [Door; 4] = [Door::Anybody, Door::Peers, Door::Clients, Door::Operators];

    /// Returns the identity of an authenticated remote at this door, or an error if the door does not serve it.
    pub fn admits(self, remote: Remote) -> Result<Remote, LinkError> {
        match (self, remote) {
            (Door::Anybody, _) | (Door::Peers, Remote::Replica(_)) | (Door::Clients, Remote::Client(_)) => Ok(remote),
            (Door::Operators, Remote::Client(client)) => Ok(Remote::Operator(client)),
            (Door::Peers, _) => Err(LinkError::WrongDoor { who: "a client", door: "peers", key: "client_listen" }),
            (Door::Clients, _) => Err(LinkError::WrongDoor { who: "a replica", door: "clients", key: "listen" }),
            (Door::Operators, _) => Err(LinkError::WrongDoor { who: "a replica", door: "operators", key: "listen" }),
        }
    }
}
