//! Where a transport listens: one door for peers, one for clients, one for operators, so that a firewall can tell them apart.

use super::sockets;
use crate::Endpoints;
use crate::config::TcpConfig;
use crate::error::SetupError;
use crate::links::Door;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use std::io;
use std::net::SocketAddr;

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
pub const MAX_DOORS: usize = 3;

impl Doors {
    /// Takes endpoints over and has them watched.
    pub fn open(endpoints: Endpoints, config: &TcpConfig, registry: &Registry) -> Result<Doors, SetupError> {
        let peers = if endpoints.clients.is_some() { Door::Peers } else { Door::Anybody };
        // Operators first, so that they come in however many others knock.
        let doors =
            [(Door::Operators, endpoints.operators), (peers, endpoints.peers), (Door::Clients, endpoints.clients)];
        let mut open = Vec::with_capacity(MAX_DOORS);
        for (door, endpoint) in doors {
            let Some(endpoint) = endpoint else { continue };
            let mut listener = sockets::adopt(endpoint.into_listener()?, config)?;
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
