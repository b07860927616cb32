//! Replicated applications, and the executor of agreed blocks: it executes each command at most once, in the agreed
//! order.
//!
//! An [`Application`] is a deterministic state machine. An [`Executor`] wraps one: it remembers each client's executed
//! commands in a [`session`], collects the results, and keeps a rolling digest of the [`history`] for comparing
//! replicas.

pub mod application;
pub mod checkpoint;
pub mod context;
pub mod executor;
pub mod footprint;
pub mod frozen;
pub mod history;
pub mod key_value;
pub mod kind;
pub mod levels;
pub mod log;
pub mod panics;
pub mod parallel;
pub mod session;

pub use application::{Application, Frozen, MAX_RESULT_BYTES, RestoreError};
pub use checkpoint::{Checkpoint, CheckpointRule, CheckpointTask};
pub use context::BlockContext;
pub use executor::{Executor, Reply};
pub use footprint::{Changes, Footprint, Rest, Touched};
pub use frozen::FrozenState;
pub use history::{Divergence, compare_histories};
pub use key_value::{KeyValue, KeyValueCommand, KeyValueResult};
pub use kind::{ApplicationKind, Factory, NameError};
pub use levels::{ExecutionError, LevelFault, Levels, UnsupportedLevel};
pub use log::Log;
pub use panics::{ApplicationPanic, Call};
pub use parallel::{MAX_EXECUTION_THREADS, Parallelism};
