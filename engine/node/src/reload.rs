//! Configuration that is read again while the replica runs: which clients it admits, their quotas, and the levels of
//! the log.

use crate::config::{CONFIG_FILE, NodeConfig};
use crate::log_level::LogLevel;
use crate::observer::Differences;
use quorate_hosting::desk::{AdmissionPolicy, QuestionPolicy};
use quorate_network::transports::LinkId;
use quorate_types::ClusterId;
use quorate_types::settings::{at, keys, tree};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Keys that a running replica takes over.
pub const RELOADED_KEYS: [&str; 5] = [
    "clients.keys",
    "clients.max_commands_per_s",
    "clients.max_answer_bytes_per_s",
    "clients.max_answer_us_per_s",
    LOG_LEVEL,
];
const LOG_LEVEL: &str = "log_level";

/// Compares a configuration with the one in use.
pub fn differences(running: &NodeConfig, file: &NodeConfig) -> Differences {
    let (before, after) = (tree(running), tree(file));
    let value = |tree: &Value, path: &str| at(tree, path).filter(|value| !value.is_null()).cloned();
    // The members are a list, which has no key of its own.
    let paths = keys::<NodeConfig>().iter().map(|key| key.path.as_str()).chain(["members"]);
    let differ = paths.filter(|path| value(&before, path) != value(&after, path)).map(str::to_owned);
    // The keys of another rule are for that rule.
    let has_same_rule = running.clients.admitted == file.clients.admitted;
    let (changed, refused) =
        differ.partition(|path| (has_same_rule || path == LOG_LEVEL) && RELOADED_KEYS.contains(&path.as_str()));
    Differences { changed, refused }
}

/// A valid configuration that was read again.
pub(crate) struct Reload {
    pub differences: Differences,
    /// The new policies, if their keys differ.
    pub policies: Option<(AdmissionPolicy, QuestionPolicy<LinkId>)>,
    /// The levels of the log in the file, if they differ.
    pub log_level: Option<Option<LogLevel>>,
}

/// Outcome of reading the file: its changes, or the error in it.
pub(crate) type Outcome = Result<Reload, String>;

/// Passes what was read to the event loop.
#[derive(Clone, Default)]
pub(crate) struct Reloads(Arc<State>);

#[derive(Default)]
struct State {
    is_new: AtomicBool,
    /// Not taken yet, oldest first: one for each signal.
    waiting: Mutex<Vec<Outcome>>,
}

impl Reloads {
    fn give(&self, read: Outcome) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(read);
        self.0.is_new.store(true, Ordering::SeqCst);
    }

    /// Returns the outcomes that have not been taken yet.
    #[inline]
    pub fn take(&self) -> Vec<Outcome> {
        if !self.0.is_new.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.0.is_new.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads the configuration of a directory again.
pub(crate) struct Reloader {
    path: PathBuf,
    running: Mutex<NodeConfig>,
    reloads: Reloads,
}

impl Reloader {
    pub fn new(directory: &Path, running: NodeConfig, reloads: Reloads) -> Reloader {
        Reloader { path: directory.join(CONFIG_FILE), running: Mutex::new(running), reloads }
    }

    /// Reads the file, and gives the event loop what it may take over.
    pub fn read(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let read = NodeConfig::read(&self.path).map_err(|error| error.to_string());
        self.reloads.give(read.and_then(|file| {
            let differences = differences(&running, &file);
            let mut clients = running.clients.clone();
            clients.keys = file.clients.keys;
            clients.max_commands_per_s = file.clients.max_commands_per_s;
            clients.max_answer_bytes_per_s = file.clients.max_answer_bytes_per_s;
            clients.max_answer_us_per_s = file.clients.max_answer_us_per_s;
            let log_level = (running.log_level != file.log_level).then(|| file.log_level.clone());
            if differences.changed.iter().all(|path| path == LOG_LEVEL) {
                running.log_level = file.log_level;
                return Ok(Reload { differences, policies: None, log_level });
            }
            let authentication = running.client_authentication;
            clients.validate(authentication).map_err(|fault| fault.to_string())?;
            let cluster = ClusterId::from_name(&running.cluster);
            let questions = clients.questions(cluster, running.replica).map_err(|error| error.to_string())?;
            let policies = Some((clients.policy(), questions));
            (running.clients, running.log_level) = (clients, file.log_level);
            Ok(Reload { differences, policies, log_level })
        }));
    }
}
