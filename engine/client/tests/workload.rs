//! Workloads: mixes, popularity of keys, determinism, files.

use quorate_client::workload::{
    FileWorkload, FixedWorkload, KeyValueEncoder, Workload, WorkloadError, WorkloadKind, ZIPFIAN_EXPONENT, scramble,
    workload,
};
use quorate_types::ClientId;
use quorate_types::limits::MAX_PAYLOAD_BYTES;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Encoder that writes one letter, the key, a colon and the value.
struct Letters;

impl KeyValueEncoder for Letters {
    fn put(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&[b"P", key, b":", value].concat());
    }
    fn get(&self, key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&[b"G", key, b":"].concat());
    }
    fn read_modify_write(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&[b"M", key, b":", value].concat());
    }
}

const DRAWS: usize = 100_000;
const RECORDS: u64 = 10_000;

fn make(kind: WorkloadKind, payload: usize, seed: u64) -> Box<dyn Workload> {
    workload(&kind, payload, RECORDS, seed, Some(Box::new(Letters))).unwrap()
}

fn next(workload: &mut dyn Workload) -> Vec<u8> {
    let mut payload = Vec::new();
    workload.next(ClientId(1), &mut payload);
    payload
}

fn key(command: &[u8]) -> &[u8] {
    let end = command.iter().position(|byte| *byte == b':').unwrap();
    &command[1..end]
}

fn fractions(kind: WorkloadKind) -> BTreeMap<u8, f64> {
    let mut workload = make(kind, 0, 1);
    let mut counts = BTreeMap::new();
    (0..DRAWS).for_each(|_| *counts.entry(next(&mut *workload)[0]).or_insert(0.0) += 1.0 / DRAWS as f64);
    counts
}

#[test]
fn the_mixes_are_those_of_ycsb() {
    let near = |found: Option<&f64>, expected: f64| (found.copied().unwrap_or(0.0) - expected).abs() < 0.01;
    for (kind, gets, puts, modifies) in [
        (WorkloadKind::YcsbA, 0.5, 0.5, 0.0),
        (WorkloadKind::YcsbB, 0.95, 0.05, 0.0),
        (WorkloadKind::YcsbC, 1.0, 0.0, 0.0),
        (WorkloadKind::YcsbF, 0.5, 0.0, 0.5),
    ] {
        let found = fractions(kind.clone());
        let all = near(found.get(&b'G'), gets) && near(found.get(&b'P'), puts) && near(found.get(&b'M'), modifies);
        assert!(all, "{kind:?}: {found:?}");
    }
}

#[test]
fn keys_are_zipfian_and_scattered() {
    let mut workload = make(WorkloadKind::YcsbC, 0, 3);
    let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    (0..DRAWS).for_each(|_| *counts.entry(key(&next(&mut *workload)).to_vec()).or_default() += 1);
    let name = |rank: u64| format!("user{:012}", scramble(rank) % RECORDS).into_bytes();
    let harmonic: f64 = (1..=RECORDS).map(|rank| (rank as f64).powf(-ZIPFIAN_EXPONENT)).sum();
    for rank in [0, 1, 3, 9] {
        let expected = ((rank + 1) as f64).powf(-ZIPFIAN_EXPONENT) / harmonic * DRAWS as f64;
        let found = counts[&name(rank)] as f64;
        // Two ranks may share a record, but none of these popular ones does.
        assert!((found / expected - 1.0).abs() < 0.15, "rank {rank}: {found} of {expected}");
    }
    let neighbours = name(0)[..14] == name(1)[..14] && name(1)[..14] == name(2)[..14];
    assert!(!neighbours, "popular records are not neighbours");
    let mut popular: Vec<usize> = counts.into_values().collect();
    popular.sort_unstable_by(|one, two| two.cmp(one));
    let top: usize = popular.iter().take(RECORDS as usize / 100).sum();
    assert!((0.45..0.65).contains(&(top as f64 / DRAWS as f64)), "the most popular percent has {top} of {DRAWS}");
}

#[test]
fn the_load_phase_inserts_every_record_once() {
    let mut workload = make(WorkloadKind::YcsbB, 20, 1);
    let mut keys = Vec::new();
    let mut payload = Vec::new();
    while workload.preload(&mut payload) {
        assert_eq!((payload[0], payload.len()), (b'P', 1 + 16 + 1 + 20));
        keys.push(key(&payload).to_vec());
        payload.clear();
    }
    assert_eq!(keys.len() as u64, RECORDS);
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
    let mut known = (0..1000).map(|_| next(&mut *workload));
    assert!(known.all(|command| keys.binary_search(&key(&command).to_vec()).is_ok()));
}

#[test]
fn the_same_seed_gives_the_same_commands() {
    for kind in [WorkloadKind::Fixed, WorkloadKind::YcsbA, WorkloadKind::YcsbF] {
        let run = |seed| -> Vec<Vec<u8>> {
            let mut workload = make(kind.clone(), 40, seed);
            (0..200).map(|_| next(&mut *workload)).collect()
        };
        assert_eq!(run(1), run(1), "{kind:?}");
        assert_ne!(run(1), run(2), "{kind:?}");
    }
}

#[test]
fn fixed_commands_have_their_size_and_differ_from_eight_bytes_on() {
    for size in [0, 1, 7, 8, 512] {
        let mut workload = FixedWorkload::new(size, 1).unwrap();
        let (one, two) = (next(&mut workload), next(&mut workload));
        assert_eq!((one.len(), two.len()), (size, size));
        assert_eq!(one != two, size >= 8);
    }
    assert!(matches!(FixedWorkload::new(MAX_PAYLOAD_BYTES + 1, 1), Err(WorkloadError::PayloadTooLarge(_))));
}

struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("quorate-client-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        TemporaryFile(path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_file_repeats_its_lines() {
    let file = TemporaryFile::new("lines", b"set a 1\r\n\nget a");
    let mut workload = workload(&WorkloadKind::File(file.0.clone()), 0, 1, 1, None).unwrap();
    let commands: Vec<Vec<u8>> = (0..5).map(|_| next(&mut *workload)).collect();
    assert_eq!(commands, [&b"set a 1"[..], b"", b"get a", b"set a 1", b""]);
}

#[test]
fn unusable_files_are_refused_by_name() {
    let empty = TemporaryFile::new("empty", b"\n\r\n");
    assert!(matches!(FileWorkload::read(&empty.0), Err(WorkloadError::FileEmpty(path)) if path == empty.0));
    let long = TemporaryFile::new("long", &[b"x\n".to_vec(), vec![b'y'; MAX_PAYLOAD_BYTES + 1]].concat());
    assert!(matches!(FileWorkload::read(&long.0), Err(WorkloadError::LineTooLong { line: 2, .. })));
    assert!(matches!(FileWorkload::read(&std::env::temp_dir()), Err(WorkloadError::NotAFile(_))));
    assert!(matches!(FileWorkload::read("/nowhere/at/all".as_ref()), Err(WorkloadError::File { .. })));
}

#[test]
fn a_ycsb_workload_needs_records_and_the_key_value_application() {
    let without = workload(&WorkloadKind::YcsbA, 0, 10, 1, None).err().unwrap();
    assert!(matches!(without, WorkloadError::NeedsKeyValue));
    let none = workload(&WorkloadKind::YcsbA, 0, 0, 1, Some(Box::new(Letters))).err().unwrap();
    assert!(matches!(none, WorkloadError::Records(0)));
}
