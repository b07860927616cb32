//! Flat form of a specification, used by files, flags, axes and results: one name per key, independent of the nesting
//! of types. Keys that reproduce single papers are in the table `[reproduction]`.

use super::{BenchSpec, ProtocolKind};
use quorate_types::settings::{REPRODUCTION, at, keys, set};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// Name of the table of switches, and of the flag that sets one.
pub(crate) const TABLE: &str = "reproduction";
/// Switch of PBFT in earlier results, which has become a protocol.
pub(crate) const PHASES_ONLY: &str = "phases_only";
/// Names and values. The switches are in a table of their own.
pub(crate) type Flat = Map<String, Value>;

/// A key of a specification.
pub(crate) use quorate_operator::setting_flags::SettingFlag as Entry;

/// Every key, by name.
pub(crate) static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let mut entries: Vec<Entry> = keys::<BenchSpec>().iter().filter_map(Entry::of).collect();
    entries.sort_by_key(|entry| entry.name);
    entries
});

/// Returns whether a key is one of the table `[reproduction]`.
pub(crate) fn is_switch(entry: &Entry) -> bool {
    entry.flag.heading == REPRODUCTION
}

/// Returns the value of a key in a flat specification.
pub(crate) fn value_in<'a>(entry: &Entry, flat: &'a Flat) -> Option<&'a Value> {
    if is_switch(entry) { flat.get(TABLE)?.get(entry.name) } else { flat.get(entry.name) }
}

/// Returns a flat specification of one key alone.
pub(crate) fn alone(entry: &Entry, value: Value) -> Flat {
    let own = Map::from_iter([(entry.name.to_owned(), value)]);
    if is_switch(entry) { Map::from_iter([(TABLE.to_owned(), Value::Object(own))]) } else { own }
}

/// The default specification as a tree. Only a specification without any pacing has a default pacing.
static DEFAULT: LazyLock<Value> = LazyLock::new(|| tree(&BenchSpec { outstanding: None, ..BenchSpec::default() }));

/// The defaults of `quorate bench`, in the flat form.
pub(crate) static DEFAULT_FLAT: LazyLock<Flat> = LazyLock::new(|| flatten(&BenchSpec::default()));

pub(crate) fn entry(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

fn tree(spec: &BenchSpec) -> Value {
    BenchSpec::serialize(spec, serde_json::value::Serializer).expect("a spec is plain data")
}

/// Returns the value at a key's path in a specification or in its replicas' configuration.
pub(crate) fn value_at(spec: &BenchSpec, path: &str) -> Option<Value> {
    let tree = tree(spec);
    at(&tree, path).or_else(|| at(&tree["node"], path)).cloned()
}

/// Converts to the flat form.
pub(crate) fn flatten(spec: &BenchSpec) -> Flat {
    let tree = tree(spec);
    let (mut flat, mut switches) = (Flat::new(), Flat::new());
    for entry in ENTRIES.iter() {
        if let Some(value) = at(&tree, &entry.key.path) {
            let into = if is_switch(entry) { &mut switches } else { &mut flat };
            into.insert(entry.name.to_owned(), value.clone());
        }
    }
    flat.insert(TABLE.to_owned(), Value::Object(switches));
    flat
}

/// Returns the specification with these keys, and defaults for the others.
///
/// # Errors
/// The unknown name, or the reason why a value is invalid.
pub(crate) fn nest(flat: &Flat) -> Result<BenchSpec, String> {
    let mut tree = DEFAULT.clone();
    let switches = flat.get(TABLE).and_then(Value::as_object);
    for (name, value) in flat.iter().filter(|(name, _)| *name != TABLE).chain(switches.into_iter().flatten()) {
        if name == PHASES_ONLY {
            if *value == Value::Bool(true) {
                set(&mut tree, "node.consensus.protocol", ProtocolKind::PbftPhases.name().into());
            }
            continue;
        }
        let entry = entry(name).ok_or_else(|| format!("unknown key `{name}`"))?;
        set(&mut tree, &entry.key.path, value.clone());
    }
    BenchSpec::deserialize(tree).map_err(|error| error.to_string())
}

impl Serialize for BenchSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        flatten(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BenchSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BenchSpec, D::Error> {
        nest(&Flat::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Returns the keys of the table `[reproduction]`.
pub fn keys_of_reproduction() -> &'static [&'static str] {
    static KEYS: LazyLock<Vec<&str>> =
        LazyLock::new(|| ENTRIES.iter().filter(|entry| is_switch(entry)).map(|entry| entry.name).collect());
    &KEYS
}

/// Returns the keys of a specification outside that table.
pub fn keys_of_flags() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().filter(|entry| !is_switch(entry)).map(|entry| entry.name)
}

/// Returns whether a key belongs to the table `[reproduction]`.
pub fn is_of_reproduction(key: &str) -> bool {
    entry(key).is_some_and(is_switch)
}

/// Returns the help heading of a key; empty if the key is unknown.
pub fn heading_of(key: &str) -> &'static str {
    entry(key).map_or("", |entry| entry.flag.heading)
}

/// Returns the flag of a key.
pub(crate) fn flag_of(key: &str) -> String {
    match is_of_reproduction(key) {
        true => format!("--{TABLE} {key}"),
        false => format!("--{}", key.replace('_', "-")),
    }
}

/// Returns the flag of a key, given its name, or its path in the specification or the replicas' configuration.
pub(crate) fn flag_at(path: &str) -> String {
    flag_of(key_at(path))
}

/// Returns the name of a key, given it or a path as for [`flag_at`].
pub(crate) fn key_at(path: &str) -> &str {
    let has_path = |entry: &&Entry| entry.key.path.strip_prefix("node.").unwrap_or(&entry.key.path) == path;
    let table = path.split('.').next().unwrap_or(path);
    let found = ENTRIES.iter().find(has_path).or_else(|| entry(path)).or_else(|| entry(table));
    found.map_or(path, |entry| entry.name)
}
