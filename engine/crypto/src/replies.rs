//! Authenticators of replies: a replica's signature of its replies to a client, or its MAC for that client.
//!
//! An authenticator covers all replies that are sent to one client together. It names the epoch, the replica, and the
//! client with its session, so it is worthless elsewhere. It does not name the request that a reply answers: the
//! replies themselves do, by a bundle's digest, or by a query's number and digest.

use crate::agreement::{agreement_key, agreement_secret};
use crate::client::ClientIdentity;
use crate::client_macs::{Ends, KeyUse, function_of};
use crate::ed25519::PUBLIC_KEY_BYTES;
use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::identity::{IDENTITY_SCHEME, ReplicaKeys};
use crate::key_pair::KeyPair;
use crate::keyring::Keyring;
use crate::mac::{MacKey, X25519_BYTES, equal_tags, x25519};
use crate::scheme::{SchemeKind, TagFunction};
use bytes::Bytes;
use quorate_types::authenticated_replies::{AuthenticatedReplies, reply_statement};
use quorate_types::command::CLIENT_MAC_BYTES;
use quorate_types::meter::{Primitive, measured};
use quorate_types::{
    ClientId, ClientRequest, Committee, DecodeError, Digest, EpochId, Member, ReplicaId, ReplicaReply, choice,
    decode_message, encode_message,
};
use thiserror::Error;
use zeroize::Zeroizing;

choice!(
    /// Authentication of replies to clients.
    #[derive(Default)]
    ReplyAuthentication, "reply authentication",
    /// By the channel alone.
    #[default]
    Channel = "channel",
    /// By the replica's signature with its voting key, which the client can show to others.
    Signature = "signature",
    /// By a MAC with a key that the replica and the client share.
    Mac = "mac",
);

impl ReplyAuthentication {
    /// Returns the scheme of the authenticators in a cluster with these schemes of signatures and MACs; `None` without
    /// authenticators.
    pub fn scheme(self, signatures: SchemeKind, macs: SchemeKind) -> Option<SchemeKind> {
        match self {
            ReplyAuthentication::Channel => None,
            ReplyAuthentication::Signature => Some(signatures),
            ReplyAuthentication::Mac => Some(macs),
        }
    }

    /// Returns the length of an authenticator in this scheme. A MAC is for one client only.
    pub fn authenticator_bytes(scheme: SchemeKind) -> usize {
        match scheme.profile().has_public_keys_only() {
            true => scheme.profile().signature_bytes(1),
            false => CLIENT_MAC_BYTES,
        }
    }
}

/// Creates one replica's authenticators.
pub struct ReplyAuthenticator {
    epoch: EpochId,
    me: ReplicaId,
    way: Authentication,
}

enum Authentication {
    Signature(KeyPair),
    Macs { scheme: SchemeKind, tag: TagFunction, secret: Zeroizing<[u8; X25519_BYTES]>, identity_key: Bytes },
}

/// MAC key for one client.
pub struct ReplyKey(MacKey);

impl ReplyAuthenticator {
    /// Takes the private keys of member `me`; `None` if the channel alone authenticates replies. `mac_scheme` is the
    /// scheme of MACs.
    ///
    /// # Errors
    /// [`CryptoError`] if a key does not belong to `me`.
    ///
    /// # Panics
    /// If `mac_scheme` is needed and has no tags.
    pub fn new(
        kind: ReplyAuthentication,
        mac_scheme: SchemeKind,
        committee: &Committee,
        me: ReplicaId,
        keys: &ReplicaKeys,
    ) -> Result<Option<ReplyAuthenticator>, CryptoError> {
        let ReplicaKeys { identity, voting } = keys;
        let way = match kind {
            ReplyAuthentication::Channel => return Ok(None),
            ReplyAuthentication::Signature => {
                voting.check(KeyRole::Voting, voting.kind(), committee, me)?;
                Authentication::Signature(voting.clone())
            }
            ReplyAuthentication::Mac => {
                identity.check(KeyRole::Identity, IDENTITY_SCHEME, committee, me)?;
                Authentication::Macs {
                    scheme: mac_scheme,
                    tag: function_of(mac_scheme),
                    secret: agreement_secret(identity),
                    identity_key: identity.public_key(),
                }
            }
        };
        Ok(Some(ReplyAuthenticator { epoch: committee.epoch, me, way }))
    }

    /// Returns whether authenticators are MACs, for which each client's key must be known.
    pub fn needs_keys(&self) -> bool {
        matches!(self.way, Authentication::Macs { .. })
    }

    /// Agrees on the MAC key for a client, which takes about 40 us. `None` if authenticators are signatures, the
    /// client's id is not derived from this credential, or the key is unusable.
    pub fn key_of(&self, client: ClientId, credential: &[u8]) -> Option<ReplyKey> {
        let Authentication::Macs { scheme, secret, identity_key, .. } = &self.way else { return None };
        if ClientId::of_key(credential).owner() != client.owner() {
            return None;
        }
        let client_key = credential.get(..PUBLIC_KEY_BYTES)?;
        let shared = x25519(secret, &agreement_key(client_key)?)?;
        let ends = Ends { scheme: *scheme, replica: self.me, client_key, identity_key };
        Some(ReplyKey(ends.derive(KeyUse::Replies(&self.epoch), &shared[..])))
    }

    /// Authenticates replies with this digest; `None` if authenticators are MACs and there is no key.
    pub fn authenticate(&self, client: ClientId, key: Option<&ReplyKey>, replies: &Digest) -> Option<Bytes> {
        let statement = reply_statement(&self.epoch, self.me, client, replies);
        match &self.way {
            Authentication::Signature(voting) => Some(voting.sign(&statement)),
            Authentication::Macs { tag, .. } => key.map(|ReplyKey(key)| {
                Bytes::copy_from_slice(&measured(Primitive::Mac, 1, || tag(&key[..], &statement)))
            }),
        }
    }
}

/// Reason why a client does not count a frame of a replica.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReplyFault {
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The frame has no authenticator.
    #[error("the reply carries no {0}; help: set `reply_authentication` alike on all replicas and clients")]
    Unauthenticated(&'static str),
    /// The authenticator is not the replica's for this client and these replies.
    #[error(
        "the {0} of the reply is not the replica's for this client; help: compare `cluster`, `faults`, the members' \
         keys, `protocol` and the schemes with the replica's; if they are equal, the replica or the network is faulty"
    )]
    Forged(&'static str),
}

/// Verifies the authenticators of replies to one client.
pub struct ReplyVerifier {
    client: ClientId,
    epoch: EpochId,
    way: Verification,
    /// Message to send before queries, so that replicas can create MACs.
    introduction: Option<Bytes>,
}

enum Verification {
    Signature(Keyring),
    /// The keys, in the order of the replicas.
    Macs(TagFunction, Vec<MacKey>),
}

impl ReplyVerifier {
    /// Creates the verifier of a client; `None` if the channel alone authenticates replies.
    ///
    /// # Errors
    /// [`CryptoError`] if a member's key is unusable, or replies have MACs and the client has no key.
    ///
    /// # Panics
    /// If MACs are to be verified and `mac_scheme` has no tags.
    pub fn new(
        kind: ReplyAuthentication,
        client: &ClientIdentity,
        scheme: SchemeKind,
        mac_scheme: SchemeKind,
        committee: &Committee,
    ) -> Result<Option<ReplyVerifier>, CryptoError> {
        let (way, introduction) = match kind {
            ReplyAuthentication::Channel => return Ok(None),
            ReplyAuthentication::Signature => (Verification::Signature(Keyring::new(scheme, committee)?), None),
            ReplyAuthentication::Mac => {
                let (key, credential) = client.key().ok_or(CryptoError::KeylessClient)?;
                let introduction = encode_message(&ClientRequest::Introduce { credential });
                (Verification::Macs(function_of(mac_scheme), keys(key, mac_scheme, committee)?), Some(introduction))
            }
        };
        Ok(Some(ReplyVerifier { client: client.origin(), epoch: committee.epoch, way, introduction }))
    }

    /// Returns whether authenticators are signatures, which can be shown to others.
    pub fn convinces_others(&self) -> bool {
        matches!(self.way, Verification::Signature(_))
    }

    /// Returns the message that must reach replicas before queries, if there is one.
    pub fn introduction(&self) -> Option<Bytes> {
        self.introduction.clone()
    }

    /// Decodes a frame and verifies its authenticator, unless `awaits` rejects all of its replies: replies that nobody
    /// awaits are not counted, so they need no proof. A status, a challenge, a refused answer, and an error about the
    /// client's configuration or frame have no authenticator, because no result depends on them.
    ///
    /// # Errors
    /// [`ReplyFault`] with the reason why the frame must not count.
    pub fn open(
        &self,
        from: ReplicaId,
        frame: Bytes,
        awaits: impl FnMut(&ReplicaReply) -> bool,
    ) -> Result<Vec<ReplicaReply>, ReplyFault> {
        let what = self.what();
        if !AuthenticatedReplies::is_authenticated(&frame) {
            return match decode_message(frame)? {
                reply @ (ReplicaReply::Status { .. }
                | ReplicaReply::Challenge { .. }
                | ReplicaReply::Unanswered { .. }
                | ReplicaReply::Compared { .. }
                | ReplicaReply::FrameTooLong { .. }) => Ok(vec![reply]),
                _ => Err(ReplyFault::Unauthenticated(what)),
            };
        }
        let authenticated = AuthenticatedReplies::decode(frame)?;
        if authenticated.replies.iter().any(awaits) && !self.verify(from, &authenticated) {
            return Err(ReplyFault::Forged(what));
        }
        Ok(authenticated.replies)
    }

    fn what(&self) -> &'static str {
        match self.way {
            Verification::Signature(_) => "signature",
            Verification::Macs(..) => "MAC",
        }
    }

    fn verify(&self, from: ReplicaId, authenticated: &AuthenticatedReplies) -> bool {
        let statement = reply_statement(&self.epoch, from, self.client, &authenticated.digest);
        match &self.way {
            Verification::Signature(keyring) => is_signed(keyring, from, &statement, &authenticated.authenticator),
            Verification::Macs(tag, keys) => keys.get(from.index()).is_some_and(|key| {
                let computed = measured(Primitive::Mac, 1, || tag(&key[..], &statement));
                authenticated.authenticator.len() == computed.len()
                    && equal_tags(&authenticated.authenticator, &computed)
            }),
        }
    }
}

/// Returns the client's MAC keys, one per replica.
fn keys(client: &KeyPair, scheme: SchemeKind, committee: &Committee) -> Result<Vec<MacKey>, CryptoError> {
    let (secret, client_key) = (agreement_secret(client), client.public_key());
    let of_member = |(replica, member): (ReplicaId, &Member)| {
        let fault = KeyFault::NotAKey(IDENTITY_SCHEME.name());
        let unusable = CryptoError::PublicKey { replica, role: KeyRole::Identity, fault };
        let shared = agreement_key(&member.identity_key).and_then(|theirs| x25519(&secret, &theirs)).ok_or(unusable)?;
        let ends = Ends { scheme, replica, client_key: &client_key, identity_key: &member.identity_key };
        Ok(ends.derive(KeyUse::Replies(&committee.epoch), &shared[..]))
    };
    committee.replicas().zip(&committee.members).map(of_member).collect()
}

fn is_signed(keyring: &Keyring, replica: ReplicaId, statement: &[u8], authenticator: &[u8]) -> bool {
    keyring.is_member(replica) && keyring.verify(replica, statement, authenticator)
}

/// Checks a frame of signed replies that a client kept. This needs only the committee's voting keys.
///
/// The frame proves only that the replica has sent these replies, for example that it executed a bundle at a height
/// with these results; one replica may lie. Frames of f+1 replicas with the same outcome of a bundle prove that the
/// bundle was ordered at that height and has these results, because one of the replicas is honest. Two frames of one
/// replica with different heights above 0 for one bundle do not convict it: the bundle may have been ordered twice,
/// without effect the second time.
///
/// # Errors
/// [`ReplyFault`] if the frame is not from that replica to that client in the keyring's epoch.
pub fn check_signed_replies(
    keyring: &Keyring,
    replica: ReplicaId,
    client: ClientId,
    frame: Bytes,
) -> Result<Vec<ReplicaReply>, ReplyFault> {
    if !AuthenticatedReplies::is_authenticated(&frame) {
        return Err(ReplyFault::Unauthenticated("signature"));
    }
    let authenticated = AuthenticatedReplies::decode(frame)?;
    let statement = reply_statement(keyring.epoch(), replica, client, &authenticated.digest);
    match is_signed(keyring, replica, &statement, &authenticated.authenticator) {
        true => Ok(authenticated.replies),
        false => Err(ReplyFault::Forged("signature")),
    }
}
