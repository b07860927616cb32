//! Bound sockets that a transport can take over.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// Bound socket of a listener. Because it is already bound, the port is known and nobody else can take it.
#[derive(Debug)]
pub struct Endpoint(Socket);

#[derive(Debug)]
enum Socket {
    Stream(TcpListener),
    Datagrams(UdpSocket),
}

impl Endpoint {
    /// Returns the address, with the port that the system assigned.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Socket::Stream(listener) => listener.local_addr(),
            Socket::Datagrams(socket) => socket.local_addr(),
        }
    }

    /// Returns the listener for streams.
    ///
    /// # Errors
    /// If it was bound for another transport.
    pub fn into_listener(self) -> io::Result<TcpListener> {
        match self.0 {
            Socket::Stream(listener) => Ok(listener),
            Socket::Datagrams(_) => Err(wrong("datagrams", "streams")),
        }
    }

    /// Returns the socket for datagrams.
    ///
    /// # Errors
    /// If it was bound for another transport.
    pub fn into_datagrams(self) -> io::Result<UdpSocket> {
        match self.0 {
            Socket::Datagrams(socket) => Ok(socket),
            Socket::Stream(_) => Err(wrong("streams", "datagrams")),
        }
    }
}

fn wrong(found: &str, wanted: &str) -> io::Error {
    let why = format!("the endpoint was bound for {found}, but this transport needs one for {wanted}");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

impl From<TcpListener> for Endpoint {
    fn from(listener: TcpListener) -> Endpoint {
        Endpoint(Socket::Stream(listener))
    }
}

impl From<UdpSocket> for Endpoint {
    fn from(socket: UdpSocket) -> Endpoint {
        Endpoint(Socket::Datagrams(socket))
    }
}

/// Endpoints of a replica's transport.
#[derive(Debug, Default)]
pub struct Endpoints {
    /// For peers; if `None`, the replica listens on its address in the committee.
    pub peers: Option<Endpoint>,
    /// For clients; if `None`, they share the peers' endpoint.
    pub clients: Option<Endpoint>,
    /// For operators; if `None`, they are treated as clients.
    pub operators: Option<Endpoint>,
}

impl<E: Into<Endpoint>> From<Option<E>> for Endpoints {
    fn from(peers: Option<E>) -> Endpoints {
        Endpoints { peers: peers.map(Into::into), ..Endpoints::default() }
    }
}

/// Addresses on which a replica listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listening {
    pub peers: SocketAddr,
    /// May be the same as for peers.
    pub clients: SocketAddr,
    pub operators: Option<SocketAddr>,
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.peers == self.clients {
            write!(f, "listening on {} for peers and clients", self.peers)?;
        } else {
            write!(f, "listening on {} for peers, on {} for clients", self.peers, self.clients)?;
        }
        self.operators.map_or(Ok(()), |operators| write!(f, ", on {operators} for operators"))
    }
}
