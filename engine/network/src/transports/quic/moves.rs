//! Challenges of a remote that sends from another address, and their answers. The library itself would follow a copied
//! packet that overtakes the original (RFC 9000, section 9.3.3), so it is shown only one address.
//!
//! ```text
//! challenge  0x55  of 4  proof 8     from the end whose connection IDs begin with `of`; asks for the answer to `proof`
//! move       0x56  to 4  answer 8    made from the proof with a key of the session, which nobody else has
//! ```
//!
//! The tag is at the position of the connection ID in a short packet, so these packets are routed like one. They are
//! shorter than any QUIC packet, which has a connection ID of 8 bytes and an AEAD tag of 16.

use super::TAG_BYTES;
use super::names::short_tag;
use bytes::{BufMut, Bytes, BytesMut};
use quinn_proto::Connection;

const CHALLENGE: u8 = 0x55;
const MOVE: u8 = 0x56;
const NUMBER_BYTES: usize = 8;
const PACKET_BYTES: usize = 1 + TAG_BYTES + NUMBER_BYTES;
/// Label of the key that answers challenges.
const LABEL: &[u8] = b"quorate move";

type Tag = [u8; TAG_BYTES];

/// A packet about a move of the remote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    Challenge { of: Tag, proof: u64 },
    Answer { to: Tag, answer: u64 },
}

impl Move {
    /// Decodes a packet; `None` if it is a QUIC packet.
    pub fn of_packet(packet: &[u8]) -> Option<Move> {
        let tag = short_tag(packet).filter(|_| packet.len() == PACKET_BYTES)?;
        let number = u64::from_le_bytes(*packet.last_chunk()?);
        match packet[0] {
            CHALLENGE => Some(Move::Challenge { of: tag, proof: number }),
            MOVE => Some(Move::Answer { to: tag, answer: number }),
            _ => None,
        }
    }

    pub fn packet(self) -> Bytes {
        let (kind, tag, number) = match self {
            Move::Challenge { of, proof } => (CHALLENGE, of, proof),
            Move::Answer { to, answer } => (MOVE, to, answer),
        };
        let mut packet = BytesMut::with_capacity(PACKET_BYTES);
        packet.put_u8(kind);
        packet.put_slice(&tag);
        packet.put_u64_le(number);
        packet.freeze()
    }
}

/// Returns the answer to a proof; `None` before the session has keys.
pub fn answer(connection: &Connection, proof: u64) -> Option<u64> {
    let mut answer = [0; NUMBER_BYTES];
    connection.crypto_session().export_keying_material(&mut answer, LABEL, &proof.to_le_bytes()).ok()?;
    Some(u64::from_le_bytes(answer))
}
