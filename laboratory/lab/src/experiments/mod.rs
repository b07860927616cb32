//! Experiments as data: varied keys, results, and verdicts on claims.
//!
//! An experiment is a TOML file ([`mod@file`]). It expands to cells ([`axes`]), one specification each. A runner
//! outside this crate runs each cell several times and turns every run into a [`Row`]. [`claims`] judges the file's
//! claims on the rows, with their uncertainty ([`statistics`]), and [`mod@needs`] names the cells to repeat before the
//! claims can be judged.
//!
//! The module is pure: no sockets, clocks or files.

pub mod axes;
mod check;
pub mod claims;
pub mod figures;
pub mod file;
pub mod names;
pub mod needs;
pub mod row;
mod source;
pub mod statistics;
pub mod value;

pub use axes::{Cell, Coordinate, Plan};
pub use check::read;
pub use claims::{Judgement, judge};
pub use figures::{Figure, Vocabulary};
pub use file::Experiment;
pub use names::{Instrument, Outliers, Profile, Verdict};
pub use needs::{Need, needs};
pub use row::{Row, Surroundings};
pub(crate) use source::{Node, Source, Table};
pub use value::Value;
