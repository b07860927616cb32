//! Stateless address validation (RFC 9000, section 8.1): a listening end keeps no state for a sender until that sender
//! proves that it receives packets at its address.
//!
//! A [`Greeter`] handles packets that belong to no connection. It answers a first packet with a token computed from the
//! sender's address, and stores nothing. A packet that echoes the token begins a connection.

use crate::channels::ChannelError;
use bytes::Bytes;
use quorate_types::{Hasher, Time, tags};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Size of the secret from which tokens are computed.
pub const SECRET_BYTES: usize = 32;
/// Period after which tokens change. Tokens of the previous period stay valid.
const PERIOD: Duration = Duration::from_secs(10);
/// Domain of the hash that produces a token.
const TAG: [u8; 4] = tags::ADDRESS;
/// Domain of the address proofs, and of the tags that answer them over `plain`.
pub(crate) const PROOF_TAG: [u8; 4] = tags::MOVE;

/// Decision of a listening end about a packet that belongs to no connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Welcome {
    /// Drops the packet.
    Ignore,
    /// Sends an answer, at most three times as long as the packet, and stores nothing.
    Answer(Bytes),
    /// Rejects the packet for this reason, with an answer if the sender understands one.
    Refuse(ChannelError, Option<Bytes>),
    /// Begins a connection, whose machine handles the packet: its sender has proved its address.
    Begin,
}

/// Handles packets that belong to no connection of a listening end, without keeping state.
pub trait Greeter: Send {
    fn greet(&mut self, now: Time, from: SocketAddr, packet: &[u8]) -> Welcome;

    /// Returns the connection ID in a packet: the [connection ID](crate::channels::Machine::name) of its machine.
    fn named(&self, _packet: &[u8]) -> Option<u64> {
        None
    }

    /// Returns the address proofs for the connection with this ID: the one sent to that address now, and the previous
    /// period's. Only a receiver of packets at that address can echo either.
    fn proofs(&self, _now: Time, _from: SocketAddr, _name: u64) -> [u64; 2] {
        [0; 2]
    }
}

/// Greeter of a channel without address validation: every packet begins a connection.
pub struct Unvalidated;

impl Greeter for Unvalidated {
    fn greet(&mut self, _: Time, _: SocketAddr, _: &[u8]) -> Welcome {
        Welcome::Begin
    }
}

/// Computes tokens that prove ownership of an address.
pub struct AddressTokens {
    secret: [u8; SECRET_BYTES],
}

impl AddressTokens {
    /// Creates the tokens of one end. `secret` must be random and known to nobody else.
    pub fn new(secret: [u8; SECRET_BYTES]) -> AddressTokens {
        AddressTokens { secret }
    }

    /// Returns the token for an address and its owner's `session`; never zero.
    pub fn token(&self, now: Time, from: SocketAddr, session: &[u8]) -> u64 {
        self.latest(now, from, session)[0]
    }

    /// Returns whether a token was computed for this address and session in the current or previous period.
    pub fn is_valid(&self, now: Time, from: SocketAddr, session: &[u8], token: u64) -> bool {
        self.latest(now, from, session).contains(&token)
    }

    /// Returns the address proofs for the connection with this ID; see [`Greeter::proofs`].
    pub fn proofs(&self, now: Time, from: SocketAddr, name: u64) -> [u64; 2] {
        self.latest(now, from, &[&PROOF_TAG[..], &name.to_le_bytes()].concat())
    }

    /// Returns the tokens for an address and session: the current period's, then the previous one's.
    fn latest(&self, now: Time, from: SocketAddr, session: &[u8]) -> [u64; 2] {
        let period = now.0 / PERIOD.as_nanos() as u64;
        [period, period.saturating_sub(1)].map(|period| self.in_period(period, from, session))
    }

    fn in_period(&self, period: u64, from: SocketAddr, session: &[u8]) -> u64 {
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut hasher = Hasher::new(TAG);
        hasher.update(&self.secret);
        hasher.update(&period.to_le_bytes());
        hasher.update(&ip.octets());
        hasher.update(&from.port().to_le_bytes());
        hasher.update(session);
        let digest = hasher.finish().0;
        u64::from_le_bytes(*digest.first_chunk().expect("a digest is longer than a token")).max(1)
    }
}
