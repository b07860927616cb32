//! All tests of this crate, in one binary.

mod local;
mod machine;
mod pipeline;
mod simulated;
mod times;

use quorate::prelude::*;
use serde::{Deserialize, Serialize};

/// A counter that also remembers its last change.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Counter {
    pub total: u64,
    pub last: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Add {
    pub amount: u64,
    pub why: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TooMuch;

impl StateMachine for Counter {
    const NAME: &'static str = "counter";
    type Command = Add;
    type Reply = Result<u64, TooMuch>;
    type Query = ();
    type Answer = Counter;

    fn apply(&mut self, _: &BlockContext, add: Add) -> Result<u64, TooMuch> {
        self.total = self.total.checked_add(add.amount).ok_or(TooMuch)?;
        self.last = Some(add.why);
        Ok(self.total)
    }

    fn query(&self, (): ()) -> Counter {
        self.clone()
    }
}

pub fn add(amount: u64) -> Add {
    Add { amount, why: format!("add {amount}") }
}
