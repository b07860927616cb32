//! Commands and their bundles.
//!
//! Each command has its own client, sequence number, result and latency. Commands travel in bundles (of one command,
//! where a paper requires it). A bundle is identified by the digest of its encoding and never split: it is validated
//! once, on arrival, and then shared as one piece of memory.
//!
//! ```text
//! offset  0  authenticator   1   its kind: 0 none, 1 a 32-byte public key and a 64-byte signature,
//!                                2 a 32-byte public key with a 64-byte certificate, and a 64-byte signature
//!         1  origin         16   little-endian
//!        17  expires         8   the last height at which it may be executed
//!        25  commands        4
//!        29  each command: session 2, sequence 8, payload length 4, payload
//!            the authenticator: public key, signature
//! ```
//!
//! All commands of a bundle belong to the origin's owner, so one signature covers them, and another client's command
//! cannot be encoded. The digest covers the authenticator, so a bundle is genuine on all replicas or on none. Only
//! `quorate_crypto` knows the signature scheme of each kind.
//!
//! Bundles expire, so that replicas need not remember executed commands forever: see `quorate_applications::session`.

use crate::choices::PayloadPath;
use crate::codec::{DecodeError, DecodeReason, Decoder, Encoder, Wire};
use crate::digest::{Digest, Hasher};
use crate::ids::{ClientId, ClusterId, Height};
use crate::limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES};
use crate::tags;
use bytes::{Bytes, BytesMut};
use std::fmt;

/// One command, borrowed from its bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command<'a> {
    pub client: ClientId,
    /// Number within the client's session, from 1. Each is used once.
    pub sequence: u64,
    pub payload: &'a [u8],
}

/// Maximum length of a signed bundle without its commands, in bytes.
pub const BUNDLE_OVERHEAD_BYTES: usize = BUNDLE_HEADER_BYTES + SIGNATURE_AUTHENTICATOR_BYTES;
/// Length of a command without its payload (session, sequence, payload length), in bytes.
pub const COMMAND_OVERHEAD_BYTES: usize = 2 + 8 + 4;

/// Lengths of an authenticator's parts, in bytes; see [`authenticator_kind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuthenticatorKind {
    pub public_key_bytes: usize,
    pub signature_bytes: usize,
}

const UNAUTHENTICATED: u8 = 0;
const SIGNED: u8 = 1;
/// A key with its certificate, and a signature.
const CERTIFIED: u8 = 2;
/// Kind of an authenticator with one MAC.
const ONE_MAC: u8 = 3;
/// Maximum number of replicas to which a client can authenticate a bundle by MACs.
pub const MAX_CLIENT_MACS: usize = 128;
/// Length of a client MAC, in bytes.
pub const CLIENT_MAC_BYTES: usize = 16;
const CLIENT_KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
/// Length of a signature with its key and the key's certificate, in bytes.
const SIGNATURE_AUTHENTICATOR_BYTES: usize = CLIENT_KEY_BYTES + 2 * SIGNATURE_BYTES;
/// Maximum length of an authenticator, in bytes.
const MAX_AUTHENTICATOR_BYTES: usize = CLIENT_KEY_BYTES + MAX_CLIENT_MACS * CLIENT_MAC_BYTES;

/// Returns the format of an authenticator kind: 0 is none, 1 a key and a signature, 2 a key, its certificate and a
/// signature, and 2 + n a key and n MACs.
pub fn authenticator_kind(kind: u8) -> Option<AuthenticatorKind> {
    let macs = macs_in(kind);
    let (public_key_bytes, signature_bytes) = match kind {
        UNAUTHENTICATED => (0, 0),
        SIGNED => (CLIENT_KEY_BYTES, SIGNATURE_BYTES),
        CERTIFIED => (CLIENT_KEY_BYTES + SIGNATURE_BYTES, SIGNATURE_BYTES),
        _ => (CLIENT_KEY_BYTES, macs * CLIENT_MAC_BYTES),
    };
    (macs <= MAX_CLIENT_MACS).then_some(AuthenticatorKind { public_key_bytes, signature_bytes })
}

/// Returns the number of MACs in an authenticator of this kind; 0 if it has a signature or is none.
pub fn macs_in(kind: u8) -> usize {
    usize::from(kind.saturating_sub(ONE_MAC - 1))
}

/// Returns the kind of an authenticator with this many MACs; `None` if there are none or too many.
pub fn kind_of_macs(macs: usize) -> Option<u8> {
    (1..=MAX_CLIENT_MACS).contains(&macs).then(|| ONE_MAC + (macs - 1) as u8)
}

/// Returns the format of a valid bundle's authenticator.
fn form_of(body: &[u8]) -> AuthenticatorKind {
    authenticator_kind(body[0]).expect("a bundle has a known kind of authenticator")
}

impl AuthenticatorKind {
    const fn bytes(self) -> usize {
        self.public_key_bytes + self.signature_bytes
    }
}

const EXPIRES_AT: usize = 1 + 16;
const COUNT_AT: usize = EXPIRES_AT + 8;
/// Length of a bundle before its first command, in bytes.
const BUNDLE_HEADER_BYTES: usize = COUNT_AT + 4;

/// Proof that a bundle comes from its origin's owner, borrowed from the bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Authenticator<'a> {
    /// Kind on the wire, never 0: see [`authenticator_kind`].
    pub kind: u8,
    /// The owner's public key, with its certificate if the kind has one; the owner's id is the hash of both.
    pub public_key: &'a [u8],
    /// The owner's signature of [`Bundle::statement`], or MACs. Decoding does not verify it.
    pub signature: &'a [u8],
}

/// Bytes that the owner signs: a tag (16), the cluster (32), and the digest of everything before the authenticator
/// (32).
pub type BundleStatement = [u8; 16 + 32 + 32];

/// A command as in the generated types of a wire format: it owns its memory.
struct WireCommand {
    client: ClientId,
    sequence: u64,
    payload: Vec<u8>,
}

/// A validated, immutable list of commands with its digest. Cloning shares the memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    digest: Digest,
    /// Digest of everything before the authenticator.
    content: Digest,
    body: Bytes,
}

impl Bundle {
    /// Validates an encoded bundle, except for its signature, and computes its digest.
    pub fn from_body(body: Bytes) -> Result<Bundle, DecodeError> {
        validate(&body)?;
        let content = content_digest(&body[..content_bytes(&body)]);
        Ok(Bundle::named(content, body))
    }

    /// Creates the bundle of a valid body whose content has this digest.
    fn named(content: Digest, body: Bytes) -> Bundle {
        let authenticator = &body[content_bytes(&body)..];
        if authenticator.is_empty() {
            return Bundle { digest: content, content, body };
        }
        let mut hasher = Hasher::new(tags::SIGNED_BUNDLE);
        hasher.update(&content.0);
        hasher.update(authenticator);
        Bundle { digest: hasher.finish(), content, body }
    }

    /// Returns the hash of the whole bundle, authenticator included.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the sender, which receives the replies. One origin may send commands of many sessions.
    pub fn origin(&self) -> ClientId {
        origin(&self.body)
    }

    /// Returns the maximum height at which its commands may be executed.
    pub fn expires(&self) -> Height {
        Height(u64::from_le_bytes(self.body[EXPIRES_AT..COUNT_AT].try_into().expect("validated")))
    }

    /// Returns the number of commands, at least 1.
    pub fn len(&self) -> usize {
        u32::from_le_bytes(self.body[COUNT_AT..BUNDLE_HEADER_BYTES].try_into().expect("validated")) as usize
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the canonical encoding.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the authenticator, if the bundle has one.
    pub fn authenticator(&self) -> Option<Authenticator<'_>> {
        let kind = self.body[0];
        let form = form_of(&self.body);
        let (public_key, signature) = self.body[content_bytes(&self.body)..].split_at(form.public_key_bytes);
        (kind != UNAUTHENTICATED).then_some(Authenticator { kind, public_key, signature })
    }

    /// Encodes the statement signed by its authenticator in `cluster`.
    pub fn statement(&self, cluster: &ClusterId) -> BundleStatement {
        statement(cluster, &self.content)
    }

    /// Iterates over the commands in order.
    pub fn commands(&self) -> impl Iterator<Item = Command<'_>> {
        let origin = self.origin();
        let mut rest = &self.body[BUNDLE_HEADER_BYTES..content_bytes(&self.body)];
        std::iter::from_fn(move || {
            let (header, tail) = rest.split_at_checked(COMMAND_OVERHEAD_BYTES)?;
            let length = u32::from_le_bytes(header[10..14].try_into().expect("four bytes")) as usize;
            let (payload, tail) = tail.split_at(length);
            rest = tail;
            Some(Command {
                client: origin.with_session(u16::from_le_bytes(header[..2].try_into().expect("two bytes"))),
                sequence: u64::from_le_bytes(header[2..10].try_into().expect("eight bytes")),
                payload,
            })
        })
    }
}

impl Bundle {
    /// Copies the commands into wire types, and these into a newly allocated body.
    fn translated(self) -> Bundle {
        let wire: Vec<WireCommand> = self
            .commands()
            .map(|Command { client, sequence, payload }| WireCommand { client, sequence, payload: payload.to_vec() })
            .collect();
        let mut body = BytesMut::with_capacity(self.body.len());
        body.extend_from_slice(&self.body[..BUNDLE_HEADER_BYTES]);
        wire.iter().for_each(|WireCommand { client, sequence, payload }| put(&mut body, *client, *sequence, payload));
        body.extend_from_slice(&self.body[content_bytes(&self.body)..]);
        assert_eq!(body, self.body, "a copied bundle has the same encoding");
        Bundle { body: body.freeze(), ..self }
    }
}

fn put(body: &mut BytesMut, client: ClientId, sequence: u64, payload: &[u8]) {
    body.extend_from_slice(&client.session().to_le_bytes());
    body.extend_from_slice(&sequence.to_le_bytes());
    body.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    body.extend_from_slice(payload);
}

fn origin(body: &[u8]) -> ClientId {
    ClientId(u128::from_le_bytes(body[1..EXPIRES_AT].try_into().expect("a bundle has a header")))
}

/// Returns the length of a valid bundle before its authenticator.
fn content_bytes(body: &[u8]) -> usize {
    body.len() - form_of(body).bytes()
}

fn content_digest(content: &[u8]) -> Digest {
    let mut hasher = Hasher::new(tags::BUNDLE);
    hasher.update(content);
    hasher.finish()
}

fn statement(cluster: &ClusterId, content: &Digest) -> BundleStatement {
    let mut statement = [0; size_of::<BundleStatement>()];
    statement[..16].copy_from_slice(b"quorate bundle 2");
    statement[16..48].copy_from_slice(&cluster.0.0);
    statement[48..].copy_from_slice(&content.0);
    statement
}

fn validate(body: &[u8]) -> Result<(), DecodeError> {
    let short = |at, needed, left| DecodeError { what: "bundle", at, why: DecodeReason::Short { needed, left } };
    let over = |what, at, value, limit| DecodeError { what, at, why: DecodeReason::OverLimit { value, limit } };
    let invalid = |at, why| DecodeError { what: "bundle", at, why: DecodeReason::Invalid(why) };
    if body.len() > MAX_BUNDLE_BYTES {
        return Err(over("bundle bytes", 0, body.len(), MAX_BUNDLE_BYTES));
    }
    if body.len() < BUNDLE_HEADER_BYTES {
        return Err(short(0, BUNDLE_HEADER_BYTES, body.len()));
    }
    let Some(kind) = authenticator_kind(body[0]) else {
        return Err(invalid(0, "no such kind of authenticator"));
    };
    let authenticator = kind.bytes();
    let count = u32::from_le_bytes(body[COUNT_AT..BUNDLE_HEADER_BYTES].try_into().expect("four bytes")) as usize;
    if count == 0 {
        return Err(invalid(COUNT_AT, "it has no command"));
    }
    if count > MAX_BUNDLE_COMMANDS {
        return Err(over("bundle commands", COUNT_AT, count, MAX_BUNDLE_COMMANDS));
    }
    let mut at = BUNDLE_HEADER_BYTES;
    for _ in 0..count {
        if body.len() - at < COMMAND_OVERHEAD_BYTES {
            return Err(short(at, COMMAND_OVERHEAD_BYTES, body.len() - at));
        }
        let length = u32::from_le_bytes(body[at + 10..at + 14].try_into().expect("four bytes")) as usize;
        at += COMMAND_OVERHEAD_BYTES;
        if length > MAX_PAYLOAD_BYTES {
            return Err(over("command payload", at, length, MAX_PAYLOAD_BYTES));
        }
        if body.len() - at < length {
            return Err(short(at, length, body.len() - at));
        }
        at += length;
    }
    let rest = &body[at..];
    if rest.len() < authenticator {
        return Err(short(at, authenticator, rest.len()));
    }
    if rest.len() > authenticator {
        let why = DecodeReason::Trailing(rest.len() - authenticator);
        return Err(DecodeError { what: "bundle", at: at + authenticator, why });
    }
    let key = &rest[..kind.public_key_bytes];
    if body[0] != UNAUTHENTICATED && ClientId::of_key(key).owner() != origin(body).owner() {
        return Err(invalid(at, "its origin does not belong to the key that signed it"));
    }
    Ok(())
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bundle {:?} of {}", self.digest, self.len())
    }
}

/// By hand: a bundle is its encoding, validated once, and copied only if the path says so.
impl Wire for Bundle {
    fn encode(&self, out: &mut Encoder) {
        out.put_bytes(&self.body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let at = input.position();
        let body = input.get_shared_bytes("bundle", MAX_BUNDLE_BYTES)?;
        let bundle = Bundle::from_body(body).map_err(|error| DecodeError { at: at + 4 + error.at, ..error })?;
        Ok(match input.path() {
            PayloadPath::Shared => bundle,
            PayloadPath::Copied => bundle.translated(),
        })
    }
}

/// Encodes commands of one client one by one into a bundle.
pub struct BundleBuilder {
    origin: ClientId,
    body: BytesMut,
    count: u32,
}

impl BundleBuilder {
    /// Returns an unauthenticated bundle of one command, created at height 0 to expire as late as possible.
    ///
    /// # Panics
    /// If the payload does not [fit](BundleBuilder::fits).
    pub fn single(client: ClientId, sequence: u64, payload: &[u8]) -> Bundle {
        let mut builder = BundleBuilder::new(client, Height(0).latest_expiry());
        builder.push(client, sequence, payload);
        builder.finish()
    }

    /// Starts a bundle with replies to `origin`, executable up to the height `expires`. Clients pass
    /// [`Height::latest_expiry`] of the last known height.
    pub fn new(origin: ClientId, expires: Height) -> Self {
        let mut body = BytesMut::with_capacity(1024);
        body.extend_from_slice(&[UNAUTHENTICATED]);
        body.extend_from_slice(&origin.0.to_le_bytes());
        body.extend_from_slice(&expires.0.to_le_bytes());
        body.extend_from_slice(&0u32.to_le_bytes());
        BundleBuilder { origin, body, count: 0 }
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether another command of `payload_bytes` fits.
    pub fn fits(&self, payload_bytes: usize) -> bool {
        payload_bytes <= MAX_PAYLOAD_BYTES
            && self.len() < MAX_BUNDLE_COMMANDS
            && self.body.len() + COMMAND_OVERHEAD_BYTES + payload_bytes + MAX_AUTHENTICATOR_BYTES <= MAX_BUNDLE_BYTES
    }

    /// Appends a command.
    ///
    /// # Panics
    /// If it does not [fit](BundleBuilder::fits), or `client` is not a session of the origin's owner.
    pub fn push(&mut self, client: ClientId, sequence: u64, payload: &[u8]) {
        assert!(self.fits(payload.len()), "the caller checks that a command of {} bytes fits", payload.len());
        assert_eq!(client.owner(), self.origin.owner(), "client {client} is no session of {}'s owner", self.origin);
        put(&mut self.body, client, sequence, payload);
        self.count += 1;
    }

    /// Returns the bundle without an authenticator.
    ///
    /// # Panics
    /// If it has no command.
    pub fn finish(self) -> Bundle {
        Bundle::from_body(self.content(UNAUTHENTICATED).freeze()).expect("the builder keeps every limit")
    }

    /// Returns the bundle with an authenticator of this kind: the public key of the origin's owner, and the signature
    /// that `sign` returns for the statement.
    ///
    /// # Panics
    /// If the bundle has no command, the key or the signature has the wrong length for the kind, or the key is not the
    /// owner's.
    pub fn finish_signed(
        self,
        cluster: &ClusterId,
        kind: u8,
        public_key: &[u8],
        sign: impl FnOnce(&BundleStatement) -> Bytes,
    ) -> Bundle {
        let owner = self.origin.owner();
        assert_eq!(ClientId::of_key(public_key).owner(), owner, "the origin {} belongs to another key", self.origin);
        let mut body = self.content(kind);
        let content = content_digest(&body);
        let signature = sign(&statement(cluster, &content));
        let form = AuthenticatorKind { public_key_bytes: public_key.len(), signature_bytes: signature.len() };
        assert_eq!(Some(form), authenticator_kind(kind), "the authenticator is not of kind {kind}");
        body.extend_from_slice(public_key);
        body.extend_from_slice(&signature);
        Bundle::named(content, body.freeze())
    }

    /// Completes everything before the authenticator.
    fn content(mut self, authenticator: u8) -> BytesMut {
        assert!(self.count > 0, "a bundle carries at least one command");
        self.body[0] = authenticator;
        self.body[COUNT_AT..BUNDLE_HEADER_BYTES].copy_from_slice(&self.count.to_le_bytes());
        self.body
    }
}
