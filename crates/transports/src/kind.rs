//! Kinds of transport: objects with a name and a profile.

use crate::datagrams::Association;
use crate::tcp::Tcp;
use crate::{Endpoint, Endpoints, SetupError, Transport, WireSettings};
use quorate_channels::{Carriage, ChannelConfig};
use quorate_types::{Address, Committee};
use std::io;

/// Properties of a kind of transport.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportProfile {
    /// Name in configurations.
    pub name: &'static str,
    /// One-line description for the help text.
    pub summary: &'static str,
    /// What it provides to a channel.
    pub carriage: Carriage,
    /// Built-in channel that cannot be replaced, such as TLS in QUIC.
    pub own_channel: Option<&'static str>,
    /// An attacker off the path cannot inject a frame into a link. Checking a packet's source address is not enough.
    pub guards_links: bool,
}

/// A kind of transport.
pub trait Carrier: Send + Sync {
    fn profile(&self) -> &TransportProfile;

    /// Binds an address: the first one that its name resolves to and that can be bound.
    ///
    /// # Errors
    /// If the name cannot be resolved, or the last of its addresses cannot be bound.
    fn listen(&self, address: &Address) -> io::Result<Endpoint>;

    /// Creates the transport of the replica that `end` represents.
    ///
    /// # Errors
    /// If a setting is invalid, or the operating system refuses something.
    fn replica(
        &self,
        committee: &Committee,
        endpoints: Endpoints,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError>;

    /// Creates the transport of the client that `end` represents: it dials every replica, and redials lost links.
    ///
    /// # Errors
    /// If a setting is invalid, or the operating system refuses something.
    fn client(
        &self,
        committee: &Committee,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError>;

    /// Returns the factory of its machines if it runs over packets, so that the simulator can run the same ones.
    fn association(&self) -> Option<&'static dyn Association> {
        None
    }
}

/// Copyable handle to a kind of transport, listed or not, compared by name.
#[derive(Clone, Copy)]
pub struct TransportKind(&'static dyn Carrier);

impl TransportKind {
    /// The kernel's TCP.
    pub const TCP: TransportKind = TransportKind::of(&Tcp);

    /// Every kind, in the order in which errors list them.
    pub const ALL: &'static [TransportKind] = &[TransportKind::TCP];

    /// Returns the handle of a kind that is not listed. Its name must be unique.
    pub const fn of(carrier: &'static dyn Carrier) -> TransportKind {
        TransportKind(carrier)
    }

    /// Returns the factory of its transports.
    pub fn carrier(self) -> &'static dyn Carrier {
        self.0
    }

    pub fn profile(self) -> &'static TransportProfile {
        self.0.profile()
    }

    /// Returns the name in configurations.
    pub fn name(self) -> &'static str {
        self.profile().name
    }
}

impl Default for TransportKind {
    fn default() -> TransportKind {
        TransportKind::TCP
    }
}

quorate_types::named_handle!(TransportKind, "transport");
