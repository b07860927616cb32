//! Seven attacks by strangers without keys on a cluster of four processes, one after the other, and their effect on
//! honest clients.
//!
//! ```text
//! cargo run --release -p quorate-node --example hostile -- [seconds per attack, 10] [descriptors per replica, 1024]
//! ```
//!
//! Writes a testnet to a temporary directory and runs its replicas as processes with this many descriptors. One honest
//! client, connected before the attack, executes a command every 50 ms; another reconnects for each of its commands; a
//! third sends at a fixed rate. For each attack it prints the longest wait of the first two clients; the third client's
//! rate before and during the attack, and the time until that rate is restored afterwards; and the peak memory of any
//! replica and its memory afterwards. The exit status is 1 if one of the goals below is missed or a replica stopped.

#[path = "../tests/support/mod.rs"]
mod support;

use quorate_applications::KeyValueCommand;
use quorate_crypto::ClientIdentity;
use quorate_node::{NoObserver, NodeConfig, run_directory, testnet};
use quorate_testkit::bare::{self, frame};
use quorate_types::{Bundle, BundleBuilder, ClientRequest, ClusterId, Committee, Height, ReplicaId};
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::TestClient;

const NAME: &str = "hostile";
/// Maximum latency of an honest command during an attack.
const GOAL_LONGEST: Duration = Duration::from_secs(2);
/// Maximum memory of a replica.
const GOAL_MEMORY_MB: u64 = 600;
/// Maximum time after an attack until the honest rate is restored ..
const GOAL_BACK: Duration = Duration::from_secs(5);
/// .. to this fraction of the rate before the attack.
const GOAL_RATE: f64 = 0.9;
const ATTACKS: [(&str, Attack); 8] = [
    ("none", rest),
    ("status", status),
    ("squat", squat),
    ("noread", noread),
    ("partial", partial),
    ("forged", forged),
    ("flood", flood),
    ("keys", keys),
];
/// Interval between two commands of an honest client.
const PACE: Duration = Duration::from_millis(50);
/// Time for which the cluster is watched after an attack.
const AFTERWARDS: Duration = Duration::from_secs(10);
/// Window for measuring the rate after an attack.
const WINDOW: Duration = Duration::from_millis(500);
/// Number of bundles that the client with a fixed rate sends ..
const LOAD_BUNDLES: usize = 10;
const LOAD_COMMANDS: usize = 100;
/// .. per interval: 20,000 commands per second.
const LOAD_PACE: Duration = Duration::from_millis(50);
/// Size of the value queried by attackers, in bytes.
const LARGE_BYTES: usize = 1_000_000;

type Attack = fn(&Ground, Target, &AtomicBool);
type Target = (ReplicaId, SocketAddr);

/// The attackers' knowledge: client.toml.
struct Ground {
    committee: Committee,
    /// A bundle in another client's name without a valid signature, sent thousands of times.
    forged: Vec<u8>,
    forged_origin: u128,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [node, home] = &arguments[..]
        && node == "node"
    {
        run_directory(Path::new(home), Box::new(NoObserver))?;
        return Ok(ExitCode::SUCCESS);
    }
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (seconds, descriptors) = (number(0, 10)?, number(1, 1_024)?);
    let directory = std::env::temp_dir().join(format!("quorate-hostile-{}", std::process::id()));
    let written = testnet::write(&NodeConfig::template(NAME), 4, free_ports(), &directory)?;
    let mut nodes = Vec::new();
    for home in &written.directories {
        nodes.push(Node(start(home, descriptors)?));
    }
    let outcome = run(&written.client_committee()?, &mut nodes, Duration::from_secs(seconds));
    drop(nodes);
    fs::remove_dir_all(&directory)?;
    Ok(if outcome { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A process that is killed on drop.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_ports() -> u16 {
    let free = |base: &u16| (*base..base + 4).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    (16_000..).step_by(12).find(free).expect("free ports")
}

fn start(home: &Path, descriptors: u64) -> Result<Child, Box<dyn Error>> {
    let limit = libc::rlimit { rlim_cur: descriptors, rlim_max: descriptors };
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("node").arg(home).stdin(Stdio::null());
    // SAFETY: one system call between fork and exec, which does not access our memory.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    Ok(command.spawn()?)
}

/// Returns a value of a process in `/proc`, in MB.
fn memory(node: &Node, figure: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", node.0.id())).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(figure));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1_000
}

fn highest(nodes: &[Node], figure: &str) -> u64 {
    nodes.iter().map(|node| memory(node, figure)).max().unwrap_or(0)
}

fn identity(seed: u64) -> ClientIdentity {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    ClientIdentity::from_seed(&ClusterId::from_name(NAME), bytes)
}

/// Effects of an attack on honest clients.
struct Noticed {
    commands: u64,
    longest: Duration,
    new_client: Duration,
    /// Commands per second at the fixed rate, before and during the attack.
    rates: [f64; 2],
    back: Option<Duration>,
    peak_mb: u64,
}

impl Noticed {
    fn meets_the_goals(&self) -> bool {
        self.longest.max(self.new_client) <= GOAL_LONGEST
            && self.back.is_some_and(|back| back <= GOAL_BACK)
            && self.peak_mb <= GOAL_MEMORY_MB
    }
}

fn run(committee: &Committee, nodes: &mut [Node], time: Duration) -> bool {
    let ground = Ground::new(committee.clone());
    let mut honest = TestClient::of(committee.clone(), identity(1));
    honest.connect(4);
    put(&mut honest, &[7; LARGE_BYTES]);
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    println!(
        "attack   commands  longest  new client  commands/s before   during  back within  memory MB: highest   after  \
         alive  goals"
    );
    thread::scope(|scope| {
        scope.spawn(|| load(committee, &done, &over));
        let mut all_well = true;
        for (name, attack) in ATTACKS {
            let noticed = suffer(&ground, attack, nodes, &mut honest, &done, time);
            let alive = nodes.iter_mut().filter_map(|node| node.0.try_wait().ok()).filter(Option::is_none).count();
            let well = alive == nodes.len() && noticed.meets_the_goals();
            all_well &= well;
            println!(
                "{name:8} {:8} {:7.2}s {:10.2}s {:17.0} {:8.0} {:>12} {:18} {:7} {alive:4}/4  {}",
                noticed.commands,
                noticed.longest.as_secs_f64(),
                noticed.new_client.as_secs_f64(),
                noticed.rates[0],
                noticed.rates[1],
                noticed.back.map_or("never".into(), |back| format!("{:.1}s", back.as_secs_f64())),
                noticed.peak_mb,
                highest(nodes, "VmRSS:"),
                if well { "met" } else { "missed" },
            );
        }
        over.store(true, Ordering::Relaxed);
        all_well
    })
}

/// Runs an attack and watches the cluster during and after it.
fn suffer(
    ground: &Ground,
    attack: Attack,
    nodes: &[Node],
    honest: &mut TestClient,
    done: &AtomicU64,
    time: Duration,
) -> Noticed {
    let (stop, connects) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut longest, mut commands, mut peak_mb) = (Duration::ZERO, 0, 0);
    let mut live = |honest: &mut TestClient, time: Duration| {
        let (began, before) = (Instant::now(), done.load(Ordering::Relaxed));
        while began.elapsed() < time {
            longest = longest.max(put(honest, b"small"));
            commands += 1;
            peak_mb = peak_mb.max(highest(nodes, "VmRSS:"));
            thread::sleep(PACE);
        }
        (done.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64()
    };
    let before = live(honest, 4 * WINDOW);
    let during = thread::scope(|scope| {
        let addresses = ground.committee.members.iter().filter_map(|member| member.address.socket());
        for target in ground.committee.replicas().zip(addresses) {
            let stop = &stop;
            scope.spawn(move || attack(ground, target, stop));
        }
        scope.spawn(|| newcomers(&ground.committee, &stop, &connects));
        let during = live(honest, time);
        stop.store(true, Ordering::Relaxed);
        during
    });
    let (ended, mut back) = (Instant::now(), None);
    while ended.elapsed() < AFTERWARDS {
        if live(honest, WINDOW) >= GOAL_RATE * before {
            back.get_or_insert(ended.elapsed());
        }
    }
    let new_client = Duration::from_micros(connects.load(Ordering::Relaxed));
    Noticed { commands, longest, new_client, rates: [before, during], back, peak_mb }
}

/// Honest client that sends at a fixed rate as long as it is answered, and counts the executed commands.
fn load(committee: &Committee, done: &AtomicU64, over: &AtomicBool) {
    let mut client = TestClient::of(committee.clone(), identity(3));
    client.connect(4);
    let command = KeyValueCommand::Put { key: b"load", value: b"small" }.to_vec();
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let bundles: Vec<Bundle> = (0..LOAD_BUNDLES).map(|_| client.bundle(LOAD_COMMANDS, &command)).collect();
        client.submit(&bundles, LOAD_BUNDLES, 2);
        done.fetch_add((LOAD_BUNDLES * LOAD_COMMANDS) as u64, Ordering::Relaxed);
        thread::sleep(LOAD_PACE.saturating_sub(began.elapsed()));
    }
}

/// Executes one command and returns its latency.
fn put(client: &mut TestClient, value: &[u8]) -> Duration {
    let key: &[u8] = if value.len() == LARGE_BYTES { b"BIG" } else { b"key" };
    let bundle = client.bundle(1, &KeyValueCommand::Put { key, value }.to_vec());
    let began = Instant::now();
    client.submit(&[bundle], 1, 2);
    began.elapsed()
}

/// Clients that connect, execute one command, and disconnect; `longest` is in microseconds.
fn newcomers(committee: &Committee, stop: &AtomicBool, longest: &AtomicU64) {
    static NEXT: AtomicU64 = AtomicU64::new(1_000);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let seed = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut client = TestClient::of(committee.clone(), identity(seed));
        client.connect(3);
        put(&mut client, b"new");
        longest.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        thread::sleep(PACE);
    }
}

impl Ground {
    fn new(committee: Committee) -> Ground {
        let victim = identity(2);
        let forged = (0..4_000).flat_map(|number| {
            let mut builder = BundleBuilder::new(victim.origin(), Height(0).latest_expiry());
            builder.push(victim.origin(), number + 1, b"steal");
            let mut body = victim.finish(builder).body().to_vec();
            let last = body.len() - 1;
            body[last] ^= 1;
            frame(&ClientRequest::Submit(Bundle::from_body(body.into()).expect("the form is unchanged")))
        });
        Ground { committee, forged: forged.collect(), forged_origin: victim.origin().0 }
    }

    /// Opens a link that claims an identity.
    fn dial(&self, (replica, address): Target, id: u128) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_write_timeout(Some(Duration::from_millis(300)))?;
        stream.set_read_timeout(Some(Duration::from_millis(300)))?;
        stream.write_all(&bare::hello((self.committee.cluster, self.committee.epoch), id, replica))?;
        Ok(stream)
    }
}

fn rest(_: &Ground, _: Target, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(PACE);
    }
}

/// Requests for the status with its history, 15 bytes each, as fast as the replica reads. The answers are read too.
fn status(ground: &Ground, target: Target, stop: &AtomicBool) {
    let flood = frame(&ClientRequest::Status { id: 1, history: true }).repeat(2_000);
    let mut answers = vec![0; 4 << 20];
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = ground.dial(target, 1) else { continue };
        while !stop.load(Ordering::Relaxed) && stream.write_all(&flood).is_ok() {
            let _ = stream.read(&mut answers);
        }
    }
}

/// Links that send nothing after their hello, 1,100 at a time.
fn squat(ground: &Ground, target: Target, stop: &AtomicBool) {
    let mut links = std::collections::VecDeque::new();
    for id in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        links.extend(ground.dial(target, id));
        if links.len() > 1_100 {
            links.pop_front();
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Queries of 1 MB each, 100 on each of 60 links, without reading the answers.
fn noread(ground: &Ground, target: Target, stop: &AtomicBool) {
    let question = KeyValueCommand::Get { key: b"BIG" }.to_vec();
    let flood = frame(&ClientRequest::Query { id: 1, question: question.into() }).repeat(100);
    crowd(stop, 60, || {
        let mut stream = ground.dial(target, 1)?;
        stream.write_all(&flood).map(|()| stream)
    });
}

/// Incomplete frames of 8 MB on each of 100 links.
fn partial(ground: &Ground, target: Target, stop: &AtomicBool) {
    let part = vec![7; 7 << 20];
    crowd(stop, 100, || {
        let mut stream = ground.dial(target, 1)?;
        stream.write_all(&(8_u32 << 20).to_le_bytes())?;
        let _ = stream.write_all(&part);
        Ok(stream)
    });
}

/// Keeps `most` links open, and replaces each one that is closed.
fn crowd(stop: &AtomicBool, most: usize, dial: impl Fn() -> std::io::Result<TcpStream>) {
    let mut links: Vec<TcpStream> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        links.extend(dial());
        links.retain(|link| {
            let _ = link.set_nonblocking(true);
            match link.peek(&mut [0]) {
                Ok(0) => false,
                Ok(_) => true,
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            }
        });
        if links.len() >= most {
            thread::sleep(PACE);
        }
    }
}

/// Unsigned bundles, as fast as the replica reads, on a new link whenever one is closed.
fn forged(ground: &Ground, target: Target, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(mut stream) = ground.dial(target, ground.forged_origin) {
            let _ = stream.write_all(&ground.forged);
            let _ = stream.read(&mut [0; 65_536]);
        }
    }
}

/// Genuine commands of invented clients, to one replica only: anybody who creates a key can sign.
fn flood(ground: &Ground, target: Target, stop: &AtomicBool) {
    match target.0 {
        ReplicaId(1) => send_made_up(ground, target, stop, 200),
        _ => rest(ground, target, stop),
    }
}

/// The same to each replica, from different clients, with a new key and link for every few bundles.
fn keys(ground: &Ground, target: Target, stop: &AtomicBool) {
    send_made_up(ground, target, stop, 10);
}

/// Sends genuine bundles, this many from each of a series of invented clients.
fn send_made_up(ground: &Ground, target: Target, stop: &AtomicBool, bundles: u64) {
    for number in 1_000_000.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let attacker = identity((u64::from(target.0.0) << 32) + (bundles << 48) + number);
        let mut frames = Vec::new();
        for bundle in 0..bundles {
            let mut builder = BundleBuilder::new(attacker.origin(), Height(0).latest_expiry());
            for command in 0..100 {
                builder.push(attacker.origin(), bundle * 100 + command + 1, &[0; 64]);
            }
            frames.extend(frame(&ClientRequest::Submit(attacker.finish(builder))));
        }
        if let Ok(mut stream) = ground.dial(target, attacker.origin().0) {
            let _ = stream.write_all(&frames);
            let _ = stream.read(&mut [0; 65_536]);
        }
    }
}
