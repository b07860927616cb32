//! Flags of settings, from the declarations of their keys.

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use quorate_network::channels::ChannelKind;
use quorate_node::NodeConfig;
use quorate_types::settings::{CLUSTER, Flag, Key, keys, set, tree};
use serde::Deserialize;
use serde_json::Value;
use std::sync::LazyLock;

/// A key with a flag.
#[derive(Clone, Debug)]
pub struct SettingFlag {
    /// Name in specifications; the flag has `-` for `_`.
    pub name: &'static str,
    pub key: &'static Key,
    pub flag: Flag<'static>,
}

impl SettingFlag {
    /// Returns the flag of a key, if one is declared.
    pub fn of(key: &'static Key) -> Option<SettingFlag> {
        let flag = key.flag()?;
        Some(SettingFlag { name: flag.name.unwrap_or(key.name()), key, flag })
    }

    pub fn is_list(&self) -> bool {
        self.key.takes("array")
    }

    /// Returns the flag for a command line. `parse` parses the text of a value; for a list, of one item.
    pub fn arg(&self, default: Option<&Value>, parse: fn(&str, &str) -> Result<Value, String>) -> Arg {
        let doc = self.key.doc.replace('`', "");
        let arg = Arg::new(self.name)
            .long(self.name.replace('_', "-"))
            .help_heading(self.flag.heading)
            .help(summary(&doc).to_owned())
            .long_help(doc)
            .hide_short_help(self.flag.is_rare)
            // `-5s` is an impossible duration, not another flag.
            .allow_negative_numbers(true)
            .allow_hyphen_values(["TIME", "BITS_PER_S"].contains(&self.flag.value.unwrap_or_default()));
        if self.key.takes("boolean") {
            return arg.action(ArgAction::SetTrue).allow_negative_numbers(false);
        }
        let placeholder = self.flag.value.map_or_else(|| self.name.to_uppercase(), str::to_owned);
        let name = self.name;
        let parser: ValueParser = match self.key.names().is_empty() {
            true => ValueParser::new(move |text: &str| parse(name, text)),
            false => PossibleValuesParser::new(self.key.names()).map(Value::String).into(),
        };
        let arg = arg.value_name(placeholder).value_parser(parser);
        match default.filter(|value| !value.is_null() && !value.is_array()) {
            _ if self.is_list() => arg.action(ArgAction::Append).num_args(1..).value_delimiter(','),
            Some(default) => arg.default_value(text_of(default)),
            None => arg,
        }
    }

    /// Returns the value of a text; for a list, of one item.
    pub fn value(&self, text: &str) -> Value {
        let number = text.parse::<u64>().ok().filter(|_| self.key.takes("integer"));
        number.map_or_else(|| Value::from(text), Value::from)
    }

    /// Returns why a text is no value, given why its type refuses it.
    pub fn refusal(&self, why: String) -> String {
        let is_number = self.key.takes("integer") && !self.key.takes("string");
        if is_number { self.whole_number() } else { why }
    }

    /// Returns the help for a whole number.
    pub fn whole_number(&self) -> String {
        let (least, most) = self.key.range();
        match most {
            Some(most) => format!("write a whole number from {} to {most}", least.unwrap_or(0)),
            None => "write a whole number".to_owned(),
        }
    }

    /// Returns the value that the command line gives.
    pub fn given(&self, matches: &ArgMatches) -> Option<Value> {
        if matches.value_source(self.name) != Some(ValueSource::CommandLine) {
            return None;
        }
        let mut values = matches.try_get_many::<Value>(self.name).ok().flatten().into_iter().flatten().cloned();
        Some(match () {
            () if self.key.takes("boolean") => Value::Bool(true),
            () if self.is_list() => values.collect(),
            () => values.next().expect("clap has parsed the flag"),
        })
    }
}

/// Returns the first sentence of a description.
pub fn summary(doc: &str) -> &str {
    doc.split_once(". ").map_or(doc, |(first, _)| first).trim_end_matches('.')
}

/// Returns a value as flags have it.
pub fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Settings of a new cluster's replicas, from the flags of the keys that shape a cluster. The default of `channel` is
/// `tls`, since replicas may be on several hosts.
#[derive(Clone, Debug)]
pub struct ReplicaFlags(pub NodeConfig);

static FLAGS: LazyLock<Vec<SettingFlag>> = LazyLock::new(|| {
    let mut flags: Vec<SettingFlag> = keys::<NodeConfig>().iter().filter_map(SettingFlag::of).collect();
    flags.retain(|flag| flag.flag.heading == CLUSTER);
    flags.sort_by_key(|flag| (!flag.flag.is_common, flag.name));
    flags
});

fn template() -> NodeConfig {
    NodeConfig { channel: ChannelKind::TLS, ..NodeConfig::template("quorate") }
}

/// Parses the value of the setting with this name.
fn parse(name: &str, text: &str) -> Result<Value, String> {
    let flag = FLAGS.iter().find(|flag| flag.name == name).expect("the flag was declared");
    let value = flag.value(text);
    let whole = if flag.is_list() { Value::Array(vec![value.clone()]) } else { value.clone() };
    let mut settings = tree(&template());
    set(&mut settings, &flag.key.path, whole);
    NodeConfig::deserialize(settings).map(|_| value).map_err(|error| flag.refusal(error.to_string()))
}

impl Args for ReplicaFlags {
    fn augment_args(command: Command) -> Command {
        let defaults = tree(&template());
        let default = |flag: &SettingFlag| quorate_types::settings::at(&defaults, &flag.key.path);
        command.args(FLAGS.iter().map(|flag| flag.arg(default(flag), parse)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ReplicaFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = tree(&template());
        for flag in FLAGS.iter() {
            if let Some(value) = flag.given(matches) {
                set(&mut settings, &flag.key.path, value);
            }
        }
        let refuse =
            |error: serde_json::Error| clap::Error::raw(clap::error::ErrorKind::ValueValidation, error.to_string());
        NodeConfig::deserialize(settings).map(ReplicaFlags).map_err(refuse)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
