//! Texts about keys: comments in configuration files, and tables of reference pages.

use super::effect::idle;
use super::{Key, REPRODUCTION};
use crate::text::count;
use serde_json::Value;

/// Width of a comment in a configuration file, in columns.
const COLUMNS: usize = 110;
/// The table of a cluster's members, repeated in a file for each of them.
const MEMBERS: &str = "members";

impl Key {
    /// Returns the description, with the range, the accepted names unless the text contains them all, and the values of
    /// other keys with which the key has an effect.
    pub fn text(&self) -> String {
        let names: Vec<String> = self.names().iter().map(|name| format!("`{name}`")).collect();
        let mut text = match names.iter().all(|name| self.doc.contains(name)) {
            true => self.doc.clone(),
            false => format!("{} One of {}.", self.doc, names.join(", ")),
        };
        match self.range() {
            (least, Some(most)) => {
                let start = if self.takes("string") { "As a number: from" } else { "From" };
                text.push_str(&format!(" {start} {} to {}.", count(least.unwrap_or(0)), count(most)));
            }
            (Some(least), None) if least > 1 => text.push_str(&format!(" At least {}.", count(least))),
            _ => {}
        }
        if let Some(condition) = self.condition() {
            text.push_str(&format!(" Only with {condition}."));
        }
        text
    }

    /// Returns the default as written in files.
    pub fn default_text(&self) -> Option<String> {
        self.default.as_ref().map(in_toml)
    }

    /// Returns a default of many bytes in a larger unit.
    fn default_in_units(&self) -> Option<String> {
        let bytes = self.default.as_ref()?.as_u64().filter(|_| self.name().contains("bytes"))?;
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let (unit, shift) = units.into_iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift))?;
        Some(format!(" ({} {unit})", bytes >> shift))
    }

    /// Returns the description as a comment, with the default.
    fn comment(&self) -> String {
        match self.default_text() {
            Some(default) => {
                format!("{} Default: {default}{}.", self.text(), self.default_in_units().unwrap_or_default())
            }
            None => self.text(),
        }
    }
}

/// Formats a value as TOML.
fn in_toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(in_toml).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name} = {}", in_toml(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Inserts an explanation before each key of a file; keys that are absent from its tables are added as comments.
/// `members` introduces the first of the tables with that name. Omitted are keys without effect in `tree`, the same
/// configuration as a tree of tables, and switches that reproduce single papers unless they are set, since the
/// operators' program does not know them.
pub fn explain(text: &str, tree: &Value, keys: &[Key], head: &str, members: &str) -> String {
    let idle: Vec<&str> = idle(tree, keys).into_iter().map(|(key, _)| key.path.as_str()).collect();
    let (table, seen, out) = (String::new(), Vec::new(), String::new());
    let mut file = File { keys, idle, members, table, header: None, seen, out };
    comment(head, &mut file.out);
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix('[').map(|header| header.trim_matches(['[', ']'])) {
            Some(table) => file.begin(table, line),
            None => file.add(line),
        }
    }
    file.out
}

/// A file whose lines so far are explained.
struct File<'a> {
    keys: &'a [Key],
    /// Paths of the keys without effect.
    idle: Vec<&'a str>,
    members: &'a str,
    table: String,
    /// Line that begins the table, until its first key.
    header: Option<&'a str>,
    /// Paths of the keys so far.
    seen: Vec<&'a str>,
    out: String,
}

impl<'a> File<'a> {
    fn begin(&mut self, table: &str, line: &'a str) {
        if self.table != MEMBERS {
            self.add_absent();
        }
        if table == MEMBERS && self.table != MEMBERS {
            self.out.push('\n');
            comment(self.members, &mut self.out);
        }
        (self.table, self.header) = (table.to_owned(), Some(line));
    }

    fn add(&mut self, line: &str) {
        let (name, value) = line.split_once(" = ").unwrap_or((line, ""));
        let key = self.keys.iter().find(|key| key.table() == self.table && key.name() == name);
        let is_unset_switch = |key: &Key| is_switch(key) && key.default_text().as_deref() == Some(value);
        if key.is_some_and(|key| self.is_idle(key) || is_unset_switch(key)) {
            return;
        }
        self.write_header();
        if let Some(key) = key.filter(|key| !self.seen.contains(&key.path.as_str())) {
            self.out += if self.table == MEMBERS { "" } else { "\n" };
            comment(&key.comment(), &mut self.out);
            self.seen.push(&key.path);
        }
        self.out += &format!("{line}\n");
    }

    /// Writes the line that begins the table, before its first key.
    fn write_header(&mut self) {
        if let Some(header) = self.header.take() {
            let is_first_member = self.table == MEMBERS && !self.seen.iter().any(|path| path.starts_with(MEMBERS));
            self.out += if is_first_member { "" } else { "\n" };
            self.out += &format!("{header}\n");
        }
    }

    fn is_idle(&self, key: &Key) -> bool {
        self.idle.contains(&key.path.as_str())
    }

    /// Adds the keys of the table that are not set.
    fn add_absent(&mut self) {
        let is_absent = |key: &&Key| key.table() == self.table && !self.seen.contains(&key.path.as_str());
        let absent: Vec<&Key> = self.keys.iter().filter(is_absent).collect();
        for key in absent {
            if is_switch(key) || self.is_idle(key) {
                continue;
            }
            self.write_header();
            self.out.push('\n');
            comment(&key.comment(), &mut self.out);
            let example = key.mark("examples").and_then(|examples| examples.get(0)).map(in_toml);
            self.out += format!("# {} = {}", key.name(), example.unwrap_or_default()).trim_end();
            self.out.push('\n');
        }
    }
}

/// Returns whether a key reproduces figures of single papers.
fn is_switch(key: &Key) -> bool {
    key.flag().is_some_and(|flag| flag.heading == REPRODUCTION)
}

fn comment(text: &str, out: &mut String) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > COLUMNS {
            out.push_str(&std::mem::replace(&mut line, "#".into()));
            out.push('\n');
        }
        line = line + " " + word;
    }
    out.push_str(&line);
    out.push('\n');
}

/// Returns a section of a reference page for each table of `keys`.
pub fn to_markdown(keys: &[Key]) -> String {
    let mut text = String::new();
    let mut table = None;
    for key in keys {
        if table != Some(key.table()) {
            table = Some(key.table());
            let title = match key.table() {
                "" => "Keys outside the tables".to_owned(),
                MEMBERS => "`[[members]]`, once for each replica".to_owned(),
                name => format!("`[{name}]`"),
            };
            text.push_str(&format!("\n### {title}\n\n| key | default | what it is for |\n|---|---|---|\n"));
        }
        let default = key.default_text().map_or_else(|| "–".to_owned(), |default| format!("`{default}`"));
        let default = default + &key.default_in_units().unwrap_or_default();
        text.push_str(&format!("| `{}` | {default} | {} |\n", key.name(), key.text().replace('|', "\\|")));
    }
    text
}
