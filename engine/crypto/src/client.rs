//! Client identities, and the authentication of client bundles.

use crate::client_macs::ClientMacKeys;
use crate::ed25519::{PUBLIC_KEY_BYTES, SIGNATURE_BYTES};
use crate::error::CryptoError;
use crate::key_pair::KeyPair;
use crate::scheme::{SEED_BYTES, SchemeKind};
use bytes::Bytes;
use quorate_types::limits::SEQUENCE_STRIDE;
use quorate_types::{Bundle, BundleBuilder, ClientId, ClusterId, Committee, choice};
use std::ops::Range;
use std::time::SystemTime;

/// Authenticator kind of an Ed25519 key and signature on the wire: see [`quorate_types::command::authenticator_kind`].
pub const ED25519_AUTHENTICATOR: u8 = 1;

/// Authenticator kind of an Ed25519 key with a certificate ([`crate::certify`]).
pub const CERTIFIED_AUTHENTICATOR: u8 = 2;
/// Length of a key with its certificate, in bytes.
pub const CREDENTIAL_BYTES: usize = PUBLIC_KEY_BYTES + SIGNATURE_BYTES;

choice!(
    /// Authentication required of client bundles.
    #[derive(Default)]
    ClientAuthentication, "client authentication",
    /// None: anybody can submit bundles in any client's name. Only for measuring the cost of signing.
    None = "none",
    /// A client's id is the hash of its Ed25519 public key, and it signs each bundle.
    #[default]
    Ed25519 = "ed25519",
    /// A client's id is the same, and each bundle has a MAC for each replica. A faulty client can create MACs that only
    /// some replicas accept: see `docs/BYZANTINE.md`.
    Mac = "mac",
);

/// Plausible times of a clock that was set, in seconds since 1970: from 2020 until the numbers need a 63rd bit.
const CLOCK_SECONDS: Range<u64> = 1_577_836_800..1 << 32;
/// Resolution of the start times of runs. No run overtakes the clock: it would have to send a billion commands per
/// second.
const TICKS_PER_SECOND: u64 = 1 << 16;

/// A client's origin, and its key if it signs bundles.
///
/// # Runs of one key
///
/// A command is executed at most once for each session and sequence number. A key that is used for one run numbers its
/// commands from 1. A key that is kept chooses a random first session for each run, so that concurrent runs get their
/// own replies, and numbers its commands from [`ClientIdentity::sequence_base`], which is derived from the time. So
/// command numbers repeat only if two runs begin in the same session and the clock was set back in between. Then
/// replicas still execute nothing twice: they report that the outcome is unknown or the result forgotten.
#[derive(Debug)]
pub struct ClientIdentity {
    origin: ClientId,
    sequence_base: u64,
    signer: Option<Signer>,
}

#[derive(Debug)]
struct Signer {
    cluster: ClusterId,
    key: KeyPair,
    kind: u8,
    /// The public key, with its certificate if there is one.
    credential: Bytes,
    /// Keys for authentication by MACs.
    mac_keys: Option<ClientMacKeys>,
}

impl ClientIdentity {
    /// Generates an identity from the operating system's randomness.
    ///
    /// For MACs, [`ClientIdentity::with_mac_keys`] adds the keys of a committee.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`] if the system provides none.
    pub fn generate(kind: ClientAuthentication, cluster: &ClusterId) -> Result<ClientIdentity, CryptoError> {
        match kind {
            ClientAuthentication::None => {
                let mut random = [0; 16];
                getrandom::fill(&mut random).map_err(|error| CryptoError::Randomness(error.to_string()))?;
                Ok(ClientIdentity::claimed(ClientId(u128::from_le_bytes(random)).with_session(0)))
            }
            ClientAuthentication::Ed25519 | ClientAuthentication::Mac => {
                Ok(ClientIdentity::of_key(cluster, KeyPair::generate(SchemeKind::ED25519)?, None))
            }
        }
    }

    /// Derives an identity from a seed; anybody who knows the seed can sign as this client.
    pub fn from_seed(cluster: &ClusterId, seed: [u8; SEED_BYTES]) -> ClientIdentity {
        ClientIdentity::of_key(cluster, KeyPair::from_seed(SchemeKind::ED25519, seed), None)
    }

    /// Creates an identity without a key; its bundles are not signed.
    pub fn claimed(origin: ClientId) -> ClientIdentity {
        ClientIdentity { origin, sequence_base: 0, signer: None }
    }

    fn of_key(cluster: &ClusterId, key: KeyPair, certificate: Option<&[u8; SIGNATURE_BYTES]>) -> ClientIdentity {
        let (kind, credential) = match certificate {
            None => (ED25519_AUTHENTICATOR, key.public_key()),
            Some(certificate) => (CERTIFIED_AUTHENTICATOR, [&key.public_key()[..], certificate].concat().into()),
        };
        let origin = ClientId::of_key(&credential);
        let signer = Signer { cluster: *cluster, key, kind, credential, mac_keys: None };
        ClientIdentity { origin, sequence_base: 0, signer: Some(signer) }
    }

    /// Creates the identity of one run of a client that keeps its key.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`] if the system provides none, [`CryptoError::Clock`] if its clock was never set.
    pub fn of_run(
        cluster: &ClusterId,
        key: KeyPair,
        certificate: Option<&[u8; SIGNATURE_BYTES]>,
    ) -> Result<ClientIdentity, CryptoError> {
        let mut session = [0; 2];
        getrandom::fill(&mut session).map_err(|error| CryptoError::Randomness(error.to_string()))?;
        let sequence_base = sequence_base(SystemTime::now())?;
        let once = ClientIdentity::of_key(cluster, key, certificate);
        let origin = once.origin.with_session(u16::from_le_bytes(session));
        Ok(ClientIdentity { origin, sequence_base, ..once })
    }

    /// Authenticates bundles to the members of a committee by MACs instead of signatures.
    ///
    /// # Errors
    /// [`CryptoError`] if a member's identity key is unusable.
    ///
    /// # Panics
    /// If the identity has no key, or the committee is larger than
    /// [`MAX_CLIENT_MACS`](quorate_types::command::MAX_CLIENT_MACS).
    pub fn with_mac_keys(mut self, scheme: SchemeKind, committee: &Committee) -> Result<ClientIdentity, CryptoError> {
        let signer = self.signer.as_mut().expect("only a client with a key shares secrets with replicas");
        signer.mac_keys = Some(ClientMacKeys::new(scheme, committee, &signer.key)?);
        Ok(self)
    }

    /// Returns the key, if there is one, and the public key with its certificate, if it has one.
    pub(crate) fn key(&self) -> Option<(&KeyPair, Bytes)> {
        let Signer { key, credential, mac_keys, .. } = self.signer.as_ref()?;
        Some((key, if mac_keys.is_some() { key.public_key() } else { credential.clone() }))
    }

    /// Returns the key, the cluster for which it signs, and the public key with its certificate, if it has one.
    pub(crate) fn prover(&self) -> Option<(&KeyPair, &ClusterId, Bytes)> {
        let Signer { key, cluster, credential, .. } = self.signer.as_ref()?;
        Some((key, cluster, credential.clone()))
    }

    /// Returns the first session, which receives the replies.
    pub fn origin(&self) -> ClientId {
        self.origin
    }

    /// Returns the session with this index, counted from the first.
    pub fn session(&self, index: u16) -> ClientId {
        self.origin.with_session(self.origin.session().wrapping_add(index))
    }

    /// Returns the sequence number before the first command of each session.
    pub fn sequence_base(&self) -> u64 {
        self.sequence_base
    }

    /// Finishes a bundle of commands of this identity's sessions, and signs it if there is a key.
    pub fn finish(&self, builder: BundleBuilder) -> Bundle {
        let Some(Signer { cluster, key, kind, credential, mac_keys }) = &self.signer else { return builder.finish() };
        if let Some(mac_keys) = mac_keys {
            return builder
                .finish_signed(cluster, mac_keys.kind(), &key.public_key(), |statement| mac_keys.of(statement));
        }
        builder.finish_signed(cluster, *kind, credential, |statement| key.sign(statement))
    }
}

/// Returns the sequence number before the first command of a run that begins at `now`: a multiple of
/// [`SEQUENCE_STRIDE`], below 2^62.
///
/// # Errors
/// [`CryptoError::Clock`] if the time is not between 2020 and 2105. A clock stuck at 1970 would give every run the same
/// numbers, and one that is far ahead would give numbers that no later run exceeds.
pub fn sequence_base(now: SystemTime) -> Result<u64, CryptoError> {
    let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).ok();
    let valid = since_1970.filter(|time| CLOCK_SECONDS.contains(&time.as_secs()));
    let time = valid.ok_or(CryptoError::Clock(since_1970.map(|time| time.as_secs())))?;
    let fraction = u64::from(time.subsec_nanos()) * TICKS_PER_SECOND / 1_000_000_000;
    Ok((time.as_secs() * TICKS_PER_SECOND + fraction) * SEQUENCE_STRIDE)
}
