//! Schemas of configurations, and the keys in them.

use super::Key;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Mark of the condition under which a key has an effect.
const WITH: &str = "x-with";
/// Sentence about keys whose values must be equal.
const SAME: &str = "The same on every replica.";

/// Returns the JSON Schema of a configuration, for editors and for [`keys`](super::keys). Types are inlined.
pub fn json_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    describe(&mut schema);
    schema
}

/// Reduces every description to one line without links, which states whether the value must be the same on every
/// replica.
fn describe(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(describe);
            let is_of_the_cluster = fields.contains_key("x-cluster");
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = without_links(&text.split_whitespace().collect::<Vec<_>>().join(" "));
                if is_of_the_cluster {
                    *text = format!("{text} {SAME}");
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(describe),
        _ => {}
    }
}

/// Returns the keys of a schema.
pub(super) fn keys_of(schema: &Value) -> Vec<Key> {
    let mut keys = Vec::new();
    collect(schema, "", None, &mut keys);
    keys.sort_by(|one, other| (one.table(), one.name()).cmp(&(other.table(), other.name())));
    keys
}

/// Collects the keys of a table, and of those below. `with` is the condition under which the table has an effect.
fn collect(schema: &Value, table: &str, with: Option<&Value>, keys: &mut Vec<Key>) {
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, field) in fields {
        let path = if table.is_empty() { name.clone() } else { format!("{table}.{name}") };
        let with = field.get(WITH).or(with);
        match table_in(field) {
            Some(inner) => collect(inner, &path, with, keys),
            None if holds_nothing(field) => {}
            None => keys.push(key(path, with, field)),
        }
    }
}

/// Returns the schema of the table in a field, whether it is required, optional or repeated.
fn table_in(field: &Value) -> Option<&Value> {
    let options = field.get("anyOf").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let forms = [Some(field), field.get("items")].into_iter().flatten().chain(options);
    forms.into_iter().find(|form| form.get("properties").is_some())
}

/// Returns whether a field's type has no values, like the laboratory's types in the operators' program.
fn holds_nothing(field: &Value) -> bool {
    let is_nothing =
        |form: &Value| form.get("type").is_some_and(|kind| kind == "null") || form.get("const") == Some(&Value::Null);
    let options = field.get("anyOf").and_then(Value::as_array);
    is_nothing(field) || options.is_some_and(|options| options.contains(&Value::Bool(false)))
}

fn key(path: String, with: Option<&Value>, field: &Value) -> Key {
    let mut schema: Map<String, Value> = field.as_object().cloned().unwrap_or_default();
    // An optional choice is a choice or null.
    if let Some(inner) = schema.get("anyOf").and_then(|options| options.get(0)).and_then(Value::as_object).cloned() {
        inner.into_iter().for_each(|(name, value)| {
            schema.entry(name).or_insert(value);
        });
    }
    if let Some(with) = with {
        schema.insert(WITH.to_owned(), with.clone());
    }
    let doc = schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let default = schema.get("default").filter(|value| !value.is_null()).cloned();
    Key { path, doc, default, schema }
}

/// Replaces intra-doc links by their text.
fn without_links(doc: &str) -> String {
    let (mut text, mut rest) = (String::new(), doc);
    while let Some((before, link)) = rest.split_once('[') {
        let Some((inner, after)) = link.split_once(']') else { break };
        // Brackets in code, such as `[journal]`, stay.
        let is_code = before.ends_with('`') && after.starts_with('`');
        text = if is_code { text + before + "[" + inner + "]" } else { text + before + inner };
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    text + rest
}
