//! The plain channel as a kind, over streams and over packets.

use crate::channels::address::SECRET_BYTES;
use crate::channels::envelope::{self, TokenGreeter};
use crate::channels::plain::PlainChannel;
use crate::channels::plain_packets::PlainPackets;
use crate::channels::{
    AddressTokens, Carriage, Channel, ChannelConfig, ChannelError, ChannelProfile, ChannelSuite, Greeter, Machine,
    NONCE_BYTES, Side,
};

/// The plain channel as a kind.
pub(crate) struct Plain;

static PROFILE: ChannelProfile = ChannelProfile {
    name: "plain",
    summary: "peers are authenticated by a signed handshake; the messages themselves travel in the clear",
    over: &[Carriage::Stream, Carriage::Datagrams],
    encrypts: false,
    authenticates_frames: false,
    guards_packets: true,
};

impl ChannelSuite for Plain {
    fn profile(&self) -> &ChannelProfile {
        &PROFILE
    }

    fn over_stream(
        &self,
        end: &ChannelConfig,
        side: Side,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Channel>, ChannelError> {
        Ok(Box::new(PlainChannel::new(end.clone(), side, nonce)))
    }

    fn over_packets(
        &self,
        end: &ChannelConfig,
        side: Side,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError> {
        Ok(Box::new(PlainPackets::new(end.clone(), side, nonce)))
    }

    fn greeter(&self, secret: [u8; SECRET_BYTES]) -> Box<dyn Greeter> {
        Box::new(TokenGreeter::new(AddressTokens::new(secret), envelope::PLAIN, true))
    }
}
