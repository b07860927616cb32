//! The ledger's only binary: it writes a cluster's configuration, runs a replica, and is the client.

use ledger::{Entry, Ledger};
use quorate::{Client, ClientConfig, ClusterPlan, run_replica, write_cluster};
use std::env;
use std::error::Error;
use std::path::Path;

const USAGE: &str = "usage: ledger new DIRECTORY                        writes a cluster of four replicas
       ledger replica DIRECTORY/replica-N             runs one of them
       ledger deposit DIRECTORY ACCOUNT AMOUNT
       ledger transfer DIRECTORY FROM TO AMOUNT [UNTIL]  valid until this time, in milliseconds since 1970
       ledger balance DIRECTORY ACCOUNT";
/// First port of the cluster's replicas.
const BASE_PORT: u16 = 7400;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["new", directory] => {
            for replica in write_cluster::<Ledger>(&ClusterPlan::new("ledger", 4, BASE_PORT), Path::new(directory))? {
                println!("ledger replica {}", replica.display());
            }
        }
        ["replica", directory] => {
            run_replica::<Ledger>(Path::new(directory))?;
        }
        ["deposit", directory, to, amount] => {
            enter(directory, Entry::Deposit { to: to.into(), amount: amount.parse()? })?;
        }
        ["transfer", directory, from, to, amount, ref until @ ..] if until.len() < 2 => {
            let until_ms = until.first().map(|until| until.parse()).transpose()?;
            enter(directory, Entry::Transfer { from: from.into(), to: to.into(), amount: amount.parse()?, until_ms })?;
        }
        ["balance", directory, account] => match client(directory)?.query(&account.into())? {
            Some(balance) => println!("{balance}"),
            None => return Err(format!("there is no account `{account}`").into()),
        },
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn client(directory: &str) -> Result<Client<Ledger>, Box<dyn Error>> {
    // Both the client's and the replicas' configuration name the application.
    quorate::register::<Ledger>()?;
    Ok(Client::connect(&ClientConfig::load(&Path::new(directory).join("client.toml"))?)?)
}

fn enter(directory: &str, entry: Entry) -> Result<(), Box<dyn Error>> {
    match client(directory)?.execute(&entry)? {
        Ok(receipt) => println!("{} after this entry", receipt.to),
        Err(refusal) => return Err(refusal.to_string().into()),
    }
    Ok(())
}
