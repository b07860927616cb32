//! Values that a user chooses by name, in a configuration file or on the command line.
//!
//! [`choice!`](crate::choice!) declares an enum together with the list of its values, their names, parsing,
//! serialisation, and an error message for unknown names. Each choice is declared once, in the lowest crate that uses
//! it; choices that belong to no single crate are in [`choices`](crate::choices).

#[doc(hidden)]
pub use {schemars, serde};

use crate::text::escaped;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;

/// Names less similar than this (Jaro-Winkler, 0 to 1) are not suggested.
const MIN_SIMILARITY: f64 = 0.7;

/// One of a few named values.
pub trait Choice: FromStr<Err = UnknownName> + Copy + Send + Sync + 'static {
    /// Name of the choice in error messages: `reply mode`.
    const WHAT: &'static str;

    /// Returns the names of all values, in the order of the documentation.
    fn names() -> Vec<&'static str>;

    /// Returns the error for an unknown name.
    fn unknown(given: &str) -> UnknownName {
        UnknownName { what: Self::WHAT, given: given.to_owned(), known: Self::names() }
    }
}

/// An unknown name. The message lists the known names and suggests the nearest one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    pub what: &'static str,
    pub given: String,
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`: one of {}", self.what, escaped(&self.given), self.known.join(", "))?;
        match nearest(&self.given, &self.known) {
            Some(name) => write!(f, " (did you mean `{name}`?)"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownName {}

/// Returns the known name most similar to `given`, or `None` if none is similar.
pub fn nearest<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let given = given.to_lowercase().replace('_', "-");
    let score = |name: &str| strsim::jaro_winkler(&given, &name.replace('_', "-"));
    let best = names.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) >= MIN_SIMILARITY).then_some(best)
}

/// Deserialises a choice.
///
/// # Errors
/// An error with the text of [`UnknownName`].
pub fn read<'de, T: Choice, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// Declares a choice: `choice!(/** doc */ Name, "name of the choice", /** doc */ Variant = "name", ..)`.
///
/// The enum is a [`Choice`], `Copy`, ordered and hashable; it is displayed, parsed, serialised and deserialised by
/// name, and has `ALL` and `name()`. The docs may contain `#[derive(Default)]` and `#[default]`.
#[macro_export]
macro_rules! choice {
    (
        $(#[$doc:meta])* $name:ident, $what:literal,
        $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Returns the name used on the command line and in files.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        $crate::named_choice!($name, $what);
    };
}

/// Implements [`Choice`] for a type that has `ALL` and `name()`, and is displayed, parsed, serialised and deserialised
/// by name.
#[macro_export]
macro_rules! named_choice {
    ($name:ident, $what:literal) => {
        impl $crate::choice::Choice for $name {
            const WHAT: &'static str = $what;

            fn names() -> Vec<&'static str> {
                $name::ALL.iter().map(|choice| choice.name()).collect()
            }
        }

        $crate::by_name!($name, $name::ALL.iter().copied());
    };
}

/// Implements display, parsing, serialisation and deserialisation of a [`Choice`] by name; `$known` is an iterator over
/// all values.
#[macro_export]
macro_rules! by_name {
    ($name:ident, $known:expr) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::choice::UnknownName;

            fn from_str(text: &str) -> Result<Self, $crate::choice::UnknownName> {
                let found = ($known).into_iter().find(|choice| choice.name() == text);
                found.ok_or_else(|| <Self as $crate::choice::Choice>::unknown(text))
            }
        }

        impl $crate::choice::serde::Serialize for $name {
            fn serialize<S: $crate::choice::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl $crate::choice::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut $crate::choice::schemars::SchemaGenerator) -> $crate::choice::schemars::Schema {
                let names = <Self as $crate::choice::Choice>::names();
                $crate::choice::schemars::json_schema!({ "type": "string", "enum": names })
            }
        }

        impl<'de> $crate::choice::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::choice::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::choice::read(deserializer)
            }
        }
    };
}

/// Implements comparison, hashing and debugging by name for a handle to a named object, in addition to
/// [`by_name!`](crate::by_name!).
#[macro_export]
macro_rules! handle_by_name {
    ($name:ident, $known:expr) => {
        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.name() == other.name()
            }
        }

        impl Eq for $name {}

        impl std::hash::Hash for $name {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.name().hash(state);
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        $crate::by_name!($name, $known);
    };
}

/// Implements [`Choice`] for a handle to a named object: a `Copy` type with `ALL` and `name()`. The handle is also
/// compared, hashed and printed by name.
#[macro_export]
macro_rules! named_handle {
    ($name:ident, $what:literal) => {
        impl $crate::choice::Choice for $name {
            const WHAT: &'static str = $what;

            fn names() -> Vec<&'static str> {
                $name::ALL.iter().map(|choice| choice.name()).collect()
            }
        }

        $crate::handle_by_name!($name, $name::ALL.iter().copied());
    };
}
