//! A bundle of a final block that every replica has lost.

use super::clusters::{Cluster, REPLICAS};
use quorate_consensus::recovery::journal::Record;
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use quorate_storage::{FileJournal, Identity, Journal, JournalOptions};
use quorate_types::{Block, Decoder, Digest, Encoder, Height, Wire};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Commands before the loss: too few for a checkpoint, which would prove that the bundle was executed.
const COMMANDS: u32 = 3;
const CHECKPOINT_INTERVAL: u64 = 64;
/// A replica signs that it lacks a bundle after a hundred of these intervals.
const FETCH_RETRY_MS: u64 = 10;

/// Starts a cluster, removes a bundle from all of its disks, and starts it again.
pub fn lost_bundle(directory: &Path, job: &'static str) -> Cluster {
    let mut cluster = Cluster::written(directory, job, &["--dissemination", "replicas-certified"], |config| {
        config.consensus.checkpoint_interval = CHECKPOINT_INTERVAL;
        config.consensus.fetch_retry_ms = FETCH_RETRY_MS;
    });
    cluster.start(0..REPLICAS);
    (0..COMMANDS).for_each(|at| cluster.put(&format!("key-{at}")));
    let are_here = |count: f64| count >= f64::from(COMMANDS);
    (0..REPLICAS).for_each(|at| cluster.wait_for_metric(at, "quorate_commands_executed_total", are_here));
    (0..REPLICAS).for_each(|replica| cluster.stop(replica));
    let homes = || (0..REPLICAS).map(|replica| cluster.home(replica));
    let block = last_of_all(homes().map(|home| records(&home)));
    assert!(block.height.0 < CHECKPOINT_INTERVAL, "a checkpoint proves that the bundle was executed");
    homes().for_each(|home| write(&home, without(records(&home), &block, block.payload[0])));
    cluster.start(0..REPLICAS);
    cluster.client(&["put", "again", "value"]);
    cluster
}

fn records(home: &Path) -> Vec<Record> {
    let decode = |records: &mut Vec<Record>, _, bytes: &[u8]| {
        records.push(Record::decode(&mut Decoder::new(bytes.to_vec().into())).expect("it was written so"));
    };
    quorate_storage::read(&home.join("journal"), Vec::new, decode).expect("it can be read").0
}

/// Returns the last block with bundles that every replica has committed.
fn last_of_all(journals: impl Iterator<Item = Vec<Record>>) -> Arc<Block> {
    let (mut blocks, mut common): (BTreeMap<Height, Arc<Block>>, _) = (BTreeMap::new(), Height(u64::MAX));
    for records in journals {
        let mut committed = Height(0);
        for record in records {
            match record {
                Record::Block(block) if !block.payload.is_empty() => _ = blocks.insert(block.height, block),
                Record::Commit { height, .. } => committed = committed.max(height),
                _ => {}
            }
        }
        common = common.min(committed);
    }
    blocks.range(..=common).next_back().expect("a common block has bundles").1.clone()
}

/// Removes a bundle, and the commits of its block and of later ones.
fn without(mut records: Vec<Record>, block: &Block, bundle: Digest) -> Vec<Record> {
    for record in &mut records {
        if let Record::Bundles(bundles) | Record::Kept { bundles, .. } = record {
            bundles.retain(|kept| kept.digest() != bundle);
        }
    }
    let is_lost = |record: &Record| match record {
        Record::Commit { height, .. } => *height >= block.height,
        Record::Bundles(bundles) | Record::Kept { bundles, .. } => bundles.is_empty(),
        _ => false,
    };
    records.retain(|record| !is_lost(record));
    records
}

/// Replaces the journal of a replica that does not run.
fn write(home: &Path, records: Vec<Record>) {
    let config = NodeConfig::read(&home.join(CONFIG_FILE)).expect("it was written before");
    let journal = home.join("journal");
    fs::remove_dir_all(&journal).expect("it can be removed");
    let identity = Identity { epoch: config.committee().expect("it is sound").epoch, replica: config.replica };
    let options = JournalOptions { segment_bytes: config.journal.segment_bytes, ..JournalOptions::default() };
    let mut written = FileJournal::open(&journal, identity, &options).expect("it can be written");
    for (id, record) in (1..).zip(&records) {
        let mut out = Encoder::default();
        record.encode(&mut out);
        written.append(id, out.finish()).expect("it fits");
    }
    written.commit().expect("it can be written");
    while written.durable().expect("it can be written") < Some(records.len() as u64) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
