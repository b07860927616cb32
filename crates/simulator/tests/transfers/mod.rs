//! Clusters that keep few blocks, and stores whose state has several chunks.

// Not every test uses all of it.
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

/// Who is away.
pub const AWAY: u16 = 3;

/// Half a millisecond from everybody to everybody, and few blocks are kept.
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

/// The run is sound, everything was answered, and those who were away have executed what the others have. What was fetched.
pub fn judged<'a>(report: &'a SimReport, away: &[u16], case: &str) -> &'a [Fetched] {
    assert_eq!(report.complaint, None, "{case}:\n{}", report.transcript.join("\n"));
    let load = report.load.as_ref().expect("a run without a complaint has a load");
    assert_eq!(load.unanswered, 0, "{case}: commands are lost");
    let most = report.end.iter().flatten().map(|status| status.committed_commands).max();
    for replica in away {
        let status = report.end[usize::from(*replica)].as_ref().expect("it came back");
        assert_eq!(
            Some(status.committed_commands),
            most,
            "{case}: replica {replica} has not executed what others have"
        );
    }
    &report.chronicle.fetched
}

/// The transfer that a replica finished last.
pub fn last_adopted(fetched: &[Fetched], replica: u16) -> Option<(&Fetched, Time)> {
    let own = fetched.iter().rev().filter(|fetched| fetched.replica.0 == replica);
    own.filter_map(|fetched| Some((fetched, fetched.adopted?))).next()
}

/// A time in milliseconds.
pub fn time(ms: f64) -> Time {
    Time((ms * 1e6) as u64)
}

/// Bytes of a record's value.
const VALUE_BYTES: usize = 1000;
/// Records of a store.
const RECORDS: u64 = 3000;
/// Those that are written again and again once all are there.
const HOT: u64 = 16;

/// A key-value store of some chunks: it is filled first, and then a few records change.
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

/// What its clients ask for.
pub fn records() -> Box<dyn Workload> {
    Box::new(Records { written: 0 })
}

/// The same cluster with such a store, under a light load.
pub fn with_records(mut spec: SimSpec) -> SimSpec {
    spec.application = ApplicationKind::KeyValue;
    spec.load.mode = LoadMode::Open { rate: 2000.0, most_outstanding: 10_000 };
    spec.consensus.retained_bytes = 4 << 20;
    spec.load.duration = Duration::from_millis(700);
    spec
}
