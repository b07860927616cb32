//! A bundle of a final block that every replica has lost.

use super::clusters::{Cluster, REPLICAS};
use quorate_consensus::recovery::journal::Record;
use quorate_node::NodeConfig;
use quorate_node::config::CONFIG_FILE;
use quorate_storage::{FileJournal, Identity, Journal, JournalOptions};
use quorate_testkit::losses::{last_common_block, without_bundle};
use quorate_types::{Decoder, Encoder, Wire};
use std::fs;
use std::path::Path;
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
    let block = last_common_block(homes().map(|home| records(&home)));
    assert!(block.height.0 < CHECKPOINT_INTERVAL, "a checkpoint proves that the bundle was executed");
    homes().for_each(|home| write(&home, without_bundle(records(&home), &block, block.payload[0])));
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
