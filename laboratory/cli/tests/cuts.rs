//! Partitions the network of four real processes into two halves until TCP has backed off, then heals it.
//!
//! The networks are Linux network namespaces, created as root or in a user namespace.
#![cfg(target_os = "linux")]

use crate::common::disks::with_own_mounts;
use crate::common::wire::{self, Wire};
use crate::common::*;
use quorate_client::{Client, ClientConfig, StatusProbe};
use quorate_types::{Height, Status};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const REPLICAS: u8 = 4;
const QUORUM: usize = 3;
/// Host of the clients, which is never partitioned.
const CLIENTS: u8 = REPLICAS;
/// Duration of the partition, long enough for TCP's retransmission timeouts to grow to many seconds.
const CUT: Duration = Duration::from_secs(15);
/// Maximum time until the cluster commits again, in view timeouts of the same run.
const MAX_TIMEOUTS: u32 = 2;
/// Time after which a test counts as hung.
const HANG: Duration = Duration::from_secs(120);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Returns whether two hosts are in the same half: replicas 0 and 1, or 2 and 3.
fn on_one_side(one: u8, other: u8) -> bool {
    one == CLIENTS || other == CLIENTS || one / 2 == other / 2
}

struct Replica(Child);

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a replica on its own host.
fn start(net: &str, replica: u8) -> io::Result<(Replica, File)> {
    let start = || {
        let device = wire::enter(replica)?;
        let home = Path::new(net).join(format!("replica-{replica}"));
        let log = File::create(home.join("log"))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.args(["node", "--dir"]).arg(home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok((Replica(command.spawn()?), device))
    };
    thread::scope(|scope| scope.spawn(start).join().expect("it does not panic"))
}

fn read(probe: &mut StatusProbe) -> Vec<Status> {
    let start = Instant::now();
    loop {
        let statuses: Vec<Status> =
            probe.read(Duration::from_secs(2)).expect("a socket").into_iter().flatten().collect();
        if statuses.len() == usize::from(REPLICAS) {
            return statuses;
        }
        assert!(start.elapsed() < HANG, "not all replicas answer");
    }
}

/// Returns the height reached by a quorum.
fn height(statuses: &[Status]) -> Height {
    let mut heights: Vec<Height> = statuses.iter().map(|status| status.height).collect();
    heights.sort_unstable();
    heights[heights.len() - QUORUM]
}

/// Waits until the replicas' statuses satisfy `wanted`, and returns the elapsed time.
fn wait_until(probe: &mut StatusProbe, what: &str, wanted: impl Fn(&[Status]) -> bool) -> Duration {
    let start = Instant::now();
    loop {
        let statuses = read(probe);
        if wanted(&statuses) {
            return start.elapsed();
        }
        assert!(start.elapsed() < HANG, "{what}: still not: {statuses:?}");
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Writes until the test is over, and repeats writes that time out.
fn write(config: &ClientConfig, key: usize, is_over: &AtomicBool) {
    let mut client = Client::connect(config).expect("the replicas are reachable");
    for number in 0_u64.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("{key}-{number}");
        let put = quorate_applications::KeyValueCommand::Put { key: key.as_bytes(), value: b"value" };
        let _ = client.execute(&put.to_vec());
    }
}

/// Time from the start of the partition until a replica's view timed out (which happens only with pending commands),
/// and from its end until a quorum committed again.
struct Healing {
    view_timeout: Duration,
    commit: Duration,
}

fn cut_and_heal(net: &str, wire: &Wire<'_>) -> Healing {
    let config = ClientConfig::load(&Path::new(net).join("client.toml")).expect("it was written");
    let mut probe = StatusProbe::connect(&config).expect("a socket");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|key| {
                let (config, is_over) = (&config, &is_over);
                scope.spawn(move || write(config, key, is_over))
            })
            .collect();
        wait_until(&mut probe, "it works", |statuses| height(statuses) > Height(10));
        let before = read(&mut probe);
        wire.cut(true);
        let view_timeout = wait_until(&mut probe, "a view times out", |statuses| {
            statuses.iter().zip(&before).any(|(now, before)| now.view_timeouts > before.view_timeouts)
        });
        let at_once = height(&read(&mut probe));
        thread::sleep(CUT.saturating_sub(view_timeout));
        let cut = height(&read(&mut probe));
        assert_eq!(cut, at_once, "neither half commits anything");
        wire.cut(false);
        let commit = wait_until(&mut probe, "it heals", |statuses| height(statuses) > cut);
        assert!(read(&mut probe).iter().all(|status| status.evidence.is_empty()));
        is_over.store(true, Ordering::Relaxed);
        assert!(writers.into_iter().all(|writer| writer.join().is_ok()));
        Healing { view_timeout, commit }
    })
}

#[test]
fn the_cluster_recovers_from_a_partition_within_two_view_timeouts() {
    with_own_mounts("cut", |directory| {
        for protocol in ["jolteon", "pbft"] {
            let net = directory.join(protocol).to_str().expect("a test's path is UTF-8").to_owned();
            let hosts: Vec<String> = (0..REPLICAS).map(|host| wire::address(host).to_string()).collect();
            succeeds(&["testnet", "--dir", &net, "--protocol", protocol, "--hosts", &hosts.join(",")]);
            let own = || wire::enter(CLIENTS).map(|device| thread::scope(|scope| run(scope, &net, device)));
            // A separate thread gives each protocol its own host.
            let healing = thread::scope(|scope| scope.spawn(own).join());
            match healing.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                Ok(healing) => judge(protocol, &healing),
                Err(error) => return skip(&error),
            }
        }
    });
}

/// Writes around the captured output, so that the message is visible.
fn skip(error: &io::Error) {
    let why = "it needs network namespaces and /dev/net/tun";
    writeln!(io::stderr(), "the test of a partition was skipped: {why}: {error}").expect("standard error");
}

fn run<'a>(scope: &'a thread::Scope<'a, '_>, net: &str, clients: File) -> Healing {
    let (replicas, mut devices): (Vec<Replica>, Vec<File>) =
        (0..REPLICAS).map(|replica| start(net, replica).expect("as the first host")).unzip();
    devices.push(clients);
    let wire = Wire::start(scope, devices, on_one_side);
    let healing = cut_and_heal(net, &wire);
    drop(replicas);
    healing
}

fn judge(protocol: &str, healing: &Healing) {
    let Healing { view_timeout, commit } = *healing;
    println!(
        "{protocol}: a view timed out {view_timeout:?} after the cut, and a quorum committed {commit:?} after its end"
    );
    assert!(commit <= MAX_TIMEOUTS * view_timeout, "{protocol}: {commit:?}, and a view timeout is {view_timeout:?}");
}
