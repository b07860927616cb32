//! Processes with few descriptors: refused at startup if the configured links need more, and never stopped by
//! connections.
#![cfg(target_os = "linux")]

use crate::support::TestClient;
use quorate_applications::KeyValueCommand;
use quorate_crypto::ClientIdentity;
use quorate_node::{NodeConfig, StderrObserver, run_directory, testnet};
use quorate_types::{ClusterId, Committee, ReplicaId};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for anything has hung.
const HANG: Duration = Duration::from_secs(90);
/// Small segments and snapshots, so that files are opened frequently.
const SEGMENT_BYTES: u64 = 128 << 10;
const BATCH_BYTES: usize = 64 << 10;
/// Environment variable that turns this test binary into a replica: the directory of its configuration.
const HOME: &str = "QUORATE_TEST_NODE";

/// Not a test: the main function of a replica's process, if started as one.
#[test]
fn run_as_replica_with_few_descriptors() {
    let Some(home) = std::env::var_os(HOME) else { return };
    match run_directory(Path::new(&home), Box::new(StderrObserver)) {
        Ok(_) => std::process::exit(0),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(if error.is_disk_trouble() { 3 } else { 1 });
        }
    }
}

/// Replicas of a directory, killed when dropped.
struct Net {
    directory: PathBuf,
    nodes: Vec<Child>,
}

impl Drop for Net {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Net {
    fn new(name: &str) -> (Net, Committee) {
        let directory = std::env::temp_dir().join(format!("quorate-descriptors-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let mut template = NodeConfig::template("descriptors");
        template.consensus.batch_bytes = BATCH_BYTES;
        template.journal.segment_bytes = SEGMENT_BYTES;
        template.journal.snapshot_bytes = SEGMENT_BYTES;
        let written = testnet::write(&template, 4, free_ports(), &directory).expect("a testnet is written");
        let committee = written.client_committee().expect("the testnet is valid");
        (Net { directory, nodes: Vec::new() }, committee)
    }

    fn home(&self, at: usize) -> PathBuf {
        testnet::replica_directory(&self.directory, ReplicaId(at as u16))
    }

    fn said(&self, at: usize) -> String {
        fs::read_to_string(self.directory.join(format!("log-{at}"))).unwrap_or_default()
    }

    /// Starts a replica with these limits of open files.
    fn start(&mut self, at: usize, soft: u64, hard: u64) {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        let log = fs::File::create(self.directory.join(format!("log-{at}"))).expect("the directory can be written");
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["descriptors::run_as_replica_with_few_descriptors", "--exact", "--nocapture"]);
        command.env(HOME, self.home(at)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // SAFETY: one system call between fork and exec, which does not access our memory.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        self.nodes.push(command.spawn().expect("a replica starts"));
    }
}

/// Returns free consecutive ports for a cluster, different in each test of this process.
fn free_ports() -> u16 {
    const PORTS: u16 = 4 * testnet::PORTS_PER_REPLICA as u16;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 15_000 + (std::process::id() % 200) as u16 * 24;
    loop {
        let base = start + NEXT.fetch_add(PORTS, Ordering::Relaxed);
        if (base..base + PORTS).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return base;
        }
    }
}

/// Changes the limit of a running process.
fn relimit(process: u32, files: u64) {
    let process = libc::pid_t::try_from(process).expect("a process id fits");
    let new = libc::rlimit { rlim_cur: files, rlim_max: 1_024 };
    // SAFETY: the kernel reads one `rlimit` from a valid location, and writes nothing.
    let status = unsafe { libc::prlimit(process, libc::RLIMIT_NOFILE, &raw const new, std::ptr::null_mut()) };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

fn open_files(process: u32) -> u64 {
    fs::read_dir(format!("/proc/{process}/fd")).expect("the process is alive").count() as u64
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < HANG, "{what}: still not after {HANG:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn client(committee: &Committee, seed: u8) -> TestClient {
    let identity = ClientIdentity::from_seed(&ClusterId::from_name("descriptors"), [seed; 32]);
    TestClient::of(committee.clone(), identity)
}

#[test]
fn too_many_links_are_refused_at_startup_and_the_soft_limit_is_raised() {
    let (mut net, _) = Net::new("few");
    net.start(0, 256, 256);
    let status = net.nodes[0].wait().expect("the process ends");
    let said = net.said(0);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("may open 256 files, but the configured links need 728"), "{said}");
    assert!(said.contains("`ulimit -n 728`") && said.contains("`max_client_links`"), "{said}");
    net.start(0, 256, 1_024);
    wait_until("replica 0 listens", || net.said(0).contains("listening on"));
    let limits = fs::read_to_string(format!("/proc/{}/limits", net.nodes[1].id())).expect("the process is alive");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("the limit is listed");
    assert_eq!(files.split_whitespace().nth(3), Some("1024"), "{files}");
}

#[test]
fn a_replica_out_of_descriptors_keeps_its_disk_and_later_accepts_clients_again() {
    const VICTIM: usize = 1;
    let (mut net, committee) = Net::new("none");
    (0..4).for_each(|at| net.start(at, 1_024, 1_024));
    let mut before = client(&committee, 7);
    before.connect(4);
    let value = vec![7; 40_000];
    let command = KeyValueCommand::Put { key: b"key", value: &value }.to_vec();
    let first = before.bundle(1, &command);
    before.submit(&[first], 1, 4);
    // Two descriptors are left, which strangers' connections take.
    let victim = net.nodes[VICTIM].id();
    relimit(victim, open_files(victim) + 2);
    let address = committee.members[VICTIM].address.socket().expect("a number");
    let strangers: Vec<TcpStream> =
        (0..60).map(|_| TcpStream::connect(address).expect("the kernel queues the connection")).collect();
    for _ in 0..100 {
        let bundle = before.bundle(1, &command);
        before.submit(&[bundle], 1, 3);
        assert!(net.nodes[VICTIM].try_wait().expect("the process can be polled").is_none(), "{}", net.said(VICTIM));
    }
    before.status_with(ReplicaId(VICTIM as u16), |status| status.height.0 >= 100);
    let files = fs::read_dir(net.home(VICTIM).join("journal")).expect("its journal").count();
    assert!(files > 2, "no segment was made meanwhile");
    relimit(victim, 1_024);
    drop(strangers);
    client(&committee, 8).connect(4);
    assert!(net.said(VICTIM).contains("Too many open files"), "it was out of descriptors: {}", net.said(VICTIM));
}
