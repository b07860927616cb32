//! Faults of real processes, and the alerts that they raise.

use super::clusters::{CLOCK_AHEAD, Cluster, REPLICAS, WRITE_DELAY, faulty_machine, other_release};
use super::guarded::{FILLING, Guarded, JOURNAL, SIGNED};
use super::lost_bundle::lost_bundle;
use super::prometheus::{Prometheus, read, shortened};
use crate::common::disks::with_own_mounts;
use crate::common::{HANG, wait_until};
use quorate_node::{Fault, Laboratory};
use quorate_types::ReplicaId;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time that replaces each `for` and each range of the rules: several scrapes.
const RULE_TIME: &str = "6s";
/// Alerts of each cluster's faults.
const LOSSES: (&str, &[&str]) = (
    "quorate-losses",
    &["QuorateReplicaDown", "QuorateQuorumAtRisk", "QuorateNoQuorum", "QuorateStalled", "QuorateNotVoting"],
);
const VIEWS: (&str, &[&str]) = ("quorate-views", &["QuorateViewTimeouts", "QuorateReplicaLags"]);
const MACHINES: (&str, &[&str]) = (
    "quorate-machines",
    &[
        "QuorateFlushSlow",
        "QuorateDiskFilling",
        "QuorateClockWrong",
        "QuorateRefusesClients",
        "QuorateDescriptorsLow",
        "QuorateVersionSkew",
        "QuorateWireSkew",
    ],
);
const LIAR: (&str, &[&str]) = ("quorate-liar", &["QuorateEvidence"]);
const REPLACED: (&str, &[&str]) = ("quorate-replaced", &["QuorateTransferStuck"]);
const LOST_BUNDLE: (&str, &[&str]) = ("quorate-lost-bundle", &["QuorateVoidedBundles"]);
const GUARDED: (&str, &[&str]) =
    ("quorate-guarded", &["QuorateSignerAway", "QuorateSignerRefuses", "QuorateDiskFilling", "QuorateJournalFilling"]);
/// Alerts about delays and the test machine's disk, which a slow machine raises in every cluster.
const OF_SLOW_MACHINES: [&str; 8] = [
    "QuorateReplicaDown",
    "QuorateNoQuorum",
    "QuorateQuorumAtRisk",
    "QuorateStalled",
    "QuorateReplicaLags",
    "QuorateViewTimeouts",
    "QuorateFlushSlow",
    "QuorateDiskFilling",
];
/// Size of a disk that is too small for a replica.
const DISK_BYTES: u64 = 1 << 30;
/// Executed blocks that the replicas of [`REPLACED`] keep.
const RETAINED_BLOCKS: usize = 64;

/// Alerts that have fired, by job, name and instance.
struct Watch {
    prometheus: Prometheus,
    fired: BTreeSet<(String, String, String)>,
}

impl Watch {
    /// Waits until alerts of a cluster have fired.
    fn expect(&mut self, cluster: &Cluster, alerts: &[&str]) {
        self.expect_of(cluster, alerts, |_| true);
    }

    /// Waits until an alert about a replica has fired.
    fn expect_at(&mut self, cluster: &Cluster, replica: usize, alert: &str) {
        let instance = cluster.targets[replica].to_string();
        self.expect_of(cluster, &[alert], |of| of == instance);
    }

    fn expect_of(&mut self, cluster: &Cluster, alerts: &[&str], is_meant: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            self.fired.extend(self.prometheus.firing());
            let has_fired = |alert: &str| {
                self.fired.iter().any(|(job, name, of)| job == cluster.job && name == alert && is_meant(of))
            };
            let missing: Vec<_> = alerts.iter().filter(|alert| !has_fired(alert)).collect();
            if missing.is_empty() {
                return;
            }
            let logs: Vec<String> = (0..REPLICAS).map(|replica| cluster.log(replica)).collect();
            assert!(start.elapsed() < HANG, "{}: {missing:?} are not raised\n{}", cluster.job, logs.join("\n\n"));
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn misbehaviour(fault: &str) -> Option<Laboratory> {
    Some(Laboratory::of(fault.parse::<Fault>().expect("a fault")))
}

/// Replica 3 differs from the others in a setting that must be equal, so that they exchange no messages. Its views,
/// every fourth, time out.
fn views(directory: &Path) -> Cluster {
    let flags = ["--leader", "round-robin", "--view-timeout-ms", "200"];
    let mut cluster = Cluster::written(directory, VIEWS.0, &flags, |config| {
        if config.replica == ReplicaId(3) {
            config.consensus.retained_blocks /= 2;
        }
    });
    cluster.start(0..REPLICAS);
    cluster.client(&["load", "--duration", "10m", "--rate", "20"]);
    cluster
}

/// Replica 0 has a slow disk, and more commands than it can execute in time; 1 has a small disk; the clock of 2 is
/// wrong; 3 is another release, speaks an older wire version, and will have few file descriptors.
fn machines(directory: &Path) -> Cluster {
    let mut cluster = Cluster::written(directory, MACHINES.0, &["--dissemination", "replicas"], |config| {
        config.consensus.max_queue_ms = Some(1);
        if config.replica == ReplicaId(3) {
            config.links.newest_wire_version -= 1;
        }
    });
    cluster.move_to_disk(1, DISK_BYTES);
    let (library, program) = (faulty_machine(directory), env!("CARGO_BIN_EXE_quorate"));
    cluster.start_with(0, program, &[("LD_PRELOAD", &library), (WRITE_DELAY, "80")]);
    cluster.start([1]);
    cluster.start_with(2, program, &[("LD_PRELOAD", &library), (CLOCK_AHEAD, "3600")]);
    cluster.start_with(3, &other_release(directory), &[]);
    cluster.client(&["load", "--duration", "10m", "--clients", "16"]);
    cluster
}

/// The leader proposes two blocks at one position.
fn liar(directory: &Path) -> Cluster {
    let mut cluster = Cluster::written(directory, LIAR.0, &[], |config| {
        if config.replica == ReplicaId(0) {
            config.laboratory = misbehaviour("equivocate");
        }
    });
    cluster.start(0..REPLICAS);
    cluster.client(&["load", "--duration", "10m", "--rate", "5"]);
    cluster
}

/// Replica 3 will lose its disk, and need a state. The others offer theirs, but do not send it.
fn replaced(directory: &Path) -> Cluster {
    let mut cluster = Cluster::written(directory, REPLACED.0, &[], |config| {
        (config.consensus.retained_blocks, config.consensus.checkpoint_interval) = (RETAINED_BLOCKS, 8);
        if config.replica != ReplicaId(3) {
            config.laboratory = misbehaviour("stall-state");
        }
    });
    cluster.start(0..REPLICAS);
    cluster.client(&["load", "--duration", "10m", "--rate", "50"]);
    cluster
}

fn empty_disk(cluster: &Cluster, replica: usize) {
    for directory in ["journal", "journal.snapshots"] {
        let _ = fs::remove_dir_all(cluster.home(replica).join(directory));
    }
}

/// Empties the disk of replica 3, and starts it once the others no longer have the blocks that it lacks.
fn lose_disk(cluster: &mut Cluster) {
    cluster.wait_for_metric(3, "quorate_height", |height| height > 0.0);
    cluster.kill(3);
    let height = cluster.metric(0, "quorate_height").expect("it answers");
    empty_disk(cluster, 3);
    let beyond = height + 4.0 * RETAINED_BLOCKS as f64;
    cluster.wait_for_metric(0, "quorate_checkpoint_height", |height| height > beyond);
    cluster.start([3]);
}

/// The signer of a replica hangs, answers again, and is used by another process. Meanwhile a disk and a journal fill.
fn guards(watch: &mut Watch, guarded: &Guarded) {
    guarded.hang();
    guarded.fill_journal();
    watch.expect_at(&guarded.cluster, SIGNED, "QuorateSignerAway");
    guarded.go_on();
    guarded.cluster.wait_for_metric(SIGNED, "quorate_signer_connected", |connected| connected == 1.0);
    guarded.use_up_views();
    guarded.cluster.put("refused");
    watch.expect_at(&guarded.cluster, SIGNED, "QuorateSignerRefuses");
    watch.expect_at(&guarded.cluster, JOURNAL, "QuorateJournalFilling");
    watch.expect_at(&guarded.cluster, FILLING, "QuorateDiskFilling");
}

/// Lowers a process' limit of open files to a few more than it has open.
fn exhaust_descriptors(process: u32) {
    let open = fs::read_dir(format!("/proc/{process}/fd")).expect("the process is alive").count() as u64;
    let limit = open + open / 10 + 1;
    let new = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    let process = libc::pid_t::try_from(process).expect("a process id fits");
    // SAFETY: the kernel reads one `rlimit` from a valid location, and writes nothing.
    let status = unsafe { libc::prlimit(process, libc::RLIMIT_NOFILE, &raw const new, std::ptr::null_mut()) };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

#[test]
#[ignore = "needs prometheus (Debian: apt-get install prometheus) and rights to mount; .ci/run runs it"]
fn prometheus_raises_each_alert_for_its_fault() {
    with_own_mounts("alerts", |directory| {
        let mut losses = Cluster::written(directory, LOSSES.0, &[], |_| ());
        losses.start(0..REPLICAS);
        let (views, machines, liar) = (views(directory), machines(directory), liar(directory));
        let mut replaced = replaced(directory);
        let lost_bundle = lost_bundle(directory, LOST_BUNDLE.0);
        let guarded = Guarded::started(directory, GUARDED.0);
        let clusters = [&losses, &views, &machines, &liar, &replaced, &lost_bundle, &guarded.cluster];
        let jobs = clusters.map(|cluster| (cluster.job, &cluster.targets[..]));
        let prometheus = Prometheus::start(directory, &jobs, &shortened(&read("alerts.yml"), RULE_TIME));
        let alerts = prometheus.alerts();
        let mut watch = Watch { prometheus, fired: BTreeSet::new() };

        losses.wait_until_ready(0..REPLICAS);
        // A replica that has never voted may lose its disk.
        wait_until("replicas 2 and 3 vote", || {
            losses.put("before");
            [2, 3].iter().all(|replica| !losses.home(*replica).join("journal.new").exists())
        });
        losses.kill(3);
        lose_disk(&mut replaced);
        watch.expect(&losses, &LOSSES.1[..2]);
        losses.kill(2);
        losses.client(&["put", "key", "value"]);
        exhaust_descriptors(machines.process(3));
        watch.expect(&losses, &LOSSES.1[..3]);
        // More than f lost disks: their replicas never vote again.
        for replica in [2, 3] {
            empty_disk(&losses, replica);
            losses.start([replica]);
        }
        guards(&mut watch, &guarded);
        watch.expect(&views, VIEWS.1);
        watch.expect(&machines, MACHINES.1);
        watch.expect(&liar, LIAR.1);
        watch.expect(&replaced, REPLACED.1);
        watch.expect(&lost_bundle, LOST_BUNDLE.1);
        watch.expect(&losses, LOSSES.1);

        let injected = [LOSSES, VIEWS, MACHINES, LIAR, REPLACED, LOST_BUNDLE, GUARDED];
        let is_expected = |job: &str, alert: &str| {
            OF_SLOW_MACHINES.contains(&alert)
                || injected.iter().any(|(of, raises)| *of == job && raises.contains(&alert))
        };
        let strange: Vec<_> = watch.fired.iter().filter(|(job, alert, _)| !is_expected(job, alert)).collect();
        assert!(strange.is_empty(), "raised without a fault: {strange:?}");
        let has_no_fault = |name: &str| !injected.iter().any(|(_, raises)| raises.contains(&name));
        let silent: Vec<&str> =
            alerts.iter().map(|(name, _)| name.as_str()).filter(|name| has_no_fault(name)).collect();
        assert!(silent.is_empty(), "these alerts have no fault in this test: {silent:?}");
    });
}
