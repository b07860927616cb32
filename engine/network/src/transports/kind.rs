//! The list of transport kinds.

use crate::transports::carrier::{Carrier, TransportProfile};
use crate::transports::datagrams::Datagrams;
use crate::transports::quic::Quic;
use crate::transports::rudp::RUDP;
use crate::transports::sctp::SCTP;
use crate::transports::tcp::Tcp;
use crate::transports::tcp::sctp::KernelSctp;
use crate::transports::udp::UDP;

/// Copyable handle to a transport kind, listed or not, compared by name.
#[derive(Clone, Copy)]
pub struct TransportKind(&'static dyn Carrier);

impl TransportKind {
    pub const TCP: TransportKind = TransportKind::of(&Tcp);

    /// UDP without retransmission; see [`udp`](crate::transports::udp).
    pub const UDP: TransportKind = TransportKind::of(&Datagrams(&UDP));

    /// Robust UDP: see [`rudp`](crate::transports::rudp).
    pub const RUDP: TransportKind = TransportKind::of(&Datagrams(&RUDP));

    /// SCTP over the kernel's UDP: see [`sctp`](crate::transports::sctp).
    pub const SCTP: TransportKind = TransportKind::of(&Datagrams(&SCTP));

    /// The kernel's SCTP, if the kernel supports it.
    pub const SCTP_KERNEL: TransportKind = TransportKind::of(&KernelSctp);

    /// QUIC over the kernel's UDP: see [`quic`](crate::transports::quic).
    pub const QUIC: TransportKind = TransportKind::of(&Datagrams(&Quic));

    /// Every kind, in the order in which errors list them.
    pub const ALL: &'static [TransportKind] = &[
        TransportKind::TCP,
        TransportKind::UDP,
        TransportKind::RUDP,
        TransportKind::SCTP,
        TransportKind::SCTP_KERNEL,
        TransportKind::QUIC,
    ];

    /// Returns a handle to an unlisted kind. Its name must be unique.
    pub const fn of(carrier: &'static dyn Carrier) -> TransportKind {
        TransportKind(carrier)
    }

    /// Returns the factory for transports of this kind.
    pub fn carrier(self) -> &'static dyn Carrier {
        self.0
    }

    pub fn profile(self) -> &'static TransportProfile {
        self.0.profile()
    }

    /// Returns the name used in configurations.
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
