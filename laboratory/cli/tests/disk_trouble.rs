//! The disk of one of four real processes is full, fails, or is read-only. The replica stops before it can contradict
//! itself and prints a remedy, and the others continue; after the disk is repaired, the replica continues and honours
//! its earlier statements.
//!
//! File systems are mounted in a private namespace, as root or in a user namespace. Mounts and filters need Linux.
#![cfg(target_os = "linux")]

use crate::common::disks::{cover_read_only, fails_beyond, mount_memory, resize_memory, uncover, with_own_mounts};
use crate::common::*;
use bytes::Bytes;
use quorate_applications::{KeyValueCommand, compare_histories};
use quorate_client::{Client, ClientConfig, StatusProbe};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_consensus::{Envelope, Input, Message, Protocol};
use quorate_hosting::recording::{Entry, Reader};
use quorate_lab::torture::CheckedClients;
use quorate_node::config::CONFIG_FILE;
use quorate_node::{Fsync, JournalConfig, NodeConfig, RecordingConfig, testnet};
use quorate_storage::{FileJournal, Identity, Journal, JournalOptions};
use quorate_types::{Attachment, Committee, Decoder, Height, ReplicaId, Subject, Vote, Wire};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PROTOCOL: ProtocolKind = ProtocolKind::Jolteon;
const REPLICAS: usize = 4;
/// Replica whose disk fails.
const VICTIM: usize = 3;
/// Time after which a test counts as hung.
const HANG: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Exit status that reports disk trouble to a supervisor.
const DISK_TROUBLE: Option<i32> = Some(3);
/// Smallest segment size that fits the largest bundle, so that a second segment is soon needed.
const SEGMENT_BYTES: u64 = 128 << 10;
const BATCH_BYTES: usize = 64 << 10;
/// Size of the victim's file system: a few segments.
const DISK_BYTES: u64 = 1 << 20;
/// Size that is too small for a state.
const TINY_BYTES: u64 = 8 << 10;
/// Size of a file system after it is enlarged.
const ENOUGH_BYTES: u64 = 256 << 20;

/// Four replicas, the last of which has its own file system.
struct Net {
    directory: PathBuf,
    homes: Vec<PathBuf>,
    committee: Committee,
    client: ClientConfig,
    processes: Vec<Option<Child>>,
}

impl Net {
    fn new(directory: &Path, adjust: impl FnOnce(&mut JournalConfig)) -> Net {
        const NAME: &str = "troubled";
        let mut template = NodeConfig::template(NAME);
        template.consensus.protocol = PROTOCOL;
        template.consensus.batch_bytes = BATCH_BYTES;
        template.consensus.view_timeout_ms = 300;
        // Write no state before the journal has this many bytes, unless a test is about states.
        let journal = JournalConfig {
            segment_bytes: SEGMENT_BYTES,
            capacity_bytes: 4 * ENOUGH_BYTES,
            snapshot_bytes: ENOUGH_BYTES,
            // These tests are about a disk that is really full.
            min_free_bytes: 0,
            ..JournalConfig::default()
        };
        template.journal = JournalConfig { fsync: Fsync::Never, ..journal.clone() };
        let net = directory.join("net");
        let written = testnet::write(&template, REPLICAS, free_ports(), &net).expect("a testnet is written");
        let committee = written.client_committee().expect("it is valid");
        let faults = committee.quorum.faults();
        let client = ClientConfig::new(NAME, template.consensus.protocol, template.scheme, faults, &committee.members);
        let mut homes = written.directories;
        for replica in peers() {
            let recording = RecordingConfig { file: directory.join(format!("recording-{replica}")), limit_mb: 512 };
            let config = NodeConfig { recording: Some(recording), ..written.configs[replica].clone() };
            fs::write(homes[replica].join(CONFIG_FILE), config.to_toml()).expect("its settings");
        }
        let disk = directory.join("disk");
        fs::create_dir(&disk).expect("a place for the disk");
        mount_memory(&disk, DISK_BYTES);
        for entry in fs::read_dir(&homes[VICTIM]).expect("its home").flatten() {
            fs::copy(entry.path(), disk.join(entry.file_name())).expect("it moves to the disk");
        }
        let mut config = written.configs[VICTIM].clone();
        config.journal = journal;
        adjust(&mut config.journal);
        fs::write(disk.join(CONFIG_FILE), config.to_toml()).expect("its settings");
        homes[VICTIM] = disk;
        Net {
            directory: directory.to_owned(),
            homes,
            committee,
            client,
            processes: (0..REPLICAS).map(|_| None).collect(),
        }
    }

    fn disk(&self) -> &Path {
        &self.homes[VICTIM]
    }

    /// Puts the victim's states on a separate file system without space for one.
    fn without_room_for_states(directory: &Path, capacity_bytes: u64) -> Net {
        let net = Net::new(directory, |journal| {
            journal.capacity_bytes = capacity_bytes;
            journal.snapshot_bytes = 2 * SEGMENT_BYTES;
        });
        resize_memory(net.disk(), ENOUGH_BYTES);
        fs::create_dir(net.states()).expect("a place for states");
        mount_memory(&net.states(), TINY_BYTES);
        net
    }

    fn states(&self) -> PathBuf {
        self.disk().join("journal.snapshots")
    }

    /// Starts a replica whose process is configured by `prepare`.
    fn start_with(&mut self, replica: usize, prepare: impl FnOnce(&mut Command)) {
        assert!(self.processes[replica].is_none(), "it is already running");
        let log = File::options().create(true).append(true).open(self.log_path(replica)).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command.args(["node", "--dir"]).arg(&self.homes[replica]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        prepare(&mut command);
        self.processes[replica] = Some(command.spawn().expect("a process starts"));
    }

    fn start(&mut self, replica: usize) {
        self.start_with(replica, |_| {});
    }

    /// Kills a replica as `kill -9` does.
    fn kill(&mut self, replica: usize) {
        let mut child = self.processes[replica].take().expect("it runs");
        child.kill().and_then(|()| child.wait()).expect("it can be killed");
    }

    fn recording(&self, replica: usize) -> PathBuf {
        self.directory.join(format!("recording-{replica}"))
    }

    fn log_path(&self, replica: usize) -> PathBuf {
        self.directory.join(format!("log-{replica}"))
    }

    fn log(&self, replica: usize) -> String {
        fs::read_to_string(self.log_path(replica)).unwrap_or_default()
    }

    /// Waits until a replica's log contains these words after the offset `from`.
    fn wait_for_words(&self, replica: usize, from: usize, words: &str) {
        wait_for(|| self.log(replica)[from..].contains(words), || format!("{words:?} from {replica}"));
    }

    /// Waits until the victim exits by itself, with exactly these words in its error.
    fn wait_for_trouble(&mut self, words: &[&str]) {
        let mut ended: Option<ExitStatus> = None;
        wait_for(
            || {
                ended =
                    self.processes[VICTIM].as_mut().and_then(|child| child.try_wait().expect("its status can be read"));
                ended.is_some()
            },
            || "the victim's end".to_owned(),
        );
        self.processes[VICTIM] = None;
        let log = self.log(VICTIM);
        let last = log.lines().last().expect("the log has a line");
        assert_eq!(ended.and_then(|status| status.code()), DISK_TROUBLE, "{last}");
        assert!(
            last.starts_with("error: replica 3 ") && words.iter().all(|word| last.contains(word)),
            "{words:?}: {last}"
        );
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for child in self.processes.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            for replica in 0..REPLICAS {
                let log = self.log(replica);
                eprintln!("replica {replica}, latest line first:");
                log.lines().rev().take(20).for_each(|line| eprintln!("  {line}"));
            }
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn wait_for(mut condition: impl FnMut() -> bool, what: impl Fn() -> String) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < HANG, "{} does not happen", what());
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Fills the journals of all replicas until stopped.
fn fill(config: &ClientConfig, stop: &AtomicBool) {
    let config = ClientConfig { request_timeout_ms: HANG.as_millis() as u64, ..config.clone() };
    let mut client = Client::connect(&config).expect("the cluster is reachable");
    let value = vec![7; BATCH_BYTES / 4];
    while !stop.load(Ordering::SeqCst) {
        let command = KeyValueCommand::Put { key: b"a large value", value: &value };
        client.execute(&command.to_vec()).expect("the cluster answers");
    }
}

/// Loads the cluster. `trouble` makes the victim fail, and `mend` repairs its disk. The cluster must make progress in
/// between and afterwards; at the end all replicas must have executed the same blocks and accused no replica.
fn endures(net: &mut Net, trouble: impl FnOnce(&mut Net), mend: impl FnOnce(&mut Net)) {
    // Under load, the disk may fail before a peer has connected to the victim.
    peers().for_each(|peer| net.wait_for_words(peer, 0, "replica 3 is connected"));
    let checked_clients = CheckedClients::start(&net.client, 4, 1).expect("clients start");
    let ground = checked_clients.ground.clone();
    let goes_on = || {
        let enough = ground.answered.load(Ordering::SeqCst) + 50;
        wait_for(|| ground.answered.load(Ordering::SeqCst) >= enough, || "an answer of the cluster".to_owned());
    };
    let (filled, client) = (AtomicBool::new(false), net.client.clone());
    thread::scope(|scope| {
        scope.spawn(|| fill(&client, &filled));
        let end = Defer(|| filled.store(true, Ordering::SeqCst));
        trouble(net);
        drop(end);
    });
    peers().for_each(|peer| net.wait_for_words(peer, 0, "lost the link to replica 3"));
    goes_on();
    mend(net);
    let before = net.log(VICTIM).len();
    net.start(VICTIM);
    net.wait_for_words(VICTIM, before, "resumes from its journal");
    goes_on();
    let checker = checked_clients.finish().expect("clients work");
    assert_eq!(checker.violations(), []);
    agree(net);
    net.kill(VICTIM);
    kept_its_word(net);
}

/// Checks that the victim's journal contains every statement that its peers ever received from it.
fn kept_its_word(net: &Net) {
    let identity = Identity { epoch: net.committee.epoch, replica: ReplicaId(VICTIM as u16) };
    let options =
        JournalOptions { segment_bytes: SEGMENT_BYTES, capacity_bytes: ENOUGH_BYTES, ..JournalOptions::default() };
    let journal = FileJournal::open(&net.disk().join("journal"), identity, &options).expect("its journal");
    let mut promised: BTreeMap<Subject, Vec<Attachment>> = BTreeMap::new();
    let replayed = journal.replay(&mut |_, record| {
        if let Ok(Record::Promise(promise)) = Record::decode(&mut Decoder::new(Bytes::copy_from_slice(record))) {
            promised.entry(promise.subject).or_default().push(promise.attachment);
        }
    });
    replayed.expect("it can be read");
    let mut heard = 0;
    for recording in peers().map(|peer| net.recording(peer)) {
        let mut reader = Reader::open(&recording).expect("a recording");
        while let Some(entry) = reader.next_entry().expect("it can be read") {
            let Entry::Step(step) = entry else { continue };
            for_protocol(PROTOCOL, Statement(step.input)).into_iter().for_each(
                |Vote { subject, attachment, .. }| {
                    heard += 1;
                    let kept = promised.get(&subject).is_some_and(|kept| kept.contains(&attachment));
                    assert!(kept, "{subject:?} {attachment:?} was sent but not written");
                },
            );
        }
    }
    assert!(heard > 0, "a peer received a statement");
}

/// A signed statement of the victim in an input of another replica.
struct Statement(Bytes);

impl ForProtocol for Statement {
    type Output = Option<Vote>;

    fn run<P: Protocol + 'static>(self, _: MakeReplica<P>) -> Option<Vote> {
        match Input::<P::Message>::decode(&mut Decoder::new(self.0)).expect("an input") {
            Input::Receive { from: ReplicaId(from), message: Envelope::Protocol(mut message) }
                if from as usize == VICTIM =>
            {
                message.vote_to_sign().cloned()
            }
            _ => None,
        }
    }
}

fn peers() -> impl Iterator<Item = usize> {
    (0..REPLICAS).filter(|replica| *replica != VICTIM)
}

/// Runs a function when dropped, also on a panic.
struct Defer<F: FnMut()>(F);

impl<F: FnMut()> Drop for Defer<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Waits until all replicas reach the first one's height, and checks that they executed the same blocks and that none
/// contradicted itself.
fn agree(net: &Net) {
    let mut probe = StatusProbe::connect(&net.client).expect("replicas can be queried");
    let mut heights: Vec<Option<Height>> = Vec::new();
    let start = Instant::now();
    loop {
        let statuses = probe.read_histories(Duration::from_secs(2)).expect("replicas can be queried");
        let told: Vec<_> = statuses.iter().flatten().collect();
        let histories: Vec<_> = told.iter().map(|status| (status.replica, status.history.clone())).collect();
        compare_histories(&histories).expect("all executed the same blocks");
        told.iter().for_each(|status| assert_eq!(status.evidence, [] as [String; 0], "replica {}", status.replica));
        heights.clear();
        heights.extend(statuses.iter().map(|status| status.as_ref().map(|status| status.height)));
        if heights.iter().all(|height| height.is_some() && *height == heights[0]) {
            return;
        }
        assert!(start.elapsed() < HANG, "the heights differ: {heights:?}");
        thread::sleep(LOOK_INTERVAL);
    }
}

#[test]
fn a_full_disk() {
    with_own_mounts("full", |directory| {
        let mut net = Net::new(directory, |_| {});
        (0..REPLICAS).for_each(|replica| net.start(replica));
        let full = [
            "the journal cannot prepare",
            ".segment",
            "No space left on device",
            "make room",
            "start the replica again",
        ];
        let trouble = |net: &mut Net| {
            net.wait_for_trouble(&full);
            // Restart it without a repair, as a simple supervisor would.
            net.start(VICTIM);
            net.wait_for_trouble(&["No space left on device", "make room"]);
        };
        endures(&mut net, trouble, |net| resize_memory(net.disk(), ENOUGH_BYTES));
    });
}

#[test]
fn a_replica_survives_a_failing_disk() {
    with_own_mounts("fails", |directory| {
        let mut net = Net::new(directory, |_| {});
        resize_memory(net.disk(), ENOUGH_BYTES);
        (0..VICTIM).for_each(|replica| net.start(replica));
        net.start_with(VICTIM, |command| fails_beyond(command, SEGMENT_BYTES as u32 / 2));
        let trouble = |net: &mut Net| {
            net.wait_for_trouble(&["the journal cannot write", ".segment", "Input/output error", "check the disk"]);
        };
        endures(&mut net, trouble, |_| {});
    });
}

#[test]
fn a_replica_survives_a_read_only_file_system() {
    with_own_mounts("read-only", |directory| {
        let mut net = Net::new(directory, |_| {});
        resize_memory(net.disk(), ENOUGH_BYTES);
        (0..REPLICAS).for_each(|replica| net.start(replica));
        let trouble = |net: &mut Net| {
            // A file system with open files cannot become read-only, but the creation of files can be prevented.
            net.wait_for_words(VICTIM, 0, "replica 0 is connected");
            cover_read_only(&net.disk().join("journal"));
            let read_only = ["Read-only file system", "mount the file system for writing"];
            net.wait_for_trouble(&[&["the journal cannot prepare", ".segment"], &read_only[..]].concat());
            net.start(VICTIM);
            net.wait_for_trouble(&[&["does not start", "lock"], &read_only[..]].concat());
        };
        endures(&mut net, trouble, |net| uncover(&net.disk().join("journal")));
    });
}

#[test]
fn a_replica_continues_without_room_for_a_state() {
    with_own_mounts("state", |directory| {
        let mut net = Net::without_room_for_states(directory, ENOUGH_BYTES);
        (0..REPLICAS).for_each(|replica| net.start(replica));
        let (filled, client) = (AtomicBool::new(false), net.client.clone());
        thread::scope(|scope| {
            scope.spawn(|| fill(&client, &filled));
            let _end = Defer(|| filled.store(true, Ordering::SeqCst));
            net.wait_for_words(VICTIM, 0, "No space left on device (os error 28); the replica continues");
            wait_for(|| names(&net.states()).is_empty(), || "the end of an unfinished file".to_owned());
            resize_memory(&net.states(), ENOUGH_BYTES);
            let written = || names(&net.states()).iter().any(|name| name.starts_with("snapshot-"));
            wait_for(written, || "a state in a file".to_owned());
            net.wait_for_words(VICTIM, 0, "the state can be written again");
            let cut = || !names(&net.disk().join("journal")).contains(&"000000000000.segment".to_owned());
            wait_for(cut, || "the end of the journal's first segment".to_owned());
        });
        agree(&net);
        let before = net.log(VICTIM).len();
        net.kill(VICTIM);
        net.start(VICTIM);
        net.wait_for_words(VICTIM, before, "resumes from its journal");
        agree(&net);
    });
}

#[test]
fn a_journal_fills_up_if_no_state_can_be_written() {
    with_own_mounts("journal", |directory| {
        let capacity_bytes = 8 * SEGMENT_BYTES;
        let mut net = Net::without_room_for_states(directory, capacity_bytes);
        (0..REPLICAS).for_each(|replica| net.start(replica));
        let full = ["the journal takes", "of its limit of 1048576", "raise `journal.capacity_bytes`"];
        let mend = |net: &mut Net| {
            resize_memory(&net.states(), ENOUGH_BYTES);
            let path = net.disk().join(CONFIG_FILE);
            let mut config = NodeConfig::read(&path).expect("its settings");
            // The journal must hold all statements, so it must not be truncated.
            (config.journal.capacity_bytes, config.journal.snapshot_bytes) = (4 * ENOUGH_BYTES, ENOUGH_BYTES);
            fs::write(path, config.to_toml()).expect("its settings");
        };
        endures(&mut net, |net| net.wait_for_trouble(&full), mend);
    });
}

/// Some replicas of a benchmark lack disk space at the start, and others run out of it during the run.
#[test]
fn a_bench_reports_replicas_without_disk_space() {
    with_own_mounts("bench", |directory| {
        for (name, room) in [("start", 3 << 20), ("way", 300 << 20)] {
            let place = directory.join(name);
            fs::create_dir(&place).expect("a place for the disk");
            mount_memory(&place, room);
            let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
            command.args(["bench", "--host", "processes", "--payload", "4096", "--duration", "10m"]);
            let output = command.env("TMPDIR", &place).stdin(Stdio::null()).output().expect("the binary runs");
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), DISK_TROUBLE, "{name}: {said}");
            for words in ["ended by itself (exit status: 3: disk failure)", "No space left on device", "make room"] {
                assert!(said.contains(words), "{name} lacks {words:?}: {said}");
            }
            assert!(!said.contains("replicas are connected"), "{name}: {said}");
            assert_eq!(said.contains("stage: warmup"), name == "way", "{said}");
        }
    });
}
