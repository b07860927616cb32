//! Listeners of a transport: one each for peers, clients and operators, so that a firewall can tell them apart.

use super::sockets::{self, Protocol};
use crate::transports::Endpoints;
use crate::transports::config::TcpConfig;
use crate::transports::error::SetupError;
use crate::transports::links::Audience;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use std::io;
use std::net::SocketAddr;

struct OpenListener {
    audience: Audience,
    listener: TcpListener,
    /// Whether more connections may be pending, for which no further event is reported.
    accepts_more: bool,
}

/// Listeners of one transport. The token of each is its index.
#[derive(Default)]
pub struct Listeners(Vec<OpenListener>);

/// Maximum number of listeners of one transport.
pub const MAX_LISTENERS: usize = 3;

impl Listeners {
    /// Takes over endpoints and registers them with the poll.
    pub fn open(
        endpoints: Endpoints,
        config: &TcpConfig,
        protocol: &Protocol,
        registry: &Registry,
    ) -> Result<Listeners, SetupError> {
        let peers = if endpoints.clients.is_some() { Audience::Peers } else { Audience::Anybody };
        // Operators first, so that they are accepted even if many others dial.
        let listeners = [
            (Audience::Operators, endpoints.operators),
            (peers, endpoints.peers),
            (Audience::Clients, endpoints.clients),
        ];
        let mut open = Vec::with_capacity(MAX_LISTENERS);
        for (audience, endpoint) in listeners {
            let Some(endpoint) = endpoint else { continue };
            let mut listener = sockets::adopt(endpoint.into_listener()?, config, protocol)?;
            registry.register(&mut listener, Token(open.len()), Interest::READABLE)?;
            open.push(OpenListener { audience, listener, accepts_more: false });
        }
        Ok(Listeners(open))
    }

    pub fn close(&mut self, registry: &Registry) {
        for mut open in self.0.drain(..) {
            // This fails only if the listener is not registered; dropping it deregisters it anyway.
            let _ = registry.deregister(&mut open.listener);
        }
    }

    /// Returns the address of a listener, or `None` if there is no such listener.
    pub fn address(&self, wanted: &[Audience]) -> Option<SocketAddr> {
        let open = self.0.iter().find(|open| wanted.contains(&open.audience))?;
        open.listener.local_addr().ok()
    }

    /// Notes that a connection is pending at the listener with this token.
    pub fn on_connection(&mut self, token: usize) {
        // After the listeners are closed, none is left.
        if let Some(open) = self.0.get_mut(token) {
            open.accepts_more = true;
        }
    }

    /// Returns whether a connection may be pending.
    pub fn accepts_more(&self) -> bool {
        self.0.iter().any(|open| open.accepts_more)
    }

    /// Accepts the next pending connection, or returns the operating system's error; `None` if none is pending.
    pub fn accept(&mut self) -> Option<(Audience, io::Result<(TcpStream, SocketAddr)>)> {
        for open in self.0.iter_mut().filter(|open| open.accepts_more) {
            loop {
                match open.listener.accept() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        open.accepts_more = false;
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    accepted => return Some((open.audience, accepted)),
                }
            }
        }
        None
    }
}
