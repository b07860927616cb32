//! What every replicated application is.

use bytes::Bytes;
use quorate_types::{Command, DecodeError, Digest};
use thiserror::Error;

/// Most bytes that an application may answer one command with.
pub const MAX_RESULT_BYTES: usize = 2 << 20;

/// An application's state at some moment: gives its canonical form when it is called, on whatever thread, and until then is not changed
/// by what the application executes meanwhile.
pub type Frozen = Box<dyn FnOnce() -> Bytes + Send>;

/// A deterministic state machine: equal sequences of commands give equal states and equal results on every machine.
///
/// Nothing but the commands may enter the state: no clock, no randomness, no order of a hash table.
pub trait Application: Send {
    /// The name by which a configuration and a snapshot speak of it.
    fn name(&self) -> &'static str;

    /// Executes a command and appends its result, at most [`MAX_RESULT_BYTES`], to `result`, which is empty. A command that makes
    /// no sense to the application has a result that says so.
    fn execute(&mut self, command: &Command<'_>, result: &mut Vec<u8>);

    /// Told after the commands of a bundle, those of them that were fresh, have been executed.
    fn bundle_executed(&mut self, _bundle: &Digest) {}

    /// Answers from the state as it is, without ordering.
    fn query(&self, question: &[u8]) -> Vec<u8>;

    /// The whole state as it is now, held fast for another thread to bring into canonical form: equal states give equal bytes. It should
    /// take no time that grows with the state, since the application executes nothing meanwhile.
    fn freeze(&mut self) -> Frozen;

    /// The whole state in canonical form.
    fn snapshot(&mut self) -> Bytes {
        self.freeze()()
    }

    /// About how many bytes that has, without looking at all of it. Equal states give equal numbers: all replicas decide by it whether a
    /// snapshot is worth its cost.
    fn snapshot_bytes(&self) -> usize;

    /// Becomes the state of a snapshot. On an error nothing has changed, whatever the bytes were.
    fn restore(&mut self, snapshot: Bytes) -> Result<(), RestoreError>;
}

/// Why a snapshot was not taken over.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RestoreError {
    /// The bytes are not a snapshot, or not one that this code could have written.
    #[error("the snapshot is damaged or forged ({0}); fetch it again from another replica")]
    Damaged(#[from] DecodeError),
    /// It is another application's.
    #[error(
        "the snapshot holds the state of application {found:?}, and this replica runs {expected:?}; configure the same one"
    )]
    OtherApplication {
        /// What runs here.
        expected: &'static str,
        /// What the snapshot names.
        found: String,
    },
    /// It is another cluster's.
    #[error("the snapshot belongs to another cluster; fetch it from a replica of this one")]
    OtherCluster,
}
