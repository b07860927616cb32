//! The kernel's SCTP (RFC 9260): one-to-one sockets with one stream, which carry bytes in order as TCP does. SCTP's
//! message boundaries have no meaning here.

use super::TcpTransport;
use super::sctp_sockets::socket;
use super::sockets::Protocol;
use crate::channels::{Carriage, ChannelConfig};
use crate::transports::carrier::{Carrier, TransportProfile};
use crate::transports::config::WireSettings;
use crate::transports::error::SetupError;
use crate::transports::{Endpoint, Endpoints, Transport};
use quorate_types::{Address, Committee};
use socket2::{Domain, SockAddr};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// The kernel's SCTP as a transport kind.
pub(crate) struct KernelSctp;

static PROFILE: TransportProfile = TransportProfile {
    name: "sctp-kernel",
    summary: "the kernel's SCTP, where the kernel has it: ordered, in one stream",
    carriage: Carriage::Stream,
    own_channel: None,
    guards_links: true,
    keeps_order: true,
    repairs_losses: true,
};

impl Carrier for KernelSctp {
    fn profile(&self) -> &TransportProfile {
        &PROFILE
    }

    fn listen(&self, address: &Address) -> io::Result<Endpoint> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in address.resolve()? {
            match bind(address) {
                Ok(listener) => return Ok(listener.into()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn replica(
        &self,
        committee: &Committee,
        mut endpoints: Endpoints,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError> {
        if endpoints.peers.is_none() {
            endpoints.peers = TcpTransport::bind_own_address(committee, &end, |address| self.listen(address))?;
        }
        Ok(Box::new(TcpTransport::replica_over(protocol(&settings), committee, endpoints, end, settings)?))
    }

    fn client(
        &self,
        committee: &Committee,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError> {
        // A kernel without SCTP must fail here, not at each dial.
        socket(Domain::IPV4)?;
        Ok(Box::new(TcpTransport::client_over(protocol(&settings), committee, end, settings)?))
    }
}

fn protocol(settings: &WireSettings) -> Protocol {
    Protocol::Sctp(settings.retransmission.bounds())
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(Domain::for_address(address))?;
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(address))?;
    // This reserves the port. Nobody is accepted before the transport takes over.
    socket.listen(1)?;
    Ok(socket.into())
}
