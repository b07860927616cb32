//! Addresses of listening processes: an IP address or a host name, and a port.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// Maximum length of a host name in characters (RFC 1035, section 2.3.4).
pub const MAX_HOST_NAME_CHARACTERS: usize = 253;
/// Maximum length of a host name's label in characters (RFC 1035, section 2.3.4).
const MAX_LABEL_CHARACTERS: usize = 63;

/// A host and a port: `10.0.0.1:7000`, `[::1]:7000` or `replica-0.example.com:7000`. A name is resolved when it is
/// used, not when it is parsed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    host: Host,
    port: u16,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Host {
    Number(IpAddr),
    Name(Arc<str>),
}

/// Text that is not an address.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AddressError {
    #[error("`{0}` does not end with a port: write HOST:PORT, such as 10.0.0.1:7000 or replica-0.example.com:7000")]
    Port(String),
    #[error(
        "`{0}` is neither a host name nor an IP address: write HOST:PORT, such as 10.0.0.1:7000, [::1]:7000 or \
         replica-0.example.com:7000"
    )]
    Host(String),
}

impl Address {
    /// Returns an address on `host`, an IP address or a host name.
    ///
    /// # Errors
    /// [`AddressError::Host`] if it is neither.
    pub fn on(host: &str, port: u16) -> Result<Address, AddressError> {
        let number = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(number) = number.parse() {
            return Ok(Address { host: Host::Number(number), port });
        }
        if !is_host_name(host) {
            return Err(AddressError::Host(host.to_owned()));
        }
        Ok(Address { host: Host::Name(host.into()), port })
    }

    /// Returns the same host with another port.
    pub fn with_port(&self, port: u16) -> Address {
        Address { host: self.host.clone(), port }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the socket address, if the host is an IP address.
    pub fn socket(&self) -> Option<SocketAddr> {
        match &self.host {
            Host::Number(number) => Some(SocketAddr::new(*number, self.port)),
            Host::Name(_) => None,
        }
    }

    /// Returns whether only this host can reach it: a loopback IP address, or the name `localhost`.
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Number(number) => number.is_loopback(),
            Host::Name(name) => name.eq_ignore_ascii_case("localhost"),
        }
    }

    /// Resolves the host to at least one socket address. **Blocks on name servers**, possibly for many seconds.
    ///
    /// # Errors
    /// The operating system's error if it cannot resolve the name.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = match &self.host {
            Host::Number(number) => vec![SocketAddr::new(*number, self.port)],
            Host::Name(name) => (&**name, self.port).to_socket_addrs()?.collect(),
        };
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(found)
    }
}

/// Returns whether the text is a host name by RFC 1123, section 2.1; also allows underscores, which some networks use.
/// Refuses a name whose last label is a number, since that is a mistyped IP address.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        (1..=MAX_LABEL_CHARACTERS).contains(&label.len())
            && label.chars().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_HOST_NAME_CHARACTERS
        && text.split('.').all(is_label)
        && !last.chars().all(|letter| letter.is_ascii_digit())
}

impl From<SocketAddr> for Address {
    fn from(socket: SocketAddr) -> Address {
        Address { host: Host::Number(socket.ip()), port: socket.port() }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(socket.into());
        }
        let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.ok_or_else(|| AddressError::Port(text.to_owned()))?;
        if host.contains(':') {
            // A bare IPv6 address: its last group is not a port.
            return Err(AddressError::Host(text.to_owned()));
        }
        Address::on(host, port).map_err(|_| AddressError::Host(host.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Number(number) => SocketAddr::new(*number, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
