//! A cluster with a signer that hangs and is used by another process, a disk that fills, and a journal that cannot be
//! truncated.

use super::clusters::{Cluster, Killed, REPLICAS, within};
use crate::common::disks::mount_memory;
use crate::common::{HANG, heeding_signals, signal, succeeds, wait_until};
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use quorate_node::signer::connect;
use quorate_node::signer::protocol::{Answer, Attached, Request, Unsigned, read, write};
use quorate_types::{Digest, Domain, Height, ReplicaId, Subject, View};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Replica whose disk fills.
pub const FILLING: usize = 1;
/// Replica whose journal fills.
pub const JOURNAL: usize = 2;
/// Replica with a signer.
pub const SIGNED: usize = 3;
/// Size of the disk that fills, above the free space below which the alert needs no forecast.
const DISK_BYTES: u64 = 4 << 30;
/// Size of the disk for states of the replica whose journal fills: no state fits.
const STATES_BYTES: u64 = 64 << 10;
/// A shell's command that appends a mebibyte a second to the file named by its argument.
const FILL: &str = "while head -c 1048576 /dev/zero >>\"$0\"; do sleep 1; done";
const BATCH_BYTES: usize = 1 << 20;
const SEGMENT_BYTES: u64 = 2 << 20;
const CAPACITY_BYTES: u64 = 8 * SEGMENT_BYTES;
const VALUE_BYTES: usize = 900_000;
/// Distance of a view in which the cluster will not be.
const FAR_VIEWS: u64 = 1_000_000;

/// The cluster, the signer of replica [`SIGNED`], and a process that fills the disk of replica [`FILLING`].
pub struct Guarded {
    pub cluster: Cluster,
    signer: Killed,
    socket: PathBuf,
    _fills: Killed,
}

impl Guarded {
    /// Starts the cluster, and waits until it is ready.
    pub fn started(directory: &Path, job: &'static str) -> Guarded {
        let mut cluster = Cluster::written(directory, job, &[], |config| {
            config.consensus.batch_bytes = BATCH_BYTES;
            if config.replica == ReplicaId(JOURNAL as u16) {
                config.journal.segment_bytes = SEGMENT_BYTES;
                config.journal.capacity_bytes = CAPACITY_BYTES;
                config.journal.snapshot_bytes = SEGMENT_BYTES;
            }
        });
        cluster.move_to_disk(FILLING, DISK_BYTES);
        let states = cluster.home(JOURNAL).join("journal.snapshots");
        fs::create_dir(&states).expect("a place for the disk");
        mount_memory(&states, STATES_BYTES);

        let place = directory.join("signer");
        let (place, home) = (place.to_str().expect("UTF-8"), within(&cluster.home(SIGNED), ""));
        succeeds(&["signer", "init", "--dir", place, "--replica", &home]);
        let socket = Path::new(place).join("socket");
        cluster.configure(SIGNED, |config| config.signer.socket = Some(socket.clone()));
        let log = fs::File::create(Path::new(place).join("log")).expect("a log");
        let mut command = heeding_signals(env!("CARGO_BIN_EXE_quorate"));
        command.args(["signer", "run", "--dir", place]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let signer = Killed(command.spawn().expect("a signer starts"));
        wait_until("the signer listens", || socket.exists());

        cluster.start(0..REPLICAS);
        cluster.wait_until_ready(0..REPLICAS);
        let ballast = within(&cluster.home(FILLING), "ballast");
        let fills = Command::new("sh").args(["-c", FILL, &ballast]).spawn().expect("there is a shell");
        Guarded { cluster, signer, socket, _fills: Killed(fills) }
    }

    /// Stops the signer's process: its socket stays, and does not answer.
    pub fn hang(&self) {
        signal(self.signer.0.id(), libc::SIGSTOP);
    }

    pub fn go_on(&self) {
        signal(self.signer.0.id(), libc::SIGCONT);
    }

    /// Lets another process of the replica's user have a statement signed that forbids the replica all views until a
    /// distant one.
    pub fn use_up_views(&self) {
        let config = NodeConfig::read(&self.cluster.home(SIGNED).join(CONFIG_FILE)).expect("its configuration");
        let epoch = config.committee().expect("a sound committee").epoch;
        let mut stream = connect(&self.socket, HANG).expect("the signer listens");
        let mut ask = |request: Request| -> Answer {
            write(&mut stream, &request).expect("it is connected");
            read(&mut stream).expect("it answers")
        };
        ask(Request::Hello { epoch: epoch.0, replica: config.replica });
        let (view, digest) = (View(FAR_VIEWS), Digest([0; 32]));
        let subject = Subject { domain: Domain::Timeout, view, height: Height(0), digest };
        let unsigned = Unsigned { subject, attached: Attached::Nothing };
        let answer = ask(Request::Sign { number: 1, unsigned });
        assert!(matches!(answer, Answer::Signed { .. }), "{answer:?}");
    }

    /// Writes large values until the journal that cannot be truncated is nearly full.
    pub fn fill_journal(&self) {
        let mut written = 0;
        wait_until("the journal is nearly full", || {
            self.cluster.put_large(&format!("large-{written}"), VALUE_BYTES);
            written += 1;
            let bytes = self.cluster.metric(JOURNAL, "quorate_journal_bytes");
            bytes.is_some_and(|bytes| bytes > 0.8 * CAPACITY_BYTES as f64)
        });
        // A value takes less than a segment.
        assert!(written > 4, "it was full from the start");
    }
}
