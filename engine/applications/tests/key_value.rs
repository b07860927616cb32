//! The key-value store compared with a map, its encodings, its limits and its snapshots.

use crate::common::{get, put};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_applications::key_value::{
    MAX_KEY_BYTES, MAX_SCAN_BYTES, MAX_SCAN_PAIRS, MAX_VALUE_BYTES, PAIR_OVERHEAD_BYTES,
};
use quorate_applications::{
    Application, BlockContext, Frozen, KeyValue, KeyValueCommand, KeyValueResult, RestoreError,
};
use quorate_types::{ClientId, Command, Decoder, Encoder, Height};
use std::collections::BTreeMap;

fn run(store: &mut KeyValue, payload: &[u8]) -> Vec<u8> {
    let mut result = Vec::new();
    store.execute(
        &BlockContext::untimed(Height(1)),
        &Command { client: ClientId(1), sequence: 1, payload },
        &mut result,
    );
    result
}

/// An owned command.
#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Get(Vec<u8>),
    Delete(Vec<u8>),
    ReadModifyWrite(Vec<u8>, Vec<u8>),
    CompareAndSwap(Vec<u8>, Option<Vec<u8>>, Vec<u8>),
    Scan(Vec<u8>, Option<Vec<u8>>, u32),
}

impl Step {
    fn command(&self) -> KeyValueCommand<'_> {
        match self {
            Step::Put(key, value) => KeyValueCommand::Put { key, value },
            Step::Get(key) => KeyValueCommand::Get { key },
            Step::Delete(key) => KeyValueCommand::Delete { key },
            Step::ReadModifyWrite(key, value) => KeyValueCommand::ReadModifyWrite { key, value },
            Step::CompareAndSwap(key, expected, value) => {
                KeyValueCommand::CompareAndSwap { key, expected: expected.as_deref(), value }
            }
            Step::Scan(from, to, limit) => KeyValueCommand::Scan { from, to: to.as_deref(), limit: *limit },
        }
    }
}

/// Words from a small set, to provoke collisions.
fn word() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..3, 0..3)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (word(), word()).prop_map(|(key, value)| Step::Put(key, value)),
        word().prop_map(Step::Get),
        word().prop_map(Step::Delete),
        (word(), word()).prop_map(|(key, value)| Step::ReadModifyWrite(key, value)),
        (word(), prop::option::of(word()), word())
            .prop_map(|(key, expected, value)| Step::CompareAndSwap(key, expected, value)),
        (word(), prop::option::of(word()), 1u32..6).prop_map(|(from, to, limit)| Step::Scan(from, to, limit)),
    ]
}

/// Encodes a page independently of the store: kind, whether more follow, count, pairs.
fn page(model: &BTreeMap<Vec<u8>, Vec<u8>>, from: &[u8], to: Option<&[u8]>, limit: usize, result: &mut Vec<u8>) {
    let is_wanted = |key: &[u8]| key >= from && to.is_none_or(|to| key < to);
    let wanted: Vec<_> = model.iter().filter(|(key, _)| is_wanted(key)).collect();
    let shown = &wanted[..wanted.len().min(limit)];
    result.extend([6, u8::from(shown.len() < wanted.len())]);
    result.extend((shown.len() as u32).to_le_bytes());
    for field in shown.iter().flat_map(|(key, value)| [key, value]) {
        result.extend((field.len() as u32).to_le_bytes());
        result.extend_from_slice(field);
    }
}

fn size(model: &BTreeMap<Vec<u8>, Vec<u8>>) -> usize {
    model.iter().map(|(key, value)| key.len() + value.len() + PAIR_OVERHEAD_BYTES).sum()
}

fn model_step(model: &mut BTreeMap<Vec<u8>, Vec<u8>>, limit: usize, step: &Step) -> Vec<u8> {
    let mut result = Vec::new();
    let before = model.clone();
    let found = |value: Option<&Vec<u8>>, result: &mut Vec<u8>| match value {
        Some(value) => KeyValueResult::Value(value).encode(result),
        None => KeyValueResult::Absent.encode(result),
    };
    match step {
        Step::Put(key, value) => drop(model.insert(key.clone(), value.clone())),
        Step::Get(key) => found(model.get(key), &mut result),
        Step::Delete(key) if model.remove(key).is_none() => KeyValueResult::Absent.encode(&mut result),
        Step::Delete(_) => {}
        Step::ReadModifyWrite(key, value) => found(model.insert(key.clone(), value.clone()).as_ref(), &mut result),
        Step::CompareAndSwap(key, expected, value) if model.get(key) == expected.as_ref() => {
            model.insert(key.clone(), value.clone());
        }
        Step::CompareAndSwap(key, ..) => {
            KeyValueResult::Conflict(model.get(key).map(|value| &value[..])).encode(&mut result);
        }
        Step::Scan(from, to, limit) => page(model, from, to.as_deref(), *limit as usize, &mut result),
    }
    if size(model) > limit {
        *model = before;
        result.clear();
        KeyValueResult::Full.encode(&mut result);
    }
    result
}

#[derive(Clone, Debug)]
enum Move {
    Step(Step),
    Freeze,
    /// Encodes one of the frozen states.
    Encode(prop::sample::Index),
    /// Restores one of the frozen states.
    Restore(prop::sample::Index),
}

fn move_() -> impl Strategy<Value = Move> {
    prop_oneof![
        40 => step().prop_map(Move::Step),
        3 => Just(Move::Freeze),
        3 => any::<prop::sample::Index>().prop_map(Move::Encode),
        1 => any::<prop::sample::Index>().prop_map(Move::Restore),
    ]
}

/// The canonical form: a count and the pairs, ascending by key.
fn canonical(model: &BTreeMap<Vec<u8>, Vec<u8>>) -> Bytes {
    let mut out = Encoder::default();
    out.put_count(model.len());
    for (key, value) in model {
        out.put_bytes(key);
        out.put_bytes(value);
    }
    out.finish()
}

fn pairs(canonical: &Bytes) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut input = Decoder::new(canonical.clone());
    let count = input.get_count("pairs", 1000, 8).expect("a count");
    let mut word = || input.get_bytes("word", 100).expect("a word").to_vec();
    (0..count).map(|_| (word(), word())).collect()
}

proptest! {
    #[test]
    fn the_store_matches_a_map(steps in prop::collection::vec(step(), 1..200), room in 1usize..12) {
        let limit = room * (PAIR_OVERHEAD_BYTES + 3);
        let (mut store, mut model) = (KeyValue::with_limit(limit), BTreeMap::new());
        for step in steps {
            let result = run(&mut store, &step.command().to_vec());
            prop_assert_eq!(&result, &model_step(&mut model, limit, &step), "{:?}", step);
            prop_assert_eq!((store.len(), store.bytes()), (model.len(), size(&model)));
        }
        for (key, value) in &model {
            prop_assert_eq!(store.get(key), Some(&value[..]));
        }
        let mut other = KeyValue::with_limit(limit);
        for (key, value) in model.iter().rev() {
            run(&mut other, &put(key, value));
        }
        prop_assert_eq!(store.snapshot(), other.snapshot(), "equal states, reached differently, give equal bytes");
        let mut restored = KeyValue::with_limit(limit);
        run(&mut restored, &put(b"gone", b""));
        prop_assert_eq!(restored.restore(store.snapshot()), Ok(()));
        prop_assert_eq!((restored.snapshot(), restored.bytes()), (store.snapshot(), store.bytes()));
    }

    /// Later commands do not change frozen states. There may be several at the same time.
    #[test]
    fn frozen_states_do_not_change(moves in prop::collection::vec(move_(), 1..400), room in 1usize..30) {
        let limit = room * (PAIR_OVERHEAD_BYTES + 3);
        let (mut store, mut model) = (KeyValue::with_limit(limit), BTreeMap::new());
        let mut held: Vec<(Frozen, Bytes)> = Vec::new();
        for one in moves {
            match one {
                Move::Step(step) => {
                    let result = run(&mut store, &step.command().to_vec());
                    prop_assert_eq!(&result, &model_step(&mut model, limit, &step), "{:?}", step);
                    prop_assert_eq!((store.len(), store.bytes()), (model.len(), size(&model)));
                }
                Move::Freeze => held.push((store.freeze(), canonical(&model))),
                Move::Encode(at) if !held.is_empty() => {
                    let (frozen, expected) = held.swap_remove(at.index(held.len()));
                    let encoded = std::thread::spawn(frozen).join().expect("encoding does not panic");
                    prop_assert_eq!(encoded, expected);
                }
                Move::Restore(at) if !held.is_empty() => {
                    let (frozen, state) = held.swap_remove(at.index(held.len()));
                    prop_assert_eq!(store.restore(frozen()), Ok(()));
                    model = pairs(&state);
                }
                Move::Encode(_) | Move::Restore(_) => {}
            }
            for key in model.keys() {
                prop_assert_eq!(store.get(key), model.get(key).map(|value| &value[..]));
            }
        }
        prop_assert_eq!(store.snapshot(), canonical(&model));
        for (frozen, expected) in held {
            prop_assert_eq!(frozen(), expected);
        }
    }

    #[test]
    fn commands_have_one_encoding(
        step in step(),
        cut in any::<prop::sample::Index>(),
        bit in any::<prop::sample::Index>(),
    ) {
        let mut bytes = step.command().to_vec();
        prop_assert_eq!(KeyValueCommand::decode(&bytes), Ok(step.command()));
        prop_assert!(KeyValueCommand::decode(&bytes[..cut.index(bytes.len())]).is_err());
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(command) = KeyValueCommand::decode(&bytes) {
            prop_assert_eq!(command.to_vec(), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(kind in 0u8..7, tail in prop::collection::vec(0u8..4, 0..24)) {
        let bytes: Vec<u8> = std::iter::once(kind).chain(tail).collect();
        match KeyValueCommand::decode(&bytes) {
            Ok(command) => prop_assert_eq!(command.to_vec(), bytes.clone()),
            Err(_) => {
                let result = run(&mut KeyValue::new(), &bytes);
                prop_assert_eq!(KeyValueResult::decode(&result), Ok(KeyValueResult::Malformed));
            }
        }
        if let Ok(result) = KeyValueResult::decode(&bytes) {
            let mut again = Vec::new();
            result.encode(&mut again);
            prop_assert_eq!(&again, &bytes);
        }
        let mut store = KeyValue::new();
        if store.restore(bytes.clone().into()).is_ok() {
            prop_assert_eq!(store.snapshot(), bytes);
        }
    }
}

#[test]
fn limits_hold_exactly() {
    let (key, value) = (vec![1; MAX_KEY_BYTES], vec![2; MAX_VALUE_BYTES]);
    let mut store = KeyValue::new();
    assert!(run(&mut store, &put(&key, &value)).is_empty());
    assert_eq!(KeyValueResult::decode(&run(&mut store, &get(&key))), Ok(KeyValueResult::Value(&value)));
    let long = |length: usize| {
        let mut bytes = vec![2];
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
        bytes.resize(5 + length, 0);
        bytes
    };
    assert!(KeyValueCommand::decode(&long(MAX_KEY_BYTES)).is_ok());
    let error = KeyValueCommand::decode(&long(MAX_KEY_BYTES + 1)).expect_err("the key is too long");
    assert_eq!(error.to_string(), "cannot decode key at byte 5: 4097 is over the limit of 4096");
}

#[test]
fn only_gets_are_queries() {
    let mut store = KeyValue::new();
    run(&mut store, &put(b"a", b"1"));
    assert_eq!(KeyValueResult::decode(&store.query(&get(b"a"))), Ok(KeyValueResult::Value(b"1")));
    assert_eq!(KeyValueResult::decode(&store.query(&get(b"b"))), Ok(KeyValueResult::Absent));
    for question in [&put(b"a", b"2")[..], b"", b"\xff"] {
        assert_eq!(KeyValueResult::decode(&store.query(question)), Ok(KeyValueResult::Malformed));
    }
}

#[test]
fn a_hostile_snapshot_changes_nothing() {
    let mut store = KeyValue::with_limit(1000);
    run(&mut store, &put(b"a", b"1"));
    run(&mut store, &put(b"b", b"2"));
    let good = store.snapshot();
    let pair = |key: &[u8]| [&[1, 0, 0, 0][..], key, &[1, 0, 0, 0, 9]].concat();
    let with = |count: u32, pairs: &[Vec<u8>]| Bytes::from([&count.to_le_bytes()[..], &pairs.concat()].concat());
    let crowd: Vec<Vec<u8>> = (0..15).map(|key| pair(&[key])).collect();
    let bad = [
        (with(2, &[pair(b"b"), pair(b"a")]), "do not ascend"),
        (with(2, &[pair(b"a"), pair(b"a")]), "do not ascend"),
        (with(u32::MAX, &[]), "over the limit of 15"),
        (with(15, &[]), "120 bytes are needed"),
        (with(1, &[pair(b"a"), pair(b"b")]), "left over"),
        (with(16, &crowd), "over the limit of 15"),
        (with(3, &crowd[..2]), "are left"),
    ];
    for (snapshot, why) in bad {
        let error = store.restore(snapshot).expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(store.snapshot(), good);
    }
    for length in 0..good.len() {
        assert!(matches!(store.restore(good.slice(..length)), Err(RestoreError::Damaged(_))));
        assert_eq!(store.snapshot(), good);
    }
}

fn scan(store: &mut KeyValue, from: &[u8], to: Option<&[u8]>, limit: u32) -> (Vec<Vec<u8>>, bool) {
    let result = run(store, &KeyValueCommand::Scan { from, to, limit }.to_vec());
    let KeyValueResult::Page(page) = KeyValueResult::decode(&result).expect("a page") else {
        panic!("a scan gives a page, not {result:?}")
    };
    assert_eq!(page.iter().count(), page.pairs as usize);
    (page.iter().map(|(key, _)| key.to_vec()).collect(), page.has_more)
}

#[test]
fn a_scan_stops_at_its_size_limit_and_can_be_continued() {
    let mut store = KeyValue::new();
    let value = vec![7; MAX_SCAN_BYTES / 4];
    let keys: Vec<Vec<u8>> = (0..10u8).map(|key| vec![key]).collect();
    keys.iter().rev().for_each(|key| drop(run(&mut store, &put(key, &value))));
    let (mut found, mut from, mut pages) = (Vec::new(), Vec::new(), 0);
    loop {
        let (keys, has_more) = scan(&mut store, &from, None, MAX_SCAN_PAIRS);
        assert!(keys.len() <= 4, "{} values of a quarter of the bytes", keys.len());
        found.extend(keys);
        pages += 1;
        if !has_more {
            break;
        }
        from = [&found.last().expect("a page with more is not empty")[..], &[0]].concat();
    }
    assert_eq!((found, pages), (keys, 3));
}

#[test]
fn a_scan_of_an_empty_range_finds_nothing() {
    let mut store = KeyValue::new();
    run(&mut store, &put(b"k", b"v"));
    assert_eq!(scan(&mut store, b"k", Some(b"k"), 1), (Vec::new(), false));
    assert_eq!(scan(&mut store, b"z", Some(b"a"), 1), (Vec::new(), false));
}

#[test]
fn invalid_pages_and_scans_are_refused() {
    let scan = KeyValueCommand::Scan { from: b"", to: None, limit: 1 }.to_vec();
    for limit in [0u32, MAX_SCAN_PAIRS + 1, u32::MAX] {
        let bad = [&scan[..scan.len() - 4], &limit.to_le_bytes()[..]].concat();
        assert!(KeyValueCommand::decode(&bad).is_err(), "a limit of {limit}");
        assert_eq!(KeyValueResult::decode(&run(&mut KeyValue::new(), &bad)), Ok(KeyValueResult::Malformed));
    }
    let pair = |key: u8| [1, 0, 0, 0, key, 0, 0, 0, 0];
    let page = |count: u32, pairs: &[[u8; 9]]| [&[6, 0][..], &count.to_le_bytes(), &pairs.concat()].concat();
    assert!(KeyValueResult::decode(&page(2, &[pair(1), pair(2)])).is_ok());
    for bad in [page(2, &[pair(2), pair(1)]), page(2, &[pair(1), pair(1)]), page(3, &[pair(1), pair(2)]), page(1, &[])]
    {
        assert!(KeyValueResult::decode(&bad).is_err(), "{bad:?}");
    }
}
