//! quorate: the journal, where a replica remembers what it has bound itself to before it says so.
//!
//! A [`Journal`] takes records in the order of their ids and reports, by an id, up to where they are durable. Appending never
//! waits: a kind that writes to a disk gathers what was appended between two calls of [`Journal::commit`] into one write, and
//! completes the writes in order. The host holds back every message that depends on a record until that record is reported.
//!
//! | kind | type | outlives |
//! |---|---|---|
//! | memory | [`MemoryJournal`] | nothing |
//! | file | [`FileJournal`] over a [`Directory`], with a thread that writes | process and power |
//! | simulated | [`FileJournal`] or [`SteppedJournal`] over a [`SimulatedDisk`] | whatever its faults leave |
//!
//! The file and simulated kinds are one and the same code over a [`Medium`]; the layout on disk is described in
//! `docs/adr/008-journal.md`.

pub mod account;
mod descriptors;
mod directory;
mod error;
mod file;
mod format;
mod journal;
mod log;
mod medium;
mod memory;
mod options;
mod reading;
mod repair;
mod scan;
mod simulated;
mod slices;
mod stepped;
mod supply;
mod survey;

pub use account::CpuAccount;
pub use descriptors::{are_exhausted, with_descriptor};
pub use directory::{Directory, DirectoryFile};
pub use error::{JournalError, mend};
pub use file::FileJournal;
pub use journal::{Journal, Waker};
pub use log::{Cut, Recovery};
pub use medium::{Medium, MediumFile};
pub use memory::{DEFAULT_MEMORY_JOURNAL_BYTES, MemoryJournal};
pub use options::{
    DEFAULT_CAPACITY_BYTES, DEFAULT_SEGMENT_BYTES, DEFAULT_WAITING_BYTES, Flush, Fsync, Identity, JournalOptions,
    MIN_SEGMENT_BYTES,
};
pub use reading::{holder, read};
pub use repair::{Inspection, RepairReport, SegmentSummary, inspect, inspect_medium, repair, repair_medium};
pub use simulated::{Faults, SimulatedDisk, SimulatedFile};
pub use stepped::SteppedJournal;
