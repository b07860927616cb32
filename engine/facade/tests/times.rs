//! The agreed time and randomness of a block, on a local cluster.

use quorate::prelude::*;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// Maximum difference between this test's clock and a replica's: the host may correct its clock meanwhile.
const SLACK: Duration = Duration::from_secs(10);

/// Remembers the last block that it has seen.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Witness(Seen);

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Seen {
    height: u64,
    time_ms: u64,
    random: [u8; 32],
}

impl StateMachine for Witness {
    const NAME: &'static str = "witness";
    type Command = ();
    type Reply = Seen;
    type Query = ();
    type Answer = Seen;

    fn apply(&mut self, block: &BlockContext, (): ()) -> Seen {
        let (height, time_ms, random) = (block.height().0, block.time_ms(), block.randomness());
        self.0 = Seen { height, time_ms, random };
        self.0
    }

    fn query(&self, (): ()) -> Seen {
        self.0
    }
}

/// f+1 replicas give each reply, so they have seen the same.
#[test]
fn commands_see_the_same_time_and_randomness_on_all_replicas() {
    let unix_ms =
        |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970").as_millis() as u64;
    let mut cluster = LocalCluster::<Witness>::start_with(4, |config| config.consensus.view_timeout_ms = 100)
        .expect("ports are free");
    let mut client = cluster.client().expect("the replicas run");
    let before_ms = unix_ms(SystemTime::now() - SLACK);
    let first = client.execute(&()).expect("a reply");
    cluster.stop(quorate::ReplicaId(0)).expect("it ran");
    let second = client.execute(&()).expect("a reply of the other three");
    let after_ms = unix_ms(SystemTime::now() + SLACK);
    assert!(first.height < second.height && first.time_ms <= second.time_ms, "{first:?}, {second:?}");
    assert!(before_ms <= first.time_ms && second.time_ms <= after_ms, "{first:?}, {second:?}");
    assert_ne!(first.random, second.random);
    assert_eq!(client.query(&()).expect("an answer"), second);
}
