//! Documentation of each key of `config.toml`, taken from the doc comment of its field: one text for the source, for
//! the file that `quorate testnet` writes and for `docs/CONFIGURATION.md`.

use crate::config::NodeConfig;
use crate::parameters::is_cluster_key;
use quorate_consensus::config::{
    BatchPolicy, Dissemination, LeaderKind, ProtocolKind, SOURCE as CONSENSUS, ViewDuration, VotesTo,
};
use quorate_network::channels::ChannelKind;
use quorate_network::transports::retransmission::SOURCE as RETRANSMISSION;
use quorate_network::transports::{
    CONFIG_SOURCE as LINKS, Congestion, QuicVotes, RetransmissionProfile, TransportKind,
};
use quorate_types::Choice;

/// Width of a comment in a configuration file, in columns.
const COLUMNS: usize = 110;

/// A key of a configuration file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Name of the table; empty outside all tables.
    pub table: &'static str,
    pub name: String,
    pub doc: String,
}

/// Table of `config.toml`, with the struct that holds it.
struct Table {
    name: &'static str,
    of: &'static str,
    source: &'static str,
}

const TABLES: &[Table] = &[
    Table { name: "", of: "NodeConfig", source: include_str!("config.rs") },
    Table { name: "clients", of: "ClientRules", source: include_str!("client_rules.rs") },
    Table { name: "consensus", of: "Config", source: CONSENSUS },
    Table { name: "links", of: "LinkConfig", source: LINKS },
    Table { name: "tcp", of: "TcpConfig", source: LINKS },
    Table { name: "packets", of: "PacketConfig", source: LINKS },
    Table { name: "retransmission", of: "RetransmissionConfig", source: RETRANSMISSION },
    Table { name: "quic", of: "QuicConfig", source: LINKS },
    Table { name: "journal", of: "JournalConfig", source: include_str!("durability.rs") },
    Table { name: "laboratory", of: "Laboratory", source: include_str!("laboratory.rs") },
    Table { name: "baselines", of: "Baselines", source: include_str!("baselines.rs") },
    Table { name: "recording", of: "RecordingConfig", source: include_str!("recording.rs") },
    Table { name: "members", of: "Member", source: quorate_types::member::SOURCE },
];

/// Returns the keys of `config.toml`, in the order of the source.
pub fn keys() -> Vec<Key> {
    let is_table = |name: &str| TABLES.iter().any(|table| table.name == name);
    let of = |table: &'static Table| fields(table.name, table.source, table.of);
    let keys = TABLES.iter().flat_map(of).filter(|key| !(key.table.is_empty() && is_table(&key.name)));
    keys.map(|key| with_scope(Key { doc: with_choices(&key), ..key })).collect()
}

/// Returns the public fields of a struct, with their documentation; `table` is the table that the struct holds.
pub fn fields(table: &'static str, source: &str, of: &str) -> Vec<Key> {
    let begin = format!("pub struct {of} {{");
    let body = source.lines().skip_while(|line| *line != begin).skip(1).take_while(|line| *line != "}");
    let (mut keys, mut doc) = (Vec::new(), String::new());
    for line in body.map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            doc += text;
        } else if let Some((name, _)) = line.strip_prefix("pub ").and_then(|field| field.split_once(':')) {
            keys.push(Key { table, name: name.to_owned(), doc: without_links(std::mem::take(&mut doc).trim()) });
        }
    }
    keys
}

/// Replaces intra-doc links by their text.
fn without_links(doc: &str) -> String {
    let (mut text, mut rest) = (String::new(), doc);
    while let Some((before, link)) = rest.split_once('[') {
        let Some((inner, after)) = link.split_once(']') else { break };
        text = text + before + inner;
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    text + rest
}

/// Appends the names that a key with fixed choices accepts.
fn with_choices(key: &Key) -> String {
    let names = match (key.table, key.name.as_str()) {
        ("", "transport") => TransportKind::names(),
        ("retransmission", "profile") => RetransmissionProfile::names(),
        ("", "channel") => ChannelKind::names(),
        ("quic", "congestion") => Congestion::names(),
        ("quic", "votes") => QuicVotes::names(),
        ("consensus", "protocol") => ProtocolKind::names(),
        ("consensus", "leader") => LeaderKind::names(),
        ("consensus", "votes") => VotesTo::names(),
        ("consensus", "batch_policy") => BatchPolicy::names(),
        ("consensus", "dissemination") => Dissemination::names(),
        ("consensus", "view_duration") => ViewDuration::names(),
        _ => return key.doc.clone(),
    };
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{} One of {}.", key.doc, names.join(", "))
}

/// Says of a key that must be equal on all replicas that it must be, unless its text does.
fn with_scope(key: Key) -> Key {
    match is_cluster_key(key.table, &key.name) && !key.doc.contains("same on") {
        true => Key { doc: format!("{} The same on every replica.", key.doc), ..key },
        false => key,
    }
}

/// Returns the default of a key as TOML; `None` if it has none or is absent by default.
pub fn default_of(key: &Key) -> Option<String> {
    const NEEDED: [&str; 2] = ["cluster", "replica"];
    let template = toml::Table::try_from(NodeConfig::template("")).expect("every setting has a form in TOML");
    let table = match key.table {
        "" if NEEDED.contains(&key.name.as_str()) => return None,
        "" => &template,
        name => template.get(name)?.as_table()?,
    };
    table.get(&key.name).map(ToString::to_string)
}

impl NodeConfig {
    /// Returns the text that [`NodeConfig::read`] reads, with every key written out and explained.
    pub fn to_toml(&self) -> String {
        explain(&toml::to_string(self).expect("every setting has a form in TOML"))
    }
}

/// Inserts an explanation before each key; absent keys are added as comments.
fn explain(text: &str) -> String {
    let keys = keys();
    let mut out = String::from(
        "# The settings of one replica. docs/CONFIGURATION.md has all keys, also those that are absent here.\n",
    );
    let (mut table, mut seen) = (String::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        let header = line.strip_prefix('[').map(|header| header.trim_matches(['[', ']']).to_owned());
        if let Some(header) = header {
            if table != "members" {
                absent(&keys, &table, &seen, &mut out);
            }
            out.push('\n');
            if header == "members" && table != "members" {
                comment("The committee, in the order of the replica ids.", &mut out);
            }
            table = header;
        } else if let Some((name, _)) = line.split_once(" = ") {
            let id = (table.clone(), name.to_owned());
            let key = keys.iter().find(|key| key.table == id.0 && key.name == id.1);
            if let Some(key) = key.filter(|_| !seen.contains(&id)) {
                if table != "members" {
                    out.push('\n');
                }
                comment(&told(key), &mut out);
                seen.push(id);
            }
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Appends the keys of a table that are not set.
fn absent(keys: &[Key], table: &str, seen: &[(String, String)], out: &mut String) {
    let is_set = |key: &Key| seen.iter().any(|(at, name)| at == table && *name == key.name);
    let is_absent = |key: &&Key| key.table == table && !is_set(key);
    for key in keys.iter().filter(is_absent) {
        out.push('\n');
        comment(&told(key), out);
        out.push_str(&format!("# {} =\n", key.name));
    }
}

/// Returns the documentation of a key, with its default unless the text already states it.
fn told(key: &Key) -> String {
    match default_of(key).filter(|_| !key.doc.to_lowercase().contains("default")) {
        Some(default) => format!("{} Default: {default}.", key.doc),
        None => key.doc.clone(),
    }
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

/// Returns a section of `docs/CONFIGURATION.md` for each table of `keys`.
pub fn to_markdown(keys: &[Key], default_of: impl Fn(&Key) -> Option<String>) -> String {
    let mut text = String::new();
    let mut table = None;
    for key in keys {
        if table != Some(key.table) {
            table = Some(key.table);
            let title = match key.table {
                "" => "Keys outside the tables".to_owned(),
                "members" => "`[[members]]`, once for each replica".to_owned(),
                name => format!("`[{name}]`"),
            };
            text.push_str(&format!("\n### {title}\n\n| key | default | what it is for |\n|---|---|---|\n"));
        }
        let default = default_of(key).map_or_else(|| "–".to_owned(), |default| format!("`{default}`"));
        text.push_str(&format!("| `{}` | {default} | {} |\n", key.name, key.doc.replace('|', "\\|")));
    }
    text
}
