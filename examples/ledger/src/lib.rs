//! A replicated ledger: accounts with balances, which no transfer overdraws.

use quorate::{BlockContext, FeatureLevel, StateMachine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The accounts by name. A `BTreeMap` iterates in the same order on every replica; a hash table does not.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    balances: BTreeMap<String, u64>,
}

/// A change of the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Entry {
    Deposit {
        to: String,
        amount: u64,
    },
    /// Refused after `until_ms`, in milliseconds since the Unix epoch: a client that no longer waits is not surprised.
    Transfer {
        from: String,
        to: String,
        amount: u64,
        until_ms: Option<u64>,
    },
}

/// Balances after an entry, and its time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Receipt {
    pub from: Option<u64>,
    pub to: u64,
    /// When it was executed, in milliseconds since the Unix epoch: the same on all replicas.
    pub time_ms: u64,
}

/// Reason why an entry changed nothing. It is a normal reply, the same from all replicas.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refusal {
    NoAccount(String),
    Overdrawn {
        balance: u64,
    },
    /// The transfer came this many milliseconds too late.
    Expired {
        late_ms: u64,
    },
    TooMuch,
    SameAccount,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoAccount(name) => write!(f, "there is no account `{name}`"),
            Refusal::Overdrawn { balance } => write!(f, "the balance is only {balance}"),
            Refusal::Expired { late_ms } => write!(f, "the transfer expired {late_ms} ms ago"),
            Refusal::TooMuch => write!(f, "the balance would exceed {}", u64::MAX),
            Refusal::SameAccount => write!(f, "both accounts are the same"),
        }
    }
}

/// From this level on, transfers of an account to itself are refused.
const NO_SELF_TRANSFERS: FeatureLevel = FeatureLevel(1);

impl StateMachine for Ledger {
    const NAME: &'static str = "ledger";
    const FEATURE_LEVEL: FeatureLevel = NO_SELF_TRANSFERS;
    type Command = Entry;
    type Reply = Result<Receipt, Refusal>;
    type Query = String;
    type Answer = Option<u64>;

    fn apply(&mut self, block: &BlockContext, entry: Entry) -> Result<Receipt, Refusal> {
        let time_ms = block.time_ms();
        match entry {
            Entry::Deposit { to, amount } => Ok(Receipt { from: None, to: self.add(to, amount)?, time_ms }),
            Entry::Transfer { until_ms: Some(until_ms), .. } if time_ms > until_ms => {
                Err(Refusal::Expired { late_ms: time_ms - until_ms })
            }
            Entry::Transfer { from, to, .. } if from == to && block.level() >= NO_SELF_TRANSFERS => {
                Err(Refusal::SameAccount)
            }
            Entry::Transfer { from, to, amount, .. } => {
                let balance = *self.balances.get(&from).ok_or_else(|| Refusal::NoAccount(from.clone()))?;
                let rest = balance.checked_sub(amount).ok_or(Refusal::Overdrawn { balance })?;
                self.balances.insert(from.clone(), rest);
                match self.add(to, amount) {
                    Ok(to) => Ok(Receipt { from: Some(self.balances[&from]), to, time_ms }),
                    Err(refusal) => {
                        self.balances.insert(from, balance);
                        Err(refusal)
                    }
                }
            }
        }
    }

    fn query(&self, account: String) -> Option<u64> {
        self.balances.get(&account).copied()
    }

    fn estimated_bytes(&self) -> usize {
        self.balances.keys().map(|name| name.len() + size_of::<u64>()).sum()
    }
}

impl Ledger {
    fn add(&mut self, account: String, amount: u64) -> Result<u64, Refusal> {
        let balance = self.balances.get(&account).copied().unwrap_or(0).checked_add(amount).ok_or(Refusal::TooMuch)?;
        self.balances.insert(account, balance);
        Ok(balance)
    }
}
