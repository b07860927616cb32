//! The applications by name.

use crate::application::Application;
use crate::key_value::KeyValue;
use crate::log::Log;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Which application a cluster runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ApplicationKind {
    /// Orders commands and executes nothing.
    Log,
    /// A key-value store.
    KeyValue,
}

/// A name that no application has.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("there is no application {0:?}; choose one of: log, kv")]
pub struct UnknownApplication(pub String);

impl ApplicationKind {
    /// Every kind.
    pub const ALL: [ApplicationKind; 2] = [ApplicationKind::Log, ApplicationKind::KeyValue];

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            ApplicationKind::Log => "log",
            ApplicationKind::KeyValue => "kv",
        }
    }

    /// A fresh application of this kind.
    pub fn build(self) -> Box<dyn Application> {
        match self {
            ApplicationKind::Log => Box::new(Log::new()),
            ApplicationKind::KeyValue => Box::new(KeyValue::new()),
        }
    }
}

impl fmt::Display for ApplicationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ApplicationKind {
    type Err = UnknownApplication;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = ApplicationKind::ALL.into_iter().find(|kind| kind.name() == text);
        named.ok_or_else(|| UnknownApplication(text.to_owned()))
    }
}
