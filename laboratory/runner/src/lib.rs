//! Runs experiment files cell by cell, keeps the rows, and judges, compares and exports them.
//!
//! [`catalogue`] finds the experiments named on the command line. [`run`] runs their cells, one repetition after
//! another, each in a process of its own ([`call`], `process`), and keeps every row in a directory ([`store`]).
//! [`report`] judges the rows of a directory, [`compare`] compares two directories, [`export`] writes rows as
//! tables, [`bibtex`] the entries that cite a run, and [`artefact`] makes a directory fit to publish.

pub mod artefact;
pub mod bibtex;
pub mod call;
pub mod catalogue;
pub mod compare;
mod error;
pub mod export;
pub mod figures;
mod flags;
mod formulas;
pub mod here;
pub mod judged;
pub mod page;
mod process;
pub mod reference;
pub mod report;
pub mod run;
mod scenarios;
pub mod store;

pub use catalogue::Source;
pub use error::RunnerError;
pub use here::Here;
pub use judged::Judged;
pub use run::{Observer, Run, Step};
pub use store::Store;
