//! Interface of a channel kind: its properties, and how it creates channels.

use crate::channels::address::{Greeter, SECRET_BYTES, Unvalidated};
use crate::channels::carriage::Carriage;
use crate::channels::{Channel, ChannelConfig, ChannelError, Machine, NONCE_BYTES, Side};

/// Properties of a channel kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelProfile {
    /// Name used in configurations.
    pub name: &'static str,
    /// One-line description for the help text.
    pub summary: &'static str,
    /// Carriages over which it works.
    pub over: &'static [Carriage],
    /// Whether frames are secret to an attacker on the path.
    pub encrypts: bool,
    /// Whether frames that an attacker made or changed are rejected, even after the handshake.
    pub authenticates_frames: bool,
    /// Over packets: whether an attacker off the path is unable to inject one, because each carries a secret of its
    /// connection.
    pub guards_packets: bool,
}

/// Creates one kind of channel, over streams and over packets: implement it to add a kind.
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

    /// Creates the greeter of a listening end, which handles packets that belong to no connection. `secret` must be
    /// random, and the same for the whole life of that end. By default, every such packet begins a connection.
    fn greeter(&self, _secret: [u8; SECRET_BYTES]) -> Box<dyn Greeter> {
        Box::new(Unvalidated)
    }
}
