//! The chained family: one block per view, each carrying the certificate of its predecessor.
//!
//! Protocols differ only in their files in [`rules`]; the [`engine`] does the rest.

pub mod engine;
pub mod message;
pub mod rules;
