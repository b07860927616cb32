//! The state with which a cluster begins, if it continues the application of another cluster.
//!
//! `quorate snapshot restore` writes the state to a file in each replica's directory, and the digest of that file to
//! the configurations. A replica needs the file until its first certified state, and after each loss of its disk before
//! that.
//!
//! ```text
//! offset  0  "qInit001"     8
//!         8  genesis       32   of the cluster that the state is from
//!        40  height         8   of the state in that cluster, little-endian
//!        48  length         4   of the application's name, and the name
//!            length         4   of the application's state, and the state
//! ```
//!
//! A state at a feature level above 0 begins with "qInit002", and has the level, in 2 bytes, after its height.

use bytes::Bytes;
use quorate_applications::{Application, ApplicationKind, Executor, RestoreError};
use quorate_storage::{private, with_descriptor};
use quorate_types::state::MAX_STATE_BYTES;
use quorate_types::{DecodeError, Decoder, Digest, Encoder, EpochId, FeatureLevel, Height, Manifest, Wire};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Name of the file, in the directory of a replica's configuration.
pub const INITIAL_STATE_FILE: &str = "initial.state";

const MAGIC: &[u8; 8] = b"qInit001";
const MAGIC_WITH_LEVEL: &[u8; 8] = b"qInit002";
const MAX_NAME_BYTES: usize = 64;

/// State with which an application begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitialState {
    /// The cluster that the state is from.
    pub genesis: EpochId,
    /// Its height in that cluster.
    pub height: Height,
    /// Feature level of the state, at which the new cluster begins.
    pub level: FeatureLevel,
    /// Name of the application.
    pub application: String,
    /// The application's own state, without clients' sessions.
    pub state: Bytes,
}

/// Reason why an initial state cannot be used.
#[derive(Debug, Error)]
pub enum InitialStateError {
    #[error("cannot read {path}: {source}; help: copy it from another replica of this cluster")]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{path} is not the initial state of this cluster: its digest is {found}, and `initial_state` is {expected}; \
         help: copy it from another replica"
    )]
    Other { path: PathBuf, found: Digest, expected: Digest },
    #[error("the initial state has another format: {0}; help: restore the snapshot with this version")]
    Format(#[from] DecodeError),
    #[error("the initial state is of the application {found}, and `application` is {expected}; help: set {found}")]
    OtherApplication { found: String, expected: &'static str },
    #[error("the initial state cannot be restored: {0}")]
    Restore(#[from] RestoreError),
}

impl InitialState {
    /// Returns the content of the file.
    ///
    /// # Panics
    /// If it would exceed [`MAX_STATE_BYTES`].
    pub fn encode(&self) -> Bytes {
        let mut out = Encoder::with_capacity(self.state.len() + 128);
        let has_level = self.level > FeatureLevel(0);
        out.put_slice(if has_level { MAGIC_WITH_LEVEL } else { MAGIC });
        self.genesis.0.encode(&mut out);
        self.height.encode(&mut out);
        if has_level {
            self.level.encode(&mut out);
        }
        out.put_bytes(self.application.as_bytes());
        out.put_bytes(&self.state);
        let bytes = out.finish();
        assert!(bytes.len() <= MAX_STATE_BYTES, "a state has at most {MAX_STATE_BYTES} bytes");
        bytes
    }

    /// Decodes the content of the file.
    ///
    /// # Errors
    /// If it is not exactly one initial state.
    pub fn decode(bytes: Bytes) -> Result<InitialState, DecodeError> {
        let mut input = Decoder::new(bytes);
        let has_level = match &input.get_array::<8>("magic bytes")? {
            MAGIC => false,
            MAGIC_WITH_LEVEL => true,
            _ => return Err(input.invalid("initial state", "it does not begin as one")),
        };
        let genesis = EpochId(Digest::decode(&mut input)?);
        let height = Height::decode(&mut input)?;
        let level = if has_level { FeatureLevel::decode(&mut input)? } else { FeatureLevel(0) };
        let application = input.get_text("name of an application", MAX_NAME_BYTES)?;
        let state = input.get_bytes("state of an application", u32::MAX as usize)?;
        input.finish("end of the initial state")?;
        Ok(InitialState { genesis, height, level, application, state })
    }
}

/// Returns the digest of the content of a file, for configurations.
pub fn digest(content: &[u8]) -> Digest {
    match content.len() {
        1..=MAX_STATE_BYTES => Manifest::of(content).digest(),
        _ => Digest::ZERO,
    }
}

/// Reads the initial state with the digest that a configuration names from `home`, its directory. `None` if it names
/// none.
///
/// # Errors
/// If the file is missing, or is another.
pub fn load(named: Option<Digest>, home: &Path) -> Result<Option<InitialState>, InitialStateError> {
    let Some(expected) = named else { return Ok(None) };
    let path = home.join(INITIAL_STATE_FILE);
    let mut content = Vec::new();
    let read = with_descriptor(|| private::open_regular(&path)).and_then(|mut file| file.read_to_end(&mut content));
    read.map_err(|source| InitialStateError::Read { path: path.clone(), source })?;
    let found = digest(&content);
    if found != expected {
        return Err(InitialStateError::Other { path, found, expected });
    }
    Ok(Some(InitialState::decode(content.into())?))
}

/// Returns an executor of an application in its initial state: empty without one, and at feature level 0.
///
/// # Errors
/// If the state is another application's, unusable, or at a level that the application does not support.
pub fn executor(
    kind: ApplicationKind,
    initial: Option<InitialState>,
    epoch: &EpochId,
) -> Result<Executor, InitialStateError> {
    let level = initial.as_ref().map_or(FeatureLevel(0), |initial| initial.level);
    let executor = Executor::new(application(kind, initial)?, epoch).beginning_at(level);
    executor.check_level().map_err(RestoreError::from)?;
    Ok(executor)
}

fn application(
    kind: ApplicationKind,
    initial: Option<InitialState>,
) -> Result<Box<dyn Application>, InitialStateError> {
    let mut application = kind.make();
    if let Some(initial) = initial {
        if initial.application != kind.name() {
            return Err(InitialStateError::OtherApplication { found: initial.application, expected: kind.name() });
        }
        application.restore(initial.state)?;
    }
    Ok(application)
}
