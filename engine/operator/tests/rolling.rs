//! Rolling restarts: the order and the refusals on a fleet of toys, and clusters of real processes under load.

use crate::judge::at;
use crate::{Net, REPLICAS, call, succeeds};
use quorate_applications::{KeyValueCommand, compare_histories};
use quorate_client::{Client, ClientConfig, StatusProbe};
use quorate_node::NodeConfig;
use quorate_operator::rolling::fleets::kept_flags;
use quorate_operator::rolling::{Fleet, Reading, Refusal, RestartFault, RollingRestart, Step, Trouble};
use quorate_storage::holder;
use quorate_types::{Height, Quorum, ReplicaId, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for an event has hung.
const HANG: Duration = Duration::from_secs(120);
/// Clients that put load on a cluster.
const CLIENTS: usize = 3;
const ALL: [ReplicaId; 4] = [ReplicaId(0), ReplicaId(1), ReplicaId(2), ReplicaId(3)];

/// Replicas that are ready at once.
struct Toys {
    answers: Reading,
    calls: Vec<String>,
    /// This replica does not restart.
    stubborn: Option<ReplicaId>,
    /// This replica ends when it is started.
    broken: Option<ReplicaId>,
}

impl Toys {
    fn new(leader: u16) -> Toys {
        let status = |replica| Status { leader: ReplicaId(leader), uptime_ms: 3_600_000, ..at(replica, 1_000) };
        Toys {
            answers: (0..4).map(|replica| Ok(status(replica))).collect(),
            calls: vec![],
            stubborn: None,
            broken: None,
        }
    }

    fn status(&mut self, replica: u16) -> &mut Status {
        self.answers[usize::from(replica)].as_mut().expect("it answers")
    }

    fn restart(&mut self, which: &[ReplicaId]) -> Result<Vec<ReplicaId>, quorate_operator::rolling::RestartError> {
        limits().run(self, which, &mut |_| ControlFlow::Continue(()))
    }
}

impl Fleet for Toys {
    fn read(&mut self) -> Result<Reading, Trouble> {
        Ok(self.answers.clone())
    }

    fn stop(&mut self, replica: ReplicaId) -> Result<(), Trouble> {
        self.calls.push(format!("stop {replica}"));
        Ok(())
    }

    fn start(&mut self, replica: ReplicaId) -> Result<(), Trouble> {
        self.calls.push(format!("start {replica}"));
        if self.stubborn != Some(replica) {
            self.status(replica.0).uptime_ms = 0;
        }
        if self.broken == Some(replica) {
            self.answers[replica.index()] = Err("connection refused".to_owned());
        }
        Ok(())
    }

    fn failure(&mut self, replica: ReplicaId) -> Option<String> {
        (self.broken == Some(replica)).then(|| "has ended with exit status: 3: the disk is full".to_owned())
    }
}

fn limits() -> RollingRestart {
    let quorum = Quorum::of(4).expect("a valid size");
    let (ready_timeout, poll_interval) = (Duration::from_millis(50), Duration::from_millis(1));
    RollingRestart { ready_timeout, poll_interval, ..RollingRestart::new(quorum) }
}

#[test]
fn the_leader_is_restarted_last_and_one_replica_at_a_time() {
    let mut toys = Toys::new(1);
    assert_eq!(toys.restart(&ALL).expect("all are healthy"), [0, 2, 3, 1].map(ReplicaId));
    let expected = ["stop 0", "start 0", "stop 2", "start 2", "stop 3", "start 3", "stop 1", "start 1"];
    assert_eq!(toys.calls, expected);
    let mut toys = Toys::new(1);
    assert_eq!(toys.restart(&[ReplicaId(3), ReplicaId(1), ReplicaId(3)]).expect("once each"), [3, 1].map(ReplicaId));
}

#[test]
fn a_restart_is_refused_with_the_replica_that_is_not_healthy() {
    let refusal = |change: &dyn Fn(&mut Toys)| {
        let mut toys = Toys::new(0);
        change(&mut toys);
        let error = toys.restart(&ALL).expect_err("it is refused");
        assert!(toys.calls.is_empty() && error.restarted.is_empty() && error.left == ALL, "{error}");
        assert!(error.to_string().ends_with("; no replica was stopped"), "{error}");
        match error.fault {
            RestartFault::Refused(refusal) => (refusal.to_string(), refusal),
            other => panic!("{other}"),
        }
    };
    let (text, _) = refusal(&|toys| toys.answers[2] = Err("connection refused".to_owned()));
    assert_eq!(text, "replica 2 does not answer: connection refused; help: repair it first");
    let (text, _) = refusal(&|toys| toys.status(3).abstains = true);
    assert_eq!(text, "replica 3 does not vote: its journal was lost; help: repair it first");
    let (text, _) = refusal(&|toys| toys.status(1).height = Height(0));
    assert_eq!(text, "replica 1 is 1000 blocks behind the others; help: repair it first");
    let (text, _) = refusal(&|toys| (0..4).for_each(|replica| stalls(toys.status(replica))));
    assert!(text.starts_with("the cluster commits nothing for 30 s, while 7 bundles wait"), "{text}");
    let (text, why) = refusal(&|toys| toys.status(2).connected.retain(|other| other.0 != 3));
    let apart = Refusal::Apart { replica: ReplicaId(2), without: ReplicaId(1), reaches: 2, quorum: 3 };
    assert_eq!(why, apart, "{text}");
    let mut pair = Toys::new(0);
    pair.answers.truncate(2);
    let quorum = Quorum::of(2).expect("a valid size");
    let refused = RollingRestart { quorum, ..limits() }.next(&pair.answers, &ALL[..2]);
    assert_eq!(refused, Err(Refusal::NoSpare { replicas: 2, quorum: 2 }));
}

fn stalls(status: &mut Status) {
    (status.height_age_ms, status.waiting_bundles) = (30_000, 7);
}

#[test]
fn a_replica_that_does_not_become_ready_ends_the_restart() {
    let mut toys = Toys { stubborn: Some(ReplicaId(1)), ..Toys::new(3) };
    let error = toys.restart(&ALL).expect_err("replica 1 goes on");
    let text = error.to_string();
    assert!(
        text.contains("replica 1 is not ready") && text.contains("has run for 3600 s: it was not restarted"),
        "{text}"
    );
    assert!(text.ends_with("; restarted before: 0; not restarted: 2, 3"), "{text}");
    assert_eq!(toys.calls, ["stop 0", "start 0", "stop 1", "start 1"]);

    let mut toys = Toys { broken: Some(ReplicaId(0)), ..Toys::new(3) };
    let text = toys.restart(&ALL).expect_err("replica 0 ends").to_string();
    assert!(text.contains("it has ended with exit status: 3: the disk is full; help: see its log"), "{text}");
    assert!(text.ends_with("; restarted before: none; not restarted: 1, 2, 3"), "{text}");
}

#[test]
fn an_interrupted_restart_leaves_no_replica_stopped() {
    let mut toys = Toys::new(3);
    let mut steps = Vec::new();
    let mut told = |step| {
        steps.push(step);
        match step {
            Step::Ready { replica: ReplicaId(1), .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    let error = limits().run(&mut toys, &ALL, &mut told).expect_err("it ends early");
    assert_eq!(error.to_string(), "a signal ended it; restarted before: 0, 1; not restarted: 2, 3");
    assert_eq!(toys.calls, ["stop 0", "start 0", "stop 1", "start 1"]);
    assert_eq!(steps.len(), 4);
}

#[test]
fn a_restarted_replica_keeps_its_flags() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let line = words("/usr/bin/quorate-node run --first-start --log-level warn --dir replica-0 --log-format=json");
    assert_eq!(kept_flags(&line), ["--log-level", "warn", "--log-format=json"]);
    assert!(kept_flags(&words("quorate node --dir=replica-0")).is_empty());
    assert!(kept_flags(&[]).is_empty());
}

/// Replicas that were started by a command under test, which are killed on drop.
pub struct Strays<'a>(pub &'a Net);

impl Strays<'_> {
    fn journal(&self, replica: u16) -> PathBuf {
        self.0.path.join(format!("replica-{replica}/journal"))
    }

    fn processes(&self) -> Vec<Option<u32>> {
        (0..REPLICAS).map(|replica| holder(&self.journal(replica))).collect()
    }

    fn signal_all(&self, signal: i32) {
        for process in (0..7).filter_map(|replica| holder(&self.journal(replica))) {
            // SAFETY: takes integers; the process has a journal of this test open.
            unsafe { libc::kill(process as libc::pid_t, signal) };
        }
    }
}

impl Drop for Strays<'_> {
    fn drop(&mut self) {
        self.signal_all(libc::SIGKILL);
    }
}

fn config(net: &Net) -> ClientConfig {
    ClientConfig::load(&net.path.join("client.toml")).expect("testnet wrote it")
}

/// Clients that write keys of their own, one after the other.
pub struct Load {
    ends: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<BTreeMap<String, Instant>>>,
}

impl Load {
    pub fn start(net: &Net) -> Load {
        let (ends, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let thread = |client: usize| {
            let (ends, count, config) = (ends.clone(), acknowledged.clone(), config(net));
            thread::spawn(move || {
                let mut client_of = Client::connect(&config).expect("the cluster answers");
                let mut written = BTreeMap::new();
                for number in 0.. {
                    if ends.load(Ordering::SeqCst) {
                        break;
                    }
                    let key = format!("load-{client}-{number:06}");
                    let put = KeyValueCommand::Put { key: key.as_bytes(), value: key.as_bytes() };
                    // A command without a reply in time may be executed or not.
                    if client_of.execute(&put.to_vec()).is_ok() {
                        written.insert(key, Instant::now());
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                }
                written
            })
        };
        Load { threads: (0..CLIENTS).map(thread).collect(), ends, acknowledged }
    }

    /// Waits until more commands are acknowledged.
    pub fn await_more(&self) {
        let (begun, goal) = (Instant::now(), self.acknowledged.load(Ordering::SeqCst) + 10 * CLIENTS);
        while self.acknowledged.load(Ordering::SeqCst) < goal {
            assert!(begun.elapsed() < HANG, "the load does not go on");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the acknowledged keys, and the time of each acknowledgement, ascending.
    pub fn finish(self) -> (BTreeSet<String>, Vec<Instant>) {
        self.ends.store(true, Ordering::SeqCst);
        let written: Vec<_> = self.threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let mut times: Vec<Instant> = written.iter().flat_map(|of| of.values().copied()).collect();
        times.sort_unstable();
        (written.into_iter().flatten().map(|(key, _)| key).collect(), times)
    }
}

/// Returns the longest time without an acknowledgement from any client, and when it began.
fn longest_gap(times: &[Instant]) -> (Duration, Instant) {
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0], pair[0]));
    gaps.max_by_key(|(gap, _)| *gap).expect("there are acknowledgements")
}

/// Reads all keys back, and compares the replicas.
fn judge(net: &Net, acknowledged: &BTreeSet<String>) {
    let listing = succeeds(&["client", "--dir", net.dir(), "scan", "--prefix", "load-"]);
    let found: BTreeMap<&str, &str> = listing.lines().filter_map(|line| line.split_once('\t')).collect();
    let lost: Vec<&String> = acknowledged.iter().filter(|key| found.get(key.as_str()) != Some(&key.as_str())).collect();
    assert!(lost.is_empty(), "{} of {} acknowledged keys are lost: {lost:?}", lost.len(), acknowledged.len());
    agree(net, REPLICAS);
}

/// Waits until all replicas have the same height, and compares their histories.
pub fn agree(net: &Net, replicas: u16) {
    let mut probe = StatusProbe::connect(&config(net)).expect("a probe");
    let begun = Instant::now();
    loop {
        let answers = probe.read_histories(Duration::from_secs(10)).expect("a network");
        let histories: Vec<_> = answers.into_iter().flatten().map(|of| (of.replica, of.history)).collect();
        let common = compare_histories(&histories).expect("all replicas have executed the same");
        let last = |(_, history): &(ReplicaId, Vec<(Height, _)>)| history.last().map(|(height, _)| *height);
        if histories.len() == usize::from(replicas) && histories.iter().all(|of| last(of) == Some(common)) {
            assert!(common > Height(0));
            return;
        }
        assert!(begun.elapsed() < HANG, "the replicas do not reach the same height");
    }
}

fn restart(net: &Net) {
    let told = succeeds(&["restart", "--dir", net.dir(), "--ready-timeout", "2m"]);
    assert_eq!(told, "restarted 4 replicas; all are ready\n");
}

/// Starts a cluster, and waits until a restart is allowed.
pub fn started(net: &mut Net) {
    net.start(0..REPLICAS);
    succeeds(&["client", "--dir", net.dir(), "put", "greeting", "hello"]);
    let begun = Instant::now();
    while !call(&["restart", "--dir", net.dir(), "--check"]).status.success() {
        assert!(begun.elapsed() < HANG, "the cluster is not healthy");
    }
}

#[test]
fn rolling_restarts_under_load_lose_nothing() {
    for (protocol, rounds) in [("pbft", 2), ("jolteon", 1)] {
        let mut net = Net::written("rolling", &["--protocol", protocol]);
        started(&mut net);
        let strays = Strays(&net);
        let load = Load::start(&net);
        for _ in 0..rounds {
            load.await_more();
            let before = strays.processes();
            restart(&net);
            let after = strays.processes();
            let is_new = |(before, after): (&Option<u32>, &Option<u32>)| after.is_some() && before != after;
            assert!(before.iter().zip(&after).all(is_new), "{before:?} {after:?}");
        }
        load.await_more();
        let (acknowledged, _) = load.finish();
        judge(&net, &acknowledged);
    }
}

#[test]
fn a_restart_with_a_dead_replica_is_refused_and_touches_nothing() {
    let mut net = Net::written("refused", &["--protocol", "pbft"]);
    started(&mut net);
    net.nodes[2].kill().and_then(|()| net.nodes[2].wait()).expect("it runs");
    let strays = Strays(&net);
    let before = strays.processes();
    assert_eq!(before.iter().flatten().count(), 3);
    for flags in [&[][..], &["--check"]] {
        let refused = call(&[&["restart", "--dir", net.dir()], flags].concat());
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.starts_with("error: replica 2 does not answer: "), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    assert_eq!(strays.processes(), before);
    let wrong = call(&["restart", "--dir", net.dir(), "--replica", "4"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn an_operators_command_restarts_replicas() {
    let mut net = Net::written("commands", &["--protocol", "pbft"]);
    started(&mut net);
    let strays = Strays(&net);
    let before = strays.processes();
    let run = ["restart", "--dir", net.dir(), "--replica", "1", "--ready-timeout"];
    // The lock of the journal is free once the process has ended.
    let stop = "kill -TERM $(cat {dir}/journal/lock) && flock {dir}/journal/lock true";
    let program = env!("CARGO_BIN_EXE_quorate-node");
    let start =
        format!("test {{id}}@{{host}} = 1@127.0.0.1 && {program} run --dir {{dir}} >/dev/null 2>>{{dir}}/log &");
    succeeds(&[&run[..], &["2m", "--stop-command", stop, "--start-command", &start]].concat());
    let after = strays.processes();
    assert_ne!(after[1], before[1], "it is another process");
    assert_eq!((after[0], after[2], after[3]), (before[0], before[2], before[3]));

    for (command, why) in
        [("true", "it was not restarted"), ("echo no such host >&2; exit 5", "exit status: 5: no such host")]
    {
        let failed = call(&[&run[..], &["1s", "--restart-command", command]].concat());
        let text = String::from_utf8_lossy(&failed.stderr);
        assert!(failed.status.code() == Some(1) && text.contains(why), "{text}");
    }
    assert_eq!(strays.processes(), after);
}

/// Ten rolling restarts of each protocol under load. Prints the longest time without an acknowledgement.
#[test]
#[ignore = "takes minutes; prints figures"]
fn hunt_for_gaps_in_ten_rolling_restarts() {
    for protocol in ["pbft", "jolteon", "simple-hotstuff"] {
        let mut net = Net::written("hunt", &["--protocol", protocol]);
        started(&mut net);
        let path = net.path.join("replica-0/config.toml");
        let timeout = NodeConfig::read(&path).expect("testnet wrote it").consensus.view_timeout();
        let strays = Strays(&net);
        let load = Load::start(&net);
        let mut rounds = Vec::new();
        for _ in 0..10 {
            load.await_more();
            let begun = Instant::now();
            restart(&net);
            rounds.push((begun, begun.elapsed()));
        }
        load.await_more();
        let (acknowledged, times) = load.finish();
        judge(&net, &acknowledged);
        drop(strays);
        let (gap, at) = longest_gap(&times);
        let round = rounds.iter().position(|(begun, took)| at < *begun + *took);
        let mean = rounds.iter().map(|(_, took)| took.as_secs_f64()).sum::<f64>() / rounds.len() as f64;
        println!(
            "{protocol}: {} commands acknowledged, none lost; a rolling restart took {mean:.1} s; longest gap {} ms in \
             round {round:?}, {:.2} view timeouts of {} ms",
            acknowledged.len(),
            gap.as_millis(),
            gap.as_secs_f64() / timeout.as_secs_f64(),
            timeout.as_millis()
        );
    }
}
