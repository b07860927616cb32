//! A final block with a bundle that is lost on every disk: running replicas execute the block without the bundle,
//! inform their operators, and export the certificate.

use crate::inspect::checked;
use crate::remains::*;
use quorate_consensus::config::{Dissemination, ProtocolKind};
use quorate_consensus::recovery::journal::Record;
use quorate_node::{EmbeddedCluster, NodeConfig, NodeEvent};
use quorate_testkit::losses::{last_common_block, without_bundle};
use quorate_types::{Block, Digest, ReplicaId, Status};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// Commands before the loss: too few for a checkpoint, which would prove that the bundle was executed.
const BEFORE: u64 = 12;
const CHECKPOINT_INTERVAL: u64 = 32;
/// A replica signs that it lacks a bundle after a hundred of these intervals.
const FETCH_RETRY_MS: u64 = 10;

/// The records of a replica's journal.
fn records(remains: &Remains, replica: u16) -> Vec<Record> {
    let all = Mutex::new(Vec::new());
    rewrite(&remains.home(replica), |records| {
        all.lock().expect("nobody panics with it").clone_from(&records);
        records
    });
    all.into_inner().expect("nobody panics with it")
}

struct Loss {
    remains: Remains,
    config: NodeConfig,
    block: Arc<Block>,
    bundle: Digest,
    statuses: Vec<Status>,
    events: Vec<(ReplicaId, NodeEvent)>,
}

/// Runs a cluster, removes a bundle of a final block from all disks, and runs the cluster again beyond the next
/// checkpoint.
fn after_a_loss(protocol: ProtocolKind) -> Loss {
    let remains = Remains::after(BEFORE, 10, protocol, "voids", |config| {
        config.consensus.dissemination = Dissemination::ReplicasCertified;
        config.consensus.checkpoint_interval = CHECKPOINT_INTERVAL;
        config.consensus.fetch_retry_ms = FETCH_RETRY_MS;
    });
    let block = last_common_block((0..REPLICAS as u16).map(|replica| records(&remains, replica)));
    assert!(block.height.0 < CHECKPOINT_INTERVAL, "a checkpoint proves that the bundle was executed");
    let bundle = block.payload[0];
    for replica in 0..REPLICAS as u16 {
        rewrite(&remains.home(replica), |records| without_bundle(records, &block, bundle));
    }
    let heard: Arc<Mutex<Vec<(ReplicaId, NodeEvent)>>> = Arc::default();
    let cluster = remains.restart_watched(|| {
        let heard = heard.clone();
        Box::new(move |replica, event| heard.lock().expect("nobody panics with it").push((replica, event)))
    });
    let config = NodeConfig::read(&remains.home(0).join("config.toml")).expect("it is there");
    work(&cluster, &config, 3 * CHECKPOINT_INTERVAL, 10);
    let statuses = await_all(&cluster, &config, 3 * CHECKPOINT_INTERVAL);
    stop(cluster);
    let events = heard.lock().expect("nobody panics with it").clone();
    Loss { remains, config, block, bundle, statuses, events }
}

fn stop(cluster: EmbeddedCluster) {
    for (_, end) in cluster.shut_down() {
        end.expect("a replica runs until it is stopped");
    }
}

fn tells_its_operators(loss: &Loss) {
    let Loss { block, bundle, statuses, events, .. } = loss;
    for status in statuses {
        let attention = status.attention.join("; ");
        let words = format!("without 1 bundles that a quorum signed to be absent, the last one {bundle} of block");
        assert!(attention.contains(&words), "{attention}");
        assert!(attention.contains(&format!("of block {}:", block.height)), "{attention}");
    }
    for replica in (0..REPLICAS as u16).map(ReplicaId) {
        let event = NodeEvent::Voided { height: block.height, bundle: *bundle };
        let heard = events.iter().filter(|(by, heard)| *by == replica && *heard == event);
        assert_eq!(heard.count(), 1, "replica {replica} warns once: {events:?}");
        let line = event.to_string();
        assert!(line.starts_with("WARNING") && line.contains(&bundle.to_string()), "{line}");
    }
}

fn exports_the_certificate(loss: &Loss) {
    let Loss { remains, block, .. } = loss;
    for replica in 0..REPLICAS as u16 {
        let (result, export) = remains.export(replica);
        let verification = result.verification.expect("it was asked for");
        let told = |notes: &[String]| notes.iter().any(|note| note.contains("without 1 of their bundles"));
        assert!(told(&verification.notes), "{:?}", verification.notes);
        let theirs = crate::stranger::check(&export).unwrap_or_else(|why| panic!("replica {replica}: {why}"));
        let ours = checked(remains, &export).unwrap_or_else(|why| panic!("replica {replica}: {why}"));
        assert_eq!((theirs.voids, theirs.signatures), (ours.voids, ours.signatures));
        assert_eq!((ours.voids, told(&ours.notes)), (1, true), "{:?}", ours.notes);
        assert!(theirs.proven > CHECKPOINT_INTERVAL && theirs.checkpoints > 0, "a checkpoint follows: {theirs:?}");
        if replica > 0 {
            continue;
        }
        let (at, line) = find_line(&export, |line| line["line"] == "block" && line["height"] == block.height.0);
        let refused = |line: &Value, what: &str| {
            let changed = with_line(&export, at, line);
            assert!(crate::stranger::check(&changed).is_err(), "{what} passes");
            assert!(checked(remains, &changed).is_err(), "{what} passes --check");
        };
        for field in ["signatures/0", "view", "height", "digest", "domain"] {
            let mut changed = line.clone();
            flip(changed.pointer_mut(&format!("/voids/0/{field}")).expect("the line has the certificate"));
            refused(&changed, field);
        }
        let mut without = line.clone();
        without.as_object_mut().expect("it is a line").remove("voids");
        refused(&without, "a block without its certificate");
        let mut twice = line.clone();
        let voids = twice["voids"].as_array_mut().expect("it is a list");
        voids.push(voids[0].clone());
        refused(&twice, "a second certificate");
    }
}

#[test]
fn a_void_bundle_is_told_to_operators_exported_and_checked() {
    for protocol in [ProtocolKind::Jolteon, ProtocolKind::Pbft] {
        let loss = after_a_loss(protocol);
        tells_its_operators(&loss);
        exports_the_certificate(&loss);
        // A restart executes the block without the bundle again; the journal contains no other outcome.
        let cluster = loss.remains.restart();
        let height = loss.statuses[0].height.0;
        work(&cluster, &loss.config, 4, 10);
        await_all(&cluster, &loss.config, height + 4);
        stop(cluster);
    }
}
