//! Damage to durable records is refused with its location, and repaired only on request.

use crate::common::{disk, identity, ids, kept, open, record, small, write};
use quorate_storage::{
    Identity, Journal, JournalError, JournalOptions, SimulatedDisk, SteppedJournal, inspect_medium, repair_medium,
};
use quorate_types::{EpochId, ReplicaId};

/// Three groups in segment 0, at 512, 1024 and 1536, with one, three and one records of 100 bytes. The next one is in
/// segment 1.
const LAYOUT: [(u64, std::ops::Range<u64>); 3] = [(512, 0..1), (1024, 1..4), (1536, 4..5)];
const FIRST: &str = "000000000000.segment";
const SECOND: &str = "000000000001.segment";

fn written(groups: usize) -> SimulatedDisk {
    let disk = disk(1);
    let mut journal = open(&disk).unwrap();
    for (_, group) in LAYOUT.into_iter().take(groups) {
        write(&mut journal, group, 100);
    }
    (5..5 + groups.saturating_sub(3) as u64).for_each(|id| write(&mut journal, [id], 100));
    disk
}

/// Returns the file and offset in the error of opening.
fn refusal(disk: &SimulatedDisk) -> (String, u64) {
    match open(disk).map(drop).unwrap_err() {
        JournalError::Corrupt { file, offset, .. } => (file, offset),
        other => panic!("{other}"),
    }
}

/// Flips every bit of a journal of `groups` groups, one at a time, and checks opening and repairing.
fn flip_every_bit(groups: usize) {
    let whole = written(groups);
    let all = ids(&open(&whole.duplicate()).unwrap());
    let end = LAYOUT[..groups.min(3)].last().map_or(512, |(start, _)| start + 512);
    for offset in 0..end {
        for bit in 0..8 {
            let disk = whole.duplicate();
            assert!(disk.flip(FIRST, offset, 1 << bit));
            let (file, at) = refusal(&disk);
            assert_eq!(file, format!("simulated/{FIRST}"));
            let sector = offset / 512 * 512;
            assert!((sector..=offset).contains(&at), "byte {offset} was flipped, and byte {at} is named");
            let report = repair_medium(&disk).unwrap();
            assert!(report.damage.is_some() && !report.saved.is_empty());
            let mut journal = open(&disk).unwrap();
            assert!(journal.recovery().repaired);
            let left = ids(&journal);
            assert_eq!(left.len() as u64, report.records);
            assert_eq!(left, all[..left.len()], "records before the damage stay");
            let before = LAYOUT.iter().filter(|(start, _)| *start < sector).map(|(_, ids)| ids.end).max().unwrap_or(0);
            assert!(left.len() as u64 >= before, "byte {offset}: {left:?}");
            let next = left.last().map_or(0, |last| last + 1);
            write(&mut journal, [next], 50);
            assert_eq!(journal.durable().unwrap(), Some(next), "a repaired journal works");
        }
    }
}

#[test]
fn a_flipped_bit_in_the_middle_is_refused_with_its_place() {
    flip_every_bit(5);
}

#[test]
fn a_flipped_bit_in_the_last_group_is_not_mistaken_for_an_interrupted_write() {
    flip_every_bit(1);
    flip_every_bit(3);
}

#[test]
fn a_flipped_bit_after_the_end_is_harmless() {
    let disk = written(2);
    assert!(disk.flip(FIRST, 1900, 1));
    let mut journal = open(&disk).unwrap();
    assert_eq!(journal.recovery().cut.as_ref().map(|cut| (cut.offset, cut.bytes)), Some((1536, 512)));
    assert_eq!(ids(&journal), [0, 1, 2, 3]);
    write(&mut journal, [4], 100);
    drop(journal);
    assert_eq!(ids(&open(&disk).unwrap()), [0, 1, 2, 3, 4]);
}

#[test]
fn a_lost_group_is_detected_by_the_next_group() {
    let disk = written(4);
    for (at, byte) in disk.content(FIRST).unwrap().into_iter().enumerate().skip(1024).take(512) {
        disk.flip(FIRST, at as u64, byte);
    }
    assert_eq!(refusal(&disk), (format!("simulated/{FIRST}"), 1024));
    let report = repair_medium(&disk).unwrap();
    assert_eq!((report.records, report.last_id), (1, Some(0)));
    assert_eq!(ids(&open(&disk).unwrap()), [0]);
}

#[test]
fn a_group_lost_at_the_end_of_a_segment_is_detected_by_the_next_segment() {
    let disk = written(4);
    for (at, byte) in disk.content(FIRST).unwrap().into_iter().enumerate().skip(1536) {
        disk.flip(FIRST, at as u64, byte);
    }
    assert_eq!(refusal(&disk), (format!("simulated/{FIRST}"), 1536));
}

#[test]
fn a_repair_keeps_the_records_before_the_damage_even_in_the_same_group() {
    let disk = written(4);
    // The third record of the group at 1024, after a 32-byte header and two 116-byte records.
    assert!(disk.flip(FIRST, 1024 + 32 + 2 * 116 + 20, 0x10));
    let saved = disk.content(FIRST).unwrap()[1024..].to_vec();
    assert_eq!(refusal(&disk), (format!("simulated/{FIRST}"), 1024 + 32 + 2 * 116));
    let inspection = inspect_medium(&disk, &mut |_, _| {}).unwrap();
    assert!(inspection.damage.is_some() && !inspection.repaired);
    assert_eq!(inspection.identity, Some(identity()));
    let report = repair_medium(&disk).unwrap();
    assert_eq!((report.records, report.last_id, report.identity), (3, Some(2), Some(identity())));
    let names = [format!("{FIRST}.from-1024.aside-1"), format!("{SECOND}.aside-1")];
    assert_eq!(report.saved, names.each_ref().map(|name| format!("simulated/{name}")));
    assert_eq!(disk.content(&names[0]).unwrap(), saved);
    let journal = open(&disk).unwrap();
    assert_eq!(kept(&journal), [0, 1, 2].map(|id| (id, record(id, 100))));
    assert!(inspect_medium(&disk, &mut |_, _| {}).unwrap().repaired);
}

#[test]
fn a_missing_segment_is_named() {
    use quorate_storage::Medium;
    let disk = written(9);
    disk.remove(SECOND).unwrap();
    assert_eq!(refusal(&disk), (format!("simulated/{SECOND}"), 0));
    let report = repair_medium(&disk).unwrap();
    assert_eq!(report.records, 5);
    assert_eq!(ids(&open(&disk).unwrap()), [0, 1, 2, 3, 4]);
}

#[test]
fn another_cluster_or_replica_is_refused_by_name() {
    let disk = written(1);
    let epoch = EpochId::of_name("other");
    let other = Identity { epoch, ..identity() };
    let error = SteppedJournal::open(disk.clone(), other, &small()).map(drop).unwrap_err();
    assert!(matches!(error, JournalError::ForeignEpoch { .. }));
    let text = error.to_string();
    for part in [FIRST, &identity().epoch.0.to_hex(), &epoch.0.to_hex()] {
        assert!(text.contains(part), "{text}");
    }
    let other = Identity { replica: ReplicaId(7), ..identity() };
    let error = SteppedJournal::open(disk.clone(), other, &small()).map(drop).unwrap_err();
    assert!(error.to_string().contains("belongs to replica 2, not to replica 7"), "{error}");
    assert_eq!(ids(&open(&disk).unwrap()), [0], "the journal is unchanged");
}

#[test]
fn a_segment_of_another_replica_among_our_own_is_refused() {
    use quorate_storage::{Medium, MediumFile};
    let (mine, theirs) = (written(4), disk(2));
    let other = Identity { replica: ReplicaId(7), ..identity() };
    drop(SteppedJournal::open(theirs.clone(), other, &small()).unwrap());
    let mut file = mine.open(FIRST).unwrap();
    file.write(0, &theirs.content(FIRST).unwrap()[..512]).unwrap();
    assert!(matches!(open(&mine).map(drop).unwrap_err(), JournalError::ForeignReplica { .. }));
}

#[test]
fn a_sector_of_another_group_is_refused_with_its_place() {
    use quorate_storage::{Medium, MediumFile};
    let disk = disk(1);
    let options = JournalOptions { segment_bytes: 4096, ..small() };
    let mut journal = SteppedJournal::open(disk.clone(), identity(), &options).unwrap();
    // Two groups of two records; the second record has a sector to itself.
    for id in [0, 2] {
        journal.append(id, record(id, 511 - 32 - 16)).unwrap();
        journal.append(id + 1, record(id + 1, 511 - 16)).unwrap();
        journal.commit().unwrap();
        assert!(journal.step());
    }
    assert_eq!(ids(&journal), [0, 1, 2, 3]);
    let content = disk.content(FIRST).unwrap();
    let later = &content[512 + 3 * 512..][..512];
    assert!(later[8..12] == 495_u32.to_le_bytes(), "a record begins there");
    disk.open(FIRST).unwrap().write(1024, later).unwrap();
    let error = SteppedJournal::open(disk, identity(), &options).map(drop).unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { offset: 1024, .. }), "{error}");
}
