//! Kinds of channel: objects with a name and a profile.

use crate::plain::Plain;
use crate::{Channel, ChannelConfig, ChannelError, Machine, NONCE_BYTES, Side};
use std::fmt;

/// What a transport provides to a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carriage {
    /// All bytes, in order.
    Stream,
    /// Packets, which may be lost, duplicated or reordered.
    Datagrams,
}

impl fmt::Display for Carriage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Carriage::Stream => "a stream",
            Carriage::Datagrams => "datagrams",
        })
    }
}

/// Properties of a kind of channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelProfile {
    /// Name in configurations.
    pub name: &'static str,
    /// One-line description for the help text.
    pub summary: &'static str,
    /// Carriages over which it works.
    pub over: &'static [Carriage],
    /// An attacker on the path cannot read the frames.
    pub encrypts: bool,
    /// Frames that an attacker made or changed are rejected, even after the handshake.
    pub authenticates_frames: bool,
}

/// A kind of channel.
pub trait ChannelSuite: Send + Sync {
    fn profile(&self) -> &ChannelProfile;

    /// Creates a channel over a new byte stream. `nonce` must be unused.
    ///
    /// # Errors
    /// [`ChannelError::Carriage`] if it does not work over streams.
    fn over_stream(
        &self,
        _end: &ChannelConfig,
        _side: Side,
        _nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Channel>, ChannelError> {
        Err(ChannelError::Carriage { channel: self.profile().name, carriage: Carriage::Stream })
    }

    /// Creates the machine for one end of a new packet connection: its frames are the packets of the machine above.
    /// `nonce` must be unused.
    ///
    /// # Errors
    /// [`ChannelError::Carriage`] if it does not work over packets.
    fn over_packets(
        &self,
        _end: &ChannelConfig,
        _side: Side,
        _nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError> {
        Err(ChannelError::Carriage { channel: self.profile().name, carriage: Carriage::Datagrams })
    }
}

/// Copyable handle to a kind of channel, listed or not, compared by name.
#[derive(Clone, Copy)]
pub struct ChannelKind(&'static dyn ChannelSuite);

impl ChannelKind {
    /// An authenticated handshake, then bare bytes: see [`plain`](crate::plain).
    pub const PLAIN: ChannelKind = ChannelKind::of(&Plain);

    /// Every kind, in the order in which errors list them.
    pub const ALL: &'static [ChannelKind] = &[ChannelKind::PLAIN];

    /// Returns the handle of a kind that is not listed. Its name must be unique.
    pub const fn of(suite: &'static dyn ChannelSuite) -> ChannelKind {
        ChannelKind(suite)
    }

    /// Returns the factory of its channels.
    pub fn suite(self) -> &'static dyn ChannelSuite {
        self.0
    }

    pub fn profile(self) -> &'static ChannelProfile {
        self.0.profile()
    }

    /// Returns the name in configurations.
    pub fn name(self) -> &'static str {
        self.profile().name
    }
}

impl Default for ChannelKind {
    fn default() -> ChannelKind {
        ChannelKind::PLAIN
    }
}

quorate_types::named_handle!(ChannelKind, "channel");
