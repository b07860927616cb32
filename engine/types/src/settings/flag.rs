//! Flag of a key, as its declaration names it.

use serde::{Deserialize, Serialize};

/// Help heading of the flags that shape the cluster.
pub const CLUSTER: &str = "Cluster";
/// Help heading of the flags that shape the load.
pub const LOAD: &str = "Load";
/// Help heading of the flags that shape the run on this machine.
pub const RUN: &str = "Run";
/// Help heading of the flags for output files.
pub const OUTPUT: &str = "Output";
/// Heading of the switches that reproduce figures of single papers. No command has flags under it.
pub const REPRODUCTION: &str = "Reproduction";

/// Flag of benchmarks and simulations for a key, as `"x-flag"` declares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flag<'a> {
    /// One of [`CLUSTER`], [`LOAD`], [`RUN`], [`OUTPUT`] and [`REPRODUCTION`].
    pub heading: &'a str,
    /// Name in specifications, if it differs from the name in the table: `quic_votes`.
    pub name: Option<&'a str>,
    /// Placeholder of the value in the help.
    pub value: Option<&'a str>,
    /// Whether most runs need it, so that the help shows it first.
    pub is_common: bool,
    /// Whether only `--help-all` shows it.
    pub is_rare: bool,
}

impl Flag<'static> {
    /// Returns a flag under a heading, named like the key.
    pub const fn under(heading: &'static str) -> Flag<'static> {
        Flag { heading, name: None, value: None, is_common: false, is_rare: false }
    }

    pub const fn named(self, name: &'static str) -> Flag<'static> {
        Flag { name: Some(name), ..self }
    }

    pub const fn value(self, value: &'static str) -> Flag<'static> {
        Flag { value: Some(value), ..self }
    }

    pub const fn common(self) -> Flag<'static> {
        Flag { is_common: true, ..self }
    }

    pub const fn rare(self) -> Flag<'static> {
        Flag { is_rare: true, ..self }
    }
}
