//! Warnings about valid but inadvisable settings.

use crate::config::NodeConfig;
use crate::config_file::{ConfigFault, Place};
use quorate_network::channels::{Carriage, ChannelKind};
use quorate_network::transports::TransportKind;

impl NodeConfig {
    /// Returns the inadvisable settings of a valid configuration, each with a better choice. Tests and measurements may
    /// need them; an operator rarely does.
    pub fn warnings(&self) -> Vec<ConfigFault> {
        [self.unprotected(), self.unrepeated(), self.slower_than_views(), self.unsigned_commits()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Unprotected links that leave the host.
    fn unprotected(&self) -> Option<ConfigFault> {
        let (at, member) = self.members.iter().enumerate().find(|(_, member)| !member.address.is_loopback())?;
        let help = match self.transport.profile().carriage {
            Carriage::Stream => "set `tls`",
            Carriage::Datagrams => "set `dtls`",
        };
        let is_plain = self.channel == ChannelKind::PLAIN;
        is_plain.then(|| ConfigFault {
            place: Place::key("channel"),
            what: format!(
                "is `plain`, and replica {at} is at {}: anybody on the way can read and change frames",
                member.address
            ),
            help: help.to_owned(),
        })
    }

    /// A signer that does not see all votes.
    fn unsigned_commits(&self) -> Option<ConfigFault> {
        let protocol = self.consensus.protocol;
        (self.signer.socket.is_some() && protocol.has_slots()).then(|| ConfigFault {
            place: Place::in_table("signer", "socket"),
            what: format!(
                "is set, but {protocol} does not sign COMMIT: the signer prevents contradicting PREPAREs, view changes \
                 and checkpoints only"
            ),
            help: "choose a protocol with views, such as jolteon, in a new cluster".to_owned(),
        })
    }

    /// A transport without retransmission, and no copies of messages.
    fn unrepeated(&self) -> Option<ConfigFault> {
        (!self.transport.profile().repairs_losses && !self.copies_messages()).then(|| ConfigFault {
            place: Place::key("transport"),
            what: format!(
                "is `{}`, which repeats nothing: each proposal or vote that is lost may cost a view timeout",
                self.transport
            ),
            help: "set `rudp`".to_owned(),
        })
    }

    /// Losses are repaired only after the view has ended.
    fn slower_than_views(&self) -> Option<ConfigFault> {
        let (rto_min_ms, view_ms) = (self.retransmission.bounds().rto_min_ms?, self.consensus.view_timeout_ms);
        (self.has_timeouts() && rto_min_ms >= view_ms).then(|| ConfigFault {
            place: Place::in_table("retransmission", "profile"),
            what: format!(
                "repeats a lost packet after {rto_min_ms} ms at the earliest, and a view ends after {view_ms} ms"
            ),
            help: "set `auto`, or raise `view_timeout_ms` in [consensus]".to_owned(),
        })
    }

    /// Returns whether the transport has timeouts configured by `retransmission`.
    fn has_timeouts(&self) -> bool {
        [TransportKind::RUDP, TransportKind::SCTP, TransportKind::SCTP_KERNEL].contains(&self.transport)
    }
}
