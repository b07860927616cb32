//! The memory journal preserves its order and its bound.

use bytes::Bytes;
use quorate_storage::{Journal, JournalError, MemoryJournal};

fn kept(journal: &dyn Journal) -> Vec<(u64, Vec<u8>)> {
    let mut records = Vec::new();
    journal.replay(&mut |id, record| records.push((id, record.to_vec()))).expect("memory can be read");
    records
}

#[test]
fn a_record_is_durable_at_once_and_is_replayed_in_order() {
    let mut journal = MemoryJournal::default();
    assert_eq!(journal.durable().unwrap(), None);
    for id in [3, 4, 9] {
        journal.append(id, Bytes::from(vec![id as u8; 2])).unwrap();
        assert_eq!(journal.durable().unwrap(), Some(id));
    }
    journal.commit().unwrap();
    assert_eq!(kept(&journal), [(3, vec![3, 3]), (4, vec![4, 4]), (9, vec![9, 9])]);
}

#[test]
fn the_oldest_records_are_dropped_at_the_bound() {
    let mut journal = MemoryJournal::new(1000);
    for id in 0..100 {
        journal.append(id, Bytes::from(vec![0; 60])).unwrap();
        assert!(journal.bytes() <= 1000);
    }
    let ids: Vec<u64> = kept(&journal).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), journal.len());
    assert_eq!(ids, (100 - ids.len() as u64..100).collect::<Vec<_>>());
    assert!(ids.len() >= 5);
}

#[test]
fn truncation_drops_lower_records_only() {
    let mut journal = MemoryJournal::default();
    (0..10).for_each(|id| journal.append(id, Bytes::from_static(b"x")).unwrap());
    journal.truncate(7).unwrap();
    assert_eq!(kept(&journal).into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [7, 8, 9]);
    assert_eq!(journal.durable().unwrap(), Some(9));
    journal.truncate(100).unwrap();
    assert!(journal.is_empty());
    assert_eq!(journal.bytes(), 0);
    assert_eq!(journal.durable().unwrap(), Some(9), "the durable id never decreases");
}

#[test]
fn a_record_larger_than_the_journal_is_refused_by_size() {
    let mut journal = MemoryJournal::new(100);
    let error = journal.append(0, Bytes::from(vec![0; 100])).unwrap_err();
    assert!(matches!(error, JournalError::TooLarge { capacity: 100, .. }), "{error}");
    assert!(journal.is_empty());
}

#[test]
#[should_panic(expected = "comes after")]
fn ids_that_do_not_ascend_panic() {
    let mut journal = MemoryJournal::default();
    journal.append(5, Bytes::new()).unwrap();
    let _ = journal.append(5, Bytes::new());
}
