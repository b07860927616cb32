//! Key files of any kind: their contents, and their encryption.

use super::client::{CERTIFIER, CLIENT};
use super::fields::{Fields, Form, Text};
use super::passphrase::Passphrases;
use super::{FORM, IDENTITY, KeyFileError, KeyFileFault, VOTING, age, client, file, render};
use crate::identity::IDENTITY_SCHEME;
use std::path::Path;
use zeroize::Zeroizing;

type Secret = Zeroizing<String>;

/// Public parts of a key file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// `replica`, `signer`, `client` or `certifier`.
    pub kind: &'static str,
    pub is_encrypted: bool,
    /// Names and values of all fields except private keys.
    pub fields: Vec<(&'static str, String)>,
}

/// Returns the public parts of a key file, after checking that its keys are intact.
///
/// # Errors
/// [`KeyFileError`] if other users can access the file, it is damaged, or it cannot be decrypted.
pub fn describe(path: &Path, passphrases: &Passphrases) -> Result<Description, KeyFileError> {
    let fail = |fault| KeyFileError::at(path, fault);
    let bytes = file::read_bytes(path).map_err(fail)?;
    let is_encrypted = age::is_age(&bytes);
    let text = file::text_of(bytes, path, passphrases).map_err(fail)?;
    let (kind, form) = check(&text).map_err(fail)?;
    let fields = Fields::read(&text, form).map_err(fail)?.public();
    Ok(Description { kind, is_encrypted, fields })
}

/// Encrypts a key file in place.
///
/// # Errors
/// [`KeyFileError`] if it is no key file, is encrypted already, has several hard links, or cannot be replaced.
pub fn encrypt(path: &Path, passphrases: &Passphrases) -> Result<(), KeyFileError> {
    let fail = |fault| KeyFileError::at(path, fault);
    let bytes = file::read_to_replace(path).map_err(fail)?;
    if age::is_age(&bytes) {
        return Err(fail(KeyFileFault::AlreadyEncrypted));
    }
    let text = file::text_of(bytes, path, passphrases).map_err(fail)?;
    check(&text).map_err(fail)?;
    let passphrase = passphrases.new_for(path).map_err(|fault| fail(fault.into()))?;
    file::replace(path, &encrypted(&text, &passphrase).map_err(fail)?)
}

/// Decrypts a key file in place.
///
/// # Errors
/// [`KeyFileError`] if it is not encrypted, cannot be decrypted, has several hard links, or cannot be replaced.
pub fn decrypt(path: &Path, passphrases: &Passphrases) -> Result<(), KeyFileError> {
    let fail = |fault| KeyFileError::at(path, fault);
    let bytes = file::read_to_replace(path).map_err(fail)?;
    if !age::is_age(&bytes) {
        return Err(fail(KeyFileFault::NotEncrypted));
    }
    let text = file::text_of(bytes, path, passphrases).map_err(fail)?;
    check(&text).map_err(fail)?;
    file::replace(path, text.as_bytes())
}

/// Adds a certificate to a client's key file in place. An encrypted file stays encrypted.
///
/// # Errors
/// [`KeyFileError`] if it is no client's key file, cannot be decrypted, has several hard links, or cannot be
/// replaced.
pub fn add_certificate(
    path: &Path,
    certify: impl FnOnce(&mut client::ClientKeys) -> Result<(), KeyFileFault>,
    passphrases: &Passphrases,
) -> Result<(), KeyFileError> {
    let fail = |fault| KeyFileError::at(path, fault);
    let (text, passphrase) = opened(path, passphrases).map_err(fail)?;
    let mut keys = client::parse(&text).map_err(fail)?;
    certify(&mut keys).map_err(fail)?;
    let text = client::render(&keys);
    match passphrase {
        Some(passphrase) => file::replace(path, &encrypted(text.as_str(), &passphrase).map_err(fail)?),
        None => file::replace(path, text.as_str().as_bytes()),
    }
}

/// Moves the voting key of a replica's key file to the new file `to`, for a signer. Both files are encrypted if the
/// first was.
///
/// # Errors
/// [`KeyFileError`] if `path` does not have both keys, cannot be decrypted or replaced, or if `to` exists or cannot be
/// written.
pub fn split(path: &Path, to: &Path, passphrases: &Passphrases) -> Result<(), KeyFileError> {
    let fail = |fault| KeyFileError::at(path, fault);
    let (text, passphrase) = opened(path, passphrases).map_err(fail)?;
    let fields = Fields::read(&text, &FORM).map_err(fail)?;
    let scheme = fields.scheme().map_err(fail)?;
    let (cluster, replica) = (fields.cluster().map_err(fail)?, fields.replica().map_err(fail)?);
    let identity = fields.key(IDENTITY_SCHEME, IDENTITY).map_err(fail)?;
    let voting = fields.key(scheme, VOTING).map_err(fail)?;
    let as_bytes = |text: Text| match &passphrase {
        Some(passphrase) => encrypted(text.as_str(), passphrase),
        None => Ok(Zeroizing::new(text.as_str().as_bytes().to_vec())),
    };
    let (kept, moved) = (
        as_bytes(render(&cluster, replica, scheme, Some(&identity), None)).map_err(fail)?,
        as_bytes(render(&cluster, replica, scheme, None, Some(&voting))).map_err(fail)?,
    );
    file::create(to, &moved)?;
    file::replace(path, &kept)
}

/// Returns the text of a file that will be replaced, and the passphrase if the file is encrypted.
fn opened(path: &Path, passphrases: &Passphrases) -> Result<(Secret, Option<Secret>), KeyFileFault> {
    let bytes = file::read_to_replace(path)?;
    if !age::is_age(&bytes) {
        return Ok((file::text_of(bytes, path, passphrases)?, None));
    }
    let passphrase = passphrases.of(path)?;
    Ok((file::decrypted(&bytes, &passphrase)?, Some(passphrase)))
}

fn encrypted(text: &str, passphrase: &str) -> Result<Zeroizing<Vec<u8>>, KeyFileFault> {
    Ok(Zeroizing::new(age::encrypt(text.as_bytes(), passphrase)?))
}

/// Returns the kind of a key file's text, after checking its keys.
fn check(text: &str) -> Result<(&'static str, &'static Form), KeyFileFault> {
    if text.starts_with(CLIENT.header) {
        client::parse(text)?;
        return Ok(("client", &CLIENT));
    }
    if text.starts_with(CERTIFIER.header) {
        client::parse_certifier(text)?;
        return Ok(("certifier", &CERTIFIER));
    }
    let fields = Fields::read(text, &FORM)?;
    let scheme = fields.scheme()?;
    fields.cluster()?;
    // A signer's file has no identity key, and the file of its replica no voting key.
    let (has_identity, has_voting) = (fields.has(IDENTITY[1]), fields.has(VOTING[1]));
    if has_identity || !has_voting {
        fields.key(IDENTITY_SCHEME, IDENTITY)?;
    }
    if has_voting {
        fields.key(scheme, VOTING)?;
    }
    Ok((if has_identity { "replica" } else { "signer" }, &FORM))
}
