//! Who a client is, and how its bundles show that they are its own.

use crate::error::CryptoError;
use crate::key_pair::KeyPair;
use crate::scheme::{SEED_BYTES, SchemeKind};
use quorate_types::{Bundle, BundleBuilder, ClientId, ClusterId, choice};

/// Kind of the authenticators of Ed25519 keys and signatures on the wire: see [`quorate_types::command::AUTHENTICATORS`].
pub const ED25519_AUTHENTICATOR: u8 = 1;

choice!(
    /// Whether a client's bundles have to show that they are its own.
    #[derive(Default)]
    ClientAuthentication, "client authentication",
    /// Anybody may speak for any client. For measurements only, where the cost of signing is to be told apart.
    None = "none",
    /// A client is the hash of its Ed25519 public key, and signs each bundle.
    #[default]
    Ed25519 = "ed25519",
);

/// A client's origin, and what shows that bundles are of it.
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
    /// A new identity from the operating system's randomness, which nobody else has.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`] if there is none to be had.
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

    /// The identity that a seed stands for; whoever knows the seed has it.
    pub fn from_seed(cluster: &ClusterId, seed: [u8; SEED_BYTES]) -> ClientIdentity {
        ClientIdentity::of_key(cluster, KeyPair::from_seed(SchemeKind::ED25519, seed))
    }

    /// An origin that is only claimed: its bundles have no authenticator.
    pub fn claimed(origin: ClientId) -> ClientIdentity {
        ClientIdentity { origin, signer: None }
    }

    fn of_key(cluster: &ClusterId, key: KeyPair) -> ClientIdentity {
        ClientIdentity { origin: ClientId::of_key(&key.public_key()), signer: Some(Signer { cluster: *cluster, key }) }
    }

    /// Its first session, to which replies go.
    pub fn origin(&self) -> ClientId {
        self.origin
    }

    /// The bundle of these commands, which must be of this identity's sessions, signed if it has a key.
    pub fn finish(&self, builder: BundleBuilder) -> Bundle {
        let Some(Signer { cluster, key }) = &self.signer else { return builder.finish() };
        builder.finish_signed(cluster, ED25519_AUTHENTICATOR, &key.public_key(), |statement| key.sign(statement))
    }
}
