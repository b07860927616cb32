//! Real processes on real directories: killed and restarted, without losing or repeating acknowledged commands.
//!
//! A replica's process is this test binary, told to run only the test [`run_as_replica`].

use crate::support::TestClient;
use quorate_applications::{ApplicationKind, compare_histories};
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::ClientIdentity;
use quorate_node::config::CONFIG_FILE;
use quorate_node::{Fsync, JournalConfig, NodeConfig, StderrObserver, run_directory, testnet};
use quorate_types::state::CHUNK_BYTES;
use quorate_types::{Committee, ReplicaId, ReplicaThreads, Status};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub const REPLICA_DIRECTORY: &str = "QUORATE_TEST_REPLICA_DIRECTORY";
pub const REPLICAS: usize = 4;
/// Timeout: a test that waits longer for anything has hung.
pub const HANG: Duration = Duration::from_secs(60);

/// Not a test: the main function of a replica's process.
#[test]
fn run_as_replica() {
    let Some(directory) = std::env::var_os(REPLICA_DIRECTORY) else { return };
    crate::levels::application();
    let ended = run_directory(Path::new(&directory), Box::new(StderrObserver));
    eprintln!("the replica has ended: {}", ended.err().map(|error| error.to_string()).unwrap_or_default());
    std::process::exit(1);
}

/// A testnet in its own directory, with its processes.
pub struct Net {
    directory: PathBuf,
    pub homes: Vec<PathBuf>,
    committee: Committee,
    processes: Vec<Option<Child>>,
}

impl Net {
    pub fn new(name: &str, adjust: impl FnOnce(&mut NodeConfig)) -> Net {
        let directory = std::env::temp_dir().join(format!("quorate-restart-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let mut template = NodeConfig::template(name);
        template.application = ApplicationKind::LOG;
        template.consensus.batch = 50.into();
        template.consensus.view_timeout_ms = 300;
        adjust(&mut template);
        let written = testnet::write(&template, REPLICAS, free_ports(), &directory).expect("a testnet is written");
        let committee = written.client_committee().expect("the testnet is valid");
        Net { directory, homes: written.directories, committee, processes: (0..REPLICAS).map(|_| None).collect() }
    }

    pub fn start(&mut self, replica: usize) {
        assert!(self.processes[replica].is_none(), "the replica is already running");
        let log = File::options().create(true).append(true).open(self.homes[replica].join("log")).expect("a log");
        let mut command = Command::new(std::env::current_exe().expect("this test has a file"));
        command
            .args(["--exact", "restart::run_as_replica", "--nocapture"])
            .env(REPLICA_DIRECTORY, &self.homes[replica]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.processes[replica] = Some(child.expect("a process starts"));
    }

    pub fn start_all(&mut self) {
        (0..REPLICAS).for_each(|replica| self.start(replica));
    }

    /// Kills a replica like `kill -9`.
    pub fn kill(&mut self, replica: usize) {
        let mut child = self.processes[replica].take().expect("the replica is running");
        child.kill().expect("the process is killed");
        child.wait().expect("the process has ended");
    }

    /// Stops a replica in order, by SIGTERM.
    pub fn stop(&mut self, replica: usize) {
        let child = self.processes[replica].as_ref().expect("the replica is running");
        // SAFETY: signals a child that has not been waited for, so its id is still its own.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) }, 0);
        self.wait_for_end(replica);
    }

    /// Waits for a process to end by itself.
    pub fn wait_for_end(&mut self, replica: usize) {
        let start = Instant::now();
        while self.processes[replica]
            .as_mut()
            .expect("the replica is running")
            .try_wait()
            .expect("the process can be polled")
            .is_none()
        {
            assert!(start.elapsed() < HANG, "the replica has not ended: {}", self.log(replica));
            std::thread::sleep(Duration::from_millis(20));
        }
        self.processes[replica] = None;
    }

    fn log(&self, replica: usize) -> String {
        fs::read_to_string(self.homes[replica].join("log")).unwrap_or_default()
    }

    /// Returns how often a replica has logged `words`.
    pub fn said(&self, replica: usize, words: &str) -> usize {
        self.log(replica).matches(words).count()
    }

    /// Waits until a replica logs `words`.
    fn wait_for_words(&self, replica: usize, words: &str) {
        self.wait_until_said(replica, words, 1);
    }

    /// Waits until a replica has logged `words` this many times.
    pub fn wait_until_said(&self, replica: usize, words: &str, times: usize) {
        let start = Instant::now();
        while self.said(replica, words) < times {
            assert!(start.elapsed() < HANG, "replica {replica} does not say {words:?}: {}", self.log(replica));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// Returns the identity of its client.
    pub fn identity(&self) -> ClientIdentity {
        ClientIdentity::from_seed(&self.committee.cluster, [7; 32])
    }

    pub fn client(&self) -> TestClient {
        TestClient::of(self.committee.clone(), self.identity())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for child in self.processes.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            for replica in 0..REPLICAS {
                let log = self.log(replica);
                eprintln!("replica {replica}:\n{}", log.lines().rev().take(30).collect::<Vec<_>>().join("\n"));
            }
        } else {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

const PORTS: usize = REPLICAS * testnet::PORTS_PER_REPLICA;

/// Returns the first of [`PORTS`] consecutive free ports.
fn free_ports() -> u16 {
    static TAKEN: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    let from = 21_000 + (std::process::id() % 32) as u16 * 360;
    loop {
        let base = from + TAKEN.fetch_add(PORTS as u16, Ordering::Relaxed);
        if (base..).take(PORTS).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return base;
        }
    }
}

/// Waits until all replicas have executed `commands` commands, and checks that they executed the same ones, each once.
pub fn all_have_executed(client: &mut TestClient, commands: u64) {
    let start = Instant::now();
    loop {
        let statuses: Vec<Status> = (0..REPLICAS as u16).map(|of| client.status(ReplicaId(of))).collect();
        let histories: Vec<_> = statuses.iter().map(|status| (status.replica, status.history.clone())).collect();
        compare_histories(&histories).expect("all replicas executed the same");
        let executed: Vec<u64> = statuses.iter().map(|status| status.committed_commands).collect();
        assert!(executed.iter().all(|executed| *executed <= commands), "{executed:?} of {commands}: some twice");
        if executed.iter().all(|executed| *executed == commands) {
            return;
        }
        assert!(start.elapsed() < HANG, "{executed:?} of {commands}: some are lost");
        std::thread::sleep(Duration::from_millis(100));
    }
}

const BUNDLES: usize = 60;
const COMMANDS: usize = 10;

/// Sends commands while `trouble` runs, until all are acknowledged.
fn under_load(net: &mut Net, client: &mut TestClient, trouble: impl FnOnce(&mut Net) + Send) -> u64 {
    let quiet = AtomicBool::new(false);
    let mut sent = 0;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            trouble(net);
            quiet.store(true, Ordering::Relaxed);
        });
        while !quiet.load(Ordering::Relaxed) || sent == 0 {
            let bundles: Vec<_> = (0..BUNDLES).map(|_| client.bundle(COMMANDS, b"payload")).collect();
            client.submit(&bundles, 8, 2);
            sent += (BUNDLES * COMMANDS) as u64;
            if thread.is_finished() {
                break;
            }
        }
    });
    sent
}

fn pause() {
    std::thread::sleep(Duration::from_millis(250));
}

fn survives_kills(protocol: ProtocolKind) {
    survives_kills_with(protocol, 1);
}

fn survives_kills_with(protocol: ProtocolKind, threads: u16) {
    let mut net = Net::new(&format!("kills-{protocol}-{threads}"), |config| {
        config.consensus.protocol = protocol;
        config.replica_threads = ReplicaThreads::Count(threads);
    });
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    // A replica that has not voted yet has no journal to resume from.
    let first = order(&mut client, 1);
    all_have_executed(&mut client, first);
    let sent = first
        + under_load(&mut net, &mut client, |net| {
            pause();
            // First a backup and the leader, then all, restarted in another order.
            for victim in [3, 0] {
                net.kill(victim);
                pause();
                net.start(victim);
                net.wait_for_words(victim, "resumes from its journal");
                pause();
            }
            (0..REPLICAS).for_each(|replica| net.kill(replica));
            for replica in [2, 0, 3, 1] {
                net.start(replica);
            }
            pause();
            (0..REPLICAS).rev().for_each(|replica| net.kill(replica));
            net.start_all();
            pause();
        });
    client.connect(REPLICAS);
    all_have_executed(&mut client, sent);
}

#[test]
fn jolteon_survives_kills() {
    survives_kills(ProtocolKind::Jolteon);
}

#[test]
fn a_replica_of_four_threads_survives_kills() {
    survives_kills_with(ProtocolKind::Jolteon, 4);
}

#[test]
fn pbft_survives_kills() {
    survives_kills(ProtocolKind::Pbft);
}

#[test]
fn basic_hotstuff_survives_kills() {
    survives_kills(ProtocolKind::BasicHotStuff);
}

#[test]
fn a_truncated_journal_needs_only_its_snapshot() {
    let mut net = Net::new("snapshots", |config| {
        config.consensus.batch_bytes = 64 << 10;
        config.journal = JournalConfig {
            fsync: Fsync::Never,
            segment_bytes: 128 << 10,
            capacity_bytes: 4 << 20,
            snapshot_bytes: 64 << 10,
            ..JournalConfig::default()
        };
    });
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    let mut sent = 0;
    for victim in [1, 2, 1] {
        for _ in 0..8 {
            let bundles: Vec<_> = (0..BUNDLES).map(|_| client.bundle(COMMANDS, &[7; 100])).collect();
            client.submit(&bundles, 8, 2);
            sent += (BUNDLES * COMMANDS) as u64;
        }
        net.kill(victim);
        net.start(victim);
        client.connect(REPLICAS);
    }
    all_have_executed(&mut client, sent);
    let first = fs::read_dir(net.homes[1].join("journal")).expect("a journal").flatten().map(|entry| entry.file_name());
    let first =
        first.filter(|name| name.to_string_lossy().ends_with(".segment")).min().expect("the journal has segments");
    assert_ne!(first.to_string_lossy(), "000000000000.segment", "the journal was not truncated");
    (0..REPLICAS).for_each(|replica| net.kill(replica));
    net.start_all();
    client.connect(REPLICAS);
    all_have_executed(&mut client, sent);
    // The journal alone is no longer sufficient.
    net.kill(1);
    fs::remove_dir_all(net.homes[1].join("journal.snapshots")).expect("snapshots are removed");
    net.start(1);
    net.wait_for_end(1);
    assert!(net.log(1).contains("one of their files is missing"), "{}", net.log(1));
}

#[test]
fn a_replica_without_its_journal_reports_it_and_does_not_vote() {
    let mut net = Net::new("lost", |_| {});
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    let bundles: Vec<_> = (0..BUNDLES).map(|_| client.bundle(COMMANDS, b"payload")).collect();
    client.submit(&bundles, 8, 2);
    // Wait for replica 3: until it has voted, losing its journal changes nothing.
    all_have_executed(&mut client, (BUNDLES * COMMANDS) as u64);
    net.kill(3);
    fs::remove_dir_all(net.homes[3].join("journal")).expect("a journal is removed");
    net.start(3);
    net.wait_for_words(3, "the journal is lost");
    net.wait_for_words(3, "does not vote in them");
    let more: Vec<_> = (0..BUNDLES).map(|_| client.bundle(COMMANDS, b"payload")).collect();
    client.submit(&more, 8, 2);
    assert!(net.log(3).contains("WARNING"), "{}", net.log(3));
}

#[test]
fn a_foreign_directory_is_refused_by_name() {
    let mut net = Net::new("foreign", |_| {});
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    let bundles: Vec<_> = (0..4).map(|_| client.bundle(COMMANDS, b"payload")).collect();
    client.submit(&bundles, 8, 2);
    [0, 1].iter().for_each(|replica| net.kill(*replica));
    let (zero, one) = (net.homes[0].join("journal"), net.homes[1].join("journal"));
    fs::remove_dir_all(&one).expect("a journal is removed");
    fs::rename(&zero, &one).expect("a journal is moved");
    net.start(1);
    net.wait_for_end(1);
    assert!(net.log(1).contains("belongs to replica 0, not to replica 1"), "{}", net.log(1));
    let config = fs::read_to_string(net.homes[1].join(CONFIG_FILE)).expect("a configuration");
    assert!(config.contains("[journal]"), "{config}");
}

/// Starts a cluster that keeps little for lagging replicas.
fn forgetful(name: &str, protocol: ProtocolKind) -> Net {
    Net::new(name, |config| {
        config.consensus.protocol = protocol;
        (config.consensus.batch, config.consensus.batch_bytes) = (50.into(), 64 << 10);
        (config.consensus.checkpoint_interval, config.consensus.window) = (8, 32);
        (config.consensus.retained_blocks, config.consensus.retained_bytes) = (32, 64 << 10);
        config.journal = JournalConfig {
            fsync: Fsync::Never,
            segment_bytes: 256 << 10,
            capacity_bytes: 8 << 20,
            snapshot_bytes: 2 << 20,
            ..JournalConfig::default()
        };
    })
}

fn order(client: &mut TestClient, rounds: usize) -> u64 {
    for _ in 0..rounds {
        let bundles: Vec<_> = (0..BUNDLES).map(|_| client.bundle(COMMANDS, &[7; 100])).collect();
        client.submit(&bundles, 8, 2);
    }
    (rounds * BUNDLES * COMMANDS) as u64
}

fn takes_the_state_over(protocol: ProtocolKind) {
    let mut net = forgetful(&format!("state-{protocol}"), protocol);
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    let mut sent = order(&mut client, 1);
    net.kill(3);
    sent += order(&mut client, 12);
    net.start(3);
    net.wait_for_words(3, "adopted the peers' state");
    client.connect(REPLICAS);
    all_have_executed(&mut client, sent);
    // From now on, replica 3 is needed for the quorum.
    net.kill(2);
    sent += order(&mut client, 1);
    // Replica 3's own journal now contains the fetched state.
    net.kill(3);
    net.start(2);
    net.start(3);
    client.connect(REPLICAS);
    sent += order(&mut client, 2);
    all_have_executed(&mut client, sent);
    assert!(!net.log(3).contains("has stopped"), "{}", net.log(3));
}

#[test]
fn jolteon_adopts_the_peers_state() {
    takes_the_state_over(ProtocolKind::Jolteon);
}

#[test]
fn pbft_adopts_the_peers_state() {
    takes_the_state_over(ProtocolKind::Pbft);
}

#[test]
fn basic_hotstuff_adopts_the_peers_state() {
    takes_the_state_over(ProtocolKind::BasicHotStuff);
}

/// Returns the height and the state of a replica's newest snapshot; `None` if it has none or a newer one has just
/// replaced it.
fn newest_state(home: &Path) -> Option<(u64, Vec<u8>)> {
    let directory = home.join("journal.snapshots");
    let names = fs::read_dir(&directory).ok()?.flatten().map(|entry| entry.file_name());
    let height = names.filter_map(|name| name.to_str()?.strip_prefix("snapshot-")?.parse().ok()).max()?;
    let file = fs::read(directory.join(format!("snapshot-{height}"))).ok()?;
    let certificate = u32::from_le_bytes(file[58..62].try_into().expect("four bytes")) as usize;
    Some((height, file[94 + certificate..].to_vec()))
}

/// Returns the newest snapshot of the first three replicas, once these are equal and no replica executes or writes any
/// more.
fn settled_states(net: &Net, client: &mut TestClient) -> (u64, Vec<u8>) {
    let mut before = None;
    loop {
        pause();
        let mut look = |replica: usize| {
            let height = client.status(ReplicaId(replica as u16)).height;
            let names: BTreeSet<_> = fs::read_dir(net.homes[replica].join("journal.snapshots"))
                .expect("the replica has snapshots")
                .map(|entry| entry.expect("a name").file_name())
                .collect();
            (height, names, newest_state(&net.homes[replica]))
        };
        let now: Vec<_> = (0..3).map(&mut look).collect();
        let is_same = now.iter().all(|replica| (replica.0, &replica.2) == (now[0].0, &now[0].2));
        if let Some(first) = now[0].2.clone().filter(|_| is_same && before.as_ref() == Some(&now)) {
            return first;
        }
        before = Some(now);
    }
}

#[test]
fn chunks_received_before_an_interruption_are_not_fetched_again() {
    let mut net = forgetful("interrupted", ProtocolKind::Jolteon);
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    let mut sent = order(&mut client, 1);
    net.kill(3);
    sent += order(&mut client, 12);
    // The spool of a replica killed just before it recorded the complete state, with an obsolete chunk and half a
    // chunk.
    let (height, state) = settled_states(&net, &mut client);
    let mut spool = Vec::new();
    for chunk in [&[9; 100][..]].into_iter().chain(state.chunks(CHUNK_BYTES)) {
        spool.extend((chunk.len() as u32).to_le_bytes());
        spool.extend(chunk);
    }
    spool.extend([50, 0, 0, 0, 1, 2, 3]);
    fs::write(net.homes[3].join("journal.snapshots/received"), spool).expect("the spool is written");
    net.start(3);
    let chunks = state.len().div_ceil(CHUNK_BYTES);
    net.wait_for_words(3, &format!("height {height} has {chunks} chunks, {chunks} already here"));
    net.wait_for_words(3, "adopted the peers' state");
    client.connect(REPLICAS);
    all_have_executed(&mut client, sent);
}

#[test]
fn a_replica_without_its_journal_resumes_from_its_snapshot() {
    let mut net = forgetful("lost-but-for-the-state", ProtocolKind::Jolteon);
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    let mut sent = order(&mut client, 6);
    all_have_executed(&mut client, sent);
    net.kill(1);
    fs::remove_dir_all(net.homes[1].join("journal")).expect("a journal is removed");
    net.start(1);
    net.wait_for_words(1, "the journal is lost");
    client.connect(REPLICAS);
    sent += order(&mut client, 1);
    all_have_executed(&mut client, sent);
}

/// Logged by a replica that has adopted its peers' state.
const TAKEN_OVER: &str = "adopted the peers' state";
/// Returns how many states a replica has adopted; it logs the last one again at each start.
fn states_taken_over(log: &str) -> usize {
    log.lines().filter(|line| line.contains(TAKEN_OVER)).collect::<BTreeSet<_>>().len()
}

/// Upper bound on the attempts to damage states before one of them is fetched.
const MAX_ATTEMPTS: usize = 5;

/// Truncates every state written by the first three replicas.
fn damage_states(net: &Net) {
    for home in &net.homes[..3] {
        for file in fs::read_dir(home.join("journal.snapshots")).expect("the replica has snapshots").flatten() {
            let opened = File::options().write(true).open(file.path());
            match opened.and_then(|file| file.set_len(200)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                damaged => damaged.expect("the snapshot is truncated"),
            }
        }
    }
}

#[test]
fn an_unreadable_state_is_reported_once_and_another_is_fetched() {
    let mut net = forgetful("unreadable", ProtocolKind::Jolteon);
    net.start_all();
    let mut client = net.client();
    client.connect(REPLICAS);
    let mut sent = order(&mut client, 1);
    let is_told = |net: &Net| (0..3).any(|replica| net.log(replica).contains("cannot read"));
    // A busy replica may have a newer state in memory, or write one after the damage. Then that one is adopted, and no
    // replica reads a damaged one, so try again.
    for attempt in 1.. {
        net.kill(3);
        sent += order(&mut client, 12);
        settled_states(&net, &mut client);
        damage_states(&net);
        net.start(3);
        let start = Instant::now();
        while !is_told(&net) && states_taken_over(&net.log(3)) < attempt {
            assert!(start.elapsed() < HANG, "no replica reports an unreadable state: {}", net.log(3));
            pause();
        }
        if is_told(&net) {
            break;
        }
        assert!(attempt < MAX_ATTEMPTS, "no replica reports an unreadable state in any attempt: {}", net.log(3));
        client.connect(REPLICAS);
    }
    // Replicas whose requested state is unreadable continue, and serve the next one.
    sent += order(&mut client, 12);
    client.connect(REPLICAS);
    all_have_executed(&mut client, sent);
    net.wait_for_words(3, TAKEN_OVER);
    for replica in 0..3 {
        let log = net.log(replica);
        let told: Vec<&str> = log.lines().filter(|line| line.contains("cannot read")).collect();
        assert!(told.iter().all(|line| line.contains("journal.snapshots/snapshot-")), "{told:?}");
        assert!((1..told.len()).all(|at| !told[..at].contains(&told[at])), "{told:?}");
        assert!(!log.contains("has stopped"), "{log}");
    }
}
