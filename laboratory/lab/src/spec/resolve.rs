//! Converts flags and files to a spec, and a spec back to the command that reproduces it.

use super::defaults::OwnDefault;
use super::flat::{
    DEFAULT_FLAT, ENTRIES, Entry, Flat, PHASES_ONLY, TABLE, alone, entry, flag_of, flatten, is_switch, nest, value_in,
};
use super::{
    BenchSpec, CLUSTER, COMMON, DEFAULT_OUTSTANDING, IdleKey, LOAD, OUTPUT, Problem, REPRODUCTION, RUN, SpecError,
    defaults, is_of_reproduction, keys_of_flags, keys_of_reproduction, nearest, torture,
};
use crate::input;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use quorate_operator::setting_flags::{summary, text_of};
use quorate_types::text::quote;
use serde_json::Value;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One key of a specification, with the flag of `quorate bench` that sets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Key in a file: `batch_bytes`.
    pub key: String,
    /// Flag on the command line: `--batch-bytes`, or `--reproduction` for a key of its table.
    pub flag: String,
    /// One of [`CLUSTER`], [`LOAD`], [`RUN`], [`OUTPUT`] and [`REPRODUCTION`].
    pub heading: String,
    pub help: String,
    /// Values of the key; several for a repeatable flag, none if nothing is set.
    pub values: Vec<String>,
    /// Whether the value is the default.
    pub is_default: bool,
    /// Whether the flag takes no value.
    pub is_switch: bool,
}

impl Setting {
    /// Returns its name in a report: the flag, or the table's key.
    pub fn name(&self) -> String {
        if self.heading == REPRODUCTION { self.key.clone() } else { self.flag.clone() }
    }
}

/// Flags of `quorate bench`, including `--spec FILE`. Explicit flags override the file's keys, which override the
/// defaults; the result is validated.
#[derive(Clone, Debug)]
pub struct BenchArgs(pub BenchSpec);

/// Flags of `quorate client load`: those under [`LOAD`] and [`OUTPUT`]. Others are refused by name.
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

/// Subset of the flags accepted by one command.
struct Flags {
    /// Keys or headings of its flags.
    own: &'static [&'static str],
    /// Name of the subset, for refusals.
    owner: &'static str,
    /// Whether the command accepts a key of the table `[reproduction]`.
    takes_switch: fn(&str) -> bool,
    /// Flags that an outer command claims for itself.
    outer: &'static [&'static str],
    /// Defaults that differ from `quorate bench`.
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
        Flags { own, owner, takes_switch, outer: &[], defaults: Vec::new }
    }
}

args!(BenchArgs, Flags::under(&[CLUSTER, LOAD, RUN, OUTPUT], "the bench", is_of_reproduction));
args!(LoadArgs, Flags { outer: &["client_authentication"], ..Flags::under(&[LOAD, OUTPUT], "the load", |_| false) });
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

/// Returns whether a switch changes the replicas' messages, so that a directory of `quorate testnet` may have it. The
/// others change how the replicas of a benchmark work.
fn is_of_the_cluster(key: &str) -> bool {
    let of_replicas = ["consensus", "copies"];
    entry(key).is_some_and(|entry| is_switch(entry) && of_replicas.iter().any(|of| entry.key.table().ends_with(of)))
}

/// Returns the flag of a key.
fn arg(entry: &'static Entry) -> Arg {
    let heading = if entry.flag.is_common { COMMON } else { entry.flag.heading };
    entry.arg(value_in(entry, &DEFAULT_FLAT), parse).help_heading(heading)
}

/// Parses the text of a key's value; for a list, of one item. The range of a number is checked later, since it may also
/// come from a file.
fn parse(name: &str, text: &str) -> Result<Value, String> {
    let entry = entry(name).expect("a flag has the name of its key");
    let value = entry.value(text);
    let whole = if entry.is_list() { Value::Array(vec![value.clone()]) } else { value.clone() };
    match nest(&alone(entry, whole)) {
        Ok(_) => Ok(value),
        Err(_) if name == "faults" => Err(not_faults(text)),
        Err(why) => Err(entry.refusal(why)),
    }
}

/// Returns the error for an invalid number of faulty replicas. Recognises a value that was meant for `--fault`.
fn not_faults(text: &str) -> String {
    match text.parse::<super::Fault>() {
        Ok(fault) => format!("--faults is the number of faulty replicas to tolerate; did you mean `--fault {fault}`?"),
        Err(_) => "write a whole number, or omit it".to_owned(),
    }
}

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

impl Flags {
    fn entries(&self) -> impl Iterator<Item = &'static Entry> {
        ENTRIES.iter().filter(|entry| !self.outer.contains(&entry.name))
    }

    fn takes(&self, entry: &Entry) -> bool {
        self.own.contains(&entry.flag.heading) || self.own.contains(&entry.name)
    }

    /// Adds the flags of a spec, and hides those that the command does not accept. They are still parsed, so that the
    /// error can name the command that accepts them.
    fn add_to(&self, command: Command) -> Command {
        let shows_common = [CLUSTER, LOAD].iter().all(|heading| self.own.contains(heading));
        let has_switches = keys_of_reproduction().iter().any(|key| (self.takes_switch)(key));
        let arg = |entry: &'static Entry| {
            let arg = arg(entry).hide(!self.takes(entry));
            if shows_common { arg } else { arg.help_heading(entry.flag.heading) }
        };
        let mut entries: Vec<&'static Entry> = self.entries().collect();
        entries.sort_by_key(|entry| !entry.flag.is_common);
        let command =
            with_keys(command).args(entries.into_iter().map(arg)).mut_arg(TABLE, |arg| arg.hide(!has_switches));
        (self.defaults)().into_iter().fold(command, |command, OwnDefault { key, value, help }| {
            command.mut_arg(key, |arg| match help {
                Some(help) => arg.default_value(value).help(help.clone()).long_help(help),
                None => arg.default_value(value),
            })
        })
    }

    /// Returns the error for a key that the command does not accept as a flag.
    fn refusal(&self, key: &str) -> Problem {
        let long = format!("--{}", key.replace('_', "-"));
        if is_of_reproduction(key) && (self.takes_switch)(key) {
            let help = format!("write `--{TABLE} {key}=VALUE`, or the key in the table [{TABLE}] of --spec");
            return Problem::new(long, "is a switch that reproduces a paper, not a flag", help);
        }
        let place = if is_of_reproduction(key) { flag_of(key) } else { long };
        Problem::new(place, format!("is not a flag of {}", self.owner), "omit it; `quorate bench` takes it")
    }

    /// Parses `KEY=VALUE` of the table `[reproduction]`.
    fn switch(&self, word: &str) -> Result<(String, Value), SpecError> {
        let refuse =
            |what: String, help: String| SpecError::Flag(Problem::new(format!("--{TABLE} {word}"), what, help));
        let Some((key, text)) = word.split_once('=') else {
            let help = format!("write, for example, `--{TABLE} payload_path=copied`");
            return Err(refuse("is not of the form KEY=VALUE".into(), help));
        };
        let Some(entry) = entry(key).filter(|entry| is_switch(entry)) else {
            let known = keys_of_reproduction();
            let near = || nearest(key, known).map(|known| format!("did you mean `{known}`?"));
            let help = replaced(key).map(str::to_owned).or_else(near);
            let help = help.unwrap_or_else(|| format!("use one of {}", known.join(", ")));
            return Err(refuse(format!("`{key}` is not a key of [{TABLE}]"), help));
        };
        if entry.key.takes("boolean") {
            let is_on = text.parse::<bool>();
            let is_on = is_on.map_err(|_| refuse(format!("`{text}` is neither true nor false"), "write one".into()))?;
            return Ok((key.to_owned(), is_on.into()));
        }
        let value = parse(key, text).map_err(|why| {
            let names = entry.key.names();
            let help = match nearest(text, &names) {
                Some(name) => format!("did you mean `{name}`?"),
                None if !names.is_empty() => format!("use one of {}", names.join(", ")),
                None => why,
            };
            refuse(format!("`{text}` is not a value of `{key}`"), help)
        })?;
        Ok((key.to_owned(), value))
    }

    fn resolve(&self, matches: &ArgMatches) -> Result<BenchSpec, SpecError> {
        let file = matches.get_one::<String>("spec").map(|path| File::read(Path::new(path), path)).transpose()?;
        let mut table = file.as_ref().map(|file| file.keys.clone()).unwrap_or_default();
        let mut explicit = Flat::new();
        for entry in self.entries() {
            let Some(value) = entry.given(matches) else { continue };
            if !self.takes(entry) {
                return Err(SpecError::Flag(self.refusal(entry.name)));
            }
            explicit.insert(entry.name.to_owned(), value);
        }
        let mut switches = switches_of(&mut table).clone();
        let words = matches.get_many::<String>(TABLE).unwrap_or_default();
        let words: Vec<(String, Value)> = words.map(|word| self.switch(word)).collect::<Result<_, _>>()?;
        switches.extend(words.iter().cloned());
        let flags: Vec<String> = explicit.keys().chain(words.iter().map(|(key, _)| key)).cloned().collect();
        if let Some(key) = switches.keys().find(|key| !(self.takes_switch)(key)) {
            return Err(SpecError::Flag(self.refusal(key)));
        }
        explicit.insert(TABLE.into(), Value::Object(switches));
        // A flag for one pacing replaces the file's choice of another; validation refuses two such flags.
        const PACINGS: [&str; 3] = ["rate", "outstanding", "load_profile"];
        if PACINGS.iter().any(|pacing| explicit.contains_key(*pacing)) {
            PACINGS.iter().for_each(|pacing| {
                table.remove(*pacing);
            });
        }
        table.extend(explicit);
        for OwnDefault { key, value, .. } in (self.defaults)() {
            table.entry(key).or_insert_with(|| parse(key, &value).expect("a default is valid"));
        }
        let spec = settle(table)?;
        if let Some(file) = file {
            file.refuse_idle(&spec, |key| flags.iter().any(|flag| flag == key))?;
        }
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

/// Returns the table `[reproduction]`, empty if there is none.
fn switches_of(keys: &mut Flat) -> &mut Flat {
    let table = keys.entry(TABLE).or_insert_with(|| Value::Object(Flat::new()));
    table.as_object_mut().expect("the file was read as a spec")
}

/// Returns a validated spec with these keys, and defaults for the others; a closed loop if no rate is set.
fn settle(keys: Flat) -> Result<BenchSpec, SpecError> {
    let has_duration = keys.contains_key("duration");
    let mut spec = nest(&keys).expect("the file was read as a spec, and the flags were parsed as one");
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

/// The text of a file, and the keys that it sets.
struct File<'a> {
    shown: &'a str,
    text: String,
    keys: Flat,
}

impl<'a> File<'a> {
    /// Reads a file, and checks every key and value.
    fn read(path: &Path, shown: &'a str) -> Result<File<'a>, SpecError> {
        let unreadable = |source| SpecError::Read { path: shown.into(), source };
        File::parse(input::settings(path).map_err(unreadable)?, shown)
    }

    fn parse(text: String, shown: &'a str) -> Result<File<'a>, SpecError> {
        let keys = parse_checked(&text, shown)?;
        Ok(File { shown, text, keys })
    }

    /// Refuses the first key that the file sets without effect, unless it or the key that decides varies.
    fn refuse_idle(&self, spec: &BenchSpec, varies: impl Fn(&str) -> bool) -> Result<(), SpecError> {
        let is_set = |key: &str| entry(key).is_some_and(|entry| value_in(entry, &self.keys).is_some());
        let idle = spec.idle_keys().into_iter().find(|idle| is_set(idle.key) && idle.is_fixed(&varies));
        let Some(IdleKey { key, reason, help, .. }) = idle else { return Ok(()) };
        let what = format!("has no effect, because {reason}");
        Err(file_error(&self.text, self.shown, position(&self.text, key), Some(key), &what, help))
    }

    /// Returns the specification, in which every key that is set has an effect.
    fn settle(self) -> Result<BenchSpec, SpecError> {
        let spec = settle(self.keys.clone())?;
        self.refuse_idle(&spec, |_| false)?;
        Ok(spec)
    }
}

/// Returns the position of a key in the text of a specification.
fn position(text: &str, key: &str) -> usize {
    let table = DeTable::parse(text).map(Spanned::into_inner).unwrap_or_default();
    let switches = table.get(TABLE).and_then(|table| table.as_ref().as_table());
    let mut keys = table.keys().chain(switches.into_iter().flat_map(|table| table.keys()));
    keys.find(|known| known.as_ref().as_ref() == key).map_or(0, |known| known.span().start)
}

/// Parses the keys that the text sets. Errors name the file, the line and the key.
fn parse_checked(text: &str, shown: &str) -> Result<Flat, SpecError> {
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
    let known: Vec<&str> = keys_of_flags().chain([TABLE]).collect();
    check_names(&table, &known, "a spec", text, shown)?;
    let empty = DeTable::new();
    let switches = match table.get(TABLE).map(|switches| (switches, switches.as_ref().as_table())) {
        None => &empty,
        Some((_, Some(switches))) => switches,
        Some((place, None)) => {
            let help = format!("write a table: [{TABLE}], and below it a key on each line");
            return Err(file_error(text, shown, place.span().start, Some(TABLE), "is not a table", help));
        }
    };
    check_names(switches, keys_of_reproduction(), "[reproduction]", text, shown)?;
    for (name, place) in table.iter().chain(switches) {
        check_number(name.as_ref().as_ref(), place, text, shown)?;
    }
    let values: Flat = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        file_error(text, shown, at, None, error.message(), "write text, a number, true or false".to_owned())
    })?;
    for (name, place) in table.iter().chain(switches) {
        let name: &str = name.as_ref().as_ref();
        let Some(entry) = entry(name).filter(|_| name != TABLE) else { continue };
        let value = value_in(entry, &values).cloned().unwrap_or_default();
        let refuse = |what: &str, help| Err(file_error(text, shown, place.span().start, Some(entry.name), what, help));
        if let Err(fault) = entry.key.check(&value) {
            return refuse(&fault.what, fault.help);
        }
        if let Err(why) = nest(&alone(entry, value)) {
            return refuse(&why, help_value(entry, place));
        }
    }
    Ok(values)
}

/// Refuses a whole number beyond 64 bits, with the range of its key.
fn check_number(name: &str, place: &Spanned<DeValue>, text: &str, shown: &str) -> Result<(), SpecError> {
    let Some(number) = place.as_ref().as_integer() else { return Ok(()) };
    if i64::from_str_radix(number.as_str(), number.radix()).is_ok() {
        return Ok(());
    }
    let help = entry(name).map_or_else(|| "write a smaller number".to_owned(), |entry| entry.whole_number());
    let what = format!("{} is out of range", text.get(place.span()).unwrap_or_default());
    Err(file_error(text, shown, place.span().start, Some(name), &what, help))
}

/// Returns the advice for a key that is gone.
fn replaced(key: &str) -> Option<&'static str> {
    (key == PHASES_ONLY).then_some("leave it out, and set `protocol` to `pbft-phases`")
}

/// Refuses the first key of a table outside `known`.
fn check_names(table: &DeTable<'_>, known: &[&str], of: &str, text: &str, shown: &str) -> Result<(), SpecError> {
    let Some((key, _)) = table.iter().find(|(key, _)| !known.contains(&key.as_ref().as_ref())) else { return Ok(()) };
    let name: &str = key.as_ref().as_ref();
    let help = match nearest(name, known) {
        _ if is_of_reproduction(name) => format!("move it to the table [{TABLE}], at the end of the file"),
        _ if replaced(name).is_some() => replaced(name).unwrap_or_default().to_owned(),
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use one of {}", known.join(", ")),
    };
    Err(file_error(text, shown, key.span().start, Some(name), &format!("is not a key of {of}"), help))
}

/// Returns the help for a key's value.
fn help_value(entry: &Entry, value: &Spanned<DeValue>) -> String {
    let names = entry.key.names();
    match nearest(value.as_ref().as_str().unwrap_or_default(), &names) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None if !names.is_empty() => format!("use one of {}", names.join(", ")),
        None => {
            let default = value_in(entry, &DEFAULT_FLAT).filter(|value| !value.is_null());
            let default = default.map_or_else(String::new, |value| format!("; the default is {value}"));
            format!("write a value for: {}{default}", summary(&entry.key.doc).replace('`', ""))
        }
    }
}

fn file_error(text: &str, shown: &str, at: usize, key: Option<&str>, what: &str, help: String) -> SpecError {
    let line = text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
    let key = key.map(|key| format!(", key `{key}`")).unwrap_or_default();
    let place = format!("{shown}, line {line}{key}");
    SpecError::File(Problem::new(place, what.trim_end().replace('\n', "; "), help))
}

impl BenchSpec {
    /// Reads and validates a specification, in which every key that is set has an effect.
    ///
    /// # Errors
    /// The file, the line and the key, with a remedy.
    pub fn from_file(path: &Path) -> Result<BenchSpec, SpecError> {
        let shown = path.display().to_string();
        File::read(path, &shown)?.settle()
    }

    /// Parses and validates the text of such a file, called `name` in errors.
    ///
    /// # Errors
    /// The name, the line and the key, with a remedy.
    pub fn from_toml(text: &str, name: &str) -> Result<BenchSpec, SpecError> {
        File::parse(text.to_owned(), name)?.settle()
    }

    /// Does the same with the text of one cell of a sweep, in which a key may have no effect.
    ///
    /// # Errors
    /// The name, the line and the key, with a remedy.
    pub fn of_cell(text: &str, name: &str) -> Result<BenchSpec, SpecError> {
        settle(parse_checked(text, name)?)
    }

    /// Returns the experiment file of this spec, with every key written out.
    ///
    /// # Panics
    /// If the spec was not validated and has a number beyond TOML's 63 bits.
    pub fn to_toml(&self) -> String {
        let mut flat = flatten(self);
        flat.retain(|_, value| !value.is_null());
        toml::to_string(&flat).expect("a spec is a flat table")
    }

    /// Returns every key with its value, by heading and name.
    pub fn settings(&self) -> Vec<Setting> {
        let own = flatten(self);
        let setting = |entry: &Entry| {
            let value = value_in(entry, &own).filter(|value| !value.is_null());
            let values =
                value.map_or(&[][..], |value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
            Setting {
                key: entry.name.to_owned(),
                flag: if is_switch(entry) { format!("--{TABLE}") } else { flag_of(entry.name) },
                heading: entry.flag.heading.to_owned(),
                help: summary(&entry.key.doc).replace('`', ""),
                values: values.iter().map(text_of).collect(),
                is_default: value == value_in(entry, &DEFAULT_FLAT).filter(|value| !value.is_null()),
                is_switch: !is_switch(entry) && value.is_some_and(Value::is_boolean),
            }
        };
        let under = |heading| ENTRIES.iter().filter(move |entry| entry.flag.heading == heading).map(setting);
        [CLUSTER, LOAD, RUN, OUTPUT, REPRODUCTION].into_iter().flat_map(under).collect()
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
                // A path that looks like a flag must be attached to its own flag with `=`.
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
