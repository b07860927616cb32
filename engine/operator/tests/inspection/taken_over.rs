//! A replica was away for so long that it had to fetch the others' state, so its journal lacks the blocks in between.
//! The journal can still be verified and exported, and an independent reader checks the export; then both are tampered
//! with.

use crate::remains::*;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::recovery::journal::Record;
use quorate_crypto::key_file::{self, passphrase::Passphrases};
use quorate_node::config::CONFIG_FILE;
use quorate_node::{EmbeddedCluster, Fsync, JournalConfig, NoObserver, NodeConfig, durability, testnet};
use quorate_operator::inspection::InspectResult;
use quorate_operator::report::Report;
use quorate_types::{Certificate, ClusterId, Domain, ReplicaId};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The replica that was away.
const TRAVELLER: ReplicaId = ReplicaId(3);
const ALL: Range<u16> = 0..REPLICAS as u16;
/// Timeout: a test that waits longer than this has hung.
const HANG: Duration = Duration::from_secs(60);
/// Bytes written by a command.
const VALUE_BYTES: usize = 1000;
/// Commands executed in its absence: more than twice the number retained by the others.
const COMMANDS_MISSED: u64 = 150;
/// Retained blocks and bytes, chosen so that a state is written at some checkpoints but not at all.
const RETAINED: (usize, usize) = (64, 128 << 10);
const WINDOW: u64 = 64;

/// Cluster whose replicas can be stopped and restarted, each with its directory and address.
struct Net {
    remains: Remains,
    template: NodeConfig,
    /// Kept open, so that no other process gets the address of a stopped replica.
    listeners: Vec<TcpListener>,
}

impl Net {
    fn new(protocol: ProtocolKind) -> Net {
        let (remains, template) = Remains::to_be(protocol, "taken-over", |config| {
            (config.consensus.retained_blocks, config.consensus.retained_bytes) = RETAINED;
            config.consensus.window = WINDOW;
            config.consensus.batch_bytes = 64 << 10;
            // Large enough to keep the whole journal; otherwise there would be no blocks from before the absence.
            config.journal = JournalConfig { segment_bytes: 8 << 20, fsync: Fsync::Never, ..JournalConfig::default() };
        });
        let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let listeners: Vec<TcpListener> = ALL.map(bind).collect();
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(|listener| listener.local_addr().expect("it is bound")).collect();
        for (mut config, keys) in testnet::generate(&template, &addresses).expect("the settings are valid") {
            remains.settle(&mut config);
            durability::mark_as_new(&config.journal.directory).expect("it can be written");
            let path = remains.home(config.replica.0).join(&config.key_file);
            key_file::write(&path, &cluster_id(&config), config.replica, &keys).expect("it can be written");
        }
        Net { remains, template, listeners }
    }

    fn start(&self, replicas: Range<u16>) -> EmbeddedCluster {
        let nodes = replicas.map(|replica| {
            let home = self.remains.home(replica);
            let config = NodeConfig::read(&home.join(CONFIG_FILE)).expect("it was written before");
            let path = home.join(&config.key_file);
            let cluster = cluster_id(&config);
            let none = Passphrases::default();
            let keys = key_file::read(&path, config.scheme, &cluster, config.replica, &none).expect("it is there");
            let listener = self.listeners[usize::from(replica)].try_clone().expect("there is room for a socket");
            ((config, keys), listener.into())
        });
        EmbeddedCluster::start_replicas(nodes, || Box::new(NoObserver)).expect("replicas start")
    }

    /// Executes commands until a condition holds.
    fn work_until<T>(&self, cluster: &EmbeddedCluster, what: &str, look: impl Fn() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            assert!(start.elapsed() < HANG, "{what} does not come");
            work(cluster, &self.template, 8, VALUE_BYTES);
        }
    }
}

fn cluster_id(config: &NodeConfig) -> ClusterId {
    ClusterId::from_name(&config.cluster)
}

/// Directory of a replica that fetched a state.
struct Souvenirs {
    remains: Remains,
    /// Height of the last state that it fetched.
    taken_over: u64,
    /// Inspection of its directory, and its export.
    result: InspectResult,
    export: String,
}

/// Runs a cluster in which one replica goes away and returns, until it can prove the blocks executed since then.
fn after_a_journey(protocol: ProtocolKind) -> Souvenirs {
    let net = Net::new(protocol);
    let mut cluster = net.start(ALL);
    net.work_until(&cluster, "the first checkpoint", || {
        let looked = net.remains.inspect(TRAVELLER.0, true).verification.expect("it was asked for");
        (looked.proven_height >= net.template.consensus.checkpoint_interval).then_some(())
    });
    cluster.stop(TRAVELLER).expect("it runs until it is stopped");
    work(&cluster, &net.template, COMMANDS_MISSED, VALUE_BYTES);

    let back = net.start(TRAVELLER.0..TRAVELLER.0 + 1);
    // Some checkpoints certify no history, and another state may be fetched before the export, so export now.
    let (taken_over, result, export) = net.work_until(&cluster, "a checkpoint of the history above a state", || {
        let (result, export) = net.remains.export(TRAVELLER.0);
        let taken_over = *heights_of(&export, "root").last().filter(|height| **height > 0)?;
        let proves = lines(&export).any(|line| vouches_for_history(&line, taken_over));
        proves.then_some((taken_over, result, export))
    });
    for (_, end) in back.shut_down().into_iter().chain(cluster.shut_down()) {
        end.expect("a replica runs until it is stopped");
    }
    Souvenirs { remains: net.remains, taken_over, result, export }
}

fn lines(export: &str) -> impl Iterator<Item = Value> {
    export.lines().map(|line| serde_json::from_str::<Value>(line).expect("lines are JSON"))
}

/// Returns the heights of the lines of one kind, in file order.
fn heights_of(export: &str, kind: &str) -> Vec<u64> {
    let of_kind = lines(export).filter(|line| line["line"] == kind);
    of_kind.map(|line| line["height"].as_u64().expect("it has a height")).collect()
}

fn is_above(line: &Value, height: u64) -> bool {
    line["height"].as_u64().is_some_and(|of_line| of_line > height)
}

fn vouches_for_history(line: &Value, above: u64) -> bool {
    line["line"] == "checkpoint" && line["history"].is_string() && is_above(&line["certificate"], above)
}

/// Checks that the replica's journal is sound and has two roots, and that the reader accepts the export and detects
/// every change after the second root.
fn is_checked(protocol: ProtocolKind) {
    let Souvenirs { remains, taken_over, result, export } = after_a_journey(protocol);
    let verification = result.verification.as_ref().expect("it was asked for");
    let missing =
        format!("to {taken_over} are not in this journal: the replica was away and fetched the state instead");
    assert!(verification.notes.iter().any(|note| note.ends_with(&missing)), "{}", result.to_table());
    assert_eq!(verification.from_height, 0, "the journal is complete");
    assert_eq!(verification.executed_height, Some(verification.committed_height));

    let roots = heights_of(&export, "root");
    assert_eq!(roots[0], 0, "{protocol}: {roots:?}");
    let mut blocks = heights_of(&export, "block");
    blocks.retain(|height| *height <= verification.committed_height);
    let gaps: Vec<u64> = blocks.windows(2).filter(|pair| pair[0] + 1 != pair[1]).map(|pair| pair[1] - 1).collect();
    // The replica may fetch two states in a row, with no blocks in between.
    let at_roots = gaps.iter().all(|height| roots.contains(height)) && gaps.last() == Some(&taken_over);
    assert!(at_roots, "{protocol}: blocks are missing below {gaps:?}, and the roots are {roots:?}");

    let checked = crate::stranger::check(&export).unwrap_or_else(|why| panic!("{protocol}: {why}"));
    assert_eq!(checked.committed, verification.committed_height, "{protocol}");
    assert_eq!(checked.proven, verification.proven_height, "{protocol}");
    assert!(checked.proven > taken_over, "{protocol}: {checked:?}");
    alterations_are_noticed(protocol, &export, taken_over);
    a_second_summary_is_sound(&remains, taken_over);
    tampering_is_noticed(&remains, taken_over);
}

fn alterations_are_noticed(protocol: ProtocolKind, export: &str, taken_over: u64) {
    let (root_at, root) = find_line(export, |line| line["line"] == "root" && is_above(line, taken_over - 1));
    let (history_at, history) = find_line(export, |line| line["line"] == "history" && is_above(line, taken_over - 1));
    let (block_at, block) = find_line(export, |line| line["results"][0].is_string() && is_above(line, taken_over));
    let (checkpoint_at, checkpoint) = find_line(export, |line| vouches_for_history(line, taken_over));
    let block_fields = ["digest", "view", "height", "author", "time_ms", "payload/0", "bundles/0", "results/0"];
    let checkpoint_fields =
        ["certificate/signatures/0", "certificate/digest", "certificate/height", "history", "frontier/0/digest"];
    let mut places =
        vec![(root_at, &root, "height"), (history_at, &history, "height"), (history_at, &history, "history")];
    places.extend(block_fields.map(|field| (block_at, &block, field)));
    places.extend(checkpoint_fields.map(|field| (checkpoint_at, &checkpoint, field)));
    if !protocol.has_slots() {
        let of_justify = ["justify/digest", "justify/view", "justify/signatures/1", "justify/signers/2"];
        places.push((root_at, &root, "digest"));
        places.extend(of_justify.map(|field| (block_at, &block, field)));
    }
    for (at, line, field) in places {
        let mut changed = line.clone();
        flip(changed.pointer_mut(&format!("/{field}")).unwrap_or_else(|| panic!("{field} of {line}")));
        let outcome = crate::stranger::check(&with_line(export, at, &changed));
        assert!(outcome.is_err(), "{protocol}: a flipped bit in {field} of line {at} passes: {outcome:?}");
    }
    for left_out in [root_at, history_at, block_at] {
        let lines = export.lines().enumerate().filter(|(number, _)| *number != left_out);
        let without: String = lines.flat_map(|(_, line)| [line, "\n"]).collect();
        assert!(crate::stranger::check(&without).is_err(), "{protocol}: a missing line {left_out} passes");
    }
}

/// A replica that truncates its journal before its next commit writes the summary of a fetched state again.
fn a_second_summary_is_sound(remains: &Remains, taken_over: u64) {
    let before = remains.inspect(TRAVELLER.0, true).committed_height;
    rewrite(&remains.home(TRAVELLER.0), |mut records| {
        let of_state = |record: &Record| matches!(record, Record::Summary { height, .. } if height.0 == taken_over);
        let begin = records.iter().position(of_state).expect("a summary of the state");
        let belongs = |record: &&Record| {
            matches!(record, Record::Summary { .. } | Record::Certificate(_) | Record::Ancestor { .. })
        };
        let summary: Vec<Record> = records[begin..].iter().take_while(belongs).cloned().collect();
        assert!(summary.iter().any(|record| matches!(record, Record::Ancestor { .. })), "{summary:?}");
        let end = begin + summary.len();
        records.splice(end..end, summary);
        records
    });
    let result = remains.inspect(TRAVELLER.0, true);
    assert!(result.failure().is_none(), "{}", result.to_table());
    assert_eq!(result.committed_height, before);
}

fn tampering_is_noticed(remains: &Remains, taken_over: u64) {
    is_noticed(remains, TRAVELLER.0, "was fetched, but no quorum certified it", |mut records| {
        let vouches = |certificate: &Certificate| {
            certificate.subject.domain == Domain::Checkpoint && certificate.subject.height.0 == taken_over
        };
        let before = records.len();
        records.retain(|record| !matches!(record, Record::Certificate(certificate) if vouches(certificate)));
        assert!(records.len() < before, "the certificate of the state is a record");
        records
    });
    is_noticed(remains, TRAVELLER.0, "leaves a gap", |mut records| {
        let commit = records.iter_mut().find_map(|record| match record {
            Record::Commit { height, digest } if height.0 > taken_over => Some(digest),
            _ => None,
        });
        commit.expect("something is committed above the state").0[0] ^= 1;
        records
    });
}

#[test]
fn an_independent_reader_accepts_jolteon_after_a_fetched_state() {
    is_checked(ProtocolKind::Jolteon);
}

#[test]
fn an_independent_reader_accepts_pbft_after_a_fetched_state() {
    is_checked(ProtocolKind::Pbft);
}

#[test]
fn an_independent_reader_accepts_basic_hotstuff_after_a_fetched_state() {
    is_checked(ProtocolKind::BasicHotStuff);
}
