//! Other systems, measured beside quorate. A recipe says how to build one from its public source, how to load it, and
//! how to read its results. quorate contains no code of theirs, and fetches none: a person calls the commands of
//! `quorate peer show`.

mod lines;
mod recipe;
mod run;
mod tree;

pub use lines::Line;
pub use recipe::{Completed, Printed, Recipe};
pub use run::{PeerError, PeerResult, figures_of, revision, run};
pub use tree::Member;

use crate::spec::Interval;
use clap::Args;
use quorate_types::Fault;
use recipe::EXTENSION;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Default directory of the checkouts of peers.
pub const DEFAULT_DIR: &str = "peers-source";
/// Environment variable that names another one.
pub const DIR_VARIABLE: &str = "QUORATE_PEERS";

/// Load on a peer. The recipe says which of the keys it can follow.
#[derive(Args, Clone, PartialEq, Debug)]
pub struct PeerLoad {
    /// Name of its recipe, as listed by `quorate peer list`, or a file with a recipe.
    #[arg(long, value_name = "NAME")]
    pub system: String,
    /// Number of replicas, n.
    #[arg(long, value_name = "N")]
    pub replicas: Option<u32>,
    /// Bytes of a command.
    #[arg(long, value_name = "BYTES")]
    pub payload: Option<u32>,
    /// Commands of a block.
    #[arg(long, value_name = "COMMANDS")]
    pub batch: Option<u32>,
    /// Number of clients.
    #[arg(long, value_name = "CLIENTS")]
    pub clients: Option<u32>,
    /// Closed loop: outstanding commands per client.
    #[arg(long, value_name = "COMMANDS")]
    pub outstanding: Option<u32>,
    /// Open loop: commands per second over all clients.
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<u64>,
    /// Time under load before measuring begins.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub warmup: Interval,
    /// Measured time.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub duration: Interval,
}

impl PeerLoad {
    /// Returns the keys with values.
    fn values(&self) -> Vec<(&'static str, String)> {
        let of = |key, value: Option<u64>| value.map(|value| (key, value.to_string()));
        let all = [
            of("replicas", self.replicas.map(u64::from)),
            of("payload", self.payload.map(u64::from)),
            of("batch", self.batch.map(u64::from)),
            of("clients", self.clients.map(u64::from)),
            of("outstanding", self.outstanding.map(u64::from)),
            of("rate", self.rate),
        ];
        all.into_iter().flatten().collect()
    }

    /// Returns the arguments after `quorate peer run`.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec![format!("--system={}", self.system)];
        words.extend(self.values().into_iter().map(|(key, value)| format!("--{key}={value}")));
        words.extend([format!("--warmup={}", self.warmup), format!("--duration={}", self.duration)]);
        words
    }

    /// Checks that the load sets exactly the keys that the recipe can follow. Empty commands are the default.
    ///
    /// # Errors
    /// The key, the problem and the remedy.
    pub fn fit(&self, recipe: &Recipe) -> Result<(), Fault> {
        let needed: BTreeSet<&str> = recipe.keys.iter().map(String::as_str).collect();
        let is_default = |key: &str| key == "payload" && self.payload == Some(0) && !needed.contains(key);
        let set: BTreeSet<&str> =
            self.values().into_iter().map(|(key, _)| key).filter(|key| !is_default(key)).collect();
        let place = |key: &str| format!("--{key}");
        if let Some(key) = set.difference(&needed).next() {
            let what = format!("has no effect on {}", self.system);
            return Err(Fault::new(place(key), what, "leave it out"));
        }
        if let Some(key) = needed.difference(&set).next() {
            let what = format!("is missing, which {} needs", self.system);
            return Err(Fault::new(place(key), what, "set it"));
        }
        if let Some((key, _)) = self.values().iter().find(|(key, value)| *key != "payload" && value == "0") {
            return Err(Fault::new(place(key), "is 0", "set at least 1"));
        }
        Ok(())
    }

    /// Returns whether the recipe is a file.
    pub fn is_file(&self) -> bool {
        self.system.ends_with(EXTENSION)
    }

    /// Returns the name of the recipe, without the directory and extension of a file.
    pub fn name(&self) -> &str {
        let name = self.system.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(EXTENSION).unwrap_or(name)
    }

    /// Returns the directory of the peer's source below the directory of all peers.
    pub fn source(&self, dir: Option<PathBuf>) -> PathBuf {
        let dir = dir.or_else(|| std::env::var_os(DIR_VARIABLE).map(PathBuf::from));
        dir.unwrap_or_else(|| DEFAULT_DIR.into()).join(self.name())
    }
}
