//! The header of packets of the channels `plain` and `dtls`, which names the connection that a packet belongs to.
//!
//! Each end of a connection has a 64-bit token, and every packet begins with the token of its destination. So an
//! attacker who cannot read the packets cannot inject one. Source addresses would prove nothing over UDP. The
//! initiator's token is random; the responder's is computed from the initiator's token and address ([`AddressTokens`]),
//! so the responder keeps no state before the initiator has echoed it.
//!
//! ```text
//! ask        0x50  of 8  channel 1  zeros 8     `of` wants to begin; as long as its answer
//! answer     0x54  to 8  channel 1  from 8      `from` is the token of the responder's end
//! handshake  0x51  to 8  from 8  ...
//! data       0x52  to 8  ...
//! reset      0x53  of 8                         the end that named itself `of` has no such connection any more
//! challenge  0x55  of 8  proof 8                the end that named itself `of` wants to hear `proof` from this address
//! move       0x56  to 8  tag 8                  the answer over `plain`
//! path       0x57 to 0x59  to 8  ...            see `path_limit`
//! ```
//!
//! **A new address.** A NAT may give a flow a new port. The accepting end takes data of an established connection from
//! any address, since the token identifies the connection, but it keeps sending to the old address and challenges the
//! new one. The answer proves that the remote receives packets at the new address: over `dtls` it is a record; over
//! `plain` it is computed from both hellos, known only to those who saw the handshake. So a copied or guessed packet
//! moves no connection (ADR 102).

use crate::channels::address::PROOF_TAG;
use crate::channels::hello::TLS_PREFIX;
use crate::channels::{AddressTokens, ChannelError, Detour, Greeter, NONCE_BYTES, Output, Welcome};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{Hasher, Time, tags};
use std::net::SocketAddr;
use std::time::Duration;

pub const ASK: u8 = 0x50;
pub const HANDSHAKE: u8 = 0x51;
pub const DATA: u8 = 0x52;
pub const RESET: u8 = 0x53;
pub const ANSWER: u8 = 0x54;
pub const CHALLENGE: u8 = 0x55;
pub const MOVE: u8 = 0x56;
pub const PROBE: u8 = 0x57;
pub const ECHO: u8 = 0x58;
pub const FRAGMENT: u8 = 0x59;
pub const TOKEN_BYTES: usize = 8;
/// Header bytes of a data packet, and of a handshake packet.
pub const DATA_HEAD_BYTES: usize = 1 + TOKEN_BYTES;
pub const HANDSHAKE_HEAD_BYTES: usize = 1 + 2 * TOKEN_BYTES;
const RESET_BYTES: usize = 1 + TOKEN_BYTES;
const CHALLENGE_BYTES: usize = 1 + 2 * TOKEN_BYTES;
/// Minimum time between two challenges of one address.
const CHALLENGE_WAIT: Duration = FIRST_WAIT;
const CHANNEL_AT: usize = 1 + TOKEN_BYTES;
const ASK_BYTES: usize = CHANNEL_AT + 1 + TOKEN_BYTES;
/// First wait before a token request or a handshake packet is repeated; it doubles each time.
pub const FIRST_WAIT: Duration = Duration::from_millis(50);
pub const LAST_WAIT: Duration = Duration::from_millis(800);
/// Domain of the hash that produces a token.
const TOKEN_TAG: [u8; 4] = tags::TOKEN;

/// Token of one end of a connection, never zero.
pub type Token = u64;

/// A channel as packets identify it: its number and its name.
pub type Named = (u8, &'static str);
pub const PLAIN: Named = (1, "plain");
pub const DTLS: Named = (2, "dtls");

/// First bytes of a packet, which are not encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    Ask { of: Token, channel: u8 },
    Answer { to: Token, channel: u8, from: Token },
    Handshake { to: Token, from: Token },
    Data { to: Token },
    Reset { of: Token },
    Challenge { of: Token, proof: u64 },
    Move { to: Token, tag: u64 },
    Path { to: Token },
}

/// Decodes the header of a packet; `None` if it is malformed.
pub fn head(packet: &[u8]) -> Option<Head> {
    let (kind, rest) = packet.split_first()?;
    let token = |at: usize| Some(Token::from_le_bytes(*rest.get(at..)?.first_chunk()?));
    let first = token(0)?;
    Some(match *kind {
        ASK if packet.len() == ASK_BYTES => Head::Ask { of: first, channel: packet[CHANNEL_AT] },
        ANSWER if packet.len() == ASK_BYTES => {
            Head::Answer { to: first, channel: packet[CHANNEL_AT], from: token(CHANNEL_AT)? }
        }
        HANDSHAKE => Head::Handshake { to: first, from: token(TOKEN_BYTES)? },
        DATA => Head::Data { to: first },
        RESET if packet.len() == RESET_BYTES => Head::Reset { of: first },
        CHALLENGE if packet.len() == CHALLENGE_BYTES => Head::Challenge { of: first, proof: token(TOKEN_BYTES)? },
        PROBE..=FRAGMENT => Head::Path { to: first },
        MOVE if packet.len() == CHALLENGE_BYTES => Head::Move { to: first, tag: token(TOKEN_BYTES)? },
        _ => return None,
    })
}

/// Returns the token derived from a nonce. The nonce is sent only to the remote end.
pub fn token(nonce: &[u8; NONCE_BYTES]) -> Token {
    let mut hasher = Hasher::new(TOKEN_TAG);
    hasher.update(nonce);
    let digest = hasher.finish().0;
    Token::from_le_bytes(*digest.first_chunk().expect("a digest is longer than a token")).max(1)
}

/// Builds an initiator's token request.
pub fn ask(of: Token, (channel, _): Named) -> Bytes {
    ask_or_answer(ASK, of, channel, 0)
}

/// Builds the answer to a token request.
pub fn answer(to: Token, (channel, _): Named, from: Token) -> Bytes {
    ask_or_answer(ANSWER, to, channel, from)
}

fn ask_or_answer(kind: u8, first: Token, channel: u8, second: Token) -> Bytes {
    let mut packet = BytesMut::with_capacity(ASK_BYTES);
    packet.put_u8(kind);
    packet.put_u64_le(first);
    packet.put_u8(channel);
    packet.put_u64_le(second);
    packet.freeze()
}

/// Builds the header of a handshake packet, in a buffer with capacity for `bytes` more.
pub fn handshake(to: Token, from: Token, bytes: usize) -> BytesMut {
    let mut packet = BytesMut::with_capacity(HANDSHAKE_HEAD_BYTES + bytes);
    packet.put_u8(HANDSHAKE);
    packet.put_u64_le(to);
    packet.put_u64_le(from);
    packet
}

/// Builds the header of a data packet, in a buffer with capacity for `bytes` more.
pub fn data(to: Token, bytes: usize) -> BytesMut {
    let mut packet = BytesMut::with_capacity(DATA_HEAD_BYTES + bytes);
    packet.put_u8(DATA);
    packet.put_u64_le(to);
    packet
}

/// Builds the reset of a connection whose other end is `of`.
pub fn reset(of: Token) -> Bytes {
    let mut packet = BytesMut::with_capacity(RESET_BYTES);
    packet.put_u8(RESET);
    packet.put_u64_le(of);
    packet.freeze()
}

fn two_numbers(kind: u8, first: Token, second: u64) -> Bytes {
    let mut packet = BytesMut::with_capacity(CHALLENGE_BYTES);
    packet.put_u8(kind);
    packet.put_u64_le(first);
    packet.put_u64_le(second);
    packet.freeze()
}

/// Builds the challenge that the end `of` sends to the owner of an address.
pub fn challenge(of: Token, proof: u64) -> Bytes {
    two_numbers(CHALLENGE, of, proof)
}

/// Builds the answer to a challenge from the end `to` over the plain channel.
pub fn moved(to: Token, tag: u64) -> Bytes {
    two_numbers(MOVE, to, tag)
}

/// Returns the tag that answers a challenge over the plain channel: a hash of the proof and of both hellos.
pub fn move_tag(initiator: &[u8], responder: &[u8], proof: u64) -> u64 {
    let mut hasher = Hasher::new(PROOF_TAG);
    hasher.update(initiator);
    hasher.update(responder);
    hasher.update(&proof.to_le_bytes());
    u64::from_le_bytes(*hasher.finish().0.first_chunk().expect("a digest is longer than a number"))
}

/// The last challenge sent, so that one address is not challenged again at once.
#[derive(Default)]
pub struct Challenges(Option<(SocketAddr, Time)>);

impl Challenges {
    /// Challenges the owner of an address to prove that the connection with the end `of` has moved there.
    pub fn send(&mut self, now: Time, of: Token, detour: Detour, out: &mut Vec<Output>) {
        if self.is_due(now, detour.from) {
            out.push(Output::PacketTo(detour.from, challenge(of, detour.proofs[0])));
        }
    }

    /// Returns whether to challenge an address now, and records the challenge if so.
    pub fn is_due(&mut self, now: Time, address: SocketAddr) -> bool {
        let is_due = !self.0.is_some_and(|(to, at)| to == address && now.since(at) < CHALLENGE_WAIT);
        if is_due {
            self.0 = Some((address, now));
        }
        is_due
    }
}

/// Returns an error that names the channel which the sender of a packet seems to use, if it is not `own`.
pub fn speaks_other(packet: &[u8], own: Named) -> ChannelError {
    let channel = match head(packet) {
        Some(Head::Ask { channel, .. } | Head::Answer { channel, .. }) => channel,
        _ if packet.first() == Some(&TLS_PREFIX[0]) => DTLS.0,
        _ => own.0,
    };
    match [PLAIN, DTLS].into_iter().find(|(number, _)| *number == channel && *number != own.0) {
        Some((_, name)) => ChannelError::PeerSpeaks(name),
        None => ChannelError::NotQuorate,
    }
}

/// Greeter of a channel whose packets begin with the header of this file.
pub struct TokenGreeter {
    tokens: AddressTokens,
    channel: Named,
    /// Whether data for an unknown connection is answered with a reset.
    resets: bool,
}

impl TokenGreeter {
    pub fn new(tokens: AddressTokens, channel: Named, resets: bool) -> TokenGreeter {
        TokenGreeter { tokens, channel, resets }
    }
}

impl Greeter for TokenGreeter {
    fn greet(&mut self, now: Time, from: SocketAddr, packet: &[u8]) -> Welcome {
        let answer_to = |of: Token| answer(of, self.channel, self.tokens.token(now, from, &of.to_le_bytes()));
        match head(packet) {
            Some(Head::Ask { of, channel }) if channel == self.channel.0 => Welcome::Answer(answer_to(of)),
            Some(Head::Ask { of, .. }) => Welcome::Refuse(speaks_other(packet, self.channel), Some(answer_to(of))),
            Some(Head::Handshake { to, from: of }) => {
                match self.tokens.is_valid(now, from, &of.to_le_bytes(), to) {
                    true => Welcome::Begin,
                    // The token has expired, or was issued before this end restarted.
                    false => Welcome::Answer(answer_to(of)),
                }
            }
            Some(Head::Data { to } | Head::Path { to }) if self.resets => Welcome::Answer(reset(to)),
            Some(
                Head::Data { .. }
                | Head::Path { .. }
                | Head::Reset { .. }
                | Head::Answer { .. }
                | Head::Challenge { .. }
                | Head::Move { .. },
            ) => Welcome::Ignore,
            None => Welcome::Refuse(speaks_other(packet, self.channel), None),
        }
    }

    fn named(&self, packet: &[u8]) -> Option<u64> {
        match head(packet)? {
            Head::Data { to } | Head::Move { to, .. } | Head::Path { to } => Some(to),
            _ => None,
        }
    }

    fn proofs(&self, now: Time, from: SocketAddr, name: u64) -> [u64; 2] {
        self.tokens.proofs(now, from, name)
    }
}
