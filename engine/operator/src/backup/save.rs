//! Saving of a snapshot from the directory of a replica, which may be running.

use super::BackupError;
use super::file::{BackedBlock, Backup, Base};
use super::verify::{Trusted, Verified, verify};
use crate::inspection::capture::{Capture, capture};
use crate::inspection::collector;
use bytes::Bytes;
use quorate_applications::{ApplicationKind, KeyValueCommand};
use quorate_client::{CLIENT_CONFIG_FILE, Client, ClientConfig};
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use quorate_node::initial_state::INITIAL_STATE_FILE;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time for a replica to write a certified checkpoint, in addition to the time of the commands themselves.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before the directory is read again.
const PAUSE: Duration = Duration::from_millis(500);
/// Commands more than a checkpoint needs: their blocks carry the checkpoint's certificate to the journal.
const SPARE_COMMANDS: u64 = 8;

/// A snapshot that was written.
pub struct Saved {
    pub verified: Verified,
    pub bytes: u64,
    /// Committed blocks that the replica has and the snapshot lacks, because no checkpoint certifies them yet.
    pub left_out: u64,
}

/// Writes the last certified state that is in a replica's directory to the file `out`. With the directory of a
/// `client.toml` it includes everything that was acknowledged before.
///
/// # Errors
/// If the directory has none, or the file cannot be written.
pub fn save(dir: &Path, client: Option<&Path>, out: &Path) -> Result<Saved, BackupError> {
    let config = NodeConfig::read(&dir.join(CONFIG_FILE)).map_err(quorate_node::NodeError::from)?;
    let trusted = Trusted::of_replica(&config)?;
    let capture = match client {
        None => capture(dir, None)?,
        Some(client) => up_to_now(dir, client, &config)?,
    };
    let committed = capture.verification.committed_height;
    let backup = backup_of(capture)?;
    let verified = verify(&backup, &trusted)?;
    let bytes = backup.write(out)?;
    Ok(Saved { left_out: committed.saturating_sub(verified.height.0), verified, bytes })
}

fn backup_of(capture: Capture) -> Result<Backup, BackupError> {
    let Capture { place, verification, base, blocks, proof, .. } = capture;
    if !verification.sound {
        return Err(BackupError::Unsound(verification.verdict()));
    }
    let base = match (base, &place.initial) {
        (collector::Base::State { certificate, state }, _) => Base::State { certificate, state },
        (collector::Base::Unproven(height), _) => return Err(BackupError::OwnState(height)),
        (collector::Base::Initial, _) if proof.is_none() => {
            return Err(BackupError::NothingCertified(verification.committed_height));
        }
        (collector::Base::Initial, None) => Base::Empty,
        (collector::Base::Initial, Some(_)) => {
            let path = place.home.join(INITIAL_STATE_FILE);
            let content = fs::read(&path).map_err(|source| BackupError::Read { path, source })?;
            Base::Initial(content.into())
        }
    };
    let backed = |(block, bundles): (std::sync::Arc<quorate_types::Block>, _)| BackedBlock {
        block: block.without_proof(),
        bundles,
    };
    Ok(Backup {
        genesis: place.committee.epoch,
        application: place.config.application.name().to_owned(),
        base,
        blocks: blocks.into_iter().map(backed).collect(),
        proof,
    })
}

/// Orders reads of a key that does not exist until a certified checkpoint includes the first of them, and so everything
/// that was acknowledged before.
fn up_to_now(dir: &Path, client: &Path, config: &NodeConfig) -> Result<Capture, BackupError> {
    if config.application != ApplicationKind::KEY_VALUE {
        return Err(BackupError::NoHarmlessCommand(config.application.name()));
    }
    let path = client.join(CLIENT_CONFIG_FILE);
    let of_client = ClientConfig::load(&path)?;
    let (own, theirs) = (config.committee()?.epoch, of_client.committee()?.epoch);
    if own != theirs {
        return Err(BackupError::OtherCluster { found: own.0, expected: theirs.0 });
    }
    let mut client = Client::connect(&of_client)?;
    let interval = config.consensus.checkpoint_interval;
    let mut round = 0;
    let mut deadline = None;
    loop {
        let mark = mark(round);
        round += 1;
        for _ in 0..interval + SPARE_COMMANDS {
            client.execute(&mark)?;
        }
        let deadline = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
        // The replica may lag behind those that answered.
        for _ in 0..3 {
            let capture = capture(dir, Some(mark.clone()))?;
            let proven = capture.proof.as_ref().map(|(certificate, _)| certificate.subject.height);
            if !capture.verification.sound || capture.marked.is_some_and(|marked| Some(marked) <= proven) {
                return Ok(capture);
            }
            std::thread::sleep(PAUSE);
        }
        if Instant::now() >= deadline {
            return Err(BackupError::NotUpToNow(PATIENCE));
        }
    }
}

/// Returns a command that no other client sends.
fn mark(round: u32) -> Bytes {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let key = format!("quorate-snapshot/{}-{now}-{round}", std::process::id());
    KeyValueCommand::Get { key: key.as_bytes() }.to_vec().into()
}
