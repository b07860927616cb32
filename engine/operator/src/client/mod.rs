//! Command-line client for the key-value store of a running cluster.

mod answer;
mod bytes;

use crate::node::keep_memory_secret;
use crate::{Interval, Outcome, choice, output};
use answer::Answer;
use bytes::Form;
use clap::{Args, Subcommand};
use quorate_applications::KeyValueCommand;
use quorate_applications::key_value::{MAX_KEY_BYTES, MAX_SCAN_PAIRS, MAX_VALUE_BYTES};
use quorate_client::{CLIENT_CONFIG_FILE, Client, ClientConfig, ConfigError};
use quorate_crypto::ClientAuthentication;
use quorate_types::text::escaped;
use std::path::{Path, PathBuf};

/// Location of the cluster, and timeouts.
#[derive(Args)]
pub struct Reach {
    /// The directory with client.toml, such as that of a testnet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Authentication of commands [default: the setting in client.toml].
    #[arg(long, global = true, value_name = "HOW", value_parser = choice::<ClientAuthentication>())]
    client_authentication: Option<ClientAuthentication>,
    /// The client's key file [default: the one in client.toml].
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Maximum wait for connections, and then for the result [default: the setting in client.toml].
    #[arg(long, global = true, value_name = "DURATION")]
    timeout: Option<Interval>,
}

impl Reach {
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    pub fn file(&self) -> PathBuf {
        self.dir.join(CLIENT_CONFIG_FILE)
    }

    /// Reads client.toml and applies the flags.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn config(&self) -> Result<ClientConfig, ConfigError> {
        let mut config = ClientConfig::load(&self.file())?;
        if let Some(timeout) = self.timeout {
            (config.connect_timeout_ms, config.request_timeout_ms) = (timeout.as_millis(), timeout.as_millis());
        }
        if let Some(file) = &self.key_file {
            config.key_file = Some(file.clone());
        }
        Ok(config)
    }
}

/// Arguments of `quorate-node client`.
#[derive(Args)]
pub struct ClientArgs {
    #[command(flatten)]
    pub reach: Reach,
    #[command(subcommand)]
    pub request: Request,
}

/// Request to the key-value store.
#[derive(Subcommand)]
pub enum Request {
    /// Set a key to a value.
    Put {
        /// The key.
        key: String,
        /// The value; read from standard input if absent.
        value: Option<String>,
        #[command(flatten)]
        form: Form,
    },
    /// Read a key.
    Get {
        /// The key.
        key: String,
        /// Ask f+1 replicas for their state without ordering the request: faster, but possibly stale.
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
        /// The value; read from standard input if absent.
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
        /// Only keys with this prefix.
        #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
        prefix: Option<String>,
        /// Only this key and those after it.
        #[arg(long, value_name = "KEY")]
        from: Option<String>,
        /// Only keys before this one.
        #[arg(long, value_name = "KEY")]
        to: Option<String>,
        /// Maximum number of pairs to list. They are read a page at a time, so later pages may include concurrent
        /// writes.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
        #[command(flatten)]
        form: Form,
    },
}

/// Executes a request and shows its result.
///
/// # Errors
/// If the request fails, or the command had no effect or found no value.
pub fn run(reach: &Reach, request: Request) -> Outcome {
    keep_memory_secret()?;
    let mut config = reach.config()?;
    config.client_authentication = reach.client_authentication.unwrap_or(config.client_authentication);
    match request {
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
    }
}

/// Orders a command and returns its result.
fn order(config: &ClientConfig, command: &KeyValueCommand<'_>) -> Result<Answer, Box<dyn std::error::Error>> {
    let mut client = Client::connect(config)?;
    let answer = client.execute(&command.to_vec());
    warn(&client);
    Ok(Answer(answer?))
}

/// Queries f+1 replicas without ordering the command.
fn ask(config: &ClientConfig, command: &KeyValueCommand<'_>) -> Result<Answer, Box<dyn std::error::Error>> {
    let mut client = Client::connect(config)?;
    let answer = client.query(&command.to_vec());
    warn(&client);
    Ok(Answer(answer?))
}

/// Reports the configuration key that makes commands slow, and the replicas whose frames did not count.
fn warn(client: &Client) {
    if let Some(warning) = client.warning() {
        output::report(&format!("warning: {}", escaped(&warning)));
    }
    for (replica, why) in client.distrusted().iter() {
        output::report(&format!("warning: a frame of replica {replica} did not count: {}", escaped(why)));
    }
}

/// Prints pairs page by page, as they arrive.
fn scan(config: &ClientConfig, mut from: Vec<u8>, to: Option<&[u8]>, limit: u64, form: &Form) -> Outcome {
    let mut client = Client::connect(config)?;
    let mut listing = answer::Listing::new(form);
    loop {
        let left = limit - listing.pairs();
        let command = KeyValueCommand::Scan { from: &from, to, limit: left.min(u64::from(MAX_SCAN_PAIRS)) as u32 };
        let answer = Answer(client.execute(&command.to_vec())?);
        let page = answer.page()?;
        let last = listing.add(&page)?;
        if !listing.is_read() {
            return Ok(());
        }
        match last.filter(|_| page.has_more && listing.pairs() < limit).and_then(next_key) {
            Some(next) => from = next,
            None => {
                warn(&client);
                return listing.finish(page.has_more);
            }
        }
    }
}

/// Returns the next key in order, or `None` if a key cannot be longer.
fn next_key(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() < MAX_KEY_BYTES { Some([key, &[0]].concat()) } else { successor(key.to_vec()) }
}

/// Returns the smallest byte string greater than all strings with the prefix `bytes`.
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
