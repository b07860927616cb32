//! Clusters that retain few blocks, and stores whose state has several chunks.

// Each test uses only a part of the module.
#![allow(dead_code)]

use crate::common::spec;
use quorate_applications::{ApplicationKind, KeyValueCommand};
use quorate_client::load::{LoadMode, LoadOptions};
use quorate_client::workload::Workload;
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::chronicle::Fetched;
use quorate_simulator::network::Delay;
use quorate_simulator::{NetworkSpec, SimReport, SimSpec};
use quorate_types::{ClientId, Time};
use std::time::Duration;

/// The replica that is down for a while.
pub const AWAY: u16 = 3;

/// Half a millisecond of delay on all links, and few retained blocks.
pub fn short_memory(protocol: ProtocolKind) -> SimSpec {
    let mut spec = spec(protocol);
    spec.network = NetworkSpec { delay: Delay::Constant { mean_ms: 0.5 }, ..NetworkSpec::default() };
    spec.consensus.view_timeout_ms = 100;
    spec.consensus.fetch_retry_ms = 20;
    spec.consensus.checkpoint_interval = 10;
    spec.consensus.window = 20;
    spec.consensus.retained_blocks = 60;
    spec.consensus.retained_bytes = 1 << 20;
    spec.load = LoadOptions {
        clients: 2,
        mode: LoadMode::Closed { outstanding: 40 },
        bundle: 10,
        warmup: Duration::ZERO,
        duration: Duration::from_millis(1200),
        drain: Duration::from_secs(5),
        ..LoadOptions::default()
    };
    spec
}

/// Checks that there is no violation, all commands were answered, and the absent replicas have caught up. Returns the
/// state transfers.
pub fn judged<'a>(report: &'a SimReport, away: &[u16], case: &str) -> &'a [Fetched] {
    assert_eq!(report.violation, None, "{case}:\n{}", report.transcript.join("\n"));
    let load = report.load.as_ref().expect("a run without a violation has a load");
    assert_eq!(load.unanswered, 0, "{case}: commands are lost");
    let most = report.end.iter().flatten().map(|status| status.committed_commands).max();
    for replica in away {
        let status = report.end[usize::from(*replica)].as_ref().expect("it restarted");
        assert_eq!(
            Some(status.committed_commands),
            most,
            "{case}: replica {replica} has not executed what others have"
        );
    }
    &report.chronicle.fetched
}

/// Returns the last completed transfer of a replica.
pub fn last_adopted(fetched: &[Fetched], replica: u16) -> Option<(&Fetched, Time)> {
    let own = fetched.iter().rev().filter(|fetched| fetched.replica.0 == replica);
    own.filter_map(|fetched| Some((fetched, fetched.adopted?))).next()
}

pub fn time(ms: f64) -> Time {
    Time((ms * 1e6) as u64)
}

const VALUE_BYTES: usize = 1000;
/// Number of records in the store.
const RECORDS: u64 = 3000;
/// Number of records that change after the preload.
const HOT: u64 = 16;

/// Workload that fills a key-value store of several chunks, and then changes a few records.
struct Records {
    written: u64,
}

impl Records {
    fn put(&mut self, key: u64, payload: &mut Vec<u8>) {
        let mut value = [key as u8; VALUE_BYTES];
        self.written += 1;
        value[..8].copy_from_slice(&self.written.to_le_bytes());
        KeyValueCommand::Put { key: &key.to_be_bytes(), value: &value }.encode(payload);
    }
}

impl Workload for Records {
    fn preload(&mut self, payload: &mut Vec<u8>) -> bool {
        let more = self.written < RECORDS;
        if more {
            self.put(self.written, payload);
        }
        more
    }

    fn next(&mut self, _: ClientId, payload: &mut Vec<u8>) {
        self.put(self.written % HOT, payload);
    }
}

pub fn records() -> Box<dyn Workload> {
    Box::new(Records { written: 0 })
}

/// Configures a cluster with such a store and a light load.
pub fn with_records(mut spec: SimSpec) -> SimSpec {
    spec.application = ApplicationKind::KEY_VALUE;
    spec.load.mode = LoadMode::Open { rate: 2000.0, max_outstanding: 10_000 };
    spec.consensus.retained_bytes = 4 << 20;
    spec.load.duration = Duration::from_millis(700);
    spec
}
