//! `quorate inspect --check`: checks an export without the cluster. `docs/EXPORT.md` describes the format.

mod forms;
mod reader;

use crate::inspection::InspectError;
use crate::report::Report;
use quorate_client::ClientConfig;
use quorate_types::digest::encode_hex;
use quorate_types::text::escaped;
use reader::Reader;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum length in bytes of the line of a block or a checkpoint: the largest block takes 64 MiB for its bundles in
/// hexadecimal, 128 MiB for its results, and less than 16 MiB for its digests and certificates.
pub const MAX_BLOCK_LINE_BYTES: u64 = 256 << 20;
/// Maximum length of any other line in bytes: 256 members with the largest keys take a third of it.
pub const MAX_LINE_BYTES: u64 = 16 << 20;
/// Beginnings of long lines.
const LONG_LINES: [&[u8]; 2] = [br#"{"line":"block""#, br#"{"line":"checkpoint""#];
/// Number of bytes that decide whether a line may be long.
const HEAD_BYTES: u64 = 20;

/// Summary of a valid export.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Checked {
    pub file: String,
    pub cluster: String,
    /// Hash of the cluster's name, members and protocol, included in every statement of its replicas.
    pub genesis_id: String,
    pub protocol: String,
    /// Authentication of the replicas' votes.
    pub auth_profile: String,
    /// Scheme of the replicas' votes.
    pub scheme: String,
    /// Number of replicas, n.
    pub replicas: usize,
    /// Tolerated Byzantine replicas, f.
    pub faults: usize,
    /// Public handshake keys in hexadecimal, by replica. They sign nothing in an export.
    pub identity_keys: Vec<String>,
    /// Public voting keys in hexadecimal, by replica. They prove the export.
    pub voting_keys: Vec<String>,
    /// Whether the scheme, the keys, n and f were compared with a file trusted by the caller.
    pub keys_compared: bool,
    /// Height above which the last part of the chain begins.
    pub root_height: u64,
    /// Committed height claimed by the replica.
    pub committed_height: u64,
    /// Height up to which the file proves commits.
    pub proven_height: u64,
    pub blocks: u64,
    /// Number of commands in the committed blocks.
    pub commands: u64,
    /// Number of replicas' signatures; an aggregate counts one for each signer.
    pub signatures: u64,
    pub client_signatures: u64,
    /// Number of checkpoints that match the blocks and the history.
    pub checkpoints: u64,
    /// Number of bundles without which blocks were executed, because a quorum signed that they are absent.
    pub voids: u64,
    /// Caveats: checks that were skipped, or that prove less than a reader may assume.
    pub notes: Vec<String>,
}

/// Checks an export, and compares its committee with `trusted`, if given.
///
/// # Errors
/// [`InspectError::Unreadable`] if the file cannot be read, [`InspectError::Unsound`] with the first invalid line.
pub fn check(path: &Path, trusted: Option<&ClientConfig>) -> Result<Checked, InspectError> {
    let unreadable = |source| InspectError::Unreadable { path: path.to_owned(), source };
    check_lines(BufReader::new(File::open(path).map_err(unreadable)?), path, trusted)
}

/// Checks an export read from `file`. Errors name it `path`. A line is read only up to its maximum length.
///
/// # Errors
/// The errors of [`check`].
pub fn check_lines(
    mut file: impl BufRead,
    path: &Path,
    trusted: Option<&ClientConfig>,
) -> Result<Checked, InspectError> {
    let unreadable = |source| InspectError::Unreadable { path: path.to_owned(), source };
    let mut reader: Option<Reader> = None;
    let (mut line, mut number) = (Vec::new(), 0u64);
    loop {
        line.clear();
        number += 1;
        let unsound = |what| InspectError::Unsound { path: path.to_owned(), line: number, what };
        let (bytes, most) = read_line(&mut file, &mut line, reader.is_some()).map_err(unreadable)?;
        if bytes == 0 {
            let done = reader.ok_or_else(|| "the file is empty".to_owned()).and_then(Reader::finish);
            let file = path.display().to_string();
            return done.map(|checked| Checked { file, ..checked }).map_err(unsound);
        }
        if bytes > most {
            return Err(unsound(format!("the line is longer than {most} bytes, so this is not an export")));
        }
        match &mut reader {
            Some(reader) => reader.take(&line).map_err(unsound)?,
            None => reader = Some(Reader::begin(&line, trusted).map_err(unsound)?),
        }
    }
}

/// Reads a line. Returns its length, as far as it was read, and its maximum length. Only lines after the first may be
/// long.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>, may_be_long: bool) -> io::Result<(u64, u64)> {
    let head = file.take(HEAD_BYTES).read_until(b'\n', line)? as u64;
    let is_long = may_be_long && LONG_LINES.iter().any(|start| line.starts_with(start));
    let most = if is_long { MAX_BLOCK_LINE_BYTES } else { MAX_LINE_BYTES };
    let rest = match line.last() {
        None | Some(b'\n') => 0,
        Some(_) => file.take(most + 1 - head).read_until(b'\n', line)? as u64,
    };
    Ok((head + rest, most))
}

impl Checked {
    /// Adds notes on facts that the file alone cannot prove.
    fn note(&mut self) {
        if !self.keys_compared {
            self.notes.push(
                "the keys are those in the file itself: compare them with the cluster's, or pass --keys client.toml"
                    .to_owned(),
            );
        }
        self.notes.extend(of_voids(self.voids));
        if self.proven_height < self.committed_height {
            self.notes.push(format!(
                "only the replica that wrote the file claims that the blocks from height {} on are committed",
                self.proven_height + 1
            ));
        }
    }
}

impl Report for Checked {
    fn to_table(&self) -> String {
        let mut rows = vec![
            ("file", escaped(&self.file).into_owned()),
            (
                "cluster",
                format!(
                    "{}, {} with n={} f={}",
                    escaped(&self.cluster),
                    escaped(&self.protocol),
                    self.replicas,
                    self.faults
                ),
            ),
            ("scheme", self.scheme.clone()),
            ("blocks", format!("{} committed, from height {}", self.blocks, self.root_height + 1)),
            ("commands", self.commands.to_string()),
            ("signatures", format!("{} of replicas, {} of clients", self.signatures, self.client_signatures)),
            ("checkpoints", self.checkpoints.to_string()),
            ("committed", format!("up to height {}", self.committed_height)),
            ("proven", format!("up to height {}", self.proven_height)),
        ];
        rows.extend(self.notes.iter().map(|note| ("note", note.clone())));
        rows.push(("verdict", "sound".to_owned()));
        rows.iter().map(|(name, value)| format!("{name:<13} {value}\n")).collect()
    }
}

/// Returns a note on void bundles, if there are any.
pub(super) fn of_voids(count: u64) -> Option<String> {
    let note = || {
        format!(
            "blocks were executed without {count} of their bundles, which a quorum signed to be absent: more disks \
             were lost than the cluster tolerates, and replies to these commands do not count"
        )
    };
    (count > 0).then(note)
}

/// Returns the first difference between a trusted configuration and the committee of an export.
fn difference(checked: &Checked, trusted: &ClientConfig) -> Option<String> {
    if checked.cluster != trusted.cluster {
        return Some(format!(
            "the export is of cluster {}, but the trusted keys are of {}",
            escaped(&checked.cluster),
            escaped(&trusted.cluster)
        ));
    }
    let settings = [
        ("protocol", &checked.protocol[..], trusted.protocol.name()),
        ("authentication profile", &checked.auth_profile, trusted.auth_profile.name()),
    ];
    if let Some((what, found, expected)) = settings.into_iter().find(|(_, found, expected)| found != expected) {
        let (found, expected) = (escaped(found), escaped(expected));
        return Some(format!("the export is of the {what} {found}, but the trusted file has {expected}"));
    }
    if checked.scheme != trusted.scheme.name() {
        return Some(format!(
            "the export's certificates are signed by the scheme {}, but the trusted keys are for {}",
            checked.scheme, trusted.scheme
        ));
    }
    let keys = checked.identity_keys.iter().zip(&checked.voting_keys);
    for (replica, (member, (identity, voting))) in trusted.members.iter().zip(keys).enumerate() {
        for (role, key, expected) in
            [("voting", voting, &member.voting_key), ("identity", identity, &member.identity_key)]
        {
            if *key != encode_hex(expected) {
                return Some(format!(
                    "replica {replica} has the {role} key {key}, which differs from the trusted file"
                ));
            }
        }
    }
    let faults = trusted.faults.unwrap_or((trusted.members.len().max(1) - 1) / 3);
    let same = (checked.replicas, checked.faults) == (trusted.members.len(), faults);
    (!same).then(|| {
        format!(
            "the export has n={} f={}, but the trusted file has n={} f={faults}",
            checked.replicas,
            checked.faults,
            trusted.members.len()
        )
    })
}
