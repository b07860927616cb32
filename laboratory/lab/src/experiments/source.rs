//! TOML reader whose errors name the file, the line and the key.
//!
//! Paths count the tables of a list from 1: `claim[2].kind`.

use crate::experiments::value::Value;
use quorate_types::choice::nearest;
use quorate_types::{Choice, Fault};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Text of a file.
pub(crate) struct Source<'s> {
    /// File name in errors.
    pub name: &'s str,
    pub text: &'s str,
}

impl Source<'_> {
    fn place(&self, at: usize, path: &str) -> String {
        let line = self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        let key = if path.is_empty() { String::new() } else { format!(", key `{path}`") };
        format!("{}, line {line}{key}", self.name)
    }

    pub fn parse(&self) -> Result<Spanned<DeTable<'_>>, Fault> {
        DeTable::parse(self.text).map_err(|error| {
            let what = error.message().trim_end().replace('\n', "; ");
            let at = error.span().map_or(0, |span| span.start);
            let help = "write `key = value`, with text in \"quotes\" and lists in [brackets]";
            Fault::new(self.place(at, ""), what, help)
        })
    }
}

/// A table and its place.
#[derive(Clone)]
pub(crate) struct Table<'s> {
    source: &'s Source<'s>,
    path: String,
    at: usize,
    entries: &'s DeTable<'s>,
}

/// A value and its place.
#[derive(Clone)]
pub(crate) struct Node<'s> {
    source: &'s Source<'s>,
    path: String,
    value: &'s Spanned<DeValue<'s>>,
}

/// Returns the error for a name outside `known`.
pub(crate) fn unknown(place: String, what: &str, given: &str, known: &[&str]) -> Fault {
    let help = match nearest(given, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "leave it out".to_owned(),
        None => format!("use one of {}", known.join(", ")),
    };
    Fault::new(place, format!("`{given}` is no {what}"), help)
}

impl<'s> Table<'s> {
    pub fn root(source: &'s Source<'s>, entries: &'s DeTable<'s>) -> Table<'s> {
        Table { source, path: String::new(), at: 0, entries }
    }

    pub fn place(&self) -> String {
        self.source.place(self.at, &self.path)
    }

    pub fn fault(&self, what: impl Into<String>, help: impl Into<String>) -> Fault {
        Fault::new(self.place(), what, help)
    }

    /// Refuses keys that are not among `known`.
    pub fn known(&self, known: &[&str]) -> Result<(), Fault> {
        match self.nodes().into_iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, node)) => Err(unknown(node.place(), "key here", &key, known)),
            None => Ok(()),
        }
    }

    /// Returns all keys with their values, in the order of the file.
    pub fn nodes(&self) -> Vec<(String, Node<'s>)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let node = |key: &str, value| Node { source: self.source, path: join(&self.path, key), value };
        entries.into_iter().map(|(key, value)| (key.as_ref().to_string(), node(key.as_ref(), value))).collect()
    }

    pub fn get(&self, key: &str) -> Option<Node<'s>> {
        let (_, value) = self.entries.iter().find(|(name, _)| name.as_ref().as_ref() == key)?;
        Some(Node { source: self.source, path: join(&self.path, key), value })
    }

    pub fn need(&self, key: &str) -> Result<Node<'s>, Fault> {
        self.get(key).ok_or_else(|| self.fault(format!("`{key}` is missing"), format!("write `{key} = ..`")))
    }

    pub fn text(&self, key: &str) -> Result<Option<String>, Fault> {
        self.get(key).map(|node| node.text()).transpose()
    }

    pub fn number(&self, key: &str) -> Result<Option<f64>, Fault> {
        self.get(key).map(|node| node.number()).transpose()
    }

    pub fn flag(&self, key: &str) -> Result<bool, Fault> {
        self.get(key).map_or(Ok(false), |node| node.flag())
    }

    pub fn choice<T: Choice>(&self, key: &str) -> Result<Option<T>, Fault> {
        self.get(key).map(|node| node.choice()).transpose()
    }

    pub fn table(&self, key: &str) -> Result<Option<Table<'s>>, Fault> {
        self.get(key).map(|node| node.table()).transpose()
    }

    /// Returns the tables of `[[key]]`; may be empty.
    pub fn tables(&self, key: &str) -> Result<Vec<Table<'s>>, Fault> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        node.list()?.iter().map(Node::table).collect()
    }

    /// Returns a list of names; empty if the key is missing.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Fault> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        node.list()?.iter().map(Node::text).collect()
    }
}

impl<'s> Node<'s> {
    pub fn place(&self) -> String {
        self.source.place(self.value.span().start, &self.path)
    }

    pub fn fault(&self, what: impl Into<String>, help: impl Into<String>) -> Fault {
        Fault::new(self.place(), what, help)
    }

    fn wrong(&self, help: &str) -> Fault {
        self.fault(format!("is of the type {}", self.value.as_ref().type_str()), help)
    }

    pub fn text(&self) -> Result<String, Fault> {
        let text = self.value.as_ref().as_str().ok_or_else(|| self.wrong("write text in \"quotes\""))?;
        if text.trim().is_empty() {
            return Err(self.fault("is empty", "write a text, or leave the key out"));
        }
        Ok(text.to_owned())
    }

    pub fn flag(&self) -> Result<bool, Fault> {
        self.value.as_ref().as_bool().ok_or_else(|| self.wrong("write true or false"))
    }

    /// Reads a finite number.
    pub fn number(&self) -> Result<f64, Fault> {
        self.value()?.as_number().ok_or_else(|| self.wrong("write a number"))
    }

    /// Reads a whole number from `least` to `most`.
    pub fn whole(&self, least: u32, most: u32) -> Result<u32, Fault> {
        let help = format!("write a whole number from {least} to {most}");
        match self.value()? {
            Value::Integer(number) => u32::try_from(number)
                .ok()
                .filter(|number| (least..=most).contains(number))
                .ok_or_else(|| self.fault(format!("{number} is out of range"), help)),
            _ => Err(self.wrong(&help)),
        }
    }

    pub fn choice<T: Choice>(&self) -> Result<T, Fault> {
        let name = self.text()?;
        name.parse().map_err(|_| unknown(self.place(), T::WHAT, &name, &T::names()))
    }

    pub fn list(&self) -> Result<Vec<Node<'s>>, Fault> {
        let list = self.value.as_ref().as_array().ok_or_else(|| self.wrong("write a list in [brackets]"))?;
        let node = |(at, value)| Node { source: self.source, path: format!("{}[{}]", self.path, at + 1), value };
        Ok(list.iter().enumerate().map(node).collect())
    }

    pub fn is_list(&self) -> bool {
        self.value.as_ref().is_array()
    }

    pub fn is_table(&self) -> bool {
        self.value.as_ref().is_table()
    }

    pub fn table(&self) -> Result<Table<'s>, Fault> {
        let entries = self.value.as_ref().as_table().ok_or_else(|| self.wrong("write a table: { key = value }"))?;
        Ok(Table { source: self.source, path: self.path.clone(), at: self.value.span().start, entries })
    }

    /// Reads a value that contains no table.
    pub fn value(&self) -> Result<Value, Fault> {
        let finite = |number: f64| number.is_finite().then_some(Value::Number(number));
        let read = match self.value.as_ref() {
            DeValue::Boolean(flag) => Some(Value::Flag(*flag)),
            DeValue::String(text) => Some(Value::Text(text.to_string())),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                return parsed
                    .map(Value::Integer)
                    .map_err(|_| self.fault(format!("{} is out of range", number.as_str()), "write a smaller number"));
            }
            DeValue::Float(number) => number.as_str().parse().ok().and_then(finite),
            DeValue::Array(_) => {
                let values: Result<Vec<Value>, Fault> = self.list()?.iter().map(Node::value).collect();
                Some(Value::List(values?))
            }
            DeValue::Datetime(_) | DeValue::Table(_) => None,
        };
        read.ok_or_else(|| self.wrong("write a finite number, a text, true or false, or a list of these"))
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
