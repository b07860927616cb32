//! `quorate client`: the key-value store of a running cluster by hand, and load on it.

mod answer;
mod bytes;

use crate::Outcome;
use crate::live::Live;
use crate::output::Outputs;
use answer::Answer;
use bytes::Form;
use clap::{Args, Subcommand};
use quorate_applications::KeyValueCommand;
use quorate_applications::key_value::{MAX_KEY_BYTES, MAX_SCAN_PAIRS, MAX_VALUE_BYTES};
use quorate_client::{CLIENT_CONFIG_FILE, Client, ClientConfig};
use quorate_lab::bench;
use quorate_lab::render_html;
use quorate_lab::spec::{ClientAuthentication, Interval, LoadArgs, choice};
use std::path::PathBuf;

/// Arguments of `quorate client`.
#[derive(Args)]
pub struct ClientArgs {
    /// The directory with client.toml, such as that of a testnet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// How to show that commands are one's own [default: what client.toml says].
    #[arg(long, global = true, value_name = "HOW", value_parser = choice::<ClientAuthentication>())]
    client_authentication: Option<ClientAuthentication>,
    /// Longest wait for connections, and then for the result [default: what client.toml says].
    #[arg(long, global = true, value_name = "DURATION")]
    timeout: Option<Interval>,
    #[command(subcommand)]
    request: Request,
}

#[derive(Subcommand)]
enum Request {
    /// Set a key to a value.
    Put {
        /// The key.
        key: String,
        /// The value; without it, standard input to its end.
        value: Option<String>,
        #[command(flatten)]
        form: Form,
    },
    /// Read a key.
    Get {
        /// The key.
        key: String,
        /// Ask f+1 replicas for their state without ordering the question: quicker, but possibly stale.
        #[arg(long)]
        stale: bool,
        #[command(flatten)]
        form: Form,
    },
    /// Remove a key.
    Delete {
        /// The key.
        key: String,
        #[command(flatten)]
        form: Form,
    },
    /// Set a key to a value if it has the expected one; exit status 1 if it has another.
    #[command(visible_alias = "cas")]
    CompareAndSet {
        /// The key.
        key: String,
        /// The value; without it, standard input to its end.
        value: Option<String>,
        /// The value that the key must have.
        #[arg(long, value_name = "VALUE", required_unless_present = "absent")]
        expected: Option<String>,
        /// The key must not exist.
        #[arg(long, conflicts_with = "expected")]
        absent: bool,
        #[command(flatten)]
        form: Form,
    },
    /// List keys and values in ascending order of the keys, compared byte by byte.
    Scan {
        /// Only keys that begin with this.
        #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
        prefix: Option<String>,
        /// Only this key and those after it.
        #[arg(long, value_name = "KEY")]
        from: Option<String>,
        /// Only keys before this one.
        #[arg(long, value_name = "KEY")]
        to: Option<String>,
        /// Most pairs to list. They are read a page at a time: what others write meanwhile may show in later pages.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
        #[command(flatten)]
        form: Form,
    },
    /// Load the cluster and measure it as its clients see it.
    Load(Box<LoadArgs>),
}

impl ClientArgs {
    /// Whether it loads the cluster.
    pub fn is_load(&self) -> bool {
        matches!(self.request, Request::Load(_))
    }
}

pub fn run(arguments: ClientArgs) -> Outcome {
    let directory = arguments.dir;
    let file = directory.join(CLIENT_CONFIG_FILE);
    let mut config = ClientConfig::load(&file)?;
    // The load has a flag of the same name, which it refuses, and its default counts as given here.
    if !matches!(arguments.request, Request::Load(_)) {
        config.client_authentication = arguments.client_authentication.unwrap_or(config.client_authentication);
    }
    if let Some(timeout) = arguments.timeout {
        (config.connect_timeout_ms, config.request_timeout_ms) = (timeout.as_millis(), timeout.as_millis());
    }
    match arguments.request {
        Request::Put { key, value, form } => {
            let (key, value) = (form.key(&key)?, form.value(value.as_deref())?);
            let command = KeyValueCommand::Put { key: &key, value: &value };
            order(&config, &command)?.show(&key, &form)
        }
        Request::Get { key, stale, form } => {
            let key = form.key(&key)?;
            let command = KeyValueCommand::Get { key: &key };
            let answer = if stale { ask(&config, &command)? } else { order(&config, &command)? };
            answer.show(&key, &form)
        }
        Request::Delete { key, form } => {
            let key = form.key(&key)?;
            order(&config, &KeyValueCommand::Delete { key: &key })?.show(&key, &form)
        }
        Request::CompareAndSet { key, value, expected, absent: _, form } => {
            let (key, value) = (form.key(&key)?, form.value(value.as_deref())?);
            let expected = expected.map(|expected| form.decode("expected value", &expected, MAX_VALUE_BYTES));
            let expected = expected.transpose()?;
            let command = KeyValueCommand::CompareAndSwap { key: &key, expected: expected.as_deref(), value: &value };
            order(&config, &command)?.show(&key, &form)
        }
        Request::Scan { prefix, from, to, limit, form } => {
            let decode = |key: Option<String>| key.map(|key| form.key(&key)).transpose();
            let (from, to) = match decode(prefix)? {
                Some(prefix) => (prefix.clone(), successor(prefix)),
                None => (decode(from)?.unwrap_or_default(), decode(to)?),
            };
            scan(&config, from, to.as_deref(), limit.unwrap_or(u64::MAX), &form)
        }
        Request::Load(arguments) => {
            let LoadArgs(spec) = *arguments;
            let outputs = Outputs::of_spec(&spec, &[&file])?;
            let mut live = Live::new();
            let result = bench::load(&spec, &config, &directory, &mut live);
            live.clear();
            let result = result?;
            outputs.deliver(
                &result.to_table(),
                &[("--json", &|| result.to_json()), ("--report", &|| render_html(&result))],
            )?;
            result.failure().map_or(Ok(()), |failure| Err(failure.into()))
        }
    }
}

/// Has a command ordered.
fn order(config: &ClientConfig, command: &KeyValueCommand<'_>) -> Result<Answer, Box<dyn std::error::Error>> {
    Ok(Answer(Client::connect(config)?.execute(&command.to_vec())?))
}

/// Asks f+1 replicas for their state.
fn ask(config: &ClientConfig, command: &KeyValueCommand<'_>) -> Result<Answer, Box<dyn std::error::Error>> {
    Ok(Answer(Client::connect(config)?.query(&command.to_vec())?))
}

/// Lists pairs page by page as they come.
fn scan(config: &ClientConfig, mut from: Vec<u8>, to: Option<&[u8]>, limit: u64, form: &Form) -> Outcome {
    let mut client = Client::connect(config)?;
    let mut listing = answer::Listing::new(form);
    loop {
        let left = limit - listing.pairs();
        let command = KeyValueCommand::Scan { from: &from, to, limit: left.min(u64::from(MAX_SCAN_PAIRS)) as u32 };
        let answer = Answer(client.execute(&command.to_vec())?);
        let page = answer.page()?;
        let last = listing.add(&page)?;
        match last.filter(|_| page.has_more && listing.pairs() < limit).and_then(next_key) {
            Some(next) => from = next,
            None => return listing.finish(page.has_more),
        }
    }
}

/// The first key after this one, if there is one.
fn next_key(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() < MAX_KEY_BYTES { Some([key, &[0]].concat()) } else { successor(key.to_vec()) }
}

/// The least byte string that is greater than all that begin with `bytes`.
fn successor(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.last_mut() {
        if let Some(next) = last.checked_add(1) {
            *last = next;
            return Some(bytes);
        }
        bytes.pop();
    }
    None
}
