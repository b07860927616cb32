//! What a kind of channel is to everybody else: an object with a name and a profile.

use crate::plain::Plain;
use crate::{Channel, ChannelConfig, ChannelError, Machine, NONCE_BYTES, Side};
use std::fmt;

/// What a transport gives a channel to work on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carriage {
    /// Bytes, all of them and in order.
    Stream,
    /// Packets, which may be lost, doubled, or overtake each other.
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

/// What others have to know of a kind of channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelProfile {
    /// The name in configurations.
    pub name: &'static str,
    /// One line for the help.
    pub summary: &'static str,
    /// What it works over.
    pub over: &'static [Carriage],
    /// Nobody on the path can read the frames.
    pub encrypts: bool,
    /// A frame that somebody else made or changed is refused, also after the handshake.
    pub authenticates_frames: bool,
}

/// A kind of channel.
pub trait ChannelSuite: Send + Sync {
    /// What others have to know of it.
    fn profile(&self) -> &ChannelProfile;

    /// A channel over a new byte stream. `nonce` was never used before.
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

    /// The machine of one end of a new connection over packets: its frames are the packets of what stands on it.
    /// `nonce` was never used before.
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

/// A kind of channel of the list, or one that is not in it: a name that can be copied and compared.
#[derive(Clone, Copy)]
pub struct ChannelKind(&'static dyn ChannelSuite);

impl ChannelKind {
    /// An authenticated handshake, then bare bytes: see [`plain`](crate::plain).
    pub const PLAIN: ChannelKind = ChannelKind::of(&Plain);

    /// Every kind, in the order in which errors list them.
    pub const ALL: &'static [ChannelKind] = &[ChannelKind::PLAIN];

    /// A kind that is in no list. Its name must not be another's.
    pub const fn of(suite: &'static dyn ChannelSuite) -> ChannelKind {
        ChannelKind(suite)
    }

    /// The object that makes its channels.
    pub fn suite(self) -> &'static dyn ChannelSuite {
        self.0
    }

    /// What it protects and needs.
    pub fn profile(self) -> &'static ChannelProfile {
        self.0.profile()
    }

    /// The name in configurations.
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
