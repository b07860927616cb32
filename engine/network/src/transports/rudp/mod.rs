//! Robust UDP: retransmission without order and without congestion control (the transports paper, section 6).
//!
//! A timeout is computed as in TCP (RFC 6298) from the time that messages take to be answered. Later messages of the
//! remote acknowledge earlier ones of this end: every packet names the first number that is missing, which of the next
//! 256 are there, and which came last. An acknowledgement travels alone only when no message has left for the time of
//! the profile. A receiver that sees a gap asks for what is missing with an explicit NACK, and only that is sent again.
//!
//! Frames are handed over when they are whole, not in their order, so a lost packet delays no frame but its own. Bulk
//! frames have packets of their own, behind all others. With `pacing`, packets leave at the rate at which the remote
//! acknowledges them; without it, all at once up to the window, as in the paper.
//!
//! ```text
//! packet  kind 1  missing 8  latest 4  words 1  later 8 each  rest    kind 1: number 8, pieces (see `pieces`)
//!                                                                     kind 2: nothing; it only acknowledges
//!                                                                     kind 3: missing ranges: first 8, length 2
//! ```

mod machine;
mod pace;
mod received;
mod sending;

pub use machine::RudpMachine;

use crate::channels::{Carriage, ChannelConfig, ChannelError, Machine, NONCE_BYTES, Side};
use crate::transports::carrier::{Association, TransportProfile, above_channel};
use crate::transports::config::WireSettings;

/// Robust UDP as a kind of transport.
pub(crate) struct Rudp;

static PROFILE: TransportProfile = TransportProfile {
    name: "rudp",
    summary: "robust UDP: lost packets are sent again, frames do not wait for each other",
    carriage: Carriage::Datagrams,
    own_channel: None,
    guards_links: false,
    keeps_order: false,
    repairs_losses: true,
};

impl Association for Rudp {
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
        above_channel(end, side, settings, nonce, |room| {
            RudpMachine::new(&settings.packets, settings.retransmission, room)
        })
    }
}
