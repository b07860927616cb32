//! A signer from its directory: a copy of its replica's `config.toml`, the voting key, and the record.

use crate::config::{CONFIG_FILE, NodeConfig};
use crate::config_file::{ConfigFault, Place};
use crate::durability;
use crate::error::{HostError, NodeError};
use crate::interrupt;
use crate::signer::judge::{Floor, is_vote};
use crate::signer::protocol::Unsigned;
use crate::signer::{Entry, Record, Signer, SignerError, SignerEvent, listen, serve};
use bytes::Bytes;
use quorate_consensus::recovery::journal::{FORGOTTEN, Record as JournalRecord};
use quorate_crypto::key_file::passphrase::Passphrases;
use quorate_crypto::key_file::{self, vault};
use quorate_crypto::{CryptoError, KeyPair, KeyRole};
use quorate_storage::{Identity, JournalError, holder, private, read};
use quorate_types::{Attachment, Decoder, View, Wire};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

/// Name of the file of the voting key in a signer's directory.
pub const VOTING_KEY_FILE: &str = "voting.key";
/// Name of the record in a signer's directory.
pub const RECORD_DIRECTORY: &str = "record";
/// Default name of the socket in a signer's directory.
pub const SOCKET_FILE: &str = "socket";

/// Runs the signer of a directory until it fails, or until a signal requests a stop if the process
/// [handles](crate::interrupt::install) signals.
///
/// # Errors
/// [`NodeError`] if the configuration, the key or the record is unusable, or it cannot listen.
pub fn run_signer(directory: &Path, tell: impl Fn(SignerEvent) + Send + Sync + 'static) -> Result<(), NodeError> {
    let config = NodeConfig::read(&directory.join(CONFIG_FILE))?;
    let Some(socket) = &config.signer.socket else { return Err(no_socket().into()) };
    let committee = config.committee()?;
    let (epoch, replica) = (committee.epoch, config.replica);
    let (source, passphrases) = (config.key_source(directory), config.passphrases(directory));
    let key = key_file::read_voting(&source, config.scheme, &committee.cluster, replica, &passphrases)?;
    check_key(&config, &key)?;
    let by_slot = config.consensus.protocol.has_slots();
    let record = Record::open(&directory.join(RECORD_DIRECTORY), Identity { epoch, replica }, by_slot)?;
    let listener = listen(&directory.join(socket))?;
    let (end, stop) = mpsc::channel();
    let stopped = end.clone();
    let _until_the_end = interrupt::when_requested(move || drop(stopped.send(Ok(()))));
    Ok(serve(listener, Signer { epoch, replica, key, record }, &(Arc::new(tell) as _), (end, &stop))?)
}

fn no_socket() -> ConfigFault {
    ConfigFault {
        place: Place::in_table("signer", "socket"),
        what: "is missing".to_owned(),
        help: "name the socket on which the signer listens, the same as its replica".to_owned(),
    }
}

fn check_key(config: &NodeConfig, key: &KeyPair) -> Result<(), CryptoError> {
    let listed = &config.members[config.replica.index()].voting_key;
    if key.public_key() == listed {
        return Ok(());
    }
    let hex = quorate_types::digest::encode_hex;
    let (expected, found) = (hex(listed), hex(&key.public_key()));
    Err(CryptoError::KeyMismatch { replica: config.replica, role: KeyRole::Voting, expected, found })
}

/// Makes a signer for a replica that is stopped: moves the voting key out of the replica's key file, and records all
/// promises in the replica's journal. Returns the socket, which the replica's configuration must name.
///
/// # Errors
/// [`NodeError`] if the replica's configuration rules out a signer, the replica runs or has lost its journal, the key
/// is not in a file, or the new directory cannot be written.
pub fn init_signer(
    directory: &Path,
    replica: &Path,
    socket: Option<PathBuf>,
    passphrases: &Passphrases,
) -> Result<PathBuf, NodeError> {
    let mut config = NodeConfig::read(&replica.join(CONFIG_FILE))?;
    if directory.join(CONFIG_FILE).exists() {
        return Err(NodeError::NotEmpty(directory.to_owned()));
    }
    let place = |source| NodeError::Place { path: directory.to_owned(), source };
    private::create_directories(directory).map_err(place)?;
    let socket = socket.unwrap_or_else(|| SOCKET_FILE.into());
    let socket = std::path::absolute(directory.join(socket)).map_err(place)?;
    let key_file = replica.join(&config.key_file);
    config.key_file = VOTING_KEY_FILE.into();
    config.key_command = None;
    config.signer.socket = Some(socket.clone());
    config.validate()?;
    let committee = config.committee()?;
    let identity = Identity { epoch: committee.epoch, replica: config.replica };
    let entries = promises(&replica.join(&config.journal.directory), &config)?;
    Record::create(&directory.join(RECORD_DIRECTORY), identity, &entries)?;
    // The key last: without it, the directory can be removed and made again.
    let path = directory.join(CONFIG_FILE);
    private::write(&path, config.to_toml().as_bytes()).map_err(|source| NodeError::Write { path, source })?;
    vault::split(&key_file, &directory.join(VOTING_KEY_FILE), passphrases)?;
    Ok(socket)
}

/// Makes the record of a signer anew from the journal of its replica, which is stopped. The old record is kept under
/// another name, which is returned.
///
/// # Errors
/// [`NodeError`] if the replica runs or has lost its journal, or the record cannot be written.
pub fn rebuild_signer(directory: &Path, replica: &Path) -> Result<Option<PathBuf>, NodeError> {
    let config = NodeConfig::read(&directory.join(CONFIG_FILE))?;
    let of_replica = NodeConfig::read(&replica.join(CONFIG_FILE))?;
    let committee = config.committee()?;
    let identity = Identity { epoch: committee.epoch, replica: config.replica };
    let entries = promises(&replica.join(&of_replica.journal.directory), &config)?;
    let record = directory.join(RECORD_DIRECTORY);
    if let Some(process) = holder(&record) {
        let (directory, holder) = (record.display().to_string(), format!("process {process}"));
        return Err(SignerError::InUse { directory, holder }.into());
    }
    let old = record.exists().then(|| free_name(&record));
    if let Some(old) = &old {
        fs::rename(&record, old).map_err(|source| NodeError::Write { path: old.clone(), source })?;
    }
    Record::create(&record, identity, &entries)?;
    Ok(old)
}

fn free_name(record: &Path) -> PathBuf {
    let names = (1..).map(|number| record.with_file_name(format!("{RECORD_DIRECTORY}.old-{number}")));
    names.into_iter().find(|name| !name.exists()).expect("some number is free")
}

/// Returns the promises in a replica's journal, as entries of a record.
fn promises(journal: &Path, config: &NodeConfig) -> Result<Vec<Entry>, NodeError> {
    let failed = |source| NodeError::Journal { replica: config.replica, source };
    if let Some(process) = holder(journal) {
        let (directory, holder) = (journal.display().to_string(), format!("process {process}"));
        return Err(failed(JournalError::Locked { directory, holder }));
    }
    if !journal.exists() && durability::new_mark(journal).exists() {
        return Ok(Vec::new());
    }
    let by_slot = config.consensus.protocol.has_slots();
    let begin = || Promises { by_slot, entries: Vec::new(), abstains: None, unreadable: None };
    let (promises, found) = read(journal, begin, |promises, id, bytes| promises.take(id, bytes)).map_err(failed)?;
    if let Some(damage) = found.damage {
        return Err(failed(damage));
    }
    if let Some((id, why)) = promises.unreadable {
        return Err(NodeError::Host { replica: config.replica, source: HostError::Unreadable { id, why } });
    }
    if found.records == 0 || found.repaired || promises.abstains == Some(FORGOTTEN) {
        return Err(SignerError::Forgetful(journal.to_owned()).into());
    }
    let floor = Floor { view: promises.abstains.unwrap_or_default(), ..Floor::default() };
    Ok(promises.entries.into_iter().chain([Entry::Floor(floor)]).collect())
}

/// Promises read so far.
struct Promises {
    by_slot: bool,
    entries: Vec<Entry>,
    /// Last view in which the replica abstains.
    abstains: Option<View>,
    /// The first record that cannot be decoded, and why.
    unreadable: Option<(u64, String)>,
}

impl Promises {
    fn take(&mut self, id: u64, bytes: &[u8]) {
        match JournalRecord::decode(&mut Decoder::new(Bytes::copy_from_slice(bytes))) {
            Ok(JournalRecord::Promise(promise)) => {
                // The proof that accompanies a vote on a slot is recorded with it, but not signed.
                let attachment = match self.by_slot && is_vote(promise.subject.domain) {
                    true => &Attachment::None,
                    false => &promise.attachment,
                };
                self.entries.push(Entry::Signed(Unsigned::of(promise.subject, attachment)));
            }
            Ok(JournalRecord::Abstain(view)) => self.abstains = Some(view),
            Ok(_) => {}
            Err(why) => self.unreadable = self.unreadable.take().or(Some((id, why.to_string()))),
        }
    }
}
