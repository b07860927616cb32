//! The listener through which a link arrived: for peers, clients or operators, which have separate ones so that a
//! firewall can distinguish them.

use crate::transports::Remote;
use crate::transports::error::LinkError;

/// Ends that may connect through a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// Peers, and clients if they have no listener of their own.
    Anybody,
    Peers,
    Clients,
    /// Operators, who identify themselves as clients and are served separately.
    Operators,
}

impl Audience {
    pub const ALL: [Audience; 4] = [Audience::Anybody, Audience::Peers, Audience::Clients, Audience::Operators];

    /// Returns the identity of an authenticated remote at a listener, or an error if the listener does not serve it.
    pub fn admits(self, remote: Remote) -> Result<Remote, LinkError> {
        match (self, remote) {
            (Audience::Anybody, _) | (Audience::Peers, Remote::Replica(_)) | (Audience::Clients, Remote::Client(_)) => {
                Ok(remote)
            }
            (Audience::Operators, Remote::Client(client)) => Ok(Remote::Operator(client)),
            (Audience::Peers, _) => {
                Err(LinkError::WrongListener { who: "a client", audience: "peers", key: "client_listen" })
            }
            (Audience::Clients, _) => {
                Err(LinkError::WrongListener { who: "a replica", audience: "clients", key: "listen" })
            }
            (Audience::Operators, _) => {
                Err(LinkError::WrongListener { who: "a replica", audience: "operators", key: "listen" })
            }
        }
    }
}
