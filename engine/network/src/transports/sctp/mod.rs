//! SCTP (RFC 9260) as a machine over packets, in user space: over UDP as RFC 6951 has it, and over whatever channel is
//! between, such as DTLS (RFC 6083).
//!
//! **Streams.** One for ordinary frames, one for bulk, and one for signs of life, so that none waits for a lost packet
//! of another. Bulk is given to the library only as fast as it leaves, since the library sends in one order.
//!
//! **The beginning.** The channel below has proved who both ends are and that the addresses are theirs, so a handshake
//! of SCTP would prove nothing more: both ends begin with the association established, from agreed first numbers.
//!
//! **Acknowledgements.** The library delays them by 200 ms, whatever is configured; with a smaller timeout, each lone
//! packet would be sent twice. So the sender sets the bit of RFC 7053 in the last packet of each burst, which its
//! receiver acknowledges at once (ADR 067).

mod immediate;
mod machine;
mod observer;

use crate::channels::{Carriage, ChannelConfig, ChannelError, Machine, NONCE_BYTES, Side};
use crate::transports::carrier::{Association, TransportProfile, above_channel};
use crate::transports::config::WireSettings;
use machine::SctpMachine;

/// SCTP as a kind of transport.
pub(crate) struct Sctp;

static PROFILE: TransportProfile = TransportProfile {
    name: "sctp",
    summary: "SCTP in user space over UDP: ordered, with a stream for votes and one for bulk",
    carriage: Carriage::Datagrams,
    own_channel: None,
    guards_links: false,
    keeps_order: true,
    repairs_losses: true,
};

impl Association for Sctp {
    fn profile(&self) -> &TransportProfile {
        &PROFILE
    }

    fn open(
        &self,
        end: &ChannelConfig,
        side: Side,
        settings: &WireSettings,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Box<dyn Machine>, ChannelError> {
        above_channel(end, side, settings, nonce, |room| SctpMachine::new(side, settings, room))
    }
}
