//! Recording of a replica's inputs, if configured.

use crate::config_file::{ConfigFault, Place};
use crate::error::NodeError;
use crate::observer::{NodeEvent, Observer};
use quorate_hosting::recording::{DEFAULT_LIMIT_MB, Header, MAX_LIMIT_MB, Recorder, Writer};
use quorate_types::ReplicaId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The table `[recording]` of a configuration: records the replica's inputs and outputs in a file for `quorate replay`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordingConfig {
    /// File of the recording. If it exists, the new recording goes to the same name with `.1`, `.2` and so on appended.
    pub file: PathBuf,
    /// Maximum size of the recording in MB; then the recording ends and the replica continues.
    #[schemars(range(min = 1, max = MAX_LIMIT_MB))]
    #[serde(default = "default_limit_mb")]
    pub limit_mb: u64,
}

fn default_limit_mb() -> u64 {
    DEFAULT_LIMIT_MB
}

impl RecordingConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigFault> {
        match self.file.as_os_str().is_empty() {
            true => {
                let help = "name a file, or remove the table".into();
                Err(ConfigFault { place: Place::in_table("recording", "file"), what: "is empty".into(), help })
            }
            false => Ok(()),
        }
    }
}

/// Starts the recording, if it is configured for `replica`.
pub(crate) fn begin(
    config: Option<&RecordingConfig>,
    replica: ReplicaId,
    header: &Header,
    salt: u64,
    observer: &mut dyn Observer,
) -> Result<Option<Recorder>, NodeError> {
    let Some(recording) = config else { return Ok(None) };
    let writer = Writer::create(&recording.file, header, recording.limit_mb * 1_000_000)?;
    observer.observe(replica, NodeEvent::Recording(writer.path().to_owned()));
    let mut recorder = Recorder::new(writer);
    recorder.begin(replica, salt);
    Ok(Some(recorder))
}
