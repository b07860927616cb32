//! Applications by name: shipped ones, and those from other crates.

use crate::application::Application;
use crate::key_value::{self, KeyValue};
use crate::log::{self, Log};
use quorate_types::Choice;
use std::sync::{LazyLock, PoisonError, RwLock};
use thiserror::Error;

/// Maximum length of an application's name, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Creates an application, known by its name to replicas, snapshots and configurations.
#[derive(Clone, Copy, Debug)]
pub struct Factory {
    /// At most [`MAX_NAME_BYTES`] lower-case letters, digits and hyphens; equal to [`Application::name`].
    pub name: &'static str,
    /// Creates an instance in its initial state.
    pub make: fn() -> Box<dyn Application>,
}

/// Orders commands and executes nothing.
static LOG: Factory = Factory { name: log::NAME, make: || Box::new(Log::new()) };
static KEY_VALUE: Factory = Factory { name: key_value::NAME, make: || Box::new(KeyValue::new()) };

/// The application of a cluster: a handle to its factory, compared and printed by name.
#[derive(Clone, Copy)]
pub struct ApplicationKind(&'static Factory);

/// Applications from other crates that this process knows by name.
static REGISTERED: LazyLock<RwLock<Vec<ApplicationKind>>> = LazyLock::new(RwLock::default);

/// Reason why an application's name cannot be registered.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    #[error("the application name `{0}` is taken; help: choose another")]
    Taken(&'static str),
    #[error("the application name `{0}` is not 1 to {MAX_NAME_BYTES} lower-case letters, digits and hyphens")]
    Invalid(&'static str),
}

impl ApplicationKind {
    /// Orders commands and executes nothing.
    pub const LOG: ApplicationKind = ApplicationKind(&LOG);
    /// Replicated map of byte strings, which `quorate client` and most workloads use.
    pub const KEY_VALUE: ApplicationKind = ApplicationKind(&KEY_VALUE);
    /// The applications shipped with quorate.
    pub const ALL: &'static [ApplicationKind] = &[ApplicationKind::LOG, ApplicationKind::KEY_VALUE];

    /// Returns a handle to an application from another crate. Embedded clusters and the laboratory accept it directly;
    /// [`register`](ApplicationKind::register) lets configuration files name it.
    pub const fn of(factory: &'static Factory) -> ApplicationKind {
        ApplicationKind(factory)
    }

    /// Registers an application by name for the configuration files and flags that this process reads. The same factory
    /// may be registered again.
    ///
    /// # Errors
    /// [`NameError`] if the name is malformed, or belongs to another application.
    pub fn register(factory: &'static Factory) -> Result<ApplicationKind, NameError> {
        let kind = ApplicationKind(factory);
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if factory.name.is_empty() || factory.name.len() > MAX_NAME_BYTES || !factory.name.bytes().all(is_letter) {
            return Err(NameError::Invalid(factory.name));
        }
        let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        match ApplicationKind::ALL.iter().chain(registered.iter()).find(|other| **other == kind) {
            Some(other) if std::ptr::eq(other.0, factory) => Ok(kind),
            Some(_) => Err(NameError::Taken(factory.name)),
            None => {
                registered.push(kind);
                Ok(kind)
            }
        }
    }

    /// Returns the shipped applications and the registered ones.
    pub fn known() -> Vec<ApplicationKind> {
        let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
        ApplicationKind::ALL.iter().chain(registered.iter()).copied().collect()
    }

    /// Returns the name used on the command line and in files.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Creates an application in its initial state.
    pub fn make(self) -> Box<dyn Application> {
        (self.0.make)()
    }
}

impl Default for ApplicationKind {
    fn default() -> ApplicationKind {
        ApplicationKind::KEY_VALUE
    }
}

impl Choice for ApplicationKind {
    const WHAT: &'static str = "application";

    fn names() -> Vec<&'static str> {
        ApplicationKind::known().into_iter().map(ApplicationKind::name).collect()
    }
}

quorate_types::handle_by_name!(ApplicationKind, ApplicationKind::known());
