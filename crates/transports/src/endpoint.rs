//! Sockets that are bound, and wait for a transport to take them over.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// A place where a transport listens: bound already, so that nobody else can take it, and its port is known.
#[derive(Debug)]
pub struct Endpoint(Socket);

#[derive(Debug)]
enum Socket {
    Stream(TcpListener),
    Datagrams(UdpSocket),
}

impl Endpoint {
    /// Where it is, with the port that the system chose.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Socket::Stream(listener) => listener.local_addr(),
            Socket::Datagrams(socket) => socket.local_addr(),
        }
    }

    /// The listener for streams.
    ///
    /// # Errors
    /// If another transport bound it.
    pub fn into_listener(self) -> io::Result<TcpListener> {
        match self.0 {
            Socket::Stream(listener) => Ok(listener),
            Socket::Datagrams(_) => Err(wrong("datagrams", "streams")),
        }
    }

    /// The socket for datagrams.
    ///
    /// # Errors
    /// If another transport bound it.
    pub fn into_datagrams(self) -> io::Result<UdpSocket> {
        match self.0 {
            Socket::Datagrams(socket) => Ok(socket),
            Socket::Stream(_) => Err(wrong("streams", "datagrams")),
        }
    }
}

fn wrong(found: &str, wanted: &str) -> io::Error {
    let why = format!("the endpoint was bound for {found}, and this transport needs one for {wanted}");
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

/// Where a replica's transport listens.
#[derive(Debug, Default)]
pub struct Endpoints {
    /// For peers; if there is none, it listens on its address in the committee.
    pub peers: Option<Endpoint>,
    /// For clients; if there is none, they share the peers' endpoint.
    pub clients: Option<Endpoint>,
    /// For operators; if there is none, they are clients like others.
    pub operators: Option<Endpoint>,
}

impl<E: Into<Endpoint>> From<Option<E>> for Endpoints {
    fn from(peers: Option<E>) -> Endpoints {
        Endpoints { peers: peers.map(Into::into), ..Endpoints::default() }
    }
}

/// Where a replica listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listening {
    /// For its peers.
    pub peers: SocketAddr,
    /// For clients, who may share the endpoint of the peers.
    pub clients: SocketAddr,
    /// For operators, if it does.
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
