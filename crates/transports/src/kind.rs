//! What a kind of transport is to everybody else: an object with a name and a profile.

use crate::datagrams::Association;
use crate::tcp::Tcp;
use crate::{Endpoint, Endpoints, SetupError, Transport, WireSettings};
use quorate_channels::{Carriage, ChannelConfig};
use quorate_types::{Address, Committee};
use std::io;

/// What others have to know of a kind of transport.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportProfile {
    /// The name in configurations.
    pub name: &'static str,
    /// One line for the help.
    pub summary: &'static str,
    /// What it gives a channel to work on.
    pub carriage: Carriage,
    /// The channel that is a part of it, so that no other can be put in its place: QUIC has TLS.
    pub own_channel: Option<&'static str>,
    /// Nobody off the path can put a frame into a link of others. A packet's source address alone is no such guard.
    pub guards_links: bool,
}

/// A kind of transport.
pub trait Carrier: Send + Sync {
    /// What others have to know of it.
    fn profile(&self) -> &TransportProfile;

    /// Binds an address: the first one that its name has and that can be bound.
    ///
    /// # Errors
    /// What the operating system says of the name, or of the last address.
    fn listen(&self, address: &Address) -> io::Result<Endpoint>;

    /// The transport of the replica that `end` speaks for.
    ///
    /// # Errors
    /// If a setting cannot be, or the operating system refuses something.
    fn replica(
        &self,
        committee: &Committee,
        endpoints: Endpoints,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError>;

    /// The transport of the client that `end` speaks for: it dials every replica, and again when a link is lost.
    ///
    /// # Errors
    /// If a setting cannot be, or the operating system refuses something.
    fn client(
        &self,
        committee: &Committee,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError>;

    /// What makes its machines, if it runs over packets: the simulator then runs the same.
    fn association(&self) -> Option<&'static dyn Association> {
        None
    }
}

/// A kind of transport of the list, or one that is not in it: a name that can be copied and compared.
#[derive(Clone, Copy)]
pub struct TransportKind(&'static dyn Carrier);

impl TransportKind {
    /// The kernel's TCP.
    pub const TCP: TransportKind = TransportKind::of(&Tcp);

    /// Every kind, in the order in which errors list them.
    pub const ALL: &'static [TransportKind] = &[TransportKind::TCP];

    /// A kind that is in no list. Its name must not be another's.
    pub const fn of(carrier: &'static dyn Carrier) -> TransportKind {
        TransportKind(carrier)
    }

    /// The object that makes its transports.
    pub fn carrier(self) -> &'static dyn Carrier {
        self.0
    }

    /// What it can do.
    pub fn profile(self) -> &'static TransportProfile {
        self.0.profile()
    }

    /// The name in configurations.
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
