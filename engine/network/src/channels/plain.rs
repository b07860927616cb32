//! The plain channel: a signed handshake, then unprotected bytes.
//!
//! **Protected.** Each replica proves that it holds its key by signing this very handshake. The signature covers a tag,
//! both hellos (both clusters and epochs, both identities, the replica that the initiator meant to reach, a fresh nonce
//! from each end) and the signer's role. So it can be neither replayed later, nor reflected to its signer, nor relayed
//! to connect another pair.
//!
//! **Not protected.** The bytes after the handshake: an attacker on the path can read, change and inject them, and so
//! take over an authenticated stream. Use it only on trusted networks, and TLS elsewhere. A client's id is only a
//! claim, which nothing proves. A client does verify the replica's signature.
//!
//! ```text
//! initiator                                responder
//! hello                              ->
//!                                    <-    hello, proof
//! proof, release, digest, if it is a replica  ->
//!                                    <-    release, digest
//! values, if digests or epochs differ  <->  values
//! ```
//! Over packets, [the same handshake](crate::channels::plain_packets) is repeated until it is answered, and each packet
//! carries a token known only to the two ends and to attackers on the path.
//!
//! A proof is a two-byte length and the signature. A responder that rejects a hello still sends its own hello, without
//! a proof, so that the initiator's operator also sees the reason.
//!
//! **Versions.** The link uses the highest wire [version](crate::channels::version) of both hellos. From version 7 on,
//! two replicas that have authenticated each other exchange their [`Release`]s, each with a one-byte length, and their
//! digests cover them.
//!
//! **Parameters.** Two replicas that have authenticated each other compare digests of the [`Parameters`] that all
//! replicas must have equal. If they differ, or the epochs of the hellos do, each sends its values (a two-byte length
//! and their encoding) and reports the differences, and the handshake fails at both ends. An end that has not proved
//! its identity sees neither digests nor values. A client with another epoch than the replica fails once it has
//! verified the replica's proof.

use crate::channels::hello::{self, HELLO_BYTES, HelloBytes, Place};
use crate::channels::version::{MAX_RELEASE_BYTES, RELEASE_SINCE};
use crate::channels::{
    Agreed, Channel, ChannelConfig, ChannelError, LocalEnd, NONCE_BYTES, Release, RemoteIdentity, Side,
};
use bytes::{Buf, BytesMut};
use quorate_types::limits::MAX_SIGNATURE_BYTES;
use quorate_types::parameters::MAX_PARAMETERS_BYTES;
use quorate_types::{EpochId, Hasher, Parameters, ReplicaId, tags};

const DIGEST_BYTES: usize = 32;

/// Maximum length of a [`Release`] in the handshake, its length included.
pub(super) const MAX_RELEASE_PART_BYTES: usize = 1 + MAX_RELEASE_BYTES;

enum State {
    AwaitHello,
    AwaitProof {
        theirs: HelloBytes,
        peer: Peer,
    },
    /// The replica is authenticated.
    AwaitRelease(Peer),
    AwaitDigest(Peer),
    /// The digests or the epochs differ.
    AwaitValues(Peer),
    Established(RemoteIdentity, Agreed),
    Refused(ChannelError),
}

/// The replica at the other end.
#[derive(Clone)]
struct Peer {
    replica: ReplicaId,
    epoch: EpochId,
    /// Wire version of the link.
    version: u8,
    release: Option<Release>,
}

/// One end of a plain channel.
pub struct PlainChannel {
    config: ChannelConfig,
    side: Side,
    hello: HelloBytes,
    /// Binding to the secure session that carries this channel; empty without one.
    session: Vec<u8>,
    state: State,
}

impl PlainChannel {
    /// Creates a channel at the start of its handshake. `nonce` must never have been used before;
    /// [`crate::channels::ChannelFactory::open`] takes one from the operating system, a simulator derives it from its
    /// seed.
    ///
    /// Panics if a client is to respond or a replica to dial itself: both are bugs of the caller.
    pub fn new(config: ChannelConfig, side: Side, nonce: [u8; NONCE_BYTES]) -> Self {
        let me = config.me.identity();
        match (side, me) {
            (Side::Responder, RemoteIdentity::Client(_)) => panic!("a client dials, it does not respond"),
            (Side::Initiator { expects }, RemoteIdentity::Replica(me)) => {
                assert_ne!(expects, me, "a replica does not dial itself");
            }
            _ => {}
        }
        let hello = hello::encode((config.cluster, config.epoch), config.versions, me, side, nonce);
        PlainChannel { config, side, hello, session: Vec::new(), state: State::AwaitHello }
    }

    /// Creates a channel inside a secure session. Its signatures cover `session`, so they are worthless in any other
    /// session.
    ///
    /// # Panics
    /// As [`PlainChannel::new`].
    pub fn inside(config: ChannelConfig, side: Side, nonce: [u8; NONCE_BYTES], session: &[u8]) -> Self {
        PlainChannel { session: session.to_vec(), ..PlainChannel::new(config, side, nonce) }
    }

    fn place(&self) -> Place {
        match self.side {
            Side::Initiator { .. } => Place::Initiator,
            Side::Responder => Place::Responder,
        }
    }

    fn transcript(&self, signer: Place, theirs: &HelloBytes) -> Vec<u8> {
        match self.place() {
            Place::Initiator => hello::transcript(signer, &self.hello, theirs, &self.session),
            Place::Responder => hello::transcript(signer, theirs, &self.hello, &self.session),
        }
    }

    /// Performs one step of the handshake. Returns the next state, or `None` while bytes are missing.
    fn advance(&self, wire: &mut BytesMut, outgoing: &mut Vec<u8>) -> Result<Option<State>, ChannelError> {
        match &self.state {
            State::AwaitHello => self.receive_hello(wire, outgoing),
            State::AwaitProof { theirs, peer } => self.receive_proof(wire, theirs, peer, outgoing),
            State::AwaitRelease(peer) => self.receive_release(wire, peer),
            State::AwaitDigest(peer) => Ok(self.receive_digest(wire, peer, outgoing)),
            State::AwaitValues(peer) => self.receive_values(wire, peer),
            State::Established(..) => Ok(None),
            State::Refused(why) => Err(why.clone()),
        }
    }

    fn receive_hello(&self, wire: &mut BytesMut, outgoing: &mut Vec<u8>) -> Result<Option<State>, ChannelError> {
        let checked = hello::check_prefix(wire, self.config.versions);
        let stranger = checked == Err(ChannelError::NotQuorate);
        let whole = wire.len() >= HELLO_BYTES;
        if self.side == Side::Responder && !stranger && (whole || checked.is_err()) {
            outgoing.extend_from_slice(&self.hello);
        }
        checked?;
        if !whole {
            return Ok(None);
        }
        let theirs: HelloBytes = wire[..HELLO_BYTES].try_into().expect("the length was checked");
        wire.advance(HELLO_BYTES);
        let (claims, epoch, version) = self.accept_hello(&theirs)?;
        if self.side == Side::Responder {
            self.prove(&theirs, outgoing);
        }
        Ok(Some(match claims {
            RemoteIdentity::Replica(replica) => {
                State::AwaitProof { theirs, peer: Peer { replica, epoch, version, release: None } }
            }
            RemoteIdentity::Client(_) => {
                self.check_epoch(claims, epoch)?;
                State::Established(claims, Agreed { version, release: None })
            }
        }))
    }

    fn check_epoch(&self, remote: RemoteIdentity, theirs: EpochId) -> Result<(), ChannelError> {
        let ours = self.config.epoch;
        if theirs == ours { Ok(()) } else { Err(ChannelError::Genesis { remote, theirs, ours }) }
    }

    /// Checks that there is a common version, that the hello is addressed to this end, and that the claimed identity is
    /// allowed. Returns that identity, the remote's epoch, and the version of the link.
    fn accept_hello(&self, theirs: &HelloBytes) -> Result<(RemoteIdentity, EpochId, u8), ChannelError> {
        let hello = hello::decode(theirs)?;
        let (theirs, ours) = (hello.versions, self.config.versions);
        let version = ours.common(theirs).ok_or(ChannelError::Version { theirs, ours })?;
        if hello.cluster != self.config.cluster {
            return Err(ChannelError::Cluster { theirs: hello.cluster, ours: self.config.cluster });
        }
        let me = self.config.me.identity();
        if let (RemoteIdentity::Replica(claims), RemoteIdentity::Replica(me)) = (hello.claims, me)
            && claims == me
        {
            return Err(ChannelError::OwnIdentity(me));
        }
        match (self.side, hello.expects, me) {
            (Side::Initiator { expects }, None, _) => {
                if hello.claims != RemoteIdentity::Replica(expects) {
                    return Err(ChannelError::UnexpectedRemote { expected: expects, found: hello.claims });
                }
            }
            (Side::Responder, Some(meant), RemoteIdentity::Replica(me)) => {
                if meant != me {
                    return Err(ChannelError::Misdirected { meant, me });
                }
            }
            _ => return Err(ChannelError::Malformed("both ends dialled or both accepted")),
        }
        Ok((hello.claims, hello.epoch, version))
    }

    fn prove(&self, theirs: &HelloBytes, outgoing: &mut Vec<u8>) {
        let LocalEnd::Replica(signer) = &self.config.me else { return };
        let signature = signer.sign(&self.transcript(self.place(), theirs));
        assert!(signature.len() <= MAX_SIGNATURE_BYTES, "a scheme's signature is within the limit of the wire");
        outgoing.extend_from_slice(&(signature.len() as u16).to_le_bytes());
        outgoing.extend_from_slice(&signature);
    }

    fn receive_proof(
        &self,
        wire: &mut BytesMut,
        theirs: &HelloBytes,
        peer: &Peer,
        outgoing: &mut Vec<u8>,
    ) -> Result<Option<State>, ChannelError> {
        let Some(length) = wire.get(..2) else { return Ok(None) };
        let bytes = usize::from(u16::from_le_bytes([length[0], length[1]]));
        if bytes > MAX_SIGNATURE_BYTES {
            return Err(ChannelError::HandshakeTooLong { bytes, limit: MAX_SIGNATURE_BYTES });
        }
        let Some(signature) = wire.get(2..2 + bytes) else { return Ok(None) };
        let signer = match self.place() {
            Place::Initiator => Place::Responder,
            Place::Responder => Place::Initiator,
        };
        if !self.config.verifier.verify(peer.replica, &self.transcript(signer, theirs), signature) {
            return Err(ChannelError::Signature(peer.replica));
        }
        wire.advance(2 + bytes);
        if self.place() == Place::Initiator {
            self.prove(theirs, outgoing);
        }
        if matches!(self.config.me, LocalEnd::Client(_)) {
            let remote = RemoteIdentity::Replica(peer.replica);
            self.check_epoch(remote, peer.epoch)?;
            return Ok(Some(State::Established(remote, Agreed { version: peer.version, release: None })));
        }
        if peer.version < RELEASE_SINCE {
            outgoing.extend_from_slice(&self.digest(None));
            return Ok(Some(State::AwaitDigest(peer.clone())));
        }
        let release = Release::own();
        let encoded = release.encode();
        outgoing.push(encoded.len() as u8);
        outgoing.extend_from_slice(&encoded);
        outgoing.extend_from_slice(&self.digest(Some(&release)));
        Ok(Some(State::AwaitRelease(peer.clone())))
    }

    /// Returns the digest of this end's parameters and of the release that precedes it, if there is one.
    fn digest(&self, release: Option<&Release>) -> [u8; DIGEST_BYTES] {
        let parameters = self.config.parameters.digest().0;
        let Some(release) = release else { return parameters };
        let mut hasher = Hasher::new(tags::RELEASE);
        hasher.update(&parameters);
        hasher.update(&release.encode());
        hasher.finish().0
    }

    fn receive_release(&self, wire: &mut BytesMut, peer: &Peer) -> Result<Option<State>, ChannelError> {
        let Some(length) = wire.first() else { return Ok(None) };
        let bytes = usize::from(*length);
        if bytes > MAX_RELEASE_BYTES {
            return Err(ChannelError::HandshakeTooLong { bytes, limit: MAX_RELEASE_BYTES });
        }
        let Some(release) = wire.get(1..1 + bytes) else { return Ok(None) };
        let release = Release::decode(release).ok_or(ChannelError::Malformed("its release cannot be read"))?;
        wire.advance(1 + bytes);
        Ok(Some(State::AwaitDigest(Peer { release: Some(release), ..peer.clone() })))
    }

    fn receive_digest(&self, wire: &mut BytesMut, peer: &Peer, outgoing: &mut Vec<u8>) -> Option<State> {
        let theirs = wire.get(..DIGEST_BYTES)?;
        let is_equal = theirs == self.digest(peer.release.as_ref()) && peer.epoch == self.config.epoch;
        wire.advance(DIGEST_BYTES);
        if is_equal {
            let agreed = Agreed { version: peer.version, release: peer.release.clone() };
            return Some(State::Established(RemoteIdentity::Replica(peer.replica), agreed));
        }
        let values = self.config.parameters.encode();
        outgoing.extend_from_slice(&(values.len() as u16).to_le_bytes());
        outgoing.extend_from_slice(&values);
        Some(State::AwaitValues(peer.clone()))
    }

    /// Receives the remote's parameters and reports those that differ.
    fn receive_values(&self, wire: &BytesMut, peer: &Peer) -> Result<Option<State>, ChannelError> {
        let Some(length) = wire.get(..2) else { return Ok(None) };
        let bytes = usize::from(u16::from_le_bytes([length[0], length[1]]));
        if bytes > MAX_PARAMETERS_BYTES {
            return Err(ChannelError::HandshakeTooLong { bytes, limit: MAX_PARAMETERS_BYTES });
        }
        let Some(values) = wire.get(2..2 + bytes) else { return Ok(None) };
        let theirs = Parameters::decode(values).ok_or(ChannelError::Malformed("its parameters cannot be read"))?;
        let differences = self.config.parameters.differences(&theirs);
        if !differences.is_empty() {
            return Err(ChannelError::Parameters { replica: peer.replica, differences });
        }
        self.check_epoch(RemoteIdentity::Replica(peer.replica), peer.epoch)?;
        Err(ChannelError::Malformed("its parameters do not have the digest that it sent"))
    }
}

impl Channel for PlainChannel {
    fn start(&mut self, outgoing: &mut Vec<u8>) {
        if self.place() == Place::Initiator {
            outgoing.extend_from_slice(&self.hello);
        }
    }

    fn receive(
        &mut self,
        wire: &mut BytesMut,
        plain: &mut BytesMut,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), ChannelError> {
        loop {
            match self.advance(wire, outgoing) {
                Ok(Some(next)) => self.state = next,
                Ok(None) => break,
                Err(why) => {
                    self.state = State::Refused(why.clone());
                    return Err(why);
                }
            }
        }
        if self.is_transparent() && !wire.is_empty() {
            if plain.is_empty() {
                std::mem::swap(plain, wire);
            } else {
                plain.unsplit(wire.split());
            }
        }
        Ok(())
    }

    fn encrypt(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) {
        assert!(self.is_transparent(), "nothing is sent before the handshake is complete");
        outgoing.extend_from_slice(plain);
    }

    fn is_transparent(&self) -> bool {
        matches!(self.state, State::Established(..))
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        match self.state {
            State::Established(remote, _) => Some(remote),
            _ => None,
        }
    }

    fn agreed(&self) -> Option<&Agreed> {
        match &self.state {
            State::Established(_, agreed) => Some(agreed),
            _ => None,
        }
    }
}
