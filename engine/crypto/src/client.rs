//! Clients' identities, and how their bundles are authenticated.

use crate::client_codes::ClientCodes;
use crate::ed25519::{PUBLIC_KEY_BYTES, SIGNATURE_BYTES};
use crate::error::CryptoError;
use crate::key_pair::KeyPair;
use crate::scheme::{SEED_BYTES, SchemeKind};
use bytes::Bytes;
use quorate_types::limits::SEQUENCE_STRIDE;
use quorate_types::{Bundle, BundleBuilder, ClientId, ClusterId, Committee, choice};
use std::ops::Range;
use std::time::SystemTime;

/// Kind of the authenticators of Ed25519 keys and signatures on the wire: see
/// [`quorate_types::command::authenticator_kind`].
pub const ED25519_AUTHENTICATOR: u8 = 1;

/// Kind of the authenticators of Ed25519 keys with a certificate ([`crate::certify`]).
pub const CERTIFIED_AUTHENTICATOR: u8 = 2;
/// Length of a key with its certificate.
pub const CREDENTIAL_BYTES: usize = PUBLIC_KEY_BYTES + SIGNATURE_BYTES;

choice!(
    /// Authentication required of clients' bundles.
    #[derive(Default)]
    ClientAuthentication, "client authentication",
    /// None: anyone can submit bundles in any client's name. For measurements of the cost of signing only.
    None = "none",
    /// A client is the hash of its Ed25519 public key, and signs each bundle.
    #[default]
    Ed25519 = "ed25519",
    /// A client is the same, and gives each bundle a code for each replica. A faulty client can make codes that only
    /// some replicas accept: see `docs/BYZANTINE.md`.
    Mac = "mac",
);

/// Times that a clock which was set may have, in seconds since 1970: from 2020 until numbers need a 63rd bit.
const CLOCK_SECONDS: Range<u64> = 1_577_836_800..1 << 32;
/// Resolution of the starts of runs. No run overtakes the clock: it would have to send a billion commands a second.
const TICKS_PER_SECOND: u64 = 1 << 16;

/// A client's origin, and its key if it signs bundles.
///
/// # Runs of one key
///
/// A command is executed at most once for each session and sequence number. A key that is used for one run numbers
/// its commands from 1. A key that is kept draws its first session at random for each run, so that runs at the same
/// time get their own replies, and numbers its commands from [`ClientIdentity::sequence_base`], which is the time.
/// So no command of a run has the number of an earlier one, unless a run begins in the same session as another one
/// and the clock was set back. Then replicas still execute nothing twice: they report that the outcome is unknown
/// or the result forgotten.
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
    /// For authentication by codes.
    codes: Option<ClientCodes>,
}

impl ClientIdentity {
    /// Generates an identity from the operating system's randomness.
    ///
    /// For codes, [`ClientIdentity::with_codes`] adds the keys of a committee.
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

    /// Derives an identity from a seed; anyone who knows the seed can sign as this client.
    pub fn from_seed(cluster: &ClusterId, seed: [u8; SEED_BYTES]) -> ClientIdentity {
        ClientIdentity::of_key(cluster, KeyPair::from_seed(SchemeKind::ED25519, seed), None)
    }

    /// Makes an identity without a key; its bundles are not signed.
    pub fn claimed(origin: ClientId) -> ClientIdentity {
        ClientIdentity { origin, sequence_base: 0, signer: None }
    }

    fn of_key(cluster: &ClusterId, key: KeyPair, certificate: Option<&[u8; SIGNATURE_BYTES]>) -> ClientIdentity {
        let (kind, credential) = match certificate {
            None => (ED25519_AUTHENTICATOR, key.public_key()),
            Some(certificate) => (CERTIFIED_AUTHENTICATOR, [&key.public_key()[..], certificate].concat().into()),
        };
        let origin = ClientId::of_key(&credential);
        let signer = Signer { cluster: *cluster, key, kind, credential, codes: None };
        ClientIdentity { origin, sequence_base: 0, signer: Some(signer) }
    }

    /// Makes the identity of one run of a client that keeps its key.
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

    /// Authenticates bundles to the members of a committee by codes instead of signatures.
    ///
    /// # Errors
    /// [`CryptoError`] if a member's identity key is unusable.
    ///
    /// # Panics
    /// If the identity has no key, or the committee is larger than
    /// [`MAX_CLIENT_CODES`](quorate_types::command::MAX_CLIENT_CODES).
    pub fn with_codes(mut self, scheme: SchemeKind, committee: &Committee) -> Result<ClientIdentity, CryptoError> {
        let signer = self.signer.as_mut().expect("only a client with a key shares secrets with replicas");
        signer.codes = Some(ClientCodes::new(scheme, committee, &signer.key)?);
        Ok(self)
    }

    /// Returns the key, if there is one, and the public key with its certificate, if it has one.
    pub(crate) fn key(&self) -> Option<(&KeyPair, Bytes)> {
        let Signer { key, credential, codes, .. } = self.signer.as_ref()?;
        Some((key, if codes.is_some() { key.public_key() } else { credential.clone() }))
    }

    /// Returns the key, the cluster that its signatures are for, and the public key with its certificate, if it has one.
    pub(crate) fn prover(&self) -> Option<(&KeyPair, &ClusterId, Bytes)> {
        let Signer { key, cluster, credential, .. } = self.signer.as_ref()?;
        Some((key, cluster, credential.clone()))
    }

    /// The first session, to which replies go.
    pub fn origin(&self) -> ClientId {
        self.origin
    }

    /// Returns a session, counted from the first.
    pub fn session(&self, index: u16) -> ClientId {
        self.origin.with_session(self.origin.session().wrapping_add(index))
    }

    /// The number before that of the first command of each session.
    pub fn sequence_base(&self) -> u64 {
        self.sequence_base
    }

    /// Finishes a bundle of commands of this identity's sessions, and signs it if there is a key.
    pub fn finish(&self, builder: BundleBuilder) -> Bundle {
        let Some(Signer { cluster, key, kind, credential, codes }) = &self.signer else { return builder.finish() };
        if let Some(codes) = codes {
            return builder.finish_signed(cluster, codes.kind(), &key.public_key(), |statement| codes.of(statement));
        }
        builder.finish_signed(cluster, *kind, credential, |statement| key.sign(statement))
    }
}

/// Returns the number before that of the first command of a run that begins at a time: a multiple of
/// [`SEQUENCE_STRIDE`], below 2^62.
///
/// # Errors
/// [`CryptoError::Clock`] if the time is not between 2020 and 2105. A clock that stands at 1970 gives every run the same
/// numbers, and one that is far ahead gives numbers that no later run exceeds.
pub fn sequence_base(now: SystemTime) -> Result<u64, CryptoError> {
    let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).ok();
    let valid = since_1970.filter(|time| CLOCK_SECONDS.contains(&time.as_secs()));
    let time = valid.ok_or(CryptoError::Clock(since_1970.map(|time| time.as_secs())))?;
    let fraction = u64::from(time.subsec_nanos()) * TICKS_PER_SECOND / 1_000_000_000;
    Ok((time.as_secs() * TICKS_PER_SECOND + fraction) * SEQUENCE_STRIDE)
}
