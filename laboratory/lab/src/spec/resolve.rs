//! Converts flags and files to a spec, and a spec back to the command that reproduces it.

use super::check::flag;
use super::defaults::OwnDefault;
use super::reproduction::{TABLE, is_of_reproduction, is_of_the_cluster, keys_of_reproduction};
use super::{
    BenchSpec, CLUSTER, COMMON, DEFAULT_OUTSTANDING, LOAD, OUTPUT, Problem, REPRODUCTION, RUN, SpecError, defaults,
    nearest, torture,
};
use crate::input;
use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use quorate_types::text::quote;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One key of a specification, with the flag of `quorate bench` that sets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Key as in a file: `batch_bytes`.
    pub key: String,
    /// Flag as on the command line: `--batch-bytes`, or `--reproduction` for a key of its table.
    pub flag: String,
    /// One of [`CLUSTER`], [`LOAD`], [`RUN`], [`OUTPUT`] and [`REPRODUCTION`].
    pub heading: String,
    pub help: String,
    /// Value of the key; several for a repeatable flag, none if nothing is set.
    pub values: Vec<String>,
    /// Whether the value is the default.
    pub is_default: bool,
    /// Whether the flag takes no value.
    pub is_switch: bool,
}

impl Setting {
    /// Returns its name in a report: the flag, or the key of a table.
    pub fn name(&self) -> String {
        if self.heading == REPRODUCTION { self.key.clone() } else { self.flag.clone() }
    }
}

/// Flags of `quorate bench`, including `--spec FILE`. Explicit flags override the file's keys, which override the
/// defaults; the result is validated.
#[derive(Clone, Debug)]
pub struct BenchArgs(pub BenchSpec);

/// Flags of `quorate client load`: those under [`LOAD`] and [`OUTPUT`]. All others are refused by name.
#[derive(Clone, Debug)]
pub struct LoadArgs(pub BenchSpec);

/// Flags of `quorate testnet` besides `--dir`: those under [`CLUSTER`]. The defaults of `base_port`, `channel` and
/// `client_authentication` are [`DEFAULT_TESTNET_PORT`], [`DEFAULT_TESTNET_CHANNEL`] and
/// [`DEFAULT_TESTNET_CLIENT_AUTHENTICATION`].
#[derive(Clone, Debug)]
pub struct ClusterArgs(pub BenchSpec);

/// Flags of `quorate torture` besides its own: those under [`CLUSTER`], and a few more. The defaults of `window` and
/// `checkpoint_interval` are [`DEFAULT_TORTURE_WINDOW`](super::DEFAULT_TORTURE_WINDOW) and
/// [`DEFAULT_TORTURE_CHECKPOINT_INTERVAL`](super::DEFAULT_TORTURE_CHECKPOINT_INTERVAL).
#[derive(Clone, Debug)]
pub struct TortureArgs(pub BenchSpec);

/// Subset of the flags that one command takes.
struct Flags {
    /// Keys or headings of its flags.
    own: &'static [&'static str],
    /// Name of the subset, for refusals.
    owner: &'static str,
    /// Whether the command takes a key of the table `[reproduction]`.
    takes_switch: fn(&str) -> bool,
    /// Defaults that differ from those of `quorate bench`.
    defaults: fn() -> Vec<OwnDefault>,
}

macro_rules! args {
    ($type:ident, $flags:expr) => {
        impl $type {
            const FLAGS: Flags = $flags;
        }

        impl Args for $type {
            fn augment_args(command: Command) -> Command {
                Self::FLAGS.add_to(command)
            }
            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $type {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                let spec = Self::FLAGS.resolve(matches);
                let refuse = |e: SpecError| clap::Error::raw(clap::error::ErrorKind::ValueValidation, e.to_string());
                spec.map($type).map_err(refuse)
            }
            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}

impl Flags {
    /// Creates the subset of `quorate bench` with these headings or keys.
    const fn under(own: &'static [&'static str], owner: &'static str, takes_switch: fn(&str) -> bool) -> Flags {
        Flags { own, owner, takes_switch, defaults: Vec::new }
    }
}

args!(BenchArgs, Flags::under(&[CLUSTER, LOAD, RUN, OUTPUT], "the bench", is_of_reproduction));
args!(LoadArgs, Flags::under(&[LOAD, OUTPUT], "the load", |_| false));
args!(
    TortureArgs,
    Flags {
        defaults: torture::defaults,
        ..Flags::under(&[CLUSTER, "clients", "seed", "json"], "the torture", is_of_the_cluster)
    }
);
args!(
    ClusterArgs,
    Flags { defaults: defaults::of_testnet, ..Flags::under(&[CLUSTER], "the cluster", is_of_the_cluster) }
);

/// Keys of the flags that most benchmarks need, shown first.
const COMMON_KEYS: &[&str] = &[
    "protocol",
    "replicas",
    "scheme",
    "transport",
    "channel",
    "leader",
    "batch",
    "payload",
    "clients",
    "outstanding",
    "rate",
    "duration",
];

/// Keys that hold a duration.
const DURATIONS: &[&str] = &["warmup", "duration"];

/// Adds the flags that set keys by name.
fn with_keys(command: Command) -> Command {
    let file = clap::Arg::new("spec").long("spec").value_name("FILE.toml");
    let switches = clap::Arg::new(TABLE)
        .long(TABLE)
        .value_name("KEY=VALUE")
        .num_args(1..)
        .value_delimiter(',')
        .hide_short_help(true);
    let help = "Switches that reproduce figures of single papers, such as payload_path=copied \
                (docs/EXPERIMENTS.md); also the table [reproduction] of the file";
    command
        .arg(file.help("Read flags that are not given from this file; its keys are the flags, with _ for -"))
        .arg(switches.action(ArgAction::Append).help(help))
}

/// Returns whether a command has a flag, by its key or its heading.
fn is_among(arg: &clap::Arg, own: &[&str]) -> bool {
    arg.get_help_heading().is_none_or(|heading| own.contains(&heading)) || own.contains(&arg.get_id().as_str())
}

/// Parses `--faults`, and recognises a value that was meant for `--fault`.
pub(super) fn parse_faults(text: &str) -> Result<u32, String> {
    text.parse::<u32>().map_err(|_| match text.parse::<super::Fault>() {
        Ok(fault) => format!("--faults is the number of faulty replicas to tolerate; did you mean `--fault {fault}`?"),
        Err(_) => "write a whole number, or omit it".to_owned(),
    })
}

impl Flags {
    /// Adds the flags of a spec, and hides those that the command does not take. They are still parsed, so that a
    /// refusal can name the command that takes them.
    fn add_to(&self, command: Command) -> Command {
        // Keep the command's own description, which the flags would replace.
        let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
        let shows_common = [CLUSTER, LOAD].iter().all(|heading| self.own.contains(heading));
        let is_common = |arg: &clap::Arg| COMMON_KEYS.contains(&arg.get_id().as_str());
        let has_switches = keys_of_reproduction().iter().any(|key| (self.takes_switch)(key));
        let command = BenchSpec::augment_args(with_keys(command))
            .about(Resettable::from(about))
            .long_about(Resettable::from(long_about))
            .mut_args(|arg| if is_among(&arg, self.own) { arg } else { arg.hide(true) })
            .mut_arg(TABLE, |arg| arg.hide(!has_switches))
            .mut_args(|arg| if shows_common && is_common(&arg) { arg.help_heading(COMMON) } else { arg })
            // `-5s` is an impossible duration, not another flag.
            .mut_args(
                |arg| if DURATIONS.contains(&arg.get_id().as_str()) { arg.allow_hyphen_values(true) } else { arg },
            )
            .mut_args(|arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg });
        (self.defaults)().into_iter().fold(command, |command, OwnDefault { key, value, help }| {
            command.mut_arg(key, |arg| match help {
                Some(help) => arg.default_value(value).help(help),
                None => arg.default_value(value),
            })
        })
    }

    /// Says why the command does not take a key as a flag.
    fn refusal(&self, key: &str) -> Problem {
        let long = format!("--{}", key.replace('_', "-"));
        if is_of_reproduction(key) && (self.takes_switch)(key) {
            let help = format!("write `--{TABLE} {key}=VALUE`, or the key in the table [{TABLE}] of --spec");
            return Problem::new(long, "is a switch that reproduces a paper, not a flag", help);
        }
        let place = if is_of_reproduction(key) { flag(key) } else { long };
        Problem::new(place, format!("is not a flag of {}", self.owner), "omit it; `quorate bench` takes it")
    }

    /// Parses a word `KEY=VALUE` of the table `[reproduction]`.
    fn switch(&self, word: &str) -> Result<(String, serde_json::Value), SpecError> {
        let refuse =
            |what: String, help: String| SpecError::Flag(Problem::new(format!("--{TABLE} {word}"), what, help));
        let Some((key, text)) = word.split_once('=') else {
            let help = format!("write, for example, `--{TABLE} payload_path=copied`");
            return Err(refuse("is not of the form KEY=VALUE".into(), help));
        };
        if !is_of_reproduction(key) {
            let known: Vec<&str> = keys_of_reproduction().iter().map(String::as_str).collect();
            let help = nearest(key, &known).map(|known| format!("did you mean `{known}`?"));
            let help = help.unwrap_or_else(|| format!("use one of {}", known.join(", ")));
            return Err(refuse(format!("`{key}` is not a key of [{TABLE}]"), help));
        }
        let command = flag_table().no_binary_name(true);
        let argument = command.get_arguments().find(|arg| arg.get_id() == key).expect("it is a key of the table");
        if !argument.get_action().takes_values() {
            let is_on = text.parse::<bool>();
            let is_on = is_on.map_err(|_| refuse(format!("`{text}` is neither true nor false"), "write one".into()))?;
            return Ok((key.to_owned(), is_on.into()));
        }
        let names = argument.get_possible_values();
        let names: Vec<&str> = names.iter().map(|name| name.get_name()).collect();
        let flag = format!("--{}={text}", key.replace('_', "-"));
        let parsed = command.clone().try_get_matches_from([flag]).map_err(|error| {
            let help = match nearest(text, &names) {
                Some(name) => format!("did you mean `{name}`?"),
                None if !names.is_empty() => format!("use one of {}", names.join(", ")),
                None => std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default(),
            };
            refuse(format!("`{text}` is not a value of `{key}`"), help)
        })?;
        let spec = BenchSpec::from_arg_matches(&parsed).expect("clap has parsed the flag");
        Ok((key.to_owned(), value_of(&keys(&spec), key).expect("a switch has a value").clone()))
    }

    fn resolve(&self, matches: &ArgMatches) -> Result<BenchSpec, SpecError> {
        let mut table = match matches.get_one::<String>("spec") {
            Some(path) => read_table(Path::new(path), path)?,
            None => Keys::new(),
        };
        let flags = keys(&BenchSpec::from_arg_matches(matches).expect("clap has parsed every flag"));
        let mut explicit = Keys::new();
        for arg in flag_table().get_arguments() {
            let key = arg.get_id().as_str();
            if matches.value_source(key) != Some(ValueSource::CommandLine) {
                continue;
            }
            if !is_among(arg, self.own) {
                return Err(SpecError::Flag(self.refusal(key)));
            }
            explicit.insert(key.into(), flags[key].clone());
        }
        let mut switches = switches_of(&mut table).clone();
        for word in matches.get_many::<String>(TABLE).unwrap_or_default() {
            let (key, value) = self.switch(word)?;
            switches.insert(key, value);
        }
        if let Some(key) = switches.keys().find(|key| !(self.takes_switch)(key)) {
            return Err(SpecError::Flag(self.refusal(key)));
        }
        explicit.insert(TABLE.into(), serde_json::Value::Object(switches));
        // A flag for one pacing replaces the file's choice of another; validation refuses two as flags.
        const PACINGS: [&str; 3] = ["rate", "outstanding", "load_profile"];
        if PACINGS.iter().any(|pacing| explicit.contains_key(*pacing)) {
            PACINGS.iter().for_each(|pacing| {
                table.remove(*pacing);
            });
        }
        table.extend(explicit);
        for OwnDefault { key, .. } in (self.defaults)() {
            table.entry(key).or_insert_with(|| flags[key].clone());
        }
        let spec = settle(table)?;
        let file = matches.get_one::<String>("spec").and_then(|path| std::fs::canonicalize(path).ok());
        let overwritten = [("--json", &spec.json), ("--report", &spec.report)].into_iter().find(|(_, path)| {
            let place = path.as_deref().and_then(|path| std::fs::canonicalize(path).ok());
            place.is_some() && place == file
        });
        match overwritten {
            None => Ok(spec),
            Some((flag, path)) => Err(SpecError::Impossible(vec![Problem {
                place: format!("--spec, {flag}"),
                what: format!("{} is the file that --spec reads", path.as_deref().unwrap_or_default()),
                help: "name another file for the result".into(),
            }])),
        }
    }
}

/// Keys of a spec and their values, before the defaults are filled in.
type Keys = serde_json::Map<String, serde_json::Value>;

fn keys(spec: &BenchSpec) -> Keys {
    match serde_json::to_value(spec) {
        Ok(serde_json::Value::Object(keys)) => keys,
        other => unreachable!("a spec is a table, not {other:?}"),
    }
}

/// Returns the value of a key, wherever it stands.
fn value_of<'a>(keys: &'a Keys, key: &str) -> Option<&'a serde_json::Value> {
    if is_of_reproduction(key) { keys.get(TABLE)?.get(key) } else { keys.get(key) }
}

/// Returns the table `[reproduction]`, empty if there is none.
fn switches_of(keys: &mut Keys) -> &mut Keys {
    let table = keys.entry(TABLE).or_insert_with(|| serde_json::Value::Object(Keys::new()));
    table.as_object_mut().expect("the file was read as a spec")
}

/// Returns a validated spec with these keys, and defaults for the others; a closed loop if no rate is set.
fn settle(keys: Keys) -> Result<BenchSpec, SpecError> {
    let has_duration = keys.contains_key("duration");
    let spec = serde_json::from_value(serde_json::Value::Object(keys));
    let mut spec: BenchSpec = spec.expect("the file was read as a spec, and the flags were parsed as one");
    if let Some(profile) = spec.load_profile.as_ref().filter(|_| !has_duration) {
        spec.duration = profile.lasts();
    }
    if spec.rate.is_none() && spec.load_profile.is_none() && !spec.search {
        // Lower a default that is too large for the payload; an explicit value is refused instead.
        let default = DEFAULT_OUTSTANDING.min(spec.max_outstanding());
        spec.outstanding.get_or_insert(default);
    }
    spec.validate()?;
    Ok(spec)
}

/// Reads the file as a table, and checks every key and value.
fn read_table(path: &Path, shown: &str) -> Result<Keys, SpecError> {
    let unreadable = |source| SpecError::Read { path: shown.into(), source };
    let text = input::settings(path).map_err(unreadable)?;
    parse_checked(&text, shown)
}

/// Parses the keys that the text sets. Errors name the file, the line and the key.
fn parse_checked(text: &str, shown: &str) -> Result<Keys, SpecError> {
    let table = DeTable::parse(text).map_err(|e| {
        let help = "write `key = value`, with text in \"quotes\" and lists in [brackets]";
        let span = e.span().unwrap_or(0..0);
        match e.message() {
            "duplicate key" => {
                let key = text.get(span.clone()).unwrap_or_default();
                file_error(
                    text,
                    shown,
                    span.start,
                    Some(key),
                    "appears twice in the file",
                    "keep one of the lines".into(),
                )
            }
            message => file_error(text, shown, span.start, None, message, help.into()),
        }
    })?;
    let table = table.into_inner();
    let command = flag_table();
    let keys = command.get_arguments().map(|arg| arg.get_id().as_str());
    let keys: Vec<&str> = keys.filter(|key| !is_of_reproduction(key)).chain([TABLE]).collect();
    check_names(&table, &keys, "a spec", text, shown)?;
    let switches = table.get(TABLE).map(|switches| switches.as_ref().as_table());
    let empty = DeTable::new();
    let switches = match switches {
        None => &empty,
        Some(Some(switches)) => switches,
        Some(None) => {
            let at = table[TABLE].span().start;
            let help = format!("write a table: [{TABLE}], and below it a key on each line");
            return Err(file_error(text, shown, at, Some(TABLE), "is not a table", help));
        }
    };
    let known: Vec<&str> = keys_of_reproduction().iter().map(String::as_str).collect();
    check_names(switches, &known, "[reproduction]", text, shown)?;
    let refuse = |e: toml::de::Error| {
        let at = e.span().map_or(0, |span| span.start);
        let entry = switches.iter().chain(&table).find(|(_, value)| value.span().contains(&at));
        let key = entry.map(|(key, _)| key.as_ref().as_ref());
        let help = entry.map_or_else(String::new, |(key, value)| help_value(&command, key.as_ref().as_ref(), value));
        let is_number = entry.is_some_and(|(_, value)| matches!(value.as_ref(), DeValue::Integer(_)))
            && !e.message().contains("expected a string");
        match key.filter(|key| is_number && super::ranges::range(key).is_some()) {
            // Serde describes the range of a number by its Rust type.
            Some(number) => {
                let value = entry.map_or("", |(_, value)| text.get(value.span()).unwrap_or_default());
                file_error(text, shown, at, key, &format!("{value} is out of range"), super::ranges::whole(number))
            }
            None => file_error(text, shown, at, key, e.message(), help),
        }
    };
    toml::from_str::<BenchSpec>(text).map_err(refuse)?;
    toml::from_str(text).map_err(refuse)
}

/// Refuses the first key of a table that is none of `known`.
fn check_names(table: &DeTable<'_>, known: &[&str], of: &str, text: &str, shown: &str) -> Result<(), SpecError> {
    let Some((key, _)) = table.iter().find(|(key, _)| !known.contains(&key.as_ref().as_ref())) else { return Ok(()) };
    let name: &str = key.as_ref().as_ref();
    let help = match nearest(name, known) {
        _ if is_of_reproduction(name) => format!("move it to the table [{TABLE}], at the end of the file"),
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use one of {}", known.join(", ")),
    };
    Err(file_error(text, shown, key.span().start, Some(name), &format!("is not a key of {of}"), help))
}

/// Returns the help for the value of a key, from the definition of its flag.
fn help_value(command: &Command, key: &str, value: &Spanned<DeValue>) -> String {
    let arg = command.get_arguments().find(|arg| arg.get_id() == key).expect("unknown keys were refused");
    let names = arg.get_possible_values();
    let names: Vec<&str> = names.iter().map(|name| name.get_name()).collect();
    let text = value.as_ref().as_str().unwrap_or_default();
    match nearest(text, &names) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None if !names.is_empty() => format!("use one of {}", names.join(", ")),
        None => {
            let default = arg.get_default_values().first().map(|value| value.to_string_lossy());
            let example = default.map_or_else(String::new, |value| match value.parse::<u64>() {
                Ok(number) => format!("; the default is {number}"),
                Err(_) => format!("; the default is \"{value}\""),
            });
            format!("write a value for: {}{example}", arg.get_help().map(ToString::to_string).unwrap_or_default())
        }
    }
}

fn file_error(text: &str, shown: &str, at: usize, key: Option<&str>, what: &str, help: String) -> SpecError {
    let line = text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
    let key = key.map(|key| format!(", key `{key}`")).unwrap_or_default();
    let place = format!("{shown}, line {line}{key}");
    SpecError::File(Problem::new(place, what.trim_end().replace('\n', "; "), help))
}

/// Returns the command with all flags of a spec, to look up their definitions.
fn flag_table() -> Command {
    BenchSpec::augment_args(Command::new("bench"))
}

/// Returns the help heading of a key; empty if the key is unknown.
pub fn heading_of(key: &str) -> String {
    let table = flag_table();
    let arg = table.get_arguments().find(|arg| arg.get_id() == key);
    arg.and_then(|arg| arg.get_help_heading()).unwrap_or_default().to_owned()
}

impl BenchSpec {
    /// Reads and validates an experiment file.
    ///
    /// # Errors
    /// The file, the line and the key, with a remedy.
    pub fn from_file(path: &Path) -> Result<BenchSpec, SpecError> {
        let shown = path.display().to_string();
        settle(read_table(path, &shown)?)
    }

    /// Parses and validates the text of an experiment file, called `name` in errors.
    ///
    /// # Errors
    /// The name, the line and the key, with a remedy.
    pub fn from_toml(text: &str, name: &str) -> Result<BenchSpec, SpecError> {
        settle(parse_checked(text, name)?)
    }

    /// Returns the experiment file of this spec, with every key written out.
    ///
    /// # Panics
    /// If the spec was not validated and has a number beyond TOML's 63 bits.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a spec is a flat table")
    }

    /// Returns every key with its value, in the order of the help.
    pub fn settings(&self) -> Vec<Setting> {
        let (own, default) = (keys(self), keys(&BenchSpec::default()));
        let table = flag_table();
        let settings = table.get_arguments().map(|arg| {
            let key = arg.get_id().as_str();
            let value = value_of(&own, key).filter(|value| !value.is_null());
            let values =
                value.map_or(&[][..], |value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
            let in_table = is_of_reproduction(key);
            let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
            Setting {
                key: key.to_owned(),
                flag: if in_table { format!("--{TABLE}") } else { flag(key) },
                heading: arg.get_help_heading().unwrap_or(RUN).to_string(),
                help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
                values: values.iter().map(text).collect(),
                is_default: value_of(&own, key) == value_of(&default, key),
                is_switch: !in_table && value.is_some_and(serde_json::Value::is_boolean),
            }
        });
        settings.collect()
    }

    /// Returns the arguments after `quorate` that reproduce this spec: `bench`, and the flags that differ from their
    /// defaults.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec!["bench".to_string()];
        for setting in self.settings().into_iter().filter(|setting| !setting.is_default) {
            if setting.is_switch {
                words.push(setting.flag);
                continue;
            }
            for value in &setting.values {
                let value =
                    if setting.heading == REPRODUCTION { format!("{}={value}", setting.key) } else { value.clone() };
                // A path that looks like a flag must be joined to its own flag.
                if value.starts_with('-') && value != "-" {
                    words.push(format!("{}={value}", setting.flag));
                } else {
                    words.extend([setting.flag.clone(), value]);
                }
            }
        }
        words
    }

    /// Returns the command that reproduces this spec, quoted for a shell.
    pub fn command_line(&self) -> String {
        let words = self.arguments();
        std::iter::once("quorate").chain(words.iter().map(String::as_str)).map(quote).collect::<Vec<_>>().join(" ")
    }
}
