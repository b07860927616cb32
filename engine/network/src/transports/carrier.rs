//! Interface of a transport kind: its properties, and how it creates transports or packet connections.

use crate::channels::{
    Carriage, ChannelConfig, ChannelError, Greeter, Machine, NONCE_BYTES, SECRET_BYTES, Side, Stack,
};
use crate::transports::{Endpoint, Endpoints, SetupError, Transport, WireSettings};
use quorate_types::{Address, Committee};
use std::io;

/// Properties of a transport kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportProfile {
    /// Name used in configurations.
    pub name: &'static str,
    /// One-line description for the help text.
    pub summary: &'static str,
    /// Service that it provides to a channel.
    pub carriage: Carriage,
    /// Built-in channel that cannot be replaced, such as TLS in QUIC.
    pub own_channel: Option<&'static str>,
    /// Whether an attacker off the path is unable to inject a frame into a link, whichever channel is used. Checking a
    /// packet's source address is not enough.
    pub guards_links: bool,
    /// Whether frames of a link arrive in order, except votes if the wire [loses
    /// votes](crate::transports::Wire::loses_votes).
    pub keeps_order: bool,
    /// Whether lost frames are retransmitted, except votes if the wire [loses
    /// votes](crate::transports::Wire::loses_votes).
    pub repairs_losses: bool,
}

/// Creates one kind of transport: implement it to add a kind.
pub trait Carrier: Send + Sync {
    fn profile(&self) -> &TransportProfile;

    /// Binds an address: the first resolved address that can be bound.
    ///
    /// # Errors
    /// If the name cannot be resolved, or none of its addresses can be bound.
    fn listen(&self, address: &Address) -> io::Result<Endpoint>;

    /// Creates the transport of the replica represented by `end`.
    ///
    /// # Errors
    /// If a setting is invalid, or a system call fails.
    fn replica(
        &self,
        committee: &Committee,
        endpoints: Endpoints,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError>;

    /// Creates the transport of the client represented by `end`: it dials every replica, and redials lost links.
    ///
    /// # Errors
    /// If a setting is invalid, or a system call fails.
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

/// A transport kind over packets.
pub trait Association: Send + Sync {
    fn profile(&self) -> &TransportProfile;

    /// Returns whether votes between replicas may be lost or overtake other frames, regardless of the guarantees of the
    /// profile for other frames.
    fn loses_votes(&self, _settings: &WireSettings) -> bool {
        false
    }

    /// Creates one end of a new connection, with the channel named by `end` or with its built-in one. `nonce` must be
    /// unused.
    ///
    /// # Errors
    /// If the channel does not work with this transport.
    fn open(
        &self,
        end: &ChannelConfig,
        side: Side,
        settings: &WireSettings,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError>;

    /// Creates the greeter of a listening end, which handles packets that belong to no connection. The default is the
    /// channel's greeter. `secret` must be random, and the same for the whole life of that end.
    ///
    /// # Errors
    /// If the channel cannot be set up.
    fn greeter(
        &self,
        end: &ChannelConfig,
        _settings: &WireSettings,
        secret: [u8; SECRET_BYTES],
    ) -> Result<Box<dyn Greeter>, ChannelError> {
        Ok(end.kind.suite().greeter(secret))
    }
}

/// A transport whose machine runs above the channel that an end names.
pub(crate) struct AboveChannel {
    pub profile: TransportProfile,
    /// Creates the machine, given the bytes that the channel leaves in a packet.
    pub machine: fn(Side, &WireSettings, usize) -> Box<dyn Machine>,
}

impl Association for AboveChannel {
    fn profile(&self) -> &TransportProfile {
        &self.profile
    }

    fn open(
        &self,
        end: &ChannelConfig,
        side: Side,
        settings: &WireSettings,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError> {
        let below = end.kind.suite().over_packets(end, side, nonce)?;
        let mtu_budget = below.mtu_budget(settings.packets.payload_bytes());
        Ok(Box::new(Stack::new(below, (self.machine)(side, settings, mtu_budget))))
    }
}
