//! `quorate client`: put, get and load on a running cluster.

use crate::live::Live;
use crate::{Outcome, output};
use clap::{Args, Subcommand};
use quorate_applications::key_value::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use quorate_applications::{KeyValueCommand, KeyValueResult};
use quorate_client::{CLIENT_CONFIG_FILE, Client, ClientConfig};
use quorate_lab::bench;
use quorate_lab::render_html;
use quorate_lab::spec::{ClientAuthentication, LoadArgs, choice};
use std::path::PathBuf;

#[derive(Args)]
pub struct ClientArgs {
    /// The directory of the testnet, in which client.toml lies.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// How to show that commands are one's own [default: what client.toml says].
    #[arg(long, value_name = "HOW", value_parser = choice::<ClientAuthentication>())]
    client_authentication: Option<ClientAuthentication>,
    #[command(subcommand)]
    request: Request,
}

#[derive(Subcommand)]
enum Request {
    /// Set a key to a value.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Read a key.
    Get {
        /// The key.
        key: String,
        /// Ask f+1 replicas for the state they have, without ordering the question: quicker, but possibly stale.
        #[arg(long)]
        stale: bool,
    },
    /// Load the cluster and measure it as its clients see it.
    Load(Box<LoadArgs>),
}

pub fn run(arguments: ClientArgs) -> Outcome {
    let mut config = ClientConfig::load(&arguments.dir.join(CLIENT_CONFIG_FILE))?;
    config.client_authentication = arguments.client_authentication.unwrap_or(config.client_authentication);
    match arguments.request {
        Request::Put { key, value } => {
            fits("key", key.len(), MAX_KEY_BYTES)?;
            fits("value", value.len(), MAX_VALUE_BYTES)?;
            let command = KeyValueCommand::Put { key: key.as_bytes(), value: value.as_bytes() }.to_vec();
            let mut client = Client::connect(&config)?;
            show(&client.execute(&command)?)
        }
        Request::Get { key, stale } => {
            fits("key", key.len(), MAX_KEY_BYTES)?;
            let command = KeyValueCommand::Get { key: key.as_bytes() }.to_vec();
            let mut client = Client::connect(&config)?;
            show(&if stale { client.query(&command)? } else { client.execute(&command)? })
        }
        Request::Load(arguments) => {
            let LoadArgs(spec) = *arguments;
            let mut live = Live::new();
            let result = bench::load(&spec, &config, &mut live);
            live.clear();
            output::report(&spec, &result?, render_html)
        }
    }
}

fn fits(what: &str, bytes: usize, most: usize) -> Result<(), String> {
    if bytes > most { Err(format!("the {what} has {bytes} bytes; at most {most} fit")) } else { Ok(()) }
}

fn show(result: &[u8]) -> Outcome {
    match KeyValueResult::decode(result)? {
        KeyValueResult::Done => Ok(output::say("done")?),
        KeyValueResult::Value(value) => Ok(output::say(&String::from_utf8_lossy(value))?),
        KeyValueResult::Absent => Err("there is no such key".into()),
        KeyValueResult::Full => Err("the store is full: delete some keys".into()),
        other => Err(format!("the cluster did not understand the command: {other:?}").into()),
    }
}
