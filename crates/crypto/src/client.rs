//! Clients' identities, and how their bundles are authenticated.

use crate::error::CryptoError;
use crate::key_pair::KeyPair;
use crate::scheme::{SEED_BYTES, SchemeKind};
use quorate_types::{Bundle, BundleBuilder, ClientId, ClusterId, choice};

/// Kind of the authenticators of Ed25519 keys and signatures on the wire: see
/// [`quorate_types::command::AUTHENTICATORS`].
pub const ED25519_AUTHENTICATOR: u8 = 1;

choice!(
    /// Authentication required of clients' bundles.
    #[derive(Default)]
    ClientAuthentication, "client authentication",
    /// None: anyone can submit bundles in any client's name. For measurements of the cost of signing only.
    None = "none",
    /// A client is the hash of its Ed25519 public key, and signs each bundle.
    #[default]
    Ed25519 = "ed25519",
);

/// A client's origin, and its key if it signs bundles.
#[derive(Debug)]
pub struct ClientIdentity {
    origin: ClientId,
    signer: Option<Signer>,
}

#[derive(Debug)]
struct Signer {
    cluster: ClusterId,
    key: KeyPair,
}

impl ClientIdentity {
    /// Generates an identity from the operating system's randomness.
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
            ClientAuthentication::Ed25519 => {
                Ok(ClientIdentity::of_key(cluster, KeyPair::generate(SchemeKind::ED25519)?))
            }
        }
    }

    /// Derives an identity from a seed; anyone who knows the seed can sign as this client.
    pub fn from_seed(cluster: &ClusterId, seed: [u8; SEED_BYTES]) -> ClientIdentity {
        ClientIdentity::of_key(cluster, KeyPair::from_seed(SchemeKind::ED25519, seed))
    }

    /// Makes an identity without a key; its bundles are not signed.
    pub fn claimed(origin: ClientId) -> ClientIdentity {
        ClientIdentity { origin, signer: None }
    }

    fn of_key(cluster: &ClusterId, key: KeyPair) -> ClientIdentity {
        ClientIdentity { origin: ClientId::of_key(&key.public_key()), signer: Some(Signer { cluster: *cluster, key }) }
    }

    /// The first session, to which replies go.
    pub fn origin(&self) -> ClientId {
        self.origin
    }

    /// Finishes a bundle of commands of this identity's sessions, and signs it if there is a key.
    pub fn finish(&self, builder: BundleBuilder) -> Bundle {
        let Some(Signer { cluster, key }) = &self.signer else { return builder.finish() };
        builder.finish_signed(cluster, ED25519_AUTHENTICATOR, &key.public_key(), |statement| key.sign(statement))
    }
}
