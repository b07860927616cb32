//! Experiments as data: what is varied, what came of it, and whether the claims about it hold.
//!
//! An experiment is a TOML file ([`mod@file`]). It expands to cells ([`axes`]), one specification each. A runner, which
//! is not in this crate, runs each cell several times and turns every run into a [`Row`]. [`claims`] judges the claims
//! of the file on the rows, with their uncertainty ([`statistics`]), and [`mod@needs`] names the cells that have to be
//! repeated before the claims can be judged.
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
pub use value::Value;
