//! The interface of replicated applications.

use crate::context::BlockContext;
use crate::footprint::{Changes, Footprint, Rest};
use crate::levels::UnsupportedLevel;
use crate::panics::ApplicationPanic;
use bytes::Bytes;
use quorate_types::{Command, DecodeError, Digest, FeatureLevel};
use thiserror::Error;

/// Maximum size of the result of one command, in bytes.
pub const MAX_RESULT_BYTES: usize = 2 << 20;

/// Frozen state of an application: returns the state's canonical form when called, on any thread. Commands executed in
/// the meantime do not change it.
pub type Frozen = Box<dyn FnOnce() -> Bytes + Send>;

/// A deterministic state machine: equal sequences of commands produce equal states and equal results on every machine.
///
/// The state depends only on the commands and the [`BlockContext`], not on a clock, other randomness or the order of a
/// hash table.
pub trait Application: Send + Sync {
    /// Returns the name used in configurations and snapshots.
    fn name(&self) -> &'static str;

    /// Returns the highest feature level that this program supports. Commands see the level of their block in
    /// [`BlockContext::level`], which operators raise once all replicas support a higher one. At most
    /// [`MAX_APPLICATION_LEVEL`](quorate_types::level::MAX_APPLICATION_LEVEL).
    fn supported_level(&self) -> FeatureLevel {
        FeatureLevel(0)
    }

    /// Executes a command of a block and appends its result, at most [`MAX_RESULT_BYTES`], to `result`, which is empty.
    /// The result of an invalid command states that it is invalid.
    fn execute(&mut self, block: &BlockContext, command: &Command<'_>, result: &mut Vec<u8>);

    /// Declares what a command may read and write, at least everything that [`Application::execute`] accesses. By
    /// default everything, so that nothing is prepared concurrently.
    fn footprint<'a>(&self, _command: &Command<'a>) -> Footprint<'a> {
        Footprint::everything()
    }

    /// Computes the result of a command, at most [`MAX_RESULT_BYTES`], into `result`, which is empty, and returns the
    /// command's writes. Runs on any thread, while other commands are prepared, and reads only keys in its footprint.
    /// `None`: the command has to be executed as a whole, and `result` is ignored. Required for each command whose
    /// effect or result depends on the block.
    fn prepare(&self, _command: &Command<'_>, _result: &mut Vec<u8>) -> Option<Rest> {
        None
    }

    /// Performs the writes returned by [`Application::prepare`]. Together they have the effect and the result of
    /// [`Application::execute`]. Nothing that the command reads has changed in between.
    fn apply(&mut self, _changes: Changes) {
        unreachable!("an application that prepares changes applies them");
    }

    /// Called after the fresh commands of a bundle were executed. Must not change anything that
    /// [`Application::prepare`] reads, since commands of later bundles may already be prepared.
    fn bundle_executed(&mut self, _bundle: &Digest) {}

    /// Answers a query from the current state, without ordering, and changes nothing. It gets no time: an application
    /// whose answers depend on the time keeps the time of the last block in its state. If it panics, the client gets an
    /// error and the replica continues; a panic in any other function stops the replica.
    fn query(&self, question: &[u8]) -> Vec<u8>;

    /// Freezes the whole state, so that another thread can encode it: equal states have equal encodings. Should take
    /// constant time, because the application executes nothing during the call.
    fn freeze(&mut self) -> Frozen;

    /// Returns the whole state in canonical form.
    fn snapshot(&mut self) -> Bytes {
        self.freeze()()
    }

    /// Estimates the size of a snapshot without encoding it. Equal states give equal estimates, because all replicas
    /// decide by them whether a snapshot is worth its cost.
    fn snapshot_bytes(&self) -> usize;

    /// Replaces the state by a snapshot's. On an error nothing changes. Never panics on invalid bytes.
    fn restore(&mut self, snapshot: Bytes) -> Result<(), RestoreError>;
}

/// Reason why a snapshot was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RestoreError {
    #[error("the snapshot is damaged or forged ({0}); help: fetch it again from another replica")]
    Damaged(#[from] DecodeError),
    #[error(
        "the snapshot holds the state of application {found:?}, this replica runs {expected:?}; \
         help: configure the same application"
    )]
    OtherApplication { expected: &'static str, found: String },
    #[error("the snapshot belongs to another cluster; help: fetch it from a replica of this one")]
    OtherCluster,
    #[error(transparent)]
    UnsupportedLevel(#[from] UnsupportedLevel),
    #[error(transparent)]
    Panicked(#[from] Box<ApplicationPanic>),
}
