//! The keys of a configuration, derived from the schema of its types.
//!
//! A field of a type that derives `JsonSchema` is the only declaration of its key: the doc comment is the description
//! in files, references and helps, `schemars(range(..))` is the range, and `schemars(extend(..))` adds what else is
//! known of the key: `"x-flag" = Flag::under(..)` gives it a flag, `"x-with" = With::one(..)` names the values of
//! another key with which it, or each key of its table, has an effect. Values that must be equal on all replicas have
//! `"x-cluster" = true`, or `"x-cluster" = "shown"` if connecting compares them by itself. Such a key that is younger
//! than the first release names the release that added it in `"x-added"`. Keys that a replica reports in addition have
//! `"x-reported" = true` ([ADR 109](../../../../docs/adr/109-one-schema-for-settings.md)).

mod document;
mod effect;
mod flag;
mod schema;

pub use document::{explain, to_markdown};
pub use effect::{Idle, With, check_effects, idle};
pub use flag::{CLUSTER, Flag, LOAD, OUTPUT, REPRODUCTION, RUN};
pub use schema::json_schema;

use crate::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A key of a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Names from the root, with dots between them. A list of tables counts as one table: `members.address`.
    pub path: String,
    /// Description, as one line.
    pub doc: String,
    /// Default; `None` if there is none, or the key is absent by default.
    pub default: Option<Value>,
    schema: Map<String, Value>,
}

impl Key {
    /// Returns the table, such as `links`; empty outside all tables.
    pub fn table(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(table, _)| table)
    }

    /// Returns the name within the table.
    pub fn name(&self) -> &str {
        self.path.rsplit_once('.').map_or(&self.path, |(_, name)| name)
    }

    /// Returns an attribute of the key beyond its type, such as `x-cluster`.
    pub fn mark(&self, name: &str) -> Option<&Value> {
        self.schema.get(name)
    }

    /// Returns whether the values of all replicas must be equal.
    pub fn is_of_the_cluster(&self) -> bool {
        self.mark("x-cluster").is_some()
    }

    /// Returns whether ends with different releases may both use this value: the key was added after the first release,
    /// and has its default, by which the releases without the key behave.
    pub fn is_as_before(&self, value: Option<&Value>) -> bool {
        self.mark("x-added").is_some() && value == self.default.as_ref()
    }

    /// Returns whether a replica reports the value.
    pub fn is_reported(&self) -> bool {
        self.is_of_the_cluster() || self.mark("x-reported").is_some()
    }

    /// Returns the flag for the key.
    pub fn flag(&self) -> Option<Flag<'_>> {
        self.mark("x-flag").map(|flag| Flag::deserialize(flag).expect("a flag is declared by its type"))
    }

    /// Returns whether the key accepts a JSON type, such as `integer`.
    pub fn takes(&self, kind: &str) -> bool {
        match self.schema.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().any(|known| known == kind),
            known => known.is_some_and(|known| known == kind),
        }
    }

    /// Returns the accepted names; none if the key is not a choice.
    pub fn names(&self) -> Vec<&str> {
        let names = self.schema.get("enum").and_then(Value::as_array);
        names.map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect())
    }

    /// Returns the declared minimum and maximum of an integer.
    pub fn range(&self) -> (Option<u64>, Option<u64>) {
        let bound = |name| self.schema.get(name).and_then(Value::as_u64);
        (bound("minimum"), bound("maximum"))
    }

    /// Returns instructions for a valid integer.
    pub fn range_help(&self) -> String {
        match self.range() {
            (least, Some(most)) => format!("set {} to {most}", least.unwrap_or(0)),
            (least, None) => format!("set at least {}", least.unwrap_or(0)),
        }
    }

    /// Checks an integer against the declared range; other values pass.
    ///
    /// # Errors
    /// The path, the number, and the range.
    pub fn check(&'static self, value: &Value) -> Result<(), Fault<&'static str>> {
        let (least, most) = self.range();
        let fits = match (value.as_u64(), value.as_i64()) {
            (Some(number), _) => number >= least.unwrap_or(0) && number <= most.unwrap_or(u64::MAX),
            (None, negative) => negative.is_none(),
        };
        match fits || !self.takes("integer") {
            true => Ok(()),
            false => Err(Fault::new(self.path.as_str(), format!("is {value}"), self.range_help())),
        }
    }
}

/// Returns the keys whose values replicas compare when they connect, with the values that a configuration has for them.
/// A key that a release before does not have is compared once it differs from the default.
pub fn compared<T: JsonSchema + 'static>(tree: &Value) -> impl Iterator<Item = (&'static Key, Option<&Value>)> {
    let of_the_cluster = keys::<T>().iter().filter(|key| key.mark("x-cluster") == Some(&Value::Bool(true)));
    let values = of_the_cluster.map(|key| (key, at(tree, &key.path)));
    values.filter(|(key, value)| !key.is_as_before(*value))
}

/// Returns the keys of a type, by table and name; those outside all tables come first.
pub fn keys<T: JsonSchema + 'static>() -> &'static [Key] {
    static KNOWN: Mutex<BTreeMap<TypeId, &'static [Key]>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(TypeId::of::<T>()).or_insert_with(|| Vec::leak(schema::keys_of(&json_schema::<T>())))
}

/// Checks every integer of a configuration against its declared range.
///
/// # Errors
/// The path of the first key that is out of range.
pub fn check_ranges<T: JsonSchema + Serialize + 'static>(value: &T) -> Result<(), Fault<&'static str>> {
    let value = tree(value);
    keys::<T>().iter().try_for_each(|key| match at(&value, &key.path) {
        Some(value) => key.check(value),
        None => Ok(()),
    })
}

/// Returns a configuration as a tree of tables.
///
/// # Panics
/// If a value cannot be represented in JSON.
pub fn tree<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("every setting has a form in JSON")
}

/// Returns the value at a path.
pub fn at<'a>(tree: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(tree, |tree, name| tree.get(name))
}

/// Sets the value at a path, adding missing tables.
///
/// # Panics
/// If a name on the path belongs to a value that is not a table.
pub fn set(tree: &mut Value, path: &str, value: Value) {
    *path.split('.').fold(tree, |tree, name| &mut tree[name]) = value;
}

/// Returns the values that a configuration has for these keys.
pub fn select<'a>(tree: &Value, keys: impl IntoIterator<Item = &'a Key>) -> Value {
    let mut selected = Value::Object(Map::new());
    for key in keys {
        if let Some(value) = at(tree, &key.path) {
            set(&mut selected, &key.path, value.clone());
        }
    }
    selected
}
