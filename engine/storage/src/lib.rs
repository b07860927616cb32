//! quorate: the journal, in which a replica records its promises before making them.
//!
//! A [`Journal`] takes records in the order of their ids and reports the highest durable id. Appending never blocks: a
//! journal on disk combines the records appended between two calls of [`Journal::commit`] into one write, and completes
//! the writes in order. The host holds back every message until the record on which it depends is durable.
//!
//! | kind | type | survives |
//! |---|---|---|
//! | memory | [`MemoryJournal`] | nothing |
//! | file | [`FileJournal`] over a [`Directory`], with a writer thread | a crash of the process and a loss of power |
//! | simulated | [`FileJournal`] or [`SteppedJournal`] over a [`SimulatedDisk`] | depends on its faults |
//!
//! The file and simulated kinds share their code, which is written against a [`Medium`]; `docs/adr/008-journal.md`
//! describes the layout on disk.

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
pub mod private;
mod reading;
mod repair;
mod scan;
mod simulated;
mod slices;
mod stepped;
mod supply;
mod survey;
mod times;

pub use account::CpuAccount;
pub use descriptors::{are_exhausted, with_descriptor};
pub use directory::{Directory, DirectoryFile};
pub use error::{JournalError, help};
pub use file::FileJournal;
pub use format::{FORMAT as JOURNAL_FORMAT, Identity};
pub use journal::{Journal, Waker};
pub use log::{Cut, Recovery};
pub use medium::{Medium, MediumFile};
pub use memory::{DEFAULT_MEMORY_JOURNAL_BYTES, MemoryJournal};
pub use options::{
    DEFAULT_CAPACITY_BYTES, DEFAULT_SEGMENT_BYTES, DEFAULT_WAITING_BYTES, Flush, Fsync, JournalKind, JournalOptions,
    MIN_SEGMENT_BYTES,
};
pub use reading::{holder, read};
pub use repair::{Inspection, RepairReport, SegmentSummary, inspect, inspect_medium, repair, repair_medium};
pub use simulated::{Faults, SimulatedDisk, SimulatedFile};
pub use stepped::SteppedJournal;
