//! Commands and the bundles that they travel in.
//!
//! A command is what a client wants executed: it has its own client, sequence number, result and latency. Commands travel in
//! bundles (of one, where a paper wants that); a bundle is named by the digest of its encoding and is never taken apart on the
//! way: it is validated once where it enters and then shared as one piece of memory.

use crate::codec::{DecodeError, DecodeReason, Decoder, Encoder, Wire};
use crate::digest::{Digest, Hasher};
use crate::ids::ClientId;
use crate::limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES};
use bytes::{Bytes, BytesMut};
use std::fmt;

/// One command, borrowed from the bundle that carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command<'a> {
    /// The session that sent it.
    pub client: ClientId,
    /// Its number in that session, from 1, each used once.
    pub sequence: u64,
    /// What the application is to execute.
    pub payload: &'a [u8],
}

/// Bytes of a bundle before its first command: origin and count.
const BUNDLE_HEADER_BYTES: usize = 12;
/// Bytes of a command besides its payload: client, sequence, payload length.
const COMMAND_HEADER_BYTES: usize = 20;

/// A validated, immutable list of commands with its digest. Cloning shares the memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    digest: Digest,
    body: Bytes,
}

impl Bundle {
    /// Validates an encoded bundle and takes its digest.
    pub fn from_body(body: Bytes) -> Result<Bundle, DecodeError> {
        validate(&body)?;
        let mut hasher = Hasher::new(*b"qB01");
        hasher.update(&body);
        Ok(Bundle { digest: hasher.finish(), body })
    }

    /// The name of the bundle.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The connection-level sender, to which the replies go: one origin may speak for many clients.
    pub fn origin(&self) -> ClientId {
        ClientId(u64::from_le_bytes(self.body[..8].try_into().expect("validated")))
    }

    /// How many commands it carries; at least one.
    pub fn len(&self) -> usize {
        u32::from_le_bytes(self.body[8..12].try_into().expect("validated")) as usize
    }

    /// Never true: an empty bundle is not valid.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The canonical encoding, shared.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The commands in their order.
    pub fn commands(&self) -> impl Iterator<Item = Command<'_>> {
        let mut rest = &self.body[BUNDLE_HEADER_BYTES..];
        std::iter::from_fn(move || {
            let (header, tail) = rest.split_at_checked(COMMAND_HEADER_BYTES)?;
            let length = u32::from_le_bytes(header[16..20].try_into().expect("four bytes")) as usize;
            let (payload, tail) = tail.split_at(length);
            rest = tail;
            Some(Command {
                client: ClientId(u64::from_le_bytes(header[..8].try_into().expect("eight bytes"))),
                sequence: u64::from_le_bytes(header[8..16].try_into().expect("eight bytes")),
                payload,
            })
        })
    }
}

fn validate(body: &[u8]) -> Result<(), DecodeError> {
    let short = |at, needed, left| DecodeError { what: "bundle", at, why: DecodeReason::Short { needed, left } };
    let over = |what, at, value, limit| DecodeError { what, at, why: DecodeReason::OverLimit { value, limit } };
    if body.len() > MAX_BUNDLE_BYTES {
        return Err(over("bundle bytes", 0, body.len(), MAX_BUNDLE_BYTES));
    }
    if body.len() < BUNDLE_HEADER_BYTES {
        return Err(short(0, BUNDLE_HEADER_BYTES, body.len()));
    }
    let count = u32::from_le_bytes(body[8..12].try_into().expect("four bytes")) as usize;
    if count == 0 {
        return Err(DecodeError { what: "bundle", at: 8, why: DecodeReason::Invalid("it carries no command") });
    }
    if count > MAX_BUNDLE_COMMANDS {
        return Err(over("bundle commands", 8, count, MAX_BUNDLE_COMMANDS));
    }
    let mut at = BUNDLE_HEADER_BYTES;
    for _ in 0..count {
        if body.len() - at < COMMAND_HEADER_BYTES {
            return Err(short(at, COMMAND_HEADER_BYTES, body.len() - at));
        }
        let length = u32::from_le_bytes(body[at + 16..at + 20].try_into().expect("four bytes")) as usize;
        at += COMMAND_HEADER_BYTES;
        if length > MAX_PAYLOAD_BYTES {
            return Err(over("command payload", at, length, MAX_PAYLOAD_BYTES));
        }
        if body.len() - at < length {
            return Err(short(at, length, body.len() - at));
        }
        at += length;
    }
    match body.len() - at {
        0 => Ok(()),
        left => Err(DecodeError { what: "bundle", at, why: DecodeReason::Trailing(left) }),
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bundle {:?} of {}", self.digest, self.len())
    }
}

impl Wire for Bundle {
    fn encode(&self, out: &mut Encoder) {
        out.put_bytes(&self.body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let at = input.position();
        let body = input.get_bytes("bundle", MAX_BUNDLE_BYTES)?;
        Bundle::from_body(body).map_err(|error| DecodeError { at: at + 4 + error.at, ..error })
    }
}

/// Collects commands into a bundle.
pub struct BundleBuilder {
    body: BytesMut,
    count: u32,
}

impl BundleBuilder {
    /// An empty bundle whose replies go to `origin`.
    pub fn new(origin: ClientId) -> Self {
        let mut body = BytesMut::with_capacity(1024);
        body.extend_from_slice(&origin.0.to_le_bytes());
        body.extend_from_slice(&0u32.to_le_bytes());
        BundleBuilder { body, count: 0 }
    }

    /// How many commands there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a command of `payload_bytes` still fits.
    pub fn fits(&self, payload_bytes: usize) -> bool {
        payload_bytes <= MAX_PAYLOAD_BYTES
            && self.len() < MAX_BUNDLE_COMMANDS
            && self.body.len() + COMMAND_HEADER_BYTES + payload_bytes <= MAX_BUNDLE_BYTES
    }

    /// Appends a command that [fits](BundleBuilder::fits).
    pub fn push(&mut self, client: ClientId, sequence: u64, payload: &[u8]) {
        assert!(self.fits(payload.len()), "the caller checks that a command of {} bytes fits", payload.len());
        self.body.extend_from_slice(&client.0.to_le_bytes());
        self.body.extend_from_slice(&sequence.to_le_bytes());
        self.body.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.body.extend_from_slice(payload);
        self.count += 1;
    }

    /// The bundle; there must be at least one command in it.
    pub fn finish(mut self) -> Bundle {
        assert!(self.count > 0, "a bundle carries at least one command");
        self.body[8..12].copy_from_slice(&self.count.to_le_bytes());
        Bundle::from_body(self.body.freeze()).expect("the builder keeps every limit")
    }
}
