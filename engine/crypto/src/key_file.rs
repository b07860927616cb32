//! Private keys on disk.
//!
//! A key file is a text file that states its version, scheme, cluster and replica. Another replica's file is refused
//! with an error that names its owner:
//!
//! ```text
//! quorate private key, version 2
//! # Anyone who reads this file can sign as this replica.
//! scheme = ed25519
//! cluster = 7d0c..., 64 hexadecimal digits
//! replica = 3
//! identity_public_key = 64 hexadecimal digits
//! identity_secret_key = the 64 hexadecimal digits of the private key of RFC 8032
//! voting_public_key = hexadecimal digits, 64 for Ed25519
//! voting_secret_key = hexadecimal digits in the scheme's encoding; for Ed25519 as above
//! ```
//!
//! The last two lines are missing in the scheme `none`, and if a signer holds the voting key. The signer's file lacks
//! the two lines before them instead. The public keys serve to detect damage, and for copying to the committee's
//! configuration.
//!
//! Version 1 had a single key for handshakes and votes. It is refused: all configurations of a cluster list both keys
//! of every member, so a replica cannot migrate alone.
//!
//! The text may also be a systemd credential or the output of a command: see [`KeySource`].
//!
//! For client key files see [`client`]. Every key file may be encrypted with a passphrase: see [`vault`].

mod access;
mod age;
pub mod client;
mod command;
mod credential;
mod fields;
mod file;
pub mod passphrase;
pub mod vault;

use crate::error::CryptoError;
use crate::identity::{IDENTITY_SCHEME, ReplicaKeys};
use crate::key_pair::KeyPair;
use crate::scheme::SchemeKind;
pub use access::is_open_to_others;
pub use age::AgeFault;
pub use command::{CommandFault, SecretCommand};
pub use credential::{CREDENTIAL_PREFIX, CredentialFault, located};
use fields::{Fields, Form, Text};
use passphrase::{PassphraseFault, Passphrases};
use quorate_types::{ClusterId, ReplicaId};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Maximum length of a key file in bytes; [`write()`] writes fewer than 800 for Ed25519.
pub const MAX_KEY_FILE_BYTES: usize = 4096;
/// Version of the format.
pub const KEY_FILE_VERSION: &str = "2";

/// Field names of the public and the private key of each role.
const IDENTITY: [&str; 2] = ["identity_public_key", "identity_secret_key"];
const VOTING: [&str; 2] = ["voting_public_key", "voting_secret_key"];
const FORM: Form = Form {
    header: "quorate private key, version ",
    version: KEY_FILE_VERSION,
    fields: &["scheme", "cluster", "replica", IDENTITY[0], IDENTITY[1], VOTING[0], VOTING[1]],
};

/// Source of a replica's private keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySource {
    /// A file that only its owner can read, or `credential:NAME`.
    File(PathBuf),
    /// A command that writes the text of a key file.
    Command(SecretCommand),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::File(path) => write!(f, "private key file {}", path.display()),
            KeySource::Command(command) => write!(f, "private key of `{}` ({})", command.key, command.program()),
        }
    }
}

/// Reason why a key file cannot be written or used.
#[derive(Debug, Error)]
#[error("{place}: {fault}")]
pub struct KeyFileError {
    /// The [`KeySource`], in words.
    pub place: String,
    pub fault: KeyFileFault,
}

impl KeyFileError {
    fn at(path: &Path, fault: KeyFileFault) -> KeyFileError {
        KeyFileError { place: KeySource::File(path.to_owned()).to_string(), fault }
    }

    /// Returns whether the named file is at fault, rather than the disk or the system.
    pub fn is_wrong_call(&self) -> bool {
        match &self.fault {
            KeyFileFault::Io(_, error) => quorate_types::files::is_named_wrongly(error),
            KeyFileFault::System(_) => false,
            // It may reach its service later.
            KeyFileFault::Command(fault) => matches!(fault, CommandFault::Start(_) | CommandFault::TooLong(_)),
            KeyFileFault::Passphrase(PassphraseFault::Command { fault, .. }) => {
                matches!(fault, CommandFault::Start(_) | CommandFault::TooLong(_))
            }
            _ => true,
        }
    }
}

/// Defect of a key file.
#[derive(Debug, Error)]
pub enum KeyFileFault {
    /// Overwriting it would lose its keys.
    #[error("it exists already; help: move it away if its keys are no longer needed")]
    Exists,
    #[error(transparent)]
    Credential(#[from] CredentialFault),
    #[error(transparent)]
    Command(#[from] CommandFault),
    /// The failed operation, and the cause.
    #[error("cannot {0} it: {1}; help: {help}", help = help_with(.0, .1))]
    Io(&'static str, #[source] io::Error),
    /// Only one of its names would be replaced, and the others would keep the old content.
    #[error("it has {0} names (hard links), and only one would change; help: remove the others, or copy the file")]
    HardLinks(u64),
    #[error("it is not a regular file; help: restore it from a backup, or correct `key_file`")]
    NotAFile,
    #[error("other users can access it (mode {mode:03o}); help: `chmod 600 {}`", path.display())]
    Open { path: PathBuf, mode: u32 },
    #[error(
        "it is longer than {MAX_KEY_FILE_BYTES} bytes, so it is not a key file; help: restore it from a backup, or \
         correct `key_file`"
    )]
    TooLong,
    #[error(
        "its first line is not {0:?}, so it is not a key file of this kind; help: restore it from a backup, or correct \
         `key_file`"
    )]
    NotAKeyFile(String),
    #[error("it has version {found:?}, and this program reads version {expected}; help: {help}")]
    Version { found: String, expected: &'static str, help: &'static str },
    /// Lines count from 1. The error does not quote the line, which may contain the secret.
    #[error("line {line} {why}; help: restore the key file from a backup")]
    Line { line: usize, why: &'static str },
    #[error("the field {0:?} is missing; help: restore the key file from a backup")]
    Missing(&'static str),
    #[error("it is not text, so it is not a key file; help: restore it from a backup, or correct `key_file`")]
    NotText,
    #[error(
        "it has no voting key, which a signer may have; help: set `socket` in [signer], or restore the file that has \
         both keys from a backup"
    )]
    NoVotingKey,
    #[error(
        "it has the voting key, which only the signer should have; help: `signer init` moves it to the signer's \
         directory; if it did, remove the lines `voting_public_key` and `voting_secret_key` here"
    )]
    HasVotingKey,
    #[error("it is encrypted already; help: decrypt it first to change the passphrase")]
    AlreadyEncrypted,
    #[error("it is not encrypted")]
    NotEncrypted,
    #[error(transparent)]
    Encryption(#[from] AgeFault),
    #[error("it is encrypted, and {0}")]
    Passphrase(#[from] PassphraseFault),
    /// The system provides no randomness or memory.
    #[error(transparent)]
    System(#[from] CryptoError),
    /// A public key in the file does not belong to the private key.
    #[error(
        "its {public} does not belong to its {secret}; help: restore it from a backup",
        public = .0[0],
        secret = .0[1]
    )]
    Damaged([&'static str; 2]),
    #[error("it holds a key for the scheme {found}, not for {expected}; help: correct `scheme` or `key_file`")]
    Scheme { expected: SchemeKind, found: SchemeKind },
    #[error("it belongs to the cluster {}, not to {}; help: correct `cluster` or `key_file`", found.0, expected.0)]
    Cluster { expected: ClusterId, found: ClusterId },
    #[error("it belongs to replica {found}, not to replica {expected}; help: restore this directory's own key file")]
    Replica { expected: ReplicaId, found: ReplicaId },
}

/// Returns advice about a failed operation on a key file.
fn help_with(operation: &str, error: &io::Error) -> &'static str {
    match (operation, error.kind()) {
        (_, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => "make room on its disk",
        ("create", io::ErrorKind::NotFound) => "create its directory first",
        ("open", io::ErrorKind::NotFound) => "name a key file, or restore it from a backup",
        ("create" | "write" | "replace", _) => "give this user the right to write in its directory",
        _ => "restore it from a backup, or give this user the right to read it",
    }
}

/// Writes a replica's private keys to a new file that only its owner can read (mode 0600), and syncs it.
///
/// # Errors
/// [`KeyFileError`] if the file exists or cannot be written. An incomplete file is removed.
pub fn write(path: &Path, cluster: &ClusterId, replica: ReplicaId, keys: &ReplicaKeys) -> Result<(), KeyFileError> {
    let ReplicaKeys { identity, voting } = keys;
    file::write(path, &render(cluster, replica, voting.kind(), Some(identity), Some(voting)))
}

/// Reads the private keys of one replica of one cluster.
///
/// # Errors
/// [`KeyFileError`] if other users can access the file, it is damaged, it cannot be decrypted, or it belongs to another
/// scheme, cluster or replica.
pub fn read(
    path: &Path,
    kind: SchemeKind,
    cluster: &ClusterId,
    replica: ReplicaId,
    passphrases: &Passphrases,
) -> Result<ReplicaKeys, KeyFileError> {
    read_from(&KeySource::File(path.to_owned()), kind, cluster, replica, passphrases)
}

/// Does the same with the text of any source.
///
/// # Errors
/// The errors of [`read`], and an error if a command fails.
pub fn read_from(
    source: &KeySource,
    kind: SchemeKind,
    cluster: &ClusterId,
    replica: ReplicaId,
    passphrases: &Passphrases,
) -> Result<ReplicaKeys, KeyFileError> {
    parse(source, kind, cluster, replica, passphrases, |fields| {
        if kind.profile().public_key_bytes > 0 && !fields.has(VOTING[0]) && !fields.has(VOTING[1]) {
            return Err(KeyFileFault::NoVotingKey);
        }
        Ok(ReplicaKeys { identity: fields.key(IDENTITY_SCHEME, IDENTITY)?, voting: fields.key(kind, VOTING)? })
    })
}

/// Reads the private identity key of a replica whose voting key is in a signer.
///
/// # Errors
/// The errors of [`read_from`], and an error if the text also has the voting key.
pub fn read_identity(
    source: &KeySource,
    kind: SchemeKind,
    cluster: &ClusterId,
    replica: ReplicaId,
    passphrases: &Passphrases,
) -> Result<KeyPair, KeyFileError> {
    parse(source, kind, cluster, replica, passphrases, |fields| match fields.has(VOTING[1]) {
        true => Err(KeyFileFault::HasVotingKey),
        false => fields.key(IDENTITY_SCHEME, IDENTITY),
    })
}

/// Reads a replica's private voting key, for its signer.
///
/// # Errors
/// The errors of [`read_from`].
pub fn read_voting(
    source: &KeySource,
    kind: SchemeKind,
    cluster: &ClusterId,
    replica: ReplicaId,
    passphrases: &Passphrases,
) -> Result<KeyPair, KeyFileError> {
    parse(source, kind, cluster, replica, passphrases, |fields| fields.key(kind, VOTING))
}

/// Renders the keys that a file has: both, or one if a signer has the other.
fn render(
    cluster: &ClusterId,
    replica: ReplicaId,
    scheme: SchemeKind,
    identity: Option<&KeyPair>,
    voting: Option<&KeyPair>,
) -> Text {
    let mut text = Text::new(
        &FORM,
        match (identity, voting) {
            (Some(_), None) => "Anyone who reads this file can connect as this replica. Its signer has the voting key.",
            (None, Some(_)) => "Anyone who reads this file can vote as this replica.",
            _ => "Anyone who reads this file can sign as this replica.",
        },
    );
    text.put("scheme", scheme.name());
    text.put("cluster", &cluster.0.to_hex());
    text.put("replica", &replica.to_string());
    for (names, key) in [(IDENTITY, identity), (VOTING, voting)] {
        key.into_iter().for_each(|key| text.put_key(names, key));
    }
    text
}

/// Reads the text of one replica of one cluster, and takes keys from it.
fn parse<T>(
    source: &KeySource,
    kind: SchemeKind,
    cluster: &ClusterId,
    replica: ReplicaId,
    passphrases: &Passphrases,
    take: impl FnOnce(&Fields<'_>) -> Result<T, KeyFileFault>,
) -> Result<T, KeyFileError> {
    let fail = |fault| KeyFileError { place: source.to_string(), fault };
    let text = match source {
        KeySource::File(path) => file::read(path, passphrases),
        KeySource::Command(command) => file::read_from(command, passphrases),
    };
    let text = text.map_err(fail)?;
    let fields = checked(&text, kind, cluster, replica).map_err(fail)?;
    take(&fields).map_err(fail)
}

fn checked<'a>(
    text: &'a str,
    kind: SchemeKind,
    cluster: &ClusterId,
    replica: ReplicaId,
) -> Result<Fields<'a>, KeyFileFault> {
    let fields = Fields::read(text, &FORM)?;
    // The expected scheme may be an unlisted one.
    let named = |value: &str| if value == kind.name() { Some(kind) } else { value.parse().ok() };
    let scheme = fields.get("scheme", "names no signature scheme", named)?;
    let found = fields.cluster()?;
    let owner = fields.replica()?;
    if found != *cluster {
        return Err(KeyFileFault::Cluster { expected: *cluster, found });
    }
    if owner != replica {
        return Err(KeyFileFault::Replica { expected: replica, found: owner });
    }
    if scheme != kind {
        return Err(KeyFileFault::Scheme { expected: kind, found: scheme });
    }
    Ok(fields)
}
