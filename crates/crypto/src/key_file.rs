//! Private keys on disk.
//!
//! A key file is text that names its version, scheme, cluster and replica. Another replica's file is refused, naming
//! its owner:
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
//! voting_secret_key = hexadecimal digits as the scheme has it; for Ed25519 as above
//! ```
//!
//! The last two lines are missing in the scheme `none`. The public keys are there to detect damage, and for the
//! committee's configuration.
//!
//! Version 1 had a single key for handshakes and votes. It is refused: all configurations of a cluster list both keys
//! of every member, so a replica cannot migrate alone.

use crate::identity::{IDENTITY_SCHEME, ReplicaKeys};
use crate::key_pair::KeyPair;
use crate::scheme::{SEED_BYTES, SchemeKind};
use quorate_types::digest::{decode_hex, encode_hex};
use quorate_types::{ClusterId, Digest, ReplicaId};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// Maximum length of a key file; [`write()`] writes less than 800 bytes for Ed25519.
pub const MAX_KEY_FILE_BYTES: usize = 4096;
/// Version of the format.
pub const KEY_FILE_VERSION: &str = "2";

const HEADER: &str = "quorate private key, version ";
/// Names of the public and the private key of each role.
const IDENTITY: [&str; 2] = ["identity_public_key", "identity_secret_key"];
const VOTING: [&str; 2] = ["voting_public_key", "voting_secret_key"];
const FIELDS: [&str; 7] = ["scheme", "cluster", "replica", IDENTITY[0], IDENTITY[1], VOTING[0], VOTING[1]];

/// A key file cannot be written or used.
#[derive(Debug, Error)]
#[error("private key file {}: {fault}", path.display())]
pub struct KeyFileError {
    pub path: PathBuf,
    pub fault: KeyFileFault,
}

/// Defect of a key file.
#[derive(Debug, Error)]
pub enum KeyFileFault {
    /// Overwriting it would lose its keys.
    #[error("it exists already; help: move it away if its keys are no longer needed")]
    Exists,
    /// The operation that failed, and the cause.
    #[error("cannot {0} it: {1}; help: restore it from a backup, or give this user the right to read it")]
    Io(&'static str, #[source] io::Error),
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
        "its first line is not {:?}, so it is not a key file; help: restore it from a backup, or correct `key_file`",
        format!("{HEADER}{KEY_FILE_VERSION}")
    )]
    NotAKeyFile,
    #[error(
        "it has version {0:?}, and this program reads version {KEY_FILE_VERSION}; help: {help}",
        help = version_help(.0)
    )]
    Version(String),
    /// Lines count from 1. The error does not repeat the line, which may contain the secret.
    #[error("line {line} {why}; help: restore the key file from a backup")]
    Line { line: usize, why: &'static str },
    #[error("the field {0:?} is missing; help: restore the key file from a backup")]
    Missing(&'static str),
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

fn version_help(version: &str) -> &'static str {
    match version {
        "1" => "handshakes and votes have separate keys now, so make a new cluster with `quorate testnet`",
        _ => "use the program that wrote it",
    }
}

/// Writes a replica's private keys to a new file that only its owner can read (mode 0600), and syncs it.
///
/// # Errors
/// [`KeyFileError`] if the file exists or cannot be written. An incomplete file is removed.
pub fn write(path: &Path, cluster: &ClusterId, replica: ReplicaId, keys: &ReplicaKeys) -> Result<(), KeyFileError> {
    let fail = |fault| KeyFileError { path: path.to_owned(), fault };
    let text = render(cluster, replica, keys);
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(fail(KeyFileFault::Exists)),
        Err(error) => return Err(fail(KeyFileFault::Io("create", error))),
    };
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| sync_directory(path));
    written.map_err(|error| {
        let _ = fs::remove_file(path);
        fail(KeyFileFault::Io("write", error))
    })
}

/// Reads the private keys of one replica of one cluster.
///
/// # Errors
/// [`KeyFileError`] if other users can access the file, it is damaged, or it belongs to another scheme, cluster or
/// replica.
pub fn read(
    path: &Path,
    kind: SchemeKind,
    cluster: &ClusterId,
    replica: ReplicaId,
) -> Result<ReplicaKeys, KeyFileError> {
    let fail = |fault| KeyFileError { path: path.to_owned(), fault };
    let text = read_private(path).map_err(fail)?;
    parse(&text, kind, cluster, replica).map_err(fail)
}

fn render(cluster: &ClusterId, replica: ReplicaId, keys: &ReplicaKeys) -> Zeroizing<String> {
    // Never grows, so no copy of the secrets stays behind in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_FILE_BYTES));
    text.push_str(HEADER);
    text.push_str(KEY_FILE_VERSION);
    text.push_str("\n# Anyone who reads this file can sign as this replica.\n");
    let mut put = |field: &str, value: &str| {
        for part in [field, " = ", value, "\n"] {
            text.push_str(part);
        }
    };
    put("scheme", keys.voting.kind().name());
    put("cluster", &cluster.0.to_hex());
    put("replica", &replica.to_string());
    for ([public, secret], key) in [(IDENTITY, &keys.identity), (VOTING, &keys.voting)] {
        let encoded = key.encode();
        if !encoded.is_empty() {
            put(public, &encode_hex(&key.public_key()));
            put(secret, &Zeroizing::new(encode_hex(&encoded)));
        }
    }
    text
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

fn read_private(path: &Path) -> Result<Zeroizing<String>, KeyFileFault> {
    // Checked first, because opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(|error| KeyFileFault::Io("open", error))?.is_file() {
        return Err(KeyFileFault::NotAFile);
    }
    let file = File::open(path).map_err(|error| KeyFileFault::Io("open", error))?;
    let mode = file.metadata().map_err(|error| KeyFileFault::Io("inspect", error))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileFault::Open { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_FILE_BYTES + 64));
    file.take(MAX_KEY_FILE_BYTES as u64 + 1).read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => KeyFileFault::NotAKeyFile,
        _ => KeyFileFault::Io("read", error),
    })?;
    if text.len() > MAX_KEY_FILE_BYTES {
        return Err(KeyFileFault::TooLong);
    }
    Ok(text)
}

/// The line and value of each field, in the order of [`FIELDS`].
struct Fields<'a>([Option<(usize, &'a str)>; FIELDS.len()]);

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Result<Fields<'a>, KeyFileFault> {
        let mut lines = text.lines().map(str::trim_end).enumerate();
        let version =
            lines.next().and_then(|(_, first)| first.strip_prefix(HEADER)).ok_or(KeyFileFault::NotAKeyFile)?;
        if version != KEY_FILE_VERSION {
            return Err(KeyFileFault::Version(version.to_owned()));
        }
        let mut fields = Fields([None; FIELDS.len()]);
        for (at, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
            let wrong = |why| KeyFileFault::Line { line: at + 1, why };
            let (name, value) = text.split_once('=').ok_or_else(|| wrong("is not of the form `name = value`"))?;
            let field = FIELDS.iter().position(|field| *field == name.trim());
            let field = field.ok_or_else(|| wrong("has an unknown field"))?;
            if fields.0[field].replace((at + 1, value.trim())).is_some() {
                return Err(wrong("repeats a field"));
            }
        }
        Ok(fields)
    }

    fn get<T>(
        &self,
        name: &'static str,
        why: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, KeyFileFault> {
        let at = FIELDS.iter().position(|field| *field == name).expect("a field of the list");
        let (line, value) = self.0[at].ok_or(KeyFileFault::Missing(name))?;
        parse(value).ok_or(KeyFileFault::Line { line, why })
    }

    /// The key pair of a role.
    fn key(&self, kind: SchemeKind, names: [&'static str; 2]) -> Result<KeyPair, KeyFileFault> {
        if kind.profile().public_key_bytes == 0 {
            return Ok(KeyPair::from_seed(kind, [0; SEED_BYTES]));
        }
        let public_key = self.get(names[0], "is not hexadecimal", decode_hex)?;
        let key = self.get(names[1], "is not a private key of its scheme in hexadecimal digits", |value| {
            KeyPair::decode(kind, &Zeroizing::new(decode_hex(value)?))
        })?;
        if key.public_key() != public_key {
            return Err(KeyFileFault::Damaged(names));
        }
        Ok(key)
    }
}

fn parse(text: &str, kind: SchemeKind, cluster: &ClusterId, replica: ReplicaId) -> Result<ReplicaKeys, KeyFileFault> {
    let fields = Fields::read(text)?;
    // The expected scheme may be one that is not in the list.
    let named = |value: &str| if value == kind.name() { Some(kind) } else { value.parse().ok() };
    let scheme = fields.get("scheme", "names no signature scheme", named)?;
    let found = ClusterId(fields.get("cluster", "is not 64 hexadecimal digits", Digest::from_hex)?);
    let owner = ReplicaId(fields.get("replica", "is not a replica id", |value| value.parse().ok())?);
    if found != *cluster {
        return Err(KeyFileFault::Cluster { expected: *cluster, found });
    }
    if owner != replica {
        return Err(KeyFileFault::Replica { expected: replica, found: owner });
    }
    if scheme != kind {
        return Err(KeyFileFault::Scheme { expected: kind, found: scheme });
    }
    Ok(ReplicaKeys { identity: fields.key(IDENTITY_SCHEME, IDENTITY)?, voting: fields.key(kind, VOTING)? })
}
