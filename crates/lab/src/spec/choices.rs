//! The keys of a spec whose value is one of a few names.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use quorate_consensus::config::UnknownName;
pub use quorate_consensus::config::{BatchPolicy, Dissemination, LeaderKind, ProtocolKind, ViewDuration, VotesTo};
pub use quorate_crypto::{ClientAuthentication, SchemeKind};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// Names less alike than this (Jaro-Winkler, 0 to 1) are not worth suggesting.
const LEAST_SIMILARITY: f64 = 0.7;

/// The name most like `given`, when one is like it at all.
pub fn nearest<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let given = given.to_lowercase().replace('_', "-");
    let score = |name: &str| strsim::jaro_winkler(&given, &name.replace('_', "-"));
    let best = names.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) >= LEAST_SIMILARITY).then_some(best)
}

/// One of a few named values.
pub trait Choice: FromStr<Err: Error + Send + Sync> + Copy + Send + Sync + 'static {
    /// All names, in the order in which they are shown.
    fn names() -> Vec<&'static str>;
}

/// Reads a [`Choice`] from the command line: clap shows the names in the help and suggests the nearest one.
pub fn choice<T: Choice>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::names()).try_map(|name| name.parse::<T>())
}

macro_rules! named {
    ($($type:ident),+) => {
        $(impl Choice for $type {
            fn names() -> Vec<&'static str> {
                $type::ALL.iter().map(|choice| choice.name()).collect()
            }
        })+
    };
}

macro_rules! choices {
    ($(#[$doc:meta])* $type:ident, $what:literal { $($(#[$variant_doc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$variant_doc])* #[serde(rename = $name)] $variant),+
        }

        impl $type {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];

            /// The name in spec files and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name),+
                }
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;
            fn from_str(text: &str) -> Result<Self, UnknownName> {
                let known = || Self::names().join(", ");
                let found = Self::ALL.iter().copied().find(|choice| choice.name() == text);
                found.ok_or_else(|| UnknownName { what: $what, given: text.to_owned(), known: known() })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        named!($type);
    };
}

named!(ProtocolKind, LeaderKind, BatchPolicy, Dissemination, ViewDuration, VotesTo, ClientAuthentication, SchemeKind);

choices!(
    /// What carries the messages.
    Transport, "transport" {
        /// TCP.
        Tcp = "tcp",
    }
);
choices!(
    /// What protects the messages on the way.
    Channel, "channel" {
        /// Peers authenticated by a signed handshake; the messages themselves travel in the clear.
        Plain = "plain",
    }
);
choices!(
    /// Whether replicas answer the client.
    Reply, "reply mode" {
        /// Each command is answered; the client waits for f+1 equal answers.
        Each = "each",
        /// Ordering only: nothing is sent back.
        None = "none",
    }
);
choices!(
    /// Where replicas keep what they promise.
    Journal, "journal" {
        /// In files.
        File = "file",
        /// In memory, from which nobody comes back.
        Memory = "memory",
    }
);
choices!(
    /// When a record in a file counts as written.
    Fsync, "fsync policy" {
        /// When it outlives a loss of power.
        Always = "always",
        /// When it outlives the process.
        Never = "never",
    }
);
choices!(
    /// Where the replicas live.
    Host, "host" {
        /// All in this process, talking over the same real sockets.
        Threads = "threads",
        /// One process each.
        Processes = "processes",
    }
);
