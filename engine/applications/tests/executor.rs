//! The executor: determinism, at-most-once execution, replies and snapshots.

use crate::common::{bundle, executor, get, put, step};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_applications::executor::{MAX_BLOCK_RESULTS_BYTES, MAX_RESULTS_BYTES};
use quorate_applications::key_value::MAX_VALUE_BYTES;
use quorate_applications::{
    Application, ApplicationKind, ApplicationPanic, BlockContext, Call, CheckpointRule, ExecutionError, Executor,
    Footprint, Frozen, KeyValueResult, MAX_RESULT_BYTES, Parallelism, Reply, Rest, RestoreError, Touched,
    compare_histories,
};
use quorate_types::{
    Bundle, BundleBuilder, ClientId, Command, Digest, EpochId, Height, Outcome, ReplicaId, ReplicaReply, Results, Wire,
};
use quorate_types::{Encoder, limits::MAX_FRAME_BYTES};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn panic_of(error: ExecutionError) -> ApplicationPanic {
    match error {
        ExecutionError::Panicked(panic) => *panic,
        other => panic!("{other}"),
    }
}

fn encoded(result: KeyValueResult<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    result.encode(&mut out);
    out
}

#[test]
fn applications_are_found_by_name() {
    for kind in ApplicationKind::ALL.iter().copied() {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(kind.make().name(), kind.name());
    }
    let error = "redis".parse::<ApplicationKind>().expect_err("the application is unknown");
    assert_eq!(error.to_string(), "unknown application `redis`: one of log, kv");
}

#[test]
fn every_reply_goes_to_its_origin() {
    let mut executor = executor(ApplicationKind::KEY_VALUE);
    let (write, read) = (put(b"k", b"v"), get(b"k"));
    let first = bundle(50, &[(1, 1, &write), (2, 1, &read), (1, 2, b"nonsense"), (2, 1, &read)]);
    let second = bundle(60, &[(3, 1, &write)]);
    let replies = step(&mut executor, &[first.clone(), second.clone()]);
    assert_eq!(replies.len(), 2);
    assert_eq!((replies[0].origin, replies[0].bundle, replies[0].height), (ClientId(50), first.digest(), Height(1)));
    assert_eq!((replies[1].origin, replies[1].bundle), (ClientId(60), second.digest()));
    let (value, malformed) = (encoded(KeyValueResult::Value(b"v")), encoded(KeyValueResult::Malformed));
    assert_eq!(
        replies[0].results.outcomes().collect::<Vec<_>>(),
        [Outcome::Executed(&[]), Outcome::Executed(&value), Outcome::Executed(&malformed), Outcome::Duplicate]
    );
    assert_eq!(replies[1].results, Results::all_empty(1));
    assert_eq!(executor.commands(), 4);
    assert_eq!(executor.query(&read).unwrap(), value);
}

#[test]
fn a_repeated_command_is_a_duplicate_in_every_bundle() {
    let mut executor = executor(ApplicationKind::LOG);
    let first = bundle(1, &[(1, 1, b""), (1, 2, b"")]);
    let replies = step(&mut executor, &[first.clone(), first.clone()]);
    assert_eq!(replies[0].results, Results::all_empty(2));
    assert_eq!(replies[1].results.outcomes().collect::<Vec<_>>(), [Outcome::Duplicate; 2]);
    let rebundled = bundle(2, &[(1, 2, b""), (1, 3, b"")]);
    let replies = step(&mut executor, &[rebundled]);
    assert_eq!(replies[0].results.outcomes().collect::<Vec<_>>(), [Outcome::Duplicate, Outcome::Executed(&[])]);
    assert_eq!(executor.commands(), 3);
}

#[test]
fn a_bundle_of_duplicates_is_answered_without_ordering() {
    let mut executor = executor(ApplicationKind::LOG);
    let (one, two) = (bundle(1, &[(1, 1, b""), (2, 1, b"")]), bundle(1, &[(1, 2, b"")]));
    let rebundled = bundle(3, &[(2, 1, b""), (1, 1, b"else")]);
    assert_eq!(executor.settled(&one), None);
    step(&mut executor, std::slice::from_ref(&one));
    for again in [&one, &rebundled] {
        let reply = executor.settled(again).expect("both commands were executed");
        assert_eq!((reply.origin, reply.bundle, reply.height), (again.origin(), again.digest(), Height(0)));
        assert_eq!(reply.results.outcomes().collect::<Vec<_>>(), [Outcome::Duplicate; 2]);
        let ordered = step(&mut executor, std::slice::from_ref(again));
        assert_eq!(ordered[0].results, reply.results, "the reply is the same as with ordering");
    }
    assert_eq!(executor.settled(&two), None);
    assert_eq!(executor.settled(&bundle(1, &[(1, 1, b""), (1, 2, b"")])), None, "one of the two commands is new");
}

#[test]
#[should_panic(expected = "blocks are executed in ascending order")]
fn a_gap_in_the_heights_panics() {
    executor(ApplicationKind::LOG).execute(BlockContext::untimed(Height(2)), &[], &mut Vec::new());
}

#[test]
fn invalid_numbers_are_refused() {
    let mut executor = executor(ApplicationKind::LOG);
    let replies = step(&mut executor, &[bundle(1, &[(1, u64::MAX, b""), (1, 0, b""), (1, 1, b"")])]);
    assert_eq!(
        replies[0].results.outcomes().collect::<Vec<_>>(),
        [Outcome::Refused, Outcome::Refused, Outcome::Executed(&[])]
    );
    assert_eq!(executor.commands(), 1);
}

#[test]
fn results_fit_in_a_frame() {
    let mut executor = executor(ApplicationKind::KEY_VALUE);
    let (write, read) = (put(b"k", &vec![7; MAX_VALUE_BYTES]), get(b"k"));
    let mut questions = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
    (1..=60_000).for_each(|sequence| questions.push(ClientId(2), sequence, &read));
    let replies = step(&mut executor, &[bundle(1, &[(1, 1, &write)]), questions.finish()]);
    let results = &replies[1].results;
    let executed = results.outcomes().take_while(|outcome| matches!(outcome, Outcome::Executed(_))).count();
    assert_eq!(executed, MAX_RESULTS_BYTES.div_ceil(MAX_VALUE_BYTES + 10));
    assert!(results.outcomes().skip(executed).all(|outcome| outcome == Outcome::Refused));
    assert_eq!((results.len(), executor.commands()), (60_000, 1 + executed as u64));
    let mut out = Encoder::default();
    ReplicaReply::Executed { bundle: replies[1].bundle, height: Height(1), results: results.clone() }.encode(&mut out);
    assert!(out.len() < MAX_FRAME_BYTES);
    let mut rest = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
    (executed as u64 + 1..=30).for_each(|sequence| rest.push(ClientId(2), sequence, &read));
    let replies = step(&mut executor, &[rest.finish()]);
    assert!(
        replies[0].results.outcomes().all(|outcome| matches!(outcome, Outcome::Executed(_))),
        "a refused command may be repeated"
    );
}

/// A block of small queries for large values: the results in memory are bounded, and the next block starts from zero.
#[test]
fn replies_of_one_block_are_bounded() {
    let mut executor = executor(ApplicationKind::KEY_VALUE);
    let (write, read) = (put(b"k", &vec![7; MAX_VALUE_BYTES]), get(b"k"));
    step(&mut executor, &[bundle(1, &[(1, 1, &write)])]);
    let questions: Vec<Bundle> = (2..402).map(|client| bundle(client, &[(client, 1, &read)])).collect();
    let replies = step(&mut executor, &questions);
    let held: usize = replies.iter().map(|reply| reply.results.body().len()).sum();
    assert!(held < MAX_BLOCK_RESULTS_BYTES + 2 * MAX_VALUE_BYTES, "{held} bytes of results are in memory at once");
    let executed = |reply: &&Reply| reply.results.outcomes().all(|outcome| matches!(outcome, Outcome::Executed(_)));
    let served = replies.iter().take_while(executed).count();
    assert_eq!(served, MAX_BLOCK_RESULTS_BYTES.div_ceil(MAX_VALUE_BYTES + 10));
    let refused = |reply: &Reply| reply.results.outcomes().all(|outcome| outcome == Outcome::Refused);
    assert!(replies[served..].iter().all(refused), "the rest is refused");
    let again = step(&mut executor, &questions[served..served + 1]);
    assert!(again.iter().all(|reply| executed(&reply)), "refused commands may be repeated in the next block");
}

/// Blocks with few distinct clients, sequence numbers and keys.
fn blocks() -> impl Strategy<Value = Vec<Vec<Bundle>>> {
    let word = || prop::collection::vec(0u8..3, 0..3);
    let payload = prop_oneof![
        (word(), word()).prop_map(|(key, value)| put(&key, &value)),
        word().prop_map(|key| get(&key)),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    let sequence = prop_oneof![9 => 0u64..30, 1 => any::<u64>()];
    let command = (0u64..4, sequence, payload);
    let bundle = (0u64..2, prop::collection::vec(command, 1..8)).prop_map(|(origin, commands)| {
        let mut builder = BundleBuilder::new(ClientId(origin.into()), Height(0).latest_expiry());
        commands
            .iter()
            .for_each(|(client, sequence, payload)| builder.push(ClientId((*client).into()), *sequence, payload));
        builder.finish()
    });
    prop::collection::vec(prop::collection::vec(bundle, 0..4), 1..20)
}

proptest! {
    #[test]
    fn equal_blocks_give_equal_states(blocks in blocks(), cut in any::<prop::sample::Index>(), log in any::<bool>()) {
        let kind = if log { ApplicationKind::LOG } else { ApplicationKind::KEY_VALUE };
        let (mut one, mut two) = (executor(kind), executor(kind));
        let cut = cut.index(blocks.len());
        for (at, bundles) in blocks.iter().enumerate() {
            if at == cut {
                let mut restored = executor(kind);
                step(&mut restored, &[bundle(9, &[(9, 9, b"left over")])]);
                prop_assert_eq!(restored.restore(two.snapshot()), Ok(()));
                prop_assert_eq!(restored.snapshot(), two.snapshot());
                two = restored;
            }
            prop_assert_eq!(step(&mut one, bundles), step(&mut two, bundles));
            prop_assert_eq!(one.commands(), two.commands());
        }
        prop_assert_eq!(one.snapshot(), two.snapshot());
        prop_assert_eq!(one.history(), two.history());
        let histories = [(ReplicaId(0), one.history()), (ReplicaId(1), two.history())];
        prop_assert_eq!(compare_histories(&histories), Ok(Height(blocks.len() as u64)));
    }

    #[test]
    fn a_different_block_changes_the_later_history(blocks in blocks(), at in any::<prop::sample::Index>()) {
        let (mut one, mut two) = (executor(ApplicationKind::KEY_VALUE), executor(ApplicationKind::KEY_VALUE));
        let at = at.index(blocks.len());
        for (height, bundles) in blocks.iter().enumerate() {
            step(&mut one, bundles);
            let mut bundles = bundles.clone();
            if height == at {
                bundles.push(bundle(77, &[(77, 77, b"")]));
            }
            step(&mut two, &bundles);
        }
        let histories = [(ReplicaId(0), one.history()), (ReplicaId(1), two.history())];
        let divergence = compare_histories(&histories).expect_err("the histories differ");
        prop_assert_eq!(divergence.height, Height(at as u64 + 1));
    }

    #[test]
    fn a_flipped_bit_in_a_snapshot_is_refused_or_changes_the_state(
        blocks in blocks(),
        bits in prop::collection::vec(any::<prop::sample::Index>(), 20),
    ) {
        let mut source = executor(ApplicationKind::KEY_VALUE);
        blocks.iter().for_each(|bundles| drop(step(&mut source, bundles)));
        let good = source.snapshot();
        for bit in bits {
            let mut bytes = good.to_vec();
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut target = executor(ApplicationKind::KEY_VALUE);
            let before = target.snapshot();
            match target.restore(bytes.clone().into()) {
                Ok(()) => prop_assert_eq!(target.snapshot(), bytes),
                Err(_) => prop_assert_eq!(target.snapshot(), before),
            }
        }
    }
}

/// Application that answers every command with one byte; a different byte simulates a faulty replica.
struct Parrot(u8);

impl Application for Parrot {
    fn name(&self) -> &'static str {
        "parrot"
    }
    fn execute(&mut self, _block: &BlockContext, command: &Command<'_>, result: &mut Vec<u8>) {
        result.extend(command.payload.iter().map(|_| self.0));
    }
    fn query(&self, _question: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn freeze(&mut self) -> Frozen {
        Box::new(Bytes::new)
    }
    fn snapshot_bytes(&self) -> usize {
        0
    }
    fn restore(&mut self, _snapshot: Bytes) -> Result<(), RestoreError> {
        Ok(())
    }
}

#[test]
fn results_are_part_of_the_history() {
    let parrot = |byte| Executor::new(Box::new(Parrot(byte)), &EpochId::of_name("test"));
    let (mut one, mut two) = (parrot(1), parrot(2));
    for executor in [&mut one, &mut two] {
        step(executor, &[bundle(1, &[(1, 1, b"")])]);
        step(executor, &[bundle(1, &[(1, 2, b"x")])]);
    }
    let divergence = compare_histories(&[(ReplicaId(0), one.history()), (ReplicaId(1), two.history())]);
    assert_eq!(divergence.expect_err("the histories differ").height, Height(2));
}

#[test]
fn a_bundle_ordered_twice_is_part_of_the_history() {
    let (mut one, mut two) = (executor(ApplicationKind::LOG), executor(ApplicationKind::LOG));
    let first = bundle(1, &[(1, 1, b"")]);
    step(&mut one, &[first.clone(), first.clone()]);
    step(&mut two, &[first]);
    assert_ne!(one.history()[1], two.history()[1]);
}

#[test]
fn a_restored_executor_remembers_commands() {
    let mut source = executor(ApplicationKind::LOG);
    let first = bundle(1, &[(1, 1, b"")]);
    step(&mut source, std::slice::from_ref(&first));
    let mut target = executor(ApplicationKind::LOG);
    target.restore(source.snapshot()).expect("the snapshot is valid");
    assert_eq!(step(&mut target, &[first])[0].results.outcomes().collect::<Vec<_>>(), [Outcome::Duplicate]);
    let replies = step(&mut target, &[bundle(2, &[(1, 1, b"")])]);
    assert_eq!(replies[0].results.outcomes().collect::<Vec<_>>(), [Outcome::Duplicate]);
}

#[test]
fn foreign_and_truncated_snapshots_are_refused() {
    let mut source = executor(ApplicationKind::KEY_VALUE);
    step(&mut source, &[bundle(1, &[(1, 1, &put(b"k", b"v")), (1, 5, b"")])]);
    let good = source.snapshot();
    let mut stranger = Executor::new(ApplicationKind::KEY_VALUE.make(), &EpochId::of_name("other"));
    assert_eq!(stranger.restore(good.clone()), Err(RestoreError::OtherCluster));
    let error =
        executor(ApplicationKind::LOG).restore(good.clone()).expect_err("the snapshot belongs to another application");
    assert_eq!(error, RestoreError::OtherApplication { expected: "log", found: "kv".into() });
    let mut target = executor(ApplicationKind::KEY_VALUE);
    let before = target.snapshot();
    for length in 0..good.len() {
        assert!(target.restore(good.slice(..length)).is_err(), "{length} of {} bytes", good.len());
    }
    assert!(
        target
            .restore(Bytes::from([&good[..], b"x"].concat()))
            .expect_err("too long")
            .to_string()
            .contains("left over")
    );
    assert_eq!(target.snapshot(), before);
    assert_eq!(target.restore(good.clone()), Ok(()));
    assert_eq!((target.snapshot(), target.height(), target.commands()), (good, Height(1), 2));
}

#[test]
fn the_log_chains_its_bundles() {
    let bundles = [bundle(1, &[(1, 1, b"a")]), bundle(1, &[(1, 2, b"b")])];
    let (mut one, mut two, mut three) =
        (executor(ApplicationKind::LOG), executor(ApplicationKind::LOG), executor(ApplicationKind::LOG));
    step(&mut one, &bundles);
    bundles.iter().for_each(|bundle| drop(step(&mut two, std::slice::from_ref(bundle))));
    step(&mut three, &[bundles[1].clone(), bundles[0].clone()]);
    assert_eq!(one.query(b"").unwrap(), two.query(b"").unwrap(), "the division into blocks does not affect the log");
    assert_ne!(one.query(b"").unwrap(), three.query(b"").unwrap());
    assert_eq!(one.query(b"").unwrap()[..8], 2u64.to_le_bytes());
}

/// Application that panics on a payload, in any call that processes it.
struct Bomb;

impl Application for Bomb {
    fn name(&self) -> &'static str {
        "bomb"
    }
    fn execute(&mut self, _block: &BlockContext, command: &Command<'_>, result: &mut Vec<u8>) {
        match command.payload {
            b"boom" => panic!("no such account: {}", 17),
            b"long" => result.resize(MAX_RESULT_BYTES + 1, 0),
            _ => {}
        }
    }
    fn footprint<'a>(&self, _command: &Command<'a>) -> Footprint<'a> {
        Footprint { reads: Touched::Keys(Vec::new()), writes: Touched::Keys(Vec::new()), effort_ns: 1_000 }
    }
    fn prepare(&self, command: &Command<'_>, _result: &mut Vec<u8>) -> Option<Rest> {
        assert_ne!(command.payload, b"boom", "not ready");
        None
    }
    fn query(&self, _question: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn freeze(&mut self) -> Frozen {
        Box::new(Bytes::new)
    }
    fn snapshot_bytes(&self) -> usize {
        0
    }
    fn restore(&mut self, _snapshot: Bytes) -> Result<(), RestoreError> {
        Ok(())
    }
}

#[test]
fn a_panic_of_the_application_names_the_command() {
    for threads in [1, 3] {
        let parallelism = Parallelism { min_command_effort_ns: 1, min_wave_effort_ns: 1, ..Parallelism::of(threads) };
        let executor = || {
            let executor = Executor::new(Box::new(Bomb), &EpochId::of_name("test"));
            executor.with_parallelism(parallelism.clone())
        };
        let mut replies = Vec::new();
        let mut one = executor();
        one.try_execute(BlockContext::untimed(Height(1)), &[bundle(1, &[(1, 1, b"fine")])], &mut replies)
            .expect("nothing panics");
        let bundles = [bundle(1, &[(1, 2, b"fine"), (2, 1, b"fine")]), bundle(3, &[(3, 8, b"fine"), (3, 9, b"boom")])];
        let panic = one.try_execute(BlockContext::untimed(Height(2)), &bundles, &mut replies).expect_err("it panics");
        let panic = panic_of(panic);
        let (client, message) = (ClientId(3), "no such account: 17".to_owned());
        let call = Call::Command { client, sequence: 9 };
        let expected = ApplicationPanic { application: "bomb", height: Height(2), call, message };
        assert_eq!(panic, expected, "{threads} threads");
        let told = panic.to_string();
        assert!(
            told.contains("the application bomb panicked at height 2, on command 9 of client 3: no such"),
            "{told}"
        );
        assert!(told.contains("; help: "), "{told}");
        let panic =
            executor().try_execute(BlockContext::untimed(Height(1)), &[bundle(4, &[(4, 5, b"long")])], &mut replies);
        let panic = panic_of(panic.expect_err("the result is over the limit"));
        assert_eq!(panic.call, Call::Command { client: ClientId(4), sequence: 5 });
        assert!(panic.message.contains("result of bomb is too long"), "{}", panic.message);
    }
}

/// Panicking call of an application, and its trigger.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fuse {
    Bundle,
    Estimate,
    Freeze,
    Encode,
    Restore,
    Query,
}

struct Fragile(Fuse);

impl Fragile {
    fn call(&self, fuse: Fuse) {
        assert_ne!(self.0, fuse, "out of order");
    }
}

impl Application for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }
    fn execute(&mut self, _block: &BlockContext, _command: &Command<'_>, _result: &mut Vec<u8>) {}
    fn bundle_executed(&mut self, _bundle: &Digest) {
        self.call(Fuse::Bundle);
    }
    fn query(&self, question: &[u8]) -> Vec<u8> {
        if question != b"fine" {
            self.call(Fuse::Query);
        }
        Vec::new()
    }
    fn freeze(&mut self) -> Frozen {
        self.call(Fuse::Freeze);
        let fuse = self.0;
        Box::new(move || {
            Fragile(fuse).call(Fuse::Encode);
            Bytes::new()
        })
    }
    fn snapshot_bytes(&self) -> usize {
        self.call(Fuse::Estimate);
        0
    }
    fn restore(&mut self, _snapshot: Bytes) -> Result<(), RestoreError> {
        self.call(Fuse::Restore);
        Ok(())
    }
}

/// Executes a block, takes a checkpoint, encodes it, restores a snapshot and sends a query, like a host, and returns
/// the panic that ended this.
fn live(fuse: Fuse) -> ApplicationPanic {
    let cluster = EpochId::of_name("test");
    let make = |fuse| Executor::new(Box::new(Fragile(fuse)), &cluster).with_checkpoints(CheckpointRule::new(1, 1, 2));
    let mut executor = make(fuse);
    let block = [bundle(1, &[(1, 1, b"fine")])];
    if let Err(panic) = executor.try_execute(BlockContext::untimed(Height(1)), &block, &mut Vec::new()) {
        return panic_of(panic);
    }
    let checkpoint = catch_unwind(AssertUnwindSafe(|| executor.checkpoint(Digest::ZERO, Bytes::new).run()));
    if let Err(panic) = checkpoint {
        return *panic.downcast().expect("the panic is named");
    }
    let mut other = make(Fuse::Query);
    other.execute(BlockContext::untimed(Height(1)), &block, &mut Vec::new());
    let height = executor.height();
    if let Err(error) = executor.restore(other.snapshot()) {
        assert_eq!(executor.height(), height, "an error changes nothing");
        let RestoreError::Panicked(panic) = error else { panic!("another error: {error}") };
        return *panic;
    }
    let panic = executor.query(b"boom").expect_err("nothing else panics");
    assert_eq!(executor.query(b"fine"), Ok(Vec::new()), "the executor answers the next question");
    *panic
}

#[test]
fn a_panic_of_any_call_names_the_application_and_the_call() {
    let digest = bundle(1, &[(1, 1, b"fine")]).digest();
    for (fuse, call) in [
        (Fuse::Bundle, Call::Bundle(digest)),
        (Fuse::Estimate, Call::Snapshot),
        (Fuse::Freeze, Call::Snapshot),
        (Fuse::Encode, Call::Snapshot),
        (Fuse::Restore, Call::Restore),
        (Fuse::Query, Call::Query),
    ] {
        let panic = live(fuse);
        assert_eq!((panic.application, panic.height, &panic.call), ("fragile", Height(1), &call), "{fuse:?}");
        assert!(panic.message.contains("out of order"), "{panic}");
        let told = panic.to_string();
        assert!(
            told.starts_with("the application fragile panicked at height 1, ") && told.contains("; help: "),
            "{told}"
        );
    }
}
