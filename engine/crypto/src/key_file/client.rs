//! Client private keys on disk.
//!
//! ```text
//! quorate client key, version 1
//! # Anyone who reads this file can send commands as this client.
//! cluster = 7d0c..., 64 hexadecimal digits
//! public_key = 64 hexadecimal digits
//! secret_key = the 64 hexadecimal digits of the private key of RFC 8032
//! certificate = 128 hexadecimal digits, if the client was certified
//! ```
//!
//! A certifier's file has the same fields except the last, and the first line `quorate certifying key, version 1`.

use super::fields::{Fields, Form, Text};
use super::passphrase::Passphrases;
use super::{KeyFileError, KeyFileFault, file};
use crate::admission::certify;
use crate::client::ClientIdentity;
use crate::ed25519::SIGNATURE_BYTES;
use crate::key_pair::KeyPair;
use crate::scheme::SchemeKind;
use quorate_types::ClusterId;
use quorate_types::digest::{decode_hex, encode_hex};
use std::path::Path;

/// Version of the format.
pub const CLIENT_KEY_FILE_VERSION: &str = "1";

const KEY: [&str; 2] = ["public_key", "secret_key"];
const CERTIFICATE: &str = "certificate";
pub(super) const CLIENT: Form = Form {
    header: "quorate client key, version ",
    version: CLIENT_KEY_FILE_VERSION,
    fields: &["cluster", KEY[0], KEY[1], CERTIFICATE],
};
pub(super) const CERTIFIER: Form = Form {
    header: "quorate certifying key, version ",
    version: CLIENT_KEY_FILE_VERSION,
    fields: &["cluster", KEY[0], KEY[1]],
};

/// Contents of a client's key file.
#[derive(Debug)]
pub struct ClientKeys {
    pub cluster: ClusterId,
    /// An Ed25519 key.
    pub key: KeyPair,
    /// The certifier's signature of the public key, if the client was certified.
    pub certificate: Option<[u8; SIGNATURE_BYTES]>,
}

impl ClientKeys {
    /// Generates a key for a client of one cluster.
    ///
    /// # Errors
    /// [`CryptoError::Randomness`](crate::CryptoError::Randomness) if the system provides none.
    pub fn generate(cluster: ClusterId) -> Result<ClientKeys, crate::CryptoError> {
        Ok(ClientKeys { cluster, key: KeyPair::generate(SchemeKind::ED25519)?, certificate: None })
    }

    /// Adds the certificate of a certifier of the same cluster.
    pub fn certify(&mut self, certifier: &KeyPair) {
        let certificate = certify(certifier, &self.cluster, &self.key.public_key());
        self.certificate = Some(certificate[..].try_into().expect("an Ed25519 signature has 64 bytes"));
    }

    /// Returns the identity of one run of the client.
    ///
    /// # Errors
    /// The errors of [`ClientIdentity::of_run`].
    pub fn identity(self) -> Result<ClientIdentity, crate::CryptoError> {
        ClientIdentity::of_run(&self.cluster, self.key, self.certificate.as_ref())
    }
}

/// Writes a client's key to a new file that only its owner can read (mode 0600), and syncs it.
///
/// # Errors
/// [`KeyFileError`] if the file exists or cannot be written. An incomplete file is removed.
pub fn write(path: &Path, keys: &ClientKeys) -> Result<(), KeyFileError> {
    file::write(path, &render(keys))
}

/// Reads the key of a client of one cluster.
///
/// # Errors
/// [`KeyFileError`] if other users can access the file, it is damaged, it cannot be decrypted, or it
/// belongs to another cluster.
pub fn read(path: &Path, cluster: &ClusterId, passphrases: &Passphrases) -> Result<ClientKeys, KeyFileError> {
    let fail = |fault| KeyFileError::at(path, fault);
    let text = file::read(path, passphrases).map_err(fail)?;
    let keys = parse(&text).map_err(fail)?;
    if keys.cluster != *cluster {
        return Err(fail(KeyFileFault::Cluster { expected: *cluster, found: keys.cluster }));
    }
    Ok(keys)
}

/// Writes the key of a cluster's certifier, like [`write`].
///
/// # Errors
/// The errors of [`write`].
pub fn write_certifier(path: &Path, cluster: &ClusterId, key: &KeyPair) -> Result<(), KeyFileError> {
    let mut text = Text::new(&CERTIFIER, "Anyone who reads this file can admit clients to the cluster.");
    text.put("cluster", &cluster.0.to_hex());
    text.put_key(KEY, key);
    file::write(path, &text)
}

/// Reads the key of a certifier, and its cluster.
///
/// # Errors
/// [`KeyFileError`] if other users can access the file, it is damaged, or it cannot be decrypted.
pub fn read_certifier(path: &Path, passphrases: &Passphrases) -> Result<(ClusterId, KeyPair), KeyFileError> {
    let fail = |fault| KeyFileError::at(path, fault);
    let text = file::read(path, passphrases).map_err(fail)?;
    parse_certifier(&text).map_err(fail)
}

pub(super) fn render(keys: &ClientKeys) -> Text {
    let mut text = Text::new(&CLIENT, "Anyone who reads this file can send commands as this client.");
    text.put("cluster", &keys.cluster.0.to_hex());
    text.put_key(KEY, &keys.key);
    if let Some(certificate) = &keys.certificate {
        text.put(CERTIFICATE, &encode_hex(certificate));
    }
    text
}

pub(super) fn parse(text: &str) -> Result<ClientKeys, KeyFileFault> {
    let fields = Fields::read(text, &CLIENT)?;
    let certificate = fields.optional(CERTIFICATE, "is not 128 hexadecimal digits", |value| {
        <[u8; SIGNATURE_BYTES]>::try_from(decode_hex(value)?).ok()
    })?;
    Ok(ClientKeys { cluster: fields.cluster()?, key: fields.key(SchemeKind::ED25519, KEY)?, certificate })
}

pub(super) fn parse_certifier(text: &str) -> Result<(ClusterId, KeyPair), KeyFileFault> {
    let fields = Fields::read(text, &CERTIFIER)?;
    Ok((fields.cluster()?, fields.key(SchemeKind::ED25519, KEY)?))
}
