//! The chained family: one block per view, each carrying the certificate of its predecessor.
//!
//! A protocol differs from the others only by its file in [`rules`]; the [`engine`] does the rest.

pub mod engine;
pub mod message;
pub mod rules;
