//! Preparation of commands on several threads, compared with one thread: states, replies and digests are the same.

use crate::common::{bundle, get, put, step};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_applications::parallel::MAX_WAVE_COMMANDS;
use quorate_applications::{
    Application, BlockContext, Changes, Executor, Footprint, Frozen, KeyValue, KeyValueCommand, Parallelism, Reply,
    Rest, RestoreError, Touched,
};
use quorate_types::{Bundle, Command, Encoder, EpochId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Prepares every command that an application can prepare.
fn eager(threads: u16) -> Parallelism {
    Parallelism { min_command_effort_ns: 1, min_wave_effort_ns: 1, ..Parallelism::of(threads) }
}

fn executor(application: Box<dyn Application>, parallelism: Parallelism) -> Executor {
    Executor::new(application, &EpochId::of_name("test")).with_parallelism(parallelism)
}

/// A block: bundles of commands, each with a client and a payload.
type Block = Vec<Vec<(u64, Vec<u8>)>>;

/// Assigns ascending numbers to a client's commands, except that every seventh repeats the previous number.
fn bundles(blocks: &[Block]) -> Vec<Vec<Bundle>> {
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    let mut count = 0;
    let mut number = |client: u64| {
        count += 1;
        let number = numbers.entry(client).or_insert(0);
        if count % 7 != 0 || *number == 0 {
            *number += 1;
        }
        *number
    };
    let mut of_block = |block: &Block| {
        let mut of_bundle = |(origin, commands): (usize, &Vec<(u64, Vec<u8>)>)| {
            let numbered: Vec<(u64, u64, &[u8])> =
                commands.iter().map(|(client, payload)| (*client, number(*client), payload.as_slice())).collect();
            bundle(origin as u64, &numbered)
        };
        block.iter().enumerate().map(&mut of_bundle).collect()
    };
    blocks.iter().map(&mut of_block).collect()
}

/// Returns the replies, the digest of the history and the snapshot.
fn outcome(mut executor: Executor, blocks: &[Vec<Bundle>]) -> (Vec<Vec<Reply>>, quorate_types::Digest, Bytes) {
    let replies = blocks.iter().map(|bundles| step(&mut executor, bundles)).collect();
    (replies, executor.state_digest(), executor.snapshot())
}

/// Balances of accounts named by a byte. A command moves an amount; all of it is prepared except for the writes.
struct Accounts {
    balances: BTreeMap<u8, u64>,
    /// Whether footprints omit reads.
    conceals: bool,
    prepared: Arc<AtomicUsize>,
}

const OPENING: u64 = 100;

impl Accounts {
    fn new(conceals: bool, prepared: &Arc<AtomicUsize>) -> Box<Accounts> {
        Box::new(Accounts { balances: BTreeMap::new(), conceals, prepared: prepared.clone() })
    }

    fn balance(&self, account: u8) -> u64 {
        self.balances.get(&account).copied().unwrap_or(OPENING)
    }

    /// Returns the new balances and the result.
    fn compute(&self, payload: &[u8]) -> (Vec<(u8, u64)>, Vec<u8>) {
        let &[from, to, amount] = payload else { return (Vec::new(), b"malformed".to_vec()) };
        let (source, target) = (self.balance(from), self.balance(to));
        if from == to || source < u64::from(amount) {
            return (Vec::new(), source.to_le_bytes().to_vec());
        }
        let changes = vec![(from, source - u64::from(amount)), (to, target + u64::from(amount))];
        (changes, (source ^ target).to_le_bytes().to_vec())
    }
}

impl Application for Accounts {
    fn name(&self) -> &'static str {
        "accounts"
    }

    fn execute(&mut self, _block: &BlockContext, command: &Command<'_>, result: &mut Vec<u8>) {
        let (changes, answer) = self.compute(command.payload);
        self.balances.extend(changes);
        *result = answer;
    }

    fn footprint<'a>(&self, command: &Command<'a>) -> Footprint<'a> {
        let keys: Vec<&'a [u8]> = command.payload.chunks(1).take(2).collect();
        let reads = if self.conceals { Touched::Nothing } else { Touched::Keys(keys.clone()) };
        Footprint { reads, writes: Touched::Keys(keys), effort_ns: 1 }
    }

    fn prepare(&self, command: &Command<'_>, result: &mut Vec<u8>) -> Option<Rest> {
        assert!(result.is_empty());
        self.prepared.fetch_add(1, Ordering::Relaxed);
        let (changes, answer) = self.compute(command.payload);
        result.extend_from_slice(&answer);
        Some(Rest::Write(Box::new(changes)))
    }

    fn apply(&mut self, changes: Changes) {
        self.balances.extend(*changes.downcast::<Vec<(u8, u64)>>().expect("they are of its own form"));
    }

    fn query(&self, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn freeze(&mut self) -> Frozen {
        let balances = self.balances.clone();
        Box::new(move || {
            let mut out = Encoder::with_capacity(0);
            for (account, balance) in balances {
                out.put_u8(account);
                out.put_u64(balance);
            }
            out.finish()
        })
    }

    fn snapshot_bytes(&self) -> usize {
        9 * self.balances.len()
    }

    fn restore(&mut self, _: Bytes) -> Result<(), RestoreError> {
        unreachable!("no test restores it")
    }
}

fn transfer() -> impl Strategy<Value = Vec<u8>> {
    (0u8..6, 0u8..6, 0u8..120).prop_map(|(from, to, amount)| vec![from, to, amount])
}

/// Words from a small set, to provoke collisions.
fn word() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..3, 0..3)
}

fn key_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => (word(), word()).prop_map(|(key, value)| put(&key, &value)),
        3 => word().prop_map(|key| get(&key)),
        3 => (word(), prop::option::of(word()), 1u32..6).prop_map(|(from, to, limit)| {
            KeyValueCommand::Scan { from: &from, to: to.as_deref(), limit }.to_vec()
        }),
        1 => word().prop_map(|key| KeyValueCommand::Delete { key: &key }.to_vec()),
        1 => (word(), word()).prop_map(|(key, value)| {
            KeyValueCommand::ReadModifyWrite { key: &key, value: &value }.to_vec()
        }),
        1 => (word(), prop::option::of(word()), word()).prop_map(|(key, expected, value)| {
            KeyValueCommand::CompareAndSwap { key: &key, expected: expected.as_deref(), value: &value }.to_vec()
        }),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

fn blocks(payload: impl Strategy<Value = Vec<u8>> + Clone) -> impl Strategy<Value = Vec<Block>> {
    let bundle = prop::collection::vec((0u64..4, payload), 1..12);
    prop::collection::vec(prop::collection::vec(bundle, 1..6), 1..5)
}

proptest! {
    #[test]
    fn threads_change_nothing_in_the_key_value_store(
        blocks in blocks(key_value().boxed()), threads in 2u16..5, limit in 0usize..1200,
    ) {
        let blocks = bundles(&blocks);
        // A small limit makes writes fail, depending on all previous writes.
        let outcome = |parallelism| outcome(executor(Box::new(KeyValue::with_limit(limit)), parallelism), &blocks);
        prop_assert_eq!(outcome(eager(threads)), outcome(Parallelism::of(1)));
    }

    #[test]
    fn threads_change_nothing_in_prepared_writes(blocks in blocks(transfer().boxed()), threads in 2u16..5) {
        let blocks = bundles(&blocks);
        let count = Arc::default();
        let outcome = |parallelism| outcome(executor(Accounts::new(false, &count), parallelism), &blocks);
        prop_assert_eq!(outcome(eager(threads)), outcome(Parallelism::of(1)));
    }
}

/// Ten commands on the same account: each reads the previous one's write.
fn chain() -> Vec<Vec<Bundle>> {
    bundles(&[vec![(0..10).map(|_| (1, vec![0, 1, 10])).collect()]])
}

/// The comparison can fail: a footprint that omits reads produces another state.
#[test]
fn a_footprint_that_names_too_little_is_noticed() {
    let count = Arc::default();
    let of = |conceals, parallelism| outcome(executor(Accounts::new(conceals, &count), parallelism), &chain());
    assert_eq!(of(false, eager(2)), of(false, Parallelism::of(1)));
    assert_ne!(of(true, eager(2)).2, of(true, Parallelism::of(1)).2);
}

#[test]
fn independent_commands_are_prepared_and_conflicting_ones_are_not() {
    let run = |blocks: &[Vec<Bundle>], parallelism| {
        let count: Arc<AtomicUsize> = Arc::default();
        outcome(executor(Accounts::new(false, &count), parallelism), blocks);
        count.load(Ordering::Relaxed)
    };
    let independent = bundles(&[(0..4).map(|at| vec![(1, vec![2 * at, 2 * at + 1, 1])]).collect()]);
    assert_eq!(run(&independent, eager(2)), 4, "one of each bundle, across bundles");
    assert_eq!(run(&chain(), eager(2)), 0, "no two of them at once");
    assert_eq!(run(&independent, Parallelism::of(1)), 0, "one thread prepares nothing");
    assert_eq!(run(&independent, Parallelism::of(2)), 0, "cheap commands are not worth a thread");
}

#[test]
fn waves_are_bounded_and_helpers_are_told() {
    let told = Arc::new(AtomicUsize::new(0));
    let teller = told.clone();
    let on_helper: quorate_applications::parallel::OnHelper = Arc::new(move || {
        teller.fetch_add(1, Ordering::Relaxed);
        Box::new(())
    });
    let count: Arc<AtomicUsize> = Arc::default();
    let mut executor = executor(Accounts::new(false, &count), Parallelism { on_helper, ..eager(3) });
    let commands = (0..=MAX_WAVE_COMMANDS as u8).map(|at| (1, vec![2 * at, 2 * at + 1, 1])).collect();
    step(&mut executor, &bundles(&[vec![commands]])[0]);
    // The last command is a separate wave, which needs no helper.
    assert_eq!((count.load(Ordering::Relaxed), told.load(Ordering::Relaxed)), (MAX_WAVE_COMMANDS, 2));
}

#[test]
#[should_panic(expected = "65 threads")]
fn too_many_threads_are_refused() {
    executor(Box::new(KeyValue::new()), Parallelism::of(65));
}

#[test]
fn scans_of_a_large_store_are_prepared_by_default() {
    let pairs = 4_000u32;
    let scan = KeyValueCommand::Scan { from: b"", to: None, limit: pairs }.to_vec();
    let filling: Block = vec![(0..pairs).map(|at| (1, put(&at.to_be_bytes(), &[7; 20]))).collect()];
    // The first scan sorts the keys; the scans of the second block find them sorted.
    let scans = |count: usize| vec![(0..count).map(|_| (2, scan.clone())).collect()];
    let blocks = bundles(&[filling, scans(1), scans(16)]);
    let told: Arc<AtomicUsize> = Arc::default();
    let teller = told.clone();
    let on_helper: quorate_applications::parallel::OnHelper = Arc::new(move || {
        teller.fetch_add(1, Ordering::Relaxed);
        Box::new(())
    });
    let parallel = Parallelism { on_helper, ..Parallelism::of(2) };
    let of = |parallelism| outcome(executor(Box::new(KeyValue::new()), parallelism), &blocks);
    assert_eq!(of(parallel), of(Parallelism::of(1)));
    assert_eq!(told.load(Ordering::Relaxed), 1);
}
