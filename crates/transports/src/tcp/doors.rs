//! Where a transport listens: one door for peers, one for clients, one for operators, so that a firewall can tell them apart.

use super::sockets;
use crate::config::TcpConfig;
use crate::error::{LinkError, SetupError};
use crate::{Listeners, Remote};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use std::io;
use std::net::SocketAddr;

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

struct OpenDoor {
    door: Door,
    listener: TcpListener,
    /// It has more to accept, of which no event will tell.
    accepts_more: bool,
}

/// The listeners of one transport. The token of each is its position.
#[derive(Default)]
pub struct Doors(Vec<OpenDoor>);

/// Most listeners of one transport.
pub const MOST_DOORS: usize = 3;

impl Doors {
    /// Takes listeners over and has them watched.
    pub fn open(listeners: Listeners, config: &TcpConfig, registry: &Registry) -> Result<Doors, SetupError> {
        let peers = if listeners.clients.is_some() { Door::Peers } else { Door::Anybody };
        // Operators first, so that they come in however many others knock.
        let doors =
            [(Door::Operators, listeners.operators), (peers, listeners.peers), (Door::Clients, listeners.clients)];
        let mut open = Vec::with_capacity(MOST_DOORS);
        for (door, listener) in doors {
            let Some(listener) = listener else { continue };
            let mut listener = sockets::adopt(listener, config)?;
            registry.register(&mut listener, Token(open.len()), Interest::READABLE)?;
            open.push(OpenDoor { door, listener, accepts_more: false });
        }
        Ok(Doors(open))
    }

    /// Closes all of them.
    pub fn close(&mut self, registry: &Registry) {
        for mut open in self.0.drain(..) {
            // It fails only if the listener is not registered; dropping it deregisters it all the same.
            let _ = registry.deregister(&mut open.listener);
        }
    }

    /// Where a door is; none if there is no such door.
    pub fn address(&self, wanted: &[Door]) -> Option<SocketAddr> {
        let open = self.0.iter().find(|open| wanted.contains(&open.door))?;
        open.listener.local_addr().ok()
    }

    /// Somebody waits at the door with this token.
    pub fn knocked(&mut self, token: usize) {
        // None is left once the doors are closed.
        if let Some(open) = self.0.get_mut(token) {
            open.accepts_more = true;
        }
    }

    /// Whether somebody may wait at a door.
    pub fn accepts_more(&self) -> bool {
        self.0.iter().any(|open| open.accepts_more)
    }

    /// The next who waits at a door, or what the operating system says against it; none if nobody waits.
    pub fn accept(&mut self) -> Option<(Door, io::Result<(TcpStream, SocketAddr)>)> {
        for open in self.0.iter_mut().filter(|open| open.accepts_more) {
            loop {
                match open.listener.accept() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        open.accepts_more = false;
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    accepted => return Some((open.door, accepted)),
                }
            }
        }
        None
    }
}
