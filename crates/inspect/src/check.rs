//! `quorate inspect --check`: an export, checked without the cluster. What is read here is what `docs/EXPORT.md` describes.

mod forms;
mod reader;

use crate::InspectError;
use quorate_client::ClientConfig;
use quorate_types::digest::encode_hex;
use reader::Reader;
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line of an export, in bytes: a block with its bundles in hexadecimal and their results fit many times over.
pub const MAX_LINE_BYTES: u64 = 1 << 30;

/// What a sound export comes to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Checked {
    /// The file.
    pub file: String,
    /// The cluster's name.
    pub cluster: String,
    /// The cluster's id, which every signature covers.
    pub cluster_id: String,
    /// The protocol.
    pub protocol: String,
    /// n.
    pub replicas: usize,
    /// f.
    pub faults: usize,
    /// The replicas' public keys of handshakes, in hexadecimal, in the order of their ids. Nothing in an export is signed with them.
    pub identity_keys: Vec<String>,
    /// The replicas' public keys of votes, which prove the export.
    pub voting_keys: Vec<String>,
    /// Whether the keys, n and f are those of a file that the caller trusts.
    pub keys_compared: bool,
    /// The height above which the last part of the chain begins.
    pub root_height: u64,
    /// The height up to which the replica said that all is committed.
    pub committed_height: u64,
    /// The height up to which the file proves it.
    pub proven_height: u64,
    /// Committed blocks.
    pub blocks: u64,
    /// Commands in them.
    pub commands: u64,
    /// Replicas' signatures that are genuine.
    pub signatures: u64,
    /// Clients' signatures that are genuine.
    pub client_signatures: u64,
    /// Checkpoints that are of these blocks and of this history.
    pub checkpoints: u64,
    /// What was not checked, or not as a reader may think.
    pub notes: Vec<String>,
}

/// Checks an export, and that its committee is the one of `trusted`, if there is one.
///
/// # Errors
/// [`InspectError::Unreadable`] if the file cannot be read, [`InspectError::Unsound`] with the first line that is not as it has to be.
pub fn check(path: &Path, trusted: Option<&ClientConfig>) -> Result<Checked, InspectError> {
    let unreadable = |source| InspectError::Unreadable { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut reader: Option<Reader> = None;
    let (mut line, mut number) = (Vec::new(), 0u64);
    loop {
        line.clear();
        number += 1;
        let unsound = |what| InspectError::Unsound { path: path.to_owned(), line: number, what };
        let bytes = (&mut file).take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line).map_err(unreadable)?;
        if bytes == 0 {
            let done = reader.ok_or_else(|| "the file is empty".to_owned()).and_then(Reader::finish);
            let file = path.display().to_string();
            return done.map(|checked| Checked { file, ..checked }).map_err(unsound);
        }
        if bytes as u64 > MAX_LINE_BYTES {
            return Err(unsound(format!("the line is longer than {MAX_LINE_BYTES} bytes: this is no export")));
        }
        match &mut reader {
            Some(reader) => reader.take(&line).map_err(unsound)?,
            None => reader = Some(Reader::begin(&line, trusted).map_err(unsound)?),
        }
    }
}

impl Checked {
    /// What was found, for people.
    pub fn to_table(&self) -> String {
        let mut rows = vec![
            ("file", self.file.clone()),
            ("cluster", format!("{}, {} with n={} f={}", self.cluster, self.protocol, self.replicas, self.faults)),
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

    /// The JSON of `--json`: indented, a line feed at the end.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a result is plain data") + "\n"
    }

    /// Notes of what nobody can check by the file alone.
    fn note(&mut self) {
        if !self.keys_compared {
            self.notes.push(
                "the replicas' keys are those that the file itself names: compare them with the cluster's, or give --keys client.toml"
                    .to_owned(),
            );
        }
        if self.proven_height < self.committed_height {
            self.notes.push(format!(
                "that the blocks from height {} on are committed is the word of the replica that wrote the file",
                self.proven_height + 1
            ));
        }
    }
}

/// The first thing in which a trusted configuration differs from what an export says of its committee.
fn difference(checked: &Checked, trusted: &ClientConfig) -> Option<String> {
    if checked.cluster != trusted.cluster {
        return Some(format!("the export is of the cluster {}, and the keys of {}", checked.cluster, trusted.cluster));
    }
    let keys = checked.identity_keys.iter().zip(&checked.voting_keys);
    for (replica, (member, (identity, voting))) in trusted.members.iter().zip(keys).enumerate() {
        for (role, key, expected) in
            [("voting", voting, &member.voting_key), ("identity", identity, &member.identity_key)]
        {
            if *key != encode_hex(expected) {
                return Some(format!(
                    "replica {replica} has the {role} key {key}, which is not that of the trusted file"
                ));
            }
        }
    }
    let faults = trusted.faults.unwrap_or((trusted.members.len().max(1) - 1) / 3);
    let same = (checked.replicas, checked.faults) == (trusted.members.len(), faults);
    (!same).then(|| {
        format!(
            "the export has n={} f={}, and the trusted file n={} f={faults}",
            checked.replicas,
            checked.faults,
            trusted.members.len()
        )
    })
}
