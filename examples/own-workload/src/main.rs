//! Throughput and latency of the ledger under its own load: eight clients move money between two hundred accounts.
//!
//! `cargo run --release -p own-workload [SECONDS]`

use ledger::{Entry, Ledger};
use quorate::LocalCluster;
use quorate::load::{self, ClientId, LoadMode, LoadOptions, Workload};
use std::error::Error;
use std::time::Duration;

const ACCOUNTS: u64 = 200;
/// Balance that each account begins with.
const BALANCE: u64 = 1_000_000;
/// Commands that each client keeps outstanding.
const OUTSTANDING: usize = 50;

/// Deposits first, then transfers between accounts that follow one another in a fixed order.
struct Transfers {
    opened: u64,
    moved: u64,
}

impl Transfers {
    fn encode(entry: &Entry, payload: &mut Vec<u8>) {
        load::encode(entry, payload).expect("an entry can be encoded");
    }
}

impl Workload for Transfers {
    fn preload(&mut self, payload: &mut Vec<u8>) -> bool {
        if self.opened == ACCOUNTS {
            return false;
        }
        Transfers::encode(&Entry::Deposit { to: format!("account-{}", self.opened), amount: BALANCE }, payload);
        self.opened += 1;
        true
    }

    fn next(&mut self, _client: ClientId, payload: &mut Vec<u8>) {
        self.moved += 1;
        // Neither step shares a factor with the number of accounts, so each account pays and is paid.
        let (from, to) = (self.moved * 7 % ACCOUNTS, self.moved * 13 % ACCOUNTS);
        let (from, to) = (format!("account-{from}"), format!("account-{to}"));
        Transfers::encode(&Entry::Transfer { from, to, amount: 1, until_ms: None }, payload);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(3), |seconds| seconds.parse())?;
    let cluster = LocalCluster::<Ledger>::start(4)?;
    let options = LoadOptions {
        clients: 8,
        mode: LoadMode::Closed { outstanding: OUTSTANDING },
        duration: Duration::from_secs(seconds),
        ..LoadOptions::default()
    };
    let report = load::run(cluster.client_config(), options, Box::new(Transfers { opened: 0, moved: 0 }))?;
    let latency = |percent| report.latency_us.value_at_quantile(percent) as f64 / 1e3;
    println!(
        "{:.0} transfers per second, median {:.1} ms, 99th percentile {:.1} ms",
        report.completed as f64 / report.window.as_secs_f64(),
        latency(0.5),
        latency(0.99)
    );
    let balance = cluster.client()?.query(&"account-0".to_owned())?;
    println!("account-0 has {}", balance.ok_or("no account was opened")?);
    cluster.shut_down()?;
    Ok(())
}
