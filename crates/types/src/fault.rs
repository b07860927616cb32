//! What is wrong with something that a user wrote.

use std::fmt;
use thiserror::Error;

/// A setting, a flag or a line that cannot work: where it stands, what is wrong with it and what to write instead.
///
/// `P` is the place: text, or something by which a reader of the file finds the line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{place}: {what}; help: {help}")]
pub struct Fault<P: fmt::Display = String> {
    /// The flags, the key or the file at fault.
    pub place: P,
    /// Follows the place: `is 0`.
    pub what: String,
    /// In the imperative: `set at least 1`.
    pub help: String,
}

impl<P: fmt::Display> Fault<P> {
    /// A fault at `place`.
    pub fn new(place: impl Into<P>, what: impl Into<String>, help: impl Into<String>) -> Fault<P> {
        Fault { place: place.into(), what: what.into(), help: help.into() }
    }

    /// The same fault at another place: that of the caller, who knows the file.
    pub fn at<Q: fmt::Display>(self, place: impl FnOnce(P) -> Q) -> Fault<Q> {
        Fault { place: place(self.place), what: self.what, help: self.help }
    }
}
