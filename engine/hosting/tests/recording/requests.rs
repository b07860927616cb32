//! The times of requests in a replay are the times at which the recorded replicas received and committed the bundles.

use crate::common::{NO_LIMIT, REPLICAS, Scratch, bundle, record};
use quorate_consensus::config::ProtocolKind;
use quorate_hosting::recording::{Reader, Request, Requests, replay};
use std::path::Path;
use std::time::Duration;

const ROUNDS: u64 = 6;

fn collect(path: &Path, until: Option<u64>) -> (Requests, Vec<String>) {
    let (mut requests, mut lines) = (Requests::default(), Vec::new());
    let mut tell = |line: &str| lines.push(line.to_owned());
    let mut reader = Reader::open(path).expect("a recording");
    replay(&mut reader, until, Some(&mut tell), Some(&mut requests)).expect("a valid recording");
    (requests, lines)
}

/// Returns the times, as text, of the steps of a replica in which its input, or an action after it, contains all the
/// words.
fn times(lines: &[String], replica: usize, words: &[&str]) -> Vec<String> {
    let (mut times, mut now) = (Vec::new(), None);
    for line in lines {
        if let [_, time, who, ..] = line.split_whitespace().collect::<Vec<_>>()[..]
            && who.starts_with('R')
        {
            now = (who == format!("R{replica}")).then(|| time.to_owned());
        }
        if let Some(now) = now.as_ref().filter(|_| words.iter().all(|word| line.contains(word))) {
            times.push(now.clone());
        }
    }
    times
}

#[test]
fn requests_have_the_times_of_their_steps() {
    for protocol in ProtocolKind::ALL {
        let scratch = Scratch::new();
        let path = scratch.path("life.recording");
        record(*protocol, ROUNDS, &path, NO_LIMIT);
        let (requests, lines) = collect(&path, None);
        assert_eq!((requests.committed().len(), requests.open()), (REPLICAS * ROUNDS as usize, 0), "{protocol}");
        for replica in 0..REPLICAS {
            let of_replica = |request: &&Request| request.replica.index() == replica;
            let own: Vec<&Request> = requests.committed().iter().filter(of_replica).collect();
            let arrived: Vec<String> = own.iter().map(|request| format!("{:?}", request.received)).collect();
            assert_eq!(arrived, times(&lines, replica, &["takes from clients"]), "{protocol}");
            let committed: Vec<String> = own.iter().map(|request| format!("{:?}", request.committed)).collect();
            assert_eq!(committed, times(&lines, replica, &[" commits h", "1 commands"]), "{protocol}");
            for (round, request) in own.iter().enumerate() {
                assert_eq!((request.bundle, request.commands), (bundle(round as u64).digest(), 1));
            }
        }
    }
}

#[test]
fn one_replica_proposes_each_request() {
    let scratch = Scratch::new();
    let path = scratch.path("life.recording");
    record(ProtocolKind::Jolteon, ROUNDS, &path, NO_LIMIT);
    let (requests, _) = collect(&path, None);
    for round in 0..ROUNDS {
        let digest = bundle(round).digest();
        let proposals = requests.committed().iter().filter(|request| request.bundle == digest);
        assert_eq!(proposals.filter(|request| request.proposed.is_some()).count(), 1, "round {round}");
    }
    for request in requests.committed() {
        assert!(request.proposed.is_none_or(|time| request.received <= time && time <= request.committed));
        assert!(Duration::ZERO < request.longest_pause && request.longest_pause <= request.latency(), "{request:?}");
    }
}

#[test]
fn requests_that_are_not_committed_stay_open() {
    let scratch = Scratch::new();
    let path = scratch.path("life.recording");
    record(ProtocolKind::Jolteon, ROUNDS, &path, NO_LIMIT);
    // The replicas start, and then each of them receives the first command.
    let (requests, _) = collect(&path, Some(2 * REPLICAS as u64));
    assert_eq!(requests.committed().len(), 0);
    assert!(requests.open() > 0);
}
