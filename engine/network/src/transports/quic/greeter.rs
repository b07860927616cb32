//! Handling of packets of no connection at the accepting end: it statelessly requests a token (Retry).

use super::names::{is_short, long_names, name_of_tag, short_tag};
use super::{Clock, NAME_BYTES, VERSION, server_config};
use crate::channels::{AddressTokens, ChannelError, Greeter, SECRET_BYTES, Sessions, Welcome};
use crate::transports::instants::{REMOTE, instant};
use bytes::{Bytes, BytesMut};
use quinn_proto::{ConnectionId, ConnectionIdGenerator, DatagramEvent, Endpoint, EndpointConfig, Incoming};
use quorate_types::Time;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Provides the library with the connection ID of its next Retry.
struct Given(Arc<AtomicU64>);

impl ConnectionIdGenerator for Given {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.load(Ordering::Relaxed).to_le_bytes())
    }

    fn cid_len(&self) -> usize {
        NAME_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Greeter of an accepting QUIC end.
///
/// The library encrypts the initiator's first destination connection ID into the token, which any machine of this
/// process can decrypt. The Retry's connection ID proves the address: it is a function of that address and of the
/// initiator's own ID.
pub struct QuicGreeter {
    endpoint: Endpoint,
    clock: Arc<Clock>,
    tokens: AddressTokens,
    next: Arc<AtomicU64>,
    /// Buffer kept for reuse.
    made: Vec<u8>,
}

impl QuicGreeter {
    pub fn new(sessions: &Sessions, secret: [u8; SECRET_BYTES]) -> Result<QuicGreeter, ChannelError> {
        let (clock, next) = (Arc::new(Clock::default()), Arc::new(AtomicU64::new(0)));
        let mut server = server_config(sessions)?;
        server.time_source(clock.clone());
        let mut endpoint = EndpointConfig::default();
        let given = next.clone();
        endpoint.cid_generator(move || Box::new(Given(given.clone())));
        endpoint.supported_versions(vec![VERSION]);
        // Strangers must not exhaust the stateless resets, which are for remotes whose connection this end has lost.
        endpoint.min_reset_interval(Duration::ZERO);
        let endpoint = Endpoint::new(Arc::new(endpoint), Some(Arc::new(server)), true, None);
        Ok(QuicGreeter { endpoint, clock, tokens: AddressTokens::new(secret), next, made: Vec::new() })
    }

    fn judge(&mut self, now: Time, from: SocketAddr, incoming: Incoming, asked_for: &[u8], own: &[u8]) -> Welcome {
        if incoming.remote_address_validated() {
            self.endpoint.ignore(incoming);
            let name = asked_for.first_chunk().map(|name| u64::from_le_bytes(*name));
            let is_theirs = name.is_some_and(|name| self.tokens.is_valid(now, from, own, name));
            // A token issued for another address proves nothing, and a second Retry would be ignored.
            return if is_theirs { Welcome::Begin } else { Welcome::Ignore };
        }
        self.next.store(self.tokens.token(now, from, own), Ordering::Relaxed);
        match self.endpoint.retry(incoming, &mut self.made) {
            Ok(made) => Welcome::Answer(Bytes::copy_from_slice(&self.made[..made.size])),
            Err(refused) => {
                self.endpoint.ignore(refused.into_incoming());
                Welcome::Ignore
            }
        }
    }
}

impl Greeter for QuicGreeter {
    fn greet(&mut self, now: Time, from: SocketAddr, packet: &[u8]) -> Welcome {
        let names = long_names(packet);
        if !is_short(packet) && names.is_none() {
            return Welcome::Refuse(ChannelError::NotQuorate, None);
        }
        self.clock.set(now);
        self.made.clear();
        let copy = BytesMut::from(packet);
        let event = self.endpoint.handle(instant(now), REMOTE, None, None, copy, &mut self.made);
        match (event, names) {
            (Some(DatagramEvent::Response(made)), _) => {
                Welcome::Answer(Bytes::copy_from_slice(&self.made[..made.size]))
            }
            (Some(DatagramEvent::NewConnection(incoming)), Some((asked_for, own))) => {
                self.made.clear();
                self.judge(now, from, incoming, asked_for, own)
            }
            _ => Welcome::Ignore,
        }
    }

    fn named(&self, packet: &[u8]) -> Option<u64> {
        if is_short(packet) { short_tag(packet).map(name_of_tag) } else { None }
    }

    fn proofs(&self, now: Time, from: SocketAddr, name: u64) -> [u64; 2] {
        self.tokens.proofs(now, from, name)
    }
}
