//! Robust UDP: retransmission without order and without congestion control (the transports paper, section 6).
//!
//! The retransmission timeout is computed from measured round trips as in TCP (RFC 6298). Every packet acknowledges
//! received ones: it contains the first missing number, a bitmap of the next 256, and the number received last. A
//! standalone acknowledgement is sent only if no other packet was sent during the profile's acknowledgement delay. A
//! receiver that sees a gap sends a NACK for the missing packets, and only these are retransmitted.
//!
//! Frames are delivered when they are complete, in any order, so a lost packet delays only its own frames. Bulk frames
//! have separate packets, behind all others. With `pacing`, packets are sent at the rate at which the remote
//! acknowledges them; without it, at once up to the window, as in the paper.
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

use crate::channels::Carriage;
use crate::transports::carrier::{AboveChannel, TransportProfile};

/// Robust UDP as a transport kind.
pub(crate) const RUDP: AboveChannel = AboveChannel {
    profile: TransportProfile {
        name: "rudp",
        summary: "robust UDP: lost packets are retransmitted, frames do not wait for each other",
        carriage: Carriage::Datagrams,
        own_channel: None,
        guards_links: false,
        keeps_order: false,
        repairs_losses: true,
    },
    machine: |_, settings, mtu_budget| {
        Box::new(RudpMachine::new(&settings.packets, settings.retransmission, mtu_budget))
    },
};
