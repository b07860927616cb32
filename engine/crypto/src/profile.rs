//! Authentication profiles, and the MACs that they use beside signatures.

use crate::agreement::{agreement_key, agreement_secret};
use crate::client::ClientAuthentication;
use crate::error::{CryptoError, KeyFault, KeyRole};
use crate::identity::IDENTITY_SCHEME;
use crate::key_pair::KeyPair;
use crate::keyring::Keyring;
use crate::replies::ReplyAuthentication;
use crate::scheme::SchemeKind;
use bytes::Bytes;
use quorate_types::command::MAX_CLIENT_MACS;
use quorate_types::identity::ProofRequirements;
use quorate_types::{Committee, Domain, Fault, Member, ReplicaId, choice};
use std::sync::Arc;

choice!(
    /// Authentication of each message class. CHECKPOINT, VIEW-CHANGE and NEW-VIEW are signed in all profiles, because
    /// they are shown to third parties. [`ReplyAuthentication`] selects the authentication of replies. The channel
    /// authenticates everything else.
    #[derive(Default)]
    AuthProfile, "authentication profile",
    /// Signatures on client bundles and votes.
    #[default]
    Pk = "pk",
    /// MACs on votes. Client bundles have MACs, one per replica, or signatures.
    Mac = "mac",
    /// MACs on votes; signatures on client bundles, so that all replicas reach the same verdict on them.
    Domain = "domain",
);

impl AuthProfile {
    /// Returns whether votes have MACs, which convince only the replicas for which they were made.
    pub fn votes_by_mac(self) -> bool {
        self != AuthProfile::Pk
    }
}

/// A replica's MAC keys for votes. The keys of a pair of replicas are derived from their identity keys, so the
/// committee lists no further keys.
#[derive(Clone)]
pub struct MacKeys {
    keyring: Arc<Keyring>,
    key: KeyPair,
}

impl MacKeys {
    /// Derives the MAC keys of member `me` from its private identity key.
    ///
    /// # Errors
    /// [`CryptoError`] if a member's identity key is unusable, or `identity` does not belong to `me`.
    ///
    /// # Panics
    /// If the scheme has no shared secrets.
    pub fn new(
        kind: SchemeKind,
        committee: &Committee,
        me: ReplicaId,
        identity: &KeyPair,
    ) -> Result<MacKeys, CryptoError> {
        assert!(!kind.profile().has_public_keys_only(), "{kind} has no shared secrets");
        identity.check(KeyRole::Identity, IDENTITY_SCHEME, committee, me)?;
        let of_member = |(replica, member): (ReplicaId, &Member)| {
            let fault = KeyFault::NotAKey(IDENTITY_SCHEME.name());
            let key = agreement_key(&member.identity_key).ok_or(CryptoError::PublicKey {
                replica,
                role: KeyRole::Identity,
                fault,
            })?;
            let voting_key = Bytes::copy_from_slice(&key);
            Ok(Member { voting_key, possession: Bytes::new(), ..member.clone() })
        };
        let members = committee.replicas().zip(&committee.members).map(of_member);
        let pairs = Committee { members: members.collect::<Result<_, CryptoError>>()?, ..committee.clone() };
        let secret = agreement_secret(identity);
        let key = KeyPair::decode(kind, &secret[..]).expect("every 32 bytes are a private key of X25519");
        let keyring = Keyring::of_member(kind, &pairs, me, &key).map_err(|error| match error {
            CryptoError::PublicKey { replica, fault, .. } => {
                CryptoError::PublicKey { replica, role: KeyRole::Identity, fault }
            }
            error => error,
        })?;
        Ok(MacKeys { keyring: Arc::new(keyring), key })
    }

    /// Returns whether MACs suffice for statements of a domain. This holds for PBFT's votes on slots, which only their
    /// receivers count if the view change is the one for MACs.
    pub fn authenticate(domain: Domain) -> bool {
        matches!(domain, Domain::Prepare | Domain::Commit)
    }

    pub(crate) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    pub(crate) fn shared_keyring(&self) -> Arc<Keyring> {
        self.keyring.clone()
    }

    pub(crate) fn key(&self) -> &KeyPair {
        &self.key
    }
}

/// All authentication settings of a cluster's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Authentication {
    pub profile: AuthProfile,
    pub scheme: SchemeKind,
    pub mac_scheme: SchemeKind,
    pub clients: ClientAuthentication,
    pub replies: ReplyAuthentication,
    /// Size of the committee.
    pub replicas: usize,
}

impl Authentication {
    /// Returns whether a statement of a domain proves its author to third parties.
    pub fn attributes(&self, domain: Domain) -> bool {
        let by_mac = self.profile.votes_by_mac() && MacKeys::authenticate(domain);
        let scheme = if by_mac { self.mac_scheme } else { self.scheme };
        scheme.profile().attributable
    }

    /// Checks that a protocol works with these settings, given its requirements for signed statements and votes.
    ///
    /// # Errors
    /// [`Fault`] at a configuration key: `scheme`, `mac_scheme`, `auth_profile`, `client_authentication` or
    /// `reply_authentication`.
    pub fn check(
        &self,
        protocol: &str,
        statements: ProofRequirements,
        votes: ProofRequirements,
    ) -> Result<(), Fault<&'static str>> {
        let Authentication { profile, scheme, mac_scheme, .. } = *self;
        if let Some(why) = scheme.profile().lacks(statements) {
            let what = format!("is {scheme}, which {why}, but {protocol} shows proofs to others");
            let help = match scheme.profile().has_public_keys_only() {
                true => format!("choose a scheme with transferable proofs, such as {}", SchemeKind::ED25519),
                false => format!(
                    "choose a scheme with transferable proofs, such as {}; for votes by {scheme}, set `auth_profile` \
                     to mac or domain and `mac_scheme` to {scheme}",
                    SchemeKind::ED25519
                ),
            };
            return Err(Fault::new("scheme", what, help));
        }
        if mac_scheme.profile().has_public_keys_only() {
            let known = SchemeKind::ALL.iter().filter(|kind| !kind.profile().has_public_keys_only());
            let known: Vec<&str> = known.map(|kind| kind.name()).collect();
            let what = format!("is {mac_scheme}, which has no shared secrets");
            return Err(Fault::new("mac_scheme", what, format!("choose one of {}", known.join(", "))));
        }
        match mac_scheme.profile().lacks(votes).filter(|_| profile.votes_by_mac()) {
            None => self.check_clients().and_then(|()| self.check_replies()),
            Some(why) => {
                let what = format!(
                    "is {profile}: votes by {mac_scheme}, which {why}, but {protocol} shows certificates of votes to \
                     others"
                );
                Err(Fault::new("auth_profile", what, "choose the protocol pbft-mac, or the profile pk"))
            }
        }
    }

    fn check_clients(&self) -> Result<(), Fault<&'static str>> {
        let Authentication { profile, clients, replicas, .. } = *self;
        let fault = |what, help: &str| Err(Fault::new("client_authentication", what, help));
        match (profile, clients) {
            (AuthProfile::Pk | AuthProfile::Domain, ClientAuthentication::Mac) => fault(
                format!("is {clients}, but in the profile {profile} clients sign"),
                "set it to ed25519 or none, or set `auth_profile` to mac",
            ),
            (_, ClientAuthentication::Mac) if replicas > MAX_CLIENT_MACS => fault(
                format!("is {clients}, which is for {MAX_CLIENT_MACS} replicas at most, not {replicas}"),
                "set `auth_profile` to domain, and this to ed25519",
            ),
            _ => Ok(()),
        }
    }

    fn check_replies(&self) -> Result<(), Fault<&'static str>> {
        let Authentication { scheme, clients, replies, .. } = *self;
        let fault = |what, help: &str| Err(Fault::new("reply_authentication", what, help));
        match replies {
            ReplyAuthentication::Signature if !scheme.profile().unforgeable => fault(
                format!("is {replies}, but `scheme` is {scheme}, whose signatures prove nothing"),
                "set it to channel or mac, or choose another scheme",
            ),
            ReplyAuthentication::Mac if clients == ClientAuthentication::None => fault(
                format!(
                    "is {replies}, but clients have no keys to share secrets with: `client_authentication` is none"
                ),
                "set it to channel or signature, or set `client_authentication` to ed25519",
            ),
            _ => Ok(()),
        }
    }
}
