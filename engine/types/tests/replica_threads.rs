//! Numbers of replica threads: their notation, the meaning of `auto`, and the stages assigned to the threads.

use quorate_types::{
    MAX_AUTO_REPLICA_THREADS, MAX_REPLICA_THREADS, NotReplicaThreads, ReplicaStages, ReplicaThreads, ReplicaWork,
};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

#[test]
fn every_number_parses_to_itself_and_others_are_refused() {
    for threads in (1..=MAX_REPLICA_THREADS).map(ReplicaThreads::Count).chain([ReplicaThreads::Auto]) {
        assert_eq!(threads.to_string().parse(), Ok(threads));
    }
    for wrong in ["0", "65", "-1", "two", "", "Auto", "1.5"] {
        assert_eq!(wrong.parse::<ReplicaThreads>(), Err(NotReplicaThreads), "{wrong}");
    }
    let read = |number: i64| ReplicaThreads::deserialize(IntoDeserializer::<Error>::into_deserializer(number));
    assert_eq!(read(3), Ok(ReplicaThreads::Count(3)));
    for wrong in [0, -1, 65] {
        assert_eq!(read(wrong).expect_err("no such number").to_string(), NotReplicaThreads.to_string());
    }
    let text = ReplicaThreads::deserialize(IntoDeserializer::<Error>::into_deserializer("auto"));
    assert_eq!(text, Ok(ReplicaThreads::Auto));
}

#[test]
fn auto_takes_a_share_of_the_cores_and_one_thread_if_replicas_outnumber_them() {
    let work = ReplicaWork { clients_sign: true, blocks_overlap: true };
    let auto = |cores, replicas| ReplicaThreads::Auto.of(cores, replicas, work);
    assert_eq!([auto(1, 1), auto(2, 1), auto(3, 1), auto(100, 1)], [1, 2, 3, MAX_AUTO_REPLICA_THREADS]);
    assert_eq!([auto(2, 4), auto(4, 4), auto(7, 4), auto(8, 4), auto(12, 4)], [1, 1, 1, 2, 3]);
    assert_eq!(ReplicaThreads::Count(7).of(1, 4, work), 7);
}

#[test]
fn auto_gives_no_more_threads_than_the_work_gains_from() {
    let threads = |blocks_overlap, clients_sign| {
        let work = ReplicaWork { clients_sign, blocks_overlap };
        [1, 2, 3, 4, 100].map(|cores| ReplicaThreads::Auto.of(cores, 1, work))
    };
    assert_eq!(threads(true, true), [1, 2, 3, 4, 4]);
    assert_eq!(threads(true, false), [1, 1, 3, 4, 4]);
    assert_eq!(threads(false, true), [1, 2, 2, 2, 2]);
    assert_eq!(threads(false, false), [1; 5]);
    let chain_without = ReplicaWork { clients_sign: false, blocks_overlap: false };
    assert_eq!(ReplicaThreads::Count(4).of(1, 4, chain_without), 4, "a number is what the user wants");
}

#[test]
fn the_second_thread_verifies_if_clients_sign() {
    let stages = |threads, clients_sign| {
        let ReplicaStages { network, verifiers } = ReplicaStages::of(threads, clients_sign);
        (network, verifiers)
    };
    assert_eq!([stages(1, true), stages(1, false)], [(false, 0); 2]);
    assert_eq!([stages(2, true), stages(2, false)], [(false, 1), (true, 0)]);
    assert_eq!([stages(3, true), stages(3, false)], [(true, 1); 2]);
    assert_eq!(stages(64, true), (true, 62));
}
