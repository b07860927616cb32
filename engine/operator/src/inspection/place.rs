//! A replica's directory.

use super::InspectError;
use quorate_crypto::{Identities, Keyring};
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use quorate_node::initial_state::{self, InitialState};
use quorate_node::snapshots::SnapshotFiles;
use quorate_node::{JournalKind, durability};
use quorate_storage::{Identity, Inspection};
use quorate_types::Committee;
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Configuration of a directory, and the paths of its parts.
pub(crate) struct Place {
    pub home: PathBuf,
    pub config: NodeConfig,
    pub committee: Committee,
    pub identities: Arc<Identities>,
    pub keyring: Keyring,
    pub journal: PathBuf,
    /// State with which the application begins, if not empty.
    pub initial: Option<InitialState>,
}

impl Place {
    pub fn open(home: &Path) -> Result<Place, InspectError> {
        let config = NodeConfig::read(&home.join(CONFIG_FILE))?;
        if config.journal.kind == JournalKind::Memory {
            return Err(InspectError::InMemory(home.to_owned()));
        }
        let committee = config.committee()?;
        let keyring = Keyring::new(config.scheme, &committee)?;
        let journal = home.join(&config.journal.directory);
        let initial = initial_state::load(config.initial_state, home)?;
        // Whether it can be restored.
        initial_state::executor(config.application, initial.clone(), &committee.epoch)?;
        let identities = Arc::new(Identities::new(&committee)?);
        Ok(Place { home: home.to_owned(), config, committee, identities, keyring, journal, initial })
    }

    /// Returns the identity required of the journal.
    pub fn identity(&self) -> Identity {
        Identity { epoch: self.committee.epoch, replica: self.config.replica }
    }

    /// Returns whether the marker file states that the replica has never run.
    pub fn is_marked_new(&self) -> bool {
        durability::new_mark(&self.journal).exists()
    }

    /// Returns the files with application states, by height.
    pub fn snapshots(&self) -> Result<Vec<SnapshotFile>, InspectError> {
        let path = SnapshotFiles::beside(&self.journal, self.identity()).directory().to_owned();
        let fail = |source| InspectError::Snapshots { path: path.clone(), source };
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(fail(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fail)?;
            // A running replica may have removed the file since it was listed.
            let Ok(bytes) = entry.metadata().map(|metadata| metadata.len()) else { continue };
            let name = entry.file_name().to_string_lossy().into_owned();
            let height = name.rsplit('-').next().and_then(|digits| digits.parse().ok());
            found.push(SnapshotFile { file: entry.path().display().to_string(), height, bytes });
        }
        found.sort_by(|one, other| (one.height, &one.file).cmp(&(other.height, &other.file)));
        Ok(found)
    }
}

/// File with an application state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SnapshotFile {
    pub file: String,
    /// Height of the state, taken from the file name; `None` for a file being written.
    pub height: Option<u64>,
    pub bytes: u64,
}

/// Returns the inspection of a missing journal.
pub(super) fn nothing() -> Inspection {
    Inspection { identity: None, segments: Vec::new(), records: 0, torn: None, damage: None, repaired: false }
}
