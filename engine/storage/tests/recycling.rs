//! The files of truncated segments are reused without zeroing. Their old content never counts as records, and torn
//! writes over it are distinguished from damage.

use crate::common::{Stepped, disk, ids, kept, open, record, write};
use bytes::Bytes;
use quorate_storage::{
    Faults, Journal, JournalError, Medium, MediumFile, SimulatedDisk, inspect_medium, repair_medium,
};
use std::collections::BTreeSet;

const SECTOR_BYTES: usize = 512;
/// Offset of the life in the segment header.
const LIFE_AT: usize = 12;
/// Maximum number of uses of a file.
const MAX_LIVES: u8 = 63;
/// Record lengths that produce groups of one, two and all three sectors of a segment.
const ONE_SECTOR: usize = 400;
const TWO_SECTORS: usize = 900;
const THREE_SECTORS: usize = 1400;
/// Sequences of lengths, so that a group overwrites a group of the same length, or parts of several groups of different
/// lives.
const PATTERNS: [&[usize]; 3] = [
    &[THREE_SECTORS],
    &[THREE_SECTORS, ONE_SECTOR, TWO_SECTORS],
    &[TWO_SECTORS, THREE_SECTORS, ONE_SECTOR, ONE_SECTOR, THREE_SECTORS],
];

fn names(disk: &SimulatedDisk, suffix: &str) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.ends_with(suffix));
    names.sort();
    names
}

fn last_segment(disk: &SimulatedDisk) -> String {
    names(disk, ".segment").pop().expect("a journal has a segment")
}

fn life(disk: &SimulatedDisk, segment: &str) -> u8 {
    disk.content(segment).expect("the segment is there")[LIFE_AT]
}

fn put(disk: &SimulatedDisk, name: &str, content: &[u8]) {
    disk.open(name).unwrap().write(0, content).unwrap();
}

/// Creates a journal that was truncated after each of its `records`, so that its files were reused repeatedly.
fn worn(lengths: &[usize], records: u64) -> (SimulatedDisk, Stepped) {
    let disk = disk(5);
    let mut journal = open(&disk).unwrap();
    for id in 0..records {
        write(&mut journal, [id], lengths[id as usize % lengths.len()]);
        journal.truncate(id).unwrap();
    }
    (disk, journal)
}

/// A write: the disk before it, the segment that it modifies, and that segment's content after it.
struct Write {
    before: SimulatedDisk,
    segment: String,
    after: Vec<u8>,
}

impl Write {
    /// Returns the disk after a write of which only the bytes selected by `arrives` arrived.
    fn torn(&self, arrives: impl Fn(usize) -> bool) -> SimulatedDisk {
        let disk = self.before.duplicate();
        let mut content = disk.content(&self.segment).unwrap();
        (0..content.len()).filter(|at| arrives(*at)).for_each(|at| content[at] = self.after[at]);
        put(&disk, &self.segment, &content);
        disk
    }
}

/// Returns the write of record `records`, if it is the first one to a reused file.
fn first_write(lengths: &[usize], records: u64) -> Option<Write> {
    let (disk, mut journal) = worn(lengths, records);
    let used = last_segment(&disk);
    let retired = names(&disk, ".retired").remove(0);
    let left = disk.content(&retired).unwrap();
    write(&mut journal, [records], lengths[records as usize % lengths.len()]);
    let segment = last_segment(&disk);
    let after = disk.content(&segment).unwrap();
    if segment == used {
        return None;
    }
    assert!(life(&disk, &segment) > 0 && !names(&disk, ".retired").contains(&retired));
    let before = disk.duplicate();
    put(&before, &segment, &[&after[..SECTOR_BYTES], &left[SECTOR_BYTES..]].concat());
    Some(Write { before, segment, after })
}

/// Opens a journal in which the write of record `next` was torn, and checks that nothing else changed. Then writes
/// another record in its place, and tears that write too.
fn check_torn_write(disk: &SimulatedDisk, next: u64, arrives: impl Fn(usize) -> bool) {
    let mut journal = open(disk).unwrap_or_else(|error| panic!("an interrupted write is not damage: {error}"));
    let found = kept(&journal);
    assert!(found.iter().all(|(id, content)| *content == record(*id, content.len())));
    let last = found.last().map(|(id, _)| *id);
    assert_eq!(journal.durable().unwrap(), last);
    if last == Some(next) {
        return;
    }
    assert_eq!(last, Some(next - 1));
    let before = disk.duplicate();
    let other = Bytes::from(vec![0xee; TWO_SECTORS]);
    journal.append(next, other.clone()).unwrap();
    journal.commit().unwrap();
    assert!(journal.step());
    let segment = names(&before, ".segment").into_iter().find(|name| before.content(name) != disk.content(name));
    let segment = segment.expect("a segment was prepared or has room");
    let after = disk.content(&segment).unwrap();
    let journal = open(&Write { before, segment, after }.torn(arrives)).unwrap();
    match kept(&journal).last() {
        Some((id, content)) if *id == next => assert_eq!(*content, other),
        last => assert_eq!(last, found.last()),
    }
}

#[test]
fn a_torn_write_over_old_content_is_distinguished_from_damage() {
    let mut lives = BTreeSet::new();
    for lengths in PATTERNS {
        for (next, write) in (8..30).filter_map(|next| Some((next, first_write(lengths, next)?))) {
            lives.insert(write.after[LIFE_AT]);
            for sectors in 0..8 {
                let arrives = |at: usize| at >= SECTOR_BYTES && sectors >> (at / SECTOR_BYTES - 1) & 1 == 1;
                check_torn_write(&write.torn(arrives), next, arrives);
            }
            let near = |sector: usize| (sector * SECTOR_BYTES).saturating_sub(3)..sector * SECTOR_BYTES + 50;
            for end in (1..4).flat_map(near).chain((SECTOR_BYTES..write.after.len()).step_by(61)) {
                check_torn_write(&write.torn(|at| at < end), next, |at| at < end);
            }
        }
    }
    assert!(lives.len() > 5, "{lives:?}");
}

#[test]
fn a_flipped_bit_in_a_reused_file_is_refused_or_harmless() {
    for lengths in PATTERNS {
        for records in 12..17 {
            let (whole, journal) = worn(lengths, records);
            drop(journal);
            let segment = last_segment(&whole);
            assert!(life(&whole, &segment) > 1);
            let last = lengths[(records - 1) as usize % lengths.len()];
            let end = inspect_medium(&whole, &mut |_, _| {}).unwrap().segments.pop().unwrap().used_bytes as usize;
            let last_group = end - last.next_multiple_of(SECTOR_BYTES);
            for (at, bit) in (0..whole.content(&segment).unwrap().len()).flat_map(|at| (0..8).map(move |bit| (at, bit)))
            {
                let disk = whole.duplicate();
                assert!(disk.flip(&segment, at as u64, 1 << bit));
                match open(&disk) {
                    Ok(journal) => {
                        assert!(at >= end, "byte {at} was flipped unnoticed");
                        assert_eq!(kept(&journal).last(), Some(&(records - 1, record(records - 1, last))), "byte {at}");
                    }
                    Err(JournalError::Corrupt { offset, .. }) => {
                        // After the last group, only this mark could begin another group.
                        assert!(at < end || at == end + SECTOR_BYTES - 1, "byte {at}");
                        let begin = [0, SECTOR_BYTES, last_group, end].into_iter().rfind(|begin| *begin <= at).unwrap();
                        assert!(
                            (begin..=at).contains(&(offset as usize)),
                            "byte {at} was flipped, and {offset} is named"
                        );
                        let report = repair_medium(&disk).unwrap();
                        assert!(at < end || report.last_id == Some(records - 1));
                        let mut journal = open(&disk).unwrap();
                        write(&mut journal, [records], THREE_SECTORS);
                        assert_eq!(ids(&journal).last(), Some(&records));
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}

#[test]
fn a_truncated_journal_needs_no_new_files() {
    let (disk, mut journal) = worn(&[THREE_SECTORS], 3);
    // From now on the disk has no space for new files.
    disk.set_faults(Faults { capacity_bytes: Some(0), ..Faults::default() });
    let files = disk.list().unwrap().len();
    for id in 3..100 {
        write(&mut journal, [id], THREE_SECTORS);
        assert_eq!(journal.durable().unwrap(), Some(id));
        journal.truncate(id).unwrap();
        assert!(disk.list().unwrap().len() <= files + 1);
    }
}

#[test]
fn a_file_has_a_bounded_number_of_lives() {
    let disk = disk(1);
    let mut journal = open(&disk).unwrap();
    let (mut highest, mut fresh) = (0, 0);
    for id in 0..400 {
        write(&mut journal, [id], if id % 3 == 0 { ONE_SECTOR } else { THREE_SECTORS });
        journal.truncate(id.saturating_sub(2)).unwrap();
        let life = life(&disk, &last_segment(&disk));
        highest = highest.max(life);
        fresh += u32::from(life == 0);
        assert!(disk.list().unwrap().len() <= 5);
        if id % 50 == 49 {
            assert_eq!(ids(&open(&disk.duplicate()).unwrap()).last(), Some(&id));
        }
    }
    assert_eq!(highest, MAX_LIVES - 1);
    assert!((8..40).contains(&fresh), "{fresh}");
}

#[test]
fn retired_files_of_an_earlier_process_are_removed() {
    let (disk, journal) = worn(&[ONE_SECTOR, THREE_SECTORS], 20);
    assert!(!names(&disk, ".retired").is_empty());
    drop(journal);
    assert_eq!(inspect_medium(&disk, &mut |_, _| {}).unwrap().records, 1, "a retired file counted as a segment");
    let mut journal = open(&disk).unwrap();
    assert!(names(&disk, ".retired").is_empty());
    write(&mut journal, [20], THREE_SECTORS);
    assert_eq!(kept(&journal).last(), Some(&(20, record(20, THREE_SECTORS))));
}

#[test]
fn the_content_of_a_record_is_never_mistaken_for_a_group() {
    // A hostile client's record contains a sector of a later group of the same segment, at a sector boundary.
    let (donor, mut journal) = worn(&[ONE_SECTOR], 0);
    (0..3).for_each(|id| write(&mut journal, [id], ONE_SECTOR));
    let segment = last_segment(&donor);
    let later = donor.content(&segment).unwrap()[3 * SECTOR_BYTES..][..SECTOR_BYTES - 1].to_vec();
    let headers = 32 + 16;
    let hostile = [&vec![1; SECTOR_BYTES - 1 - headers][..], &later, &[1; 300]].concat();
    let (disk, mut journal) = worn(&[ONE_SECTOR], 0);
    let before = disk.duplicate();
    journal.append(0, hostile.clone().into()).unwrap();
    journal.commit().unwrap();
    assert!(journal.step());
    let after = disk.content(&segment).unwrap();
    assert_eq!(after[2 * SECTOR_BYTES..][..SECTOR_BYTES - 1], later, "the forged group begins at a sector boundary");
    assert_eq!(kept(&open(&disk.duplicate()).unwrap()), [(0, Bytes::from(hostile))]);
    let torn = Write { before, segment, after }.torn(|at| at >= 2 * SECTOR_BYTES);
    let journal = open(&torn).unwrap();
    assert_eq!(journal.recovery().cut.as_ref().map(|cut| cut.offset), Some(SECTOR_BYTES as u64));
    assert_eq!(ids(&journal), [] as [u64; 0]);
}
