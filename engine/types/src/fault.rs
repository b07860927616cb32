//! Errors in text written by a user.

use std::fmt;
use thiserror::Error;

/// An invalid setting, flag or line: its place, the problem and the remedy.
///
/// `P` is the place: text, or a key by which the caller finds the line of a file.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{place}: {what}; help: {help}")]
pub struct Fault<P: fmt::Display = String> {
    /// The flag, key or file at fault.
    pub place: P,
    /// The problem, as a predicate of the place: `is 0`.
    pub what: String,
    /// An instruction, printed after `help:`: `set at least 1`.
    pub help: String,
}

impl<P: fmt::Display> Fault<P> {
    pub fn new(place: impl Into<P>, what: impl Into<String>, help: impl Into<String>) -> Fault<P> {
        Fault { place: place.into(), what: what.into(), help: help.into() }
    }

    /// Moves the fault to a more specific place known to the caller, such as a line of a file.
    pub fn at<Q: fmt::Display>(self, place: impl FnOnce(P) -> Q) -> Fault<Q> {
        Fault { place: place(self.place), what: self.what, help: self.help }
    }
}
