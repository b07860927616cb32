//! Recipes: how to build another system from its public source, load it, and read its results.

use super::lines::Line;
use crate::experiments::Vocabulary;
use crate::input;
use quorate_types::Fault;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// Recipes of this repository, by name.
const SHIPPED: &[(&str, &str)] = &[
    ("libhotstuff", include_str!("../../../../peers/libhotstuff.toml")),
    ("relab-hotstuff", include_str!("../../../../peers/relab-hotstuff.toml")),
];

/// End of the names of recipes' files.
pub(super) const EXTENSION: &str = ".toml";

/// Variables of a recipe's `run`, besides `LOGS` and `RUN_SECONDS`, with the keys of [`PeerLoad`](super::PeerLoad) that
/// set them.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("replicas", "REPLICAS"),
    ("payload", "PAYLOAD"),
    ("batch", "BATCH"),
    ("clients", "CLIENTS"),
    ("outstanding", "OUTSTANDING"),
    ("rate", "RATE"),
];

/// A peer: another implementation of Byzantine-fault-tolerant replication, which is measured beside quorate.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Address of its source for `git clone`.
    pub repository: String,
    /// Commit to check out: at least its first seven digits.
    pub revision: String,
    /// Packages and programs that must be installed before it is built.
    pub needs: Vec<String>,
    /// Shell script that builds it, called in its checkout.
    pub build: String,
    /// Keys of the load that it can follow. Others are refused.
    pub keys: BTreeSet<String>,
    /// Shell script that starts its replicas and clients, in its checkout. Its variables are the `keys` in capital
    /// letters, `RUN_SECONDS` for the whole load in seconds, and `LOGS` for the directory in which `completed` and
    /// `printed` find their files.
    pub run: String,
    /// Names of the processes of clients. Once one runs, the load has begun. All other processes belong to replicas. A
    /// peer whose clients are in the process of its replicas names that process.
    pub clients: String,
    /// Whether the clients have to be asked to end (SIGTERM). Otherwise they end by themselves after `RUN_SECONDS`.
    #[serde(default)]
    pub asks_clients_to_end: bool,
    /// Lines that report completed commands.
    #[serde(default)]
    pub completed: Option<Completed>,
    /// Figures that the peer prints itself.
    #[serde(default)]
    pub printed: Vec<Printed>,
}

/// Lines that report completed commands.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completed {
    /// Prefix of the names of the files.
    pub files: String,
    /// The line, with `{time}` (hours:minutes:seconds) and `{latency_s}`, `{latency_ms}` or `{latency_us}`. It stands
    /// for one command, or, with `{count}`, for several and their mean latency.
    pub line: Line,
}

/// A figure that a peer prints. If several lines match, their values are added or averaged.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Name of the figure, such as `throughput_per_s`.
    pub figure: String,
    /// Prefix of the names of the files.
    pub files: String,
    /// The line, with `{value}`.
    pub line: Line,
    /// Factor from the printed unit to the figure's.
    #[serde(default = "one")]
    pub factor: f64,
    /// Whether values of several lines are added. Otherwise they are averaged.
    #[serde(default)]
    pub added: bool,
}

fn one() -> f64 {
    1.0
}

impl Recipe {
    /// Returns the names of the recipes of this repository.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Returns a recipe of this repository, or, if the name ends with `.toml`, the recipe in a file.
    ///
    /// # Errors
    /// If there is none, or the file is no recipe.
    pub fn named(name: &str, vocabulary: &Vocabulary) -> Result<Recipe, Fault> {
        if name.ends_with(EXTENSION) {
            let text = input::settings(Path::new(name));
            let text = text
                .map_err(|error| Fault::new(name, format!("cannot be read: {error}"), "name a recipe or its file"))?;
            return Recipe::parse(&text, name, vocabulary);
        }
        match SHIPPED.iter().find(|(own, _)| *own == name) {
            Some((_, text)) => Recipe::parse(text, &format!("peers/{name}.toml"), vocabulary),
            None => {
                let names: Vec<&str> = Recipe::names().collect();
                let help = format!("name one of {}, or a file whose name ends with {EXTENSION}", names.join(", "));
                Err(Fault::new(format!("peer `{name}`"), "has no recipe", help))
            }
        }
    }

    /// Parses a recipe.
    ///
    /// # Errors
    /// The key, the problem and the remedy.
    pub fn parse(text: &str, file: &str, vocabulary: &Vocabulary) -> Result<Recipe, Fault> {
        let recipe: Recipe = toml::from_str(text)
            .map_err(|error| Fault::new(file, error.to_string().trim_end().to_owned(), "correct the recipe"))?;
        let wrong = |key: &str, what: String, help: &str| Fault::new(format!("{file}: {key}"), what, help);
        if recipe.revision.len() < 7 || !recipe.revision.chars().all(|c| c.is_ascii_hexdigit()) {
            let what = format!("is `{}`, not the digits of a commit", recipe.revision);
            return Err(wrong("revision", what, "give at least seven hexadecimal digits"));
        }
        if let Some(key) = recipe.keys.iter().find(|key| VARIABLES.iter().all(|(own, _)| own != key)) {
            let all: Vec<&str> = VARIABLES.iter().map(|(own, _)| *own).collect();
            return Err(wrong("keys", format!("`{key}` is no key of a load"), &format!("use {}", all.join(", "))));
        }
        if recipe.completed.is_none() && recipe.printed.is_empty() {
            let what = "is missing, so the peer would have no results".to_owned();
            return Err(wrong("completed", what, "add it, or [[printed]]"));
        }
        if let Some(Completed { line, .. }) = &recipe.completed
            && !(line.has("time") && LATENCIES.iter().any(|(name, _)| line.has(name)))
        {
            let what = "lacks {time} or a latency".to_owned();
            return Err(wrong("completed.line", what, "use {time}, and {latency_s}, {latency_ms} or {latency_us}"));
        }
        for printed in &recipe.printed {
            if vocabulary.figure(&printed.figure).is_none() {
                let what = format!("`{}` is no figure", printed.figure);
                return Err(wrong("printed.figure", what, "use a name of docs/RESULTS.md, such as throughput_per_s"));
            }
            if !(printed.line.has("value") && printed.factor.is_finite() && printed.factor > 0.0) {
                let what = "lacks {value}, or its factor is not above 0".to_owned();
                return Err(wrong("printed.line", what, "write {value} at the place of the number"));
            }
        }
        Ok(recipe)
    }

    /// Returns the commands that fetch and build the peer, for a person to call.
    pub fn commands(&self, name: &str) -> String {
        let (Recipe { repository, revision, build, .. }, needs) = (self, self.needs.join(", "));
        format!(
            "# needs {needs}\ngit clone {repository} {name} && cd {name} && git checkout {revision}\n{}\n",
            build.trim_end()
        )
    }
}

/// Names of latencies in lines, with the factor to milliseconds.
pub(super) const LATENCIES: &[(&str, f64)] = &[("latency_s", 1e3), ("latency_ms", 1.0), ("latency_us", 1e-3)];
