//! SCTP (RFC 9260) as a machine over packets, in user space: over UDP as in RFC 6951, with an optional channel in
//! between, such as DTLS (RFC 6083).
//!
//! **Streams.** One for ordinary frames, one for bulk, and one for keep-alives, so that none waits for a lost packet of
//! another. Bulk is passed to the library only as fast as it is sent, since the library sends all streams in one order.
//!
//! **Setup.** The channel below has authenticated both ends and their addresses, so an SCTP handshake would prove
//! nothing more. Both ends begin with an established association and fixed initial TSNs.
//!
//! **Acknowledgements.** The library always delays them by 200 ms; with a shorter timeout, each lone packet would be
//! sent twice. So the sender sets the bit of RFC 7053 in the last packet of each burst, which makes the receiver
//! acknowledge it at once (ADR 067).
//!
//! **Reordering.** A packet that overtook others waits for them briefly, so that the sender counts none as lost.

mod immediate;
mod machine;
mod observer;
mod reordering;

use crate::channels::Carriage;
use crate::transports::carrier::{AboveChannel, TransportProfile};
use machine::SctpMachine;

/// SCTP as a transport kind.
pub(crate) const SCTP: AboveChannel = AboveChannel {
    profile: TransportProfile {
        name: "sctp",
        summary: "SCTP in user space over UDP: ordered, with a stream for votes and one for bulk",
        carriage: Carriage::Datagrams,
        own_channel: None,
        guards_links: false,
        keeps_order: true,
        repairs_losses: true,
    },
    machine: |side, settings, mtu_budget| Box::new(SctpMachine::new(side, settings, mtu_budget)),
};
