//! A state machine on a local cluster.

use crate::{Counter, TooMuch, add};
use quorate::prelude::*;
use quorate::{ClientError, ReplicaId};

#[test]
fn commands_have_typed_replies_and_errors_and_questions_see_the_state() {
    let cluster = LocalCluster::<Counter>::start(4).expect("ports are free");
    let mut client = cluster.client().expect("the replicas run");
    assert_eq!(client.execute(&add(40)).expect("a reply"), Ok(40));
    assert_eq!(client.execute(&add(2)).expect("a reply"), Ok(42));
    assert_eq!(client.execute(&add(u64::MAX)).expect("a reply"), Err(TooMuch), "the machine's own error");
    let state = client.query(&()).expect("an answer");
    assert_eq!(state, Counter { total: 42, last: Some("add 2".to_owned()) });
    let ended = cluster.shut_down().expect("all replicas end well");
    assert_eq!(ended.len(), 4);
    // A client's reply is proved by f+1 replicas; the others may have been stopped while lagging behind.
    let executed = ended.iter().filter(|(_, status)| status.committed_commands >= 3).count();
    assert!(executed >= 2, "{ended:?}");
}

#[test]
fn a_cluster_of_four_goes_on_without_its_leader_and_stops_without_two() {
    let mut cluster = LocalCluster::<Counter>::start_with(4, |config| config.consensus.view_timeout_ms = 100)
        .expect("ports are free");
    let mut client = cluster.client().expect("the replicas run");
    assert_eq!(client.execute(&add(1)).expect("a reply"), Ok(1));
    cluster.stop(ReplicaId(0)).expect("it ran");
    assert_eq!(client.execute(&add(1)).expect("a reply"), Ok(2));
    cluster.stop(ReplicaId(1)).expect("it ran");
    let mut config = cluster.client_config().clone();
    config.request_timeout_ms = 500;
    let mut impatient = Client::<Counter>::connect(&config).expect("f+1 replicas run");
    let error = impatient.execute(&add(1)).expect_err("there is no quorum");
    assert!(matches!(&error, Error::Client(why) if matches!(**why, ClientError::Timeout(_))), "{error}");
}

#[test]
fn a_cluster_that_cannot_be_says_so() {
    let error = LocalCluster::<Counter>::start(0).err().expect("no replicas");
    assert!(error.to_string().contains("members"), "{error}");
    let error = LocalCluster::<Counter>::start_with(4, |config| config.consensus.window = 0).err().expect("no window");
    assert!(error.to_string().contains("window"), "{error}");
}
