//! A replicated counter: four replicas in this process, one of which then fails.

use quorate::ReplicaId;
use quorate::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize)]
struct Counter(u64);

impl StateMachine for Counter {
    const NAME: &'static str = "counter";
    type Command = u64;
    type Reply = u64;
    type Query = ();
    type Answer = u64;

    fn apply(&mut self, _: &BlockContext, number: u64) -> u64 {
        self.0 = self.0.wrapping_add(number);
        self.0
    }

    fn query(&self, (): ()) -> u64 {
        self.0
    }
}

fn main() -> Result<(), Error> {
    let mut cluster = LocalCluster::<Counter>::start(4)?;
    let mut client = cluster.client()?;
    println!("{}", client.execute(&40)?);
    cluster.stop(ReplicaId(0))?; // the leader; the others elect another
    println!("{}", client.execute(&2)?);
    Ok(())
}
