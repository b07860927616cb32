//! By which door a link came in: that of peers, of clients or of operators, so that a firewall can tell them apart.

use crate::Remote;
use crate::error::LinkError;

/// Who may come in by a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// Peers, and clients too where these have no listener of their own.
    Anybody,
    /// Replicas of the committee.
    Peers,
    /// Clients.
    Clients,
    /// Operators: they present themselves as clients and are served apart from them.
    Operators,
}

impl Door {
    /// All of them.
    pub const ALL: [Door; 4] = [Door::Anybody, Door::Peers, Door::Clients, Door::Operators];

    /// Who the authenticated remote is to this transport; an error if it is at the wrong door.
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
