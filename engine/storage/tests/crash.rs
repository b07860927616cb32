//! After a power failure at any byte, the journal contains all durable records, and a prefix of the appended ones.

use crate::common::{Stepped, disk, identity, ids, kept, open, record, small, write};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_storage::{Faults, FileJournal, Journal, Medium, SimulatedDisk, repair_medium};

/// Offset of the life in the segment header.
const LIFE_AT: usize = 12;

/// The operations on a journal so far, and the results.
#[derive(Default)]
struct Model {
    appended: Vec<(u64, Bytes)>,
    /// The highest id reported durable, in any life.
    durable: Option<u64>,
    first_kept: u64,
}

#[derive(Clone, Debug)]
enum Operation {
    Append { gap: u64, bytes: usize },
    Commit,
    Step,
    Truncate { back: u64 },
}

impl Model {
    fn next_id(&self) -> u64 {
        self.appended.last().map_or(0, |(id, _)| id + 1)
    }

    /// Performs one operation. Returns false once the journal has failed.
    fn perform(&mut self, journal: &mut Stepped, operation: &Operation) -> bool {
        let going_on = match *operation {
            Operation::Append { gap, bytes } => {
                let id = self.next_id() + gap;
                let content = record(id, bytes);
                let taken = journal.append(id, content.clone()).is_ok();
                if taken {
                    self.appended.push((id, content));
                }
                taken
            }
            Operation::Commit => journal.commit().is_ok(),
            Operation::Step => {
                journal.step();
                true
            }
            Operation::Truncate { back } => {
                let first_kept = self.durable.map_or(0, |durable| (durable + 1).saturating_sub(back));
                self.first_kept = self.first_kept.max(first_kept);
                journal.truncate(first_kept).is_ok()
            }
        };
        match journal.durable() {
            Ok(durable) => {
                assert!(durable >= self.durable, "the durable id never decreases");
                self.durable = durable;
                going_on
            }
            Err(_) => {
                assert!(journal.append(u64::MAX - 1, Bytes::new()).is_err(), "a failed journal refuses records");
                assert!(journal.commit().is_err());
                assert!(!journal.step());
                assert!(journal.durable().is_err(), "a failure is final");
                false
            }
        }
    }

    /// Checks that a reopened journal has all promised records, and removes the lost ones from the model.
    fn check(&mut self, journal: &mut Stepped) {
        let found = kept(journal);
        let durable = journal.durable().expect("an opened journal works");
        assert_eq!(durable, found.last().map(|(id, _)| *id).or(durable), "all kept records are durable");
        assert!(durable >= self.durable, "only {durable:?} is left of {:?}", self.durable);
        self.appended.retain(|(id, _)| Some(*id) <= durable);
        assert_eq!(self.appended.last().map(|(id, _)| *id), durable);
        let first = self.appended.len() - found.len();
        assert_eq!(found, self.appended[first..], "the kept records are contiguous");
        let promised = self.appended.iter().position(|(id, _)| *id >= self.first_kept);
        assert!(promised.is_none_or(|promised| first <= promised), "a record was dropped too early");
        self.durable = durable;
    }
}

/// Tries to open the journal while the power fails after each of the `failures` bytes in turn, then opens it.
fn reopen(mut disk: SimulatedDisk, failures: &[u64]) -> (SimulatedDisk, Stepped) {
    for after in failures {
        disk.set_faults(Faults { power_fails_after_bytes: Some(*after), ..Faults::default() });
        if let Ok(journal) = open(&disk) {
            drop(journal);
        }
        disk = disk.lose_power();
    }
    let journal = open(&disk).unwrap_or_else(|error| panic!("an interrupted write is not damage: {error}"));
    (disk, journal)
}

/// An operation; about `truncations` in ten truncate.
fn operation(truncations: u32) -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..3u64, prop_oneof![0..40usize, 0..600usize, Just(1400)])
            .prop_map(|(gap, bytes)| Operation::Append { gap, bytes }),
        2 => Just(Operation::Commit),
        2 => Just(Operation::Step),
        truncations => (0..20u64 / u64::from(truncations)).prop_map(|back| Operation::Truncate { back }),
    ]
}

/// Operations, the byte at which the power fails, and the bytes at which it fails while the journal is reopened.
type Life = (Vec<Operation>, u64, Vec<u64>);

fn life(operations: usize, truncations: u32) -> impl Strategy<Value = Life> {
    let operations = prop::collection::vec(operation(truncations), 0..operations);
    (operations, 0..20_000u64, prop::collection::vec(0..4000u64, 0..3))
}

fn survive(seed: u64, lives: Vec<Life>) {
    let mut disk = disk(seed);
    let mut model = Model::default();
    let mut journal = open(&disk).unwrap();
    for (operations, power, failures) in lives {
        disk.set_faults(Faults { power_fails_after_bytes: Some(power), ..Faults::default() });
        for operation in &operations {
            if !model.perform(&mut journal, operation) {
                break;
            }
        }
        drop(journal);
        (disk, journal) = reopen(disk.lose_power(), &failures);
        model.check(&mut journal);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn durable_records_survive_life_after_life(
        seed in any::<u64>(),
        lives in prop::collection::vec(life(60, 1), 1..5),
    ) {
        survive(seed, lives);
    }

    #[test]
    fn durable_records_survive_in_reused_files(
        seed in any::<u64>(),
        lives in prop::collection::vec(life(150, 4), 1..4),
    ) {
        survive(seed, lives);
    }

    #[test]
    fn a_failed_write_does_not_count_as_durable_after_reopening(
        seed in any::<u64>(),
        operations in prop::collection::vec(operation(1), 1..80),
    ) {
        let disk = disk(seed);
        let mut model = Model::default();
        let mut journal = open(&disk).unwrap();
        disk.set_faults(Faults { errors_per_million: 200_000, ..Faults::default() });
        for operation in &operations {
            if !model.perform(&mut journal, operation) {
                break;
            }
        }
        drop(journal);
        // The process restarts and reads the cache; then the power fails.
        disk.set_faults(Faults::default());
        let mut journal = open(&disk).unwrap();
        model.check(&mut journal);
        drop(journal);
        let mut journal = open(&disk.lose_power()).unwrap();
        model.check(&mut journal);
    }
}

/// Operations that use several segments, groups of one and of many records, and truncation.
fn script() -> Vec<Operation> {
    rounds(6, 3, 4)
}

/// Operations that repeatedly reuse the files of truncated segments.
fn wearing_script() -> Vec<Operation> {
    rounds(14, 2, 1)
}

fn rounds(rounds: usize, truncate_every: usize, back: u64) -> Vec<Operation> {
    let mut operations = Vec::new();
    for round in 0..rounds {
        for count in [1, 3] {
            (0..count).for_each(|at| operations.push(Operation::Append { gap: at % 2, bytes: 90 + 150 * at as usize }));
            operations.extend([Operation::Commit, Operation::Step]);
        }
        if (round + 1) % truncate_every == 0 {
            operations.push(Operation::Truncate { back });
        }
    }
    operations
}

/// Performs the script with a power failure at each of its bytes in turn. Returns the number of bytes, and how often
/// opening the journal removed something.
fn fail_at_every_byte(script: &[Operation]) -> (u64, u32) {
    let (mut after, mut torn, mut complete) = (0, 0, 0);
    while complete == 0 {
        for seed in 0..2 {
            let disk = disk(seed);
            let mut journal = open(&disk).unwrap();
            disk.set_faults(Faults { power_fails_after_bytes: Some(after), ..Faults::default() });
            let mut model = Model::default();
            let failed = script.iter().any(|operation| !model.perform(&mut journal, operation));
            complete += u32::from(!failed);
            drop(journal);
            let (_, mut journal) = reopen(disk.lose_power(), &[]);
            torn += u32::from(journal.recovery().cut.is_some());
            model.check(&mut journal);
        }
        after += 1;
    }
    (after, torn)
}

#[test]
fn the_power_may_fail_at_every_byte() {
    let (after, torn) = fail_at_every_byte(&script());
    assert!(after > 10_000, "the script is long enough: {after} bytes");
    assert!(torn > 5_000, "most crashes leave a torn write: {torn}");
}

#[test]
fn the_power_may_fail_at_every_byte_of_reused_files() {
    let disk = disk(0);
    let mut journal = open(&disk).unwrap();
    let mut model = Model::default();
    assert!(wearing_script().iter().all(|operation| model.perform(&mut journal, operation)));
    let last = disk.list().unwrap().into_iter().rfind(|name| name.ends_with(".segment")).unwrap();
    assert!(disk.content(&last).unwrap()[LIFE_AT] >= 2, "a file is in its third life");
    fail_at_every_byte(&wearing_script());
}

/// Cuts the power at each of `powers`, and then at every byte of reopening the journal. Returns how often opening
/// removed something.
fn fail_while_remains_are_cut(script: &[Operation], powers: impl Iterator<Item = u64>) -> u32 {
    let mut cuts = 0;
    for (seed, power) in powers.enumerate() {
        let disk = disk(seed as u64);
        let mut journal = open(&disk).unwrap();
        disk.set_faults(Faults { power_fails_after_bytes: Some(power), ..Faults::default() });
        let mut model = Model::default();
        assert!(script.iter().any(|operation| !model.perform(&mut journal, operation)));
        drop(journal);
        let torn = disk.lose_power();
        cuts += u32::from(open(&torn.duplicate()).unwrap().recovery().cut.is_some());
        for after in 0..2600 {
            let (_, mut journal) = reopen(torn.duplicate(), &[after]);
            model.check(&mut journal);
        }
    }
    cuts
}

#[test]
fn the_power_may_fail_at_every_byte_while_remains_are_cut() {
    let cuts = fail_while_remains_are_cut(&script(), (700..7000).step_by(777));
    assert!(cuts >= 3, "{cuts}");
    let cuts = fail_while_remains_are_cut(&wearing_script(), (15_000..20_000).step_by(555));
    assert!(cuts >= 2, "{cuts}");
}

#[test]
fn the_power_may_fail_at_every_byte_of_a_repair() {
    let damaged = disk(3);
    let mut journal = open(&damaged).unwrap();
    let mut model = Model::default();
    for operation in script().iter().filter(|operation| !matches!(operation, Operation::Truncate { .. })) {
        assert!(model.perform(&mut journal, operation));
    }
    drop(journal);
    assert!(damaged.flip("000000000001.segment", 1024 + 300, 4));
    assert!(open(&damaged).is_err());
    let mut complete = false;
    let mut after = 0;
    let expected = {
        let whole = damaged.duplicate();
        repair_medium(&whole).unwrap().last_id
    };
    while !complete {
        let disk = damaged.duplicate();
        disk.set_faults(Faults { power_fails_after_bytes: Some(after), ..Faults::default() });
        complete = repair_medium(&disk).is_ok();
        let disk = disk.lose_power();
        repair_medium(&disk).unwrap();
        assert!(repair_medium(&disk).unwrap().damage.is_none(), "a second repair finds no damage");
        let mut journal = open(&disk).unwrap();
        assert!(journal.recovery().repaired);
        assert!(journal.durable().unwrap() <= expected);
        model.durable = None;
        model.check(&mut journal);
        after += 1;
    }
}

#[test]
fn a_segment_name_that_was_not_yet_durable_costs_no_records() {
    for seed in 0..50 {
        let disk = disk(seed);
        drop(FileJournal::on(disk.clone(), identity(), &small()).unwrap());
        // The earlier process prepared the next segment and was killed before its name was durable.
        let (preparing, segment) = ("000000000001.preparing", "000000000001.segment");
        disk.rename(segment, preparing).unwrap();
        disk.sync_names().unwrap();
        disk.rename(preparing, segment).unwrap();
        let mut journal = open(&disk).unwrap();
        (0..2).for_each(|id| write(&mut journal, [id], 1000));
        assert!(disk.content(segment).unwrap()[512..].iter().any(|byte| *byte != 0), "the segment is in use");
        assert_eq!(journal.durable().unwrap(), Some(1));
        drop(journal);
        assert_eq!(ids(&open(&disk.lose_power()).unwrap()), [0, 1], "seed {seed}");
    }
}
