//! Runs experiment files cell by cell, keeps the rows, and judges, compares and exports them.
//!
//! [`catalogue`] finds the experiments named on the command line. [`run`] runs their cells, one repetition after
//! another (`course`), each in a process of its own (`cells`, [`call`], `process`), here or on other hosts
//! (`elsewhere`), and keeps every row in a directory ([`store`]), which several processes may share (`claim`).
//! [`slurm`] and [`kubernetes`] start such processes, and [`merge`] adds the rows of another directory. [`missing`] lists
//! the runs that a directory lacks. [`report`] judges its rows, [`compare`] compares two directories, [`export`] writes
//! rows as tables, [`bibtex`] the entries that cite a run, and [`artefact`] makes a directory fit to publish. [`turns`]
//! compares two builds, [`callgrind`] counts the [`instructions`] of simulations, and [`peer`] measures other systems.

pub mod artefact;
pub mod backend;
pub mod bibtex;
pub mod call;
pub mod callgrind;
pub mod catalogue;
mod cells;
mod claim;
pub mod compare;
mod course;
mod elsewhere;
mod error;
pub mod export;
pub mod figures;
mod flags;
mod formulas;
pub mod here;
pub mod instructions;
pub mod judged;
pub mod kubernetes;
pub mod merge;
pub mod missing;
mod options;
pub mod page;
pub mod peer;
mod process;
mod progress;
pub mod reference;
pub mod report;
pub mod run;
mod scenarios;
pub mod slurm;
pub mod store;
pub mod turns;
pub mod until;

pub use catalogue::Source;
pub use error::RunnerError;
pub use here::Here;
pub use judged::{Judged, Left};
pub use options::Run;
pub use progress::{Observer, Step};
pub use store::Store;
