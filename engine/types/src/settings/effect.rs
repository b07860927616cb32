//! Keys that have an effect only with certain values of others.

use super::{Key, at, keys, tree};
use crate::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Value of a key that is not set, in conditions and reasons.
const ABSENT: &str = "absent";

/// Condition under which a key has an effect, as `"x-with"` declares it: at least one of its parts holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(transparent)]
pub struct With(Vec<Part<'static>>);

/// Values of another key with which a key has an effect, or with which it has none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Part<'a> {
    /// Path of the key that decides.
    key: &'a str,
    #[serde(borrow)]
    values: Vec<&'a str>,
    is_one: bool,
}

impl With {
    /// The key has an effect with these values of another.
    pub fn one(key: &'static str, values: &[&'static str]) -> With {
        With(vec![Part { key, values: values.to_vec(), is_one: true }])
    }

    /// The key has an effect with all values of another but these. A value that is not set is `absent`.
    pub fn other(key: &'static str, values: &[&'static str]) -> With {
        With(vec![Part { key, values: values.to_vec(), is_one: false }])
    }

    /// The key has an effect under either condition.
    pub fn or(self, other: With) -> With {
        With([self.0, other.0].concat())
    }
}

/// Why a key has no effect: the keys that decide, with their values, and the values that would give it one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idle<'a>(Vec<(Part<'a>, String)>);

impl<'a> Idle<'a> {
    /// Returns the paths of the keys that decide.
    pub fn deciders(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|(part, _)| part.key)
    }

    /// Returns the reason, with the decisive keys as `name` calls them.
    pub fn reason(&self, name: impl Fn(&str) -> String) -> String {
        let reasons: Vec<String> =
            self.0.iter().map(|(part, value)| format!("{} is {value}", name(part.key))).collect();
        reasons.join(" and ")
    }

    /// Returns how to give the key an effect, with the decisive keys as `name` calls them.
    pub fn remedy(&self, name: impl Fn(&str) -> String) -> String {
        let remedy = |(part, _): &(Part<'_>, String)| {
            let (key, values) = (name(part.key), part.values.join(" or "));
            match (part.is_one, values.as_str()) {
                (true, _) => format!("set {key} to {values}"),
                (false, ABSENT) => format!("set {key}"),
                (false, _) => format!("set {key} to another value than {values}"),
            }
        };
        format!("leave it out, or {}", self.0.iter().map(remedy).collect::<Vec<_>>().join(", or "))
    }
}

impl Part<'_> {
    fn in_words(&self) -> String {
        let values = self.values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ");
        match (self.is_one, self.values[..] == [ABSENT]) {
            (true, _) => format!("`{}` {values}", self.key),
            (false, true) => format!("`{}`", self.key),
            (false, false) => format!("another `{}` than {values}", self.key),
        }
    }
}

impl Key {
    /// Returns the condition under which the key has an effect, in words.
    pub(super) fn condition(&self) -> Option<String> {
        let parts = self.parts()?.iter().map(Part::in_words).collect::<Vec<_>>();
        Some(parts.join(", or "))
    }

    fn parts(&self) -> Option<Vec<Part<'_>>> {
        Some(Vec::deserialize(self.mark("x-with")?).expect("a condition is declared by its type"))
    }

    /// Returns why the key has no effect; `None` if it has one. `value_at` returns the value at a path.
    ///
    /// # Panics
    /// If the declaration is not a [`With`].
    pub fn idle_because(&self, value_at: impl Fn(&str) -> Option<Value>) -> Option<Idle<'_>> {
        let judged = self.parts()?.into_iter().map(|part| {
            let value = text(value_at(part.key));
            (part.values.contains(&value.as_str()) != part.is_one).then_some((part, value))
        });
        judged.collect::<Option<_>>().map(Idle)
    }
}

fn text(value: Option<Value>) -> String {
    match value {
        None | Some(Value::Null) => ABSENT.to_owned(),
        Some(Value::String(text)) => text,
        Some(value) => value.to_string(),
    }
}

/// Returns the keys without effect in a configuration, given as a tree of tables.
pub fn idle<'a>(tree: &Value, keys: &'a [Key]) -> Vec<(&'a Key, Idle<'a>)> {
    let because = |key: &'a Key| Some((key, key.idle_because(|path| at(tree, path).cloned())?));
    keys.iter().filter_map(because).collect()
}

/// Checks that no key without effect has another value than its default.
///
/// # Errors
/// The path of the first such key, the value of another that it needs, and the remedy.
pub fn check_effects<T: JsonSchema + Serialize + 'static>(value: &T) -> Result<(), Fault<&'static str>> {
    let tree = tree(value);
    let is_set = |key: &Key| at(&tree, &key.path).filter(|value| !value.is_null()) != key.default.as_ref();
    match idle(&tree, keys::<T>()).into_iter().find(|(key, _)| is_set(key)) {
        None => Ok(()),
        Some((key, idle)) => {
            let name = |path: &str| format!("`{path}`");
            let what = format!("has no effect, because {}", idle.reason(name));
            Err(Fault::new(key.path.as_str(), what, idle.remedy(name)))
        }
    }
}
