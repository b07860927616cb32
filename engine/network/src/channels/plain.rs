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
//! proof, digest, if it is a replica  ->
//!                                    <-    digest
//! values, if digests or epochs differ  <->  values
//! ```
//! Over packets, [the same handshake](crate::channels::plain_packets) is repeated until it is answered, and each packet
//! carries a token known only to the two ends and to attackers on the path.
//!
//! A proof is a two-byte length and the signature. A responder that rejects a hello still sends its own hello, without
//! a proof, so that the initiator's operator also sees the reason.
//!
//! **Parameters.** Two replicas that have authenticated each other compare digests of the [`Parameters`] that all
//! replicas must have equal. If they differ, or the epochs of the hellos do, each sends its values (a two-byte length
//! and their encoding) and reports the differences, and the handshake fails at both ends. An end that has not proved
//! its identity sees neither digests nor values. A client with another epoch than the replica fails once it has
//! verified the replica's proof.

use crate::channels::hello::{self, HELLO_BYTES, HelloBytes, Place};
use crate::channels::{Channel, ChannelConfig, ChannelError, LocalEnd, NONCE_BYTES, RemoteIdentity, Side};
use bytes::{Buf, BytesMut};
use quorate_types::limits::MAX_SIGNATURE_BYTES;
use quorate_types::parameters::MAX_PARAMETERS_BYTES;
use quorate_types::{EpochId, Parameters, ReplicaId};

const DIGEST_BYTES: usize = 32;

enum State {
    AwaitHello,
    AwaitProof {
        theirs: HelloBytes,
        claims: ReplicaId,
        epoch: EpochId,
    },
    /// The replica is authenticated.
    AwaitDigest(ReplicaId, EpochId),
    /// The digests or the epochs differ.
    AwaitValues(ReplicaId, EpochId),
    Established(RemoteIdentity),
    Refused(ChannelError),
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
        let hello = hello::encode((config.cluster, config.epoch), me, side, nonce);
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
            State::AwaitProof { theirs, claims, epoch } => {
                self.receive_proof(wire, theirs, (*claims, *epoch), outgoing)
            }
            State::AwaitDigest(replica, epoch) => Ok(self.receive_digest(wire, (*replica, *epoch), outgoing)),
            State::AwaitValues(replica, epoch) => self.receive_values(wire, (*replica, *epoch)),
            State::Established(_) => Ok(None),
            State::Refused(why) => Err(why.clone()),
        }
    }

    fn receive_hello(&self, wire: &mut BytesMut, outgoing: &mut Vec<u8>) -> Result<Option<State>, ChannelError> {
        let checked = hello::check_prefix(wire);
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
        let (claims, epoch) = self.accept_hello(&theirs)?;
        if self.side == Side::Responder {
            self.prove(&theirs, outgoing);
        }
        Ok(Some(match claims {
            RemoteIdentity::Replica(claims) => State::AwaitProof { theirs, claims, epoch },
            RemoteIdentity::Client(_) => {
                self.check_epoch(claims, epoch)?;
                State::Established(claims)
            }
        }))
    }

    fn check_epoch(&self, remote: RemoteIdentity, theirs: EpochId) -> Result<(), ChannelError> {
        let ours = self.config.epoch;
        if theirs == ours { Ok(()) } else { Err(ChannelError::Genesis { remote, theirs, ours }) }
    }

    /// Checks that the hello is addressed to this end and that the claimed identity is allowed. Returns that identity
    /// and the remote's epoch.
    fn accept_hello(&self, theirs: &HelloBytes) -> Result<(RemoteIdentity, EpochId), ChannelError> {
        let hello = hello::decode(theirs)?;
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
        Ok((hello.claims, hello.epoch))
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
        (claims, epoch): (ReplicaId, EpochId),
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
        if !self.config.verifier.verify(claims, &self.transcript(signer, theirs), signature) {
            return Err(ChannelError::Signature(claims));
        }
        wire.advance(2 + bytes);
        if self.place() == Place::Initiator {
            self.prove(theirs, outgoing);
        }
        if matches!(self.config.me, LocalEnd::Client(_)) {
            let remote = RemoteIdentity::Replica(claims);
            return self.check_epoch(remote, epoch).map(|()| Some(State::Established(remote)));
        }
        outgoing.extend_from_slice(&self.config.parameters.digest().0);
        Ok(Some(State::AwaitDigest(claims, epoch)))
    }

    fn receive_digest(
        &self,
        wire: &mut BytesMut,
        (replica, epoch): (ReplicaId, EpochId),
        outgoing: &mut Vec<u8>,
    ) -> Option<State> {
        let theirs = wire.get(..DIGEST_BYTES)?;
        let is_equal = theirs == self.config.parameters.digest().0 && epoch == self.config.epoch;
        wire.advance(DIGEST_BYTES);
        if is_equal {
            return Some(State::Established(RemoteIdentity::Replica(replica)));
        }
        let values = self.config.parameters.encode();
        outgoing.extend_from_slice(&(values.len() as u16).to_le_bytes());
        outgoing.extend_from_slice(&values);
        Some(State::AwaitValues(replica, epoch))
    }

    /// Receives the remote's parameters and reports those that differ.
    fn receive_values(
        &self,
        wire: &BytesMut,
        (replica, epoch): (ReplicaId, EpochId),
    ) -> Result<Option<State>, ChannelError> {
        let Some(length) = wire.get(..2) else { return Ok(None) };
        let bytes = usize::from(u16::from_le_bytes([length[0], length[1]]));
        if bytes > MAX_PARAMETERS_BYTES {
            return Err(ChannelError::HandshakeTooLong { bytes, limit: MAX_PARAMETERS_BYTES });
        }
        let Some(values) = wire.get(2..2 + bytes) else { return Ok(None) };
        let theirs = Parameters::decode(values).ok_or(ChannelError::Malformed("its parameters cannot be read"))?;
        let differences = self.config.parameters.differences(&theirs);
        if !differences.is_empty() {
            return Err(ChannelError::Parameters { replica, differences });
        }
        self.check_epoch(RemoteIdentity::Replica(replica), epoch)?;
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
        matches!(self.state, State::Established(_))
    }

    fn remote(&self) -> Option<RemoteIdentity> {
        match self.state {
            State::Established(remote) => Some(remote),
            _ => None,
        }
    }
}
