//! Feature levels: a change signed by all replicas takes effect at one height, and no other command has an effect.

use crate::common::{bundle, executor as key_value, step};
use bytes::Bytes;
use quorate_applications::levels::{ACTIVATION_DELAY_BLOCKS, MAX_CHANGES_PER_BLOCK};
use quorate_applications::{
    Application, ApplicationKind, BlockContext, CheckpointRule, ExecutionError, Executor, Frozen, LevelFault, Reply,
    RestoreError,
};
use quorate_types::identity::Verifier;
use quorate_types::level::{MAX_APPLICATION_LEVEL, SYSTEM_SEQUENCE, statement};
use quorate_types::{
    Bundle, BundleBuilder, ClientId, Command, Decoder, Digest, EpochId, FeatureLevel, Height, LevelChange,
    LevelSupport, Outcome, PendingLevel, ReplicaId, Wire,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const REPLICAS: u16 = 4;
const CLIENT: u64 = 7;

/// Returns the level of the block, and counts the commands.
struct Witness {
    supported: u16,
    commands: u64,
}

impl Application for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn supported_level(&self) -> FeatureLevel {
        FeatureLevel(self.supported)
    }

    fn execute(&mut self, block: &BlockContext, _command: &Command<'_>, result: &mut Vec<u8>) {
        self.commands += 1;
        result.extend(block.level().0.to_le_bytes());
    }

    fn query(&self, _question: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn freeze(&mut self) -> Frozen {
        let commands = self.commands.to_le_bytes();
        Box::new(move || Bytes::copy_from_slice(&commands))
    }

    fn snapshot_bytes(&self) -> usize {
        8
    }

    fn restore(&mut self, snapshot: Bytes) -> Result<(), RestoreError> {
        self.commands = u64::from_le_bytes(snapshot[..].try_into().expect("eight bytes"));
        Ok(())
    }
}

/// Signatures that begin with the replica, followed by the statement.
#[derive(Default)]
struct Toy {
    verified: AtomicUsize,
}

fn sign(replica: ReplicaId, statement: &[u8]) -> Bytes {
    [&replica.0.to_le_bytes(), statement].concat().into()
}

impl Verifier for Toy {
    fn verify(&self, replica: ReplicaId, message: &[u8], signature: &[u8]) -> bool {
        self.verified.fetch_add(1, Ordering::Relaxed);
        sign(replica, message) == signature
    }
}

fn epoch() -> EpochId {
    EpochId::of_name("levels")
}

/// An executor of a program that supports a level, and its verifier.
fn counted(supported: u16) -> (Executor, Arc<Toy>) {
    let toy = Arc::new(Toy::default());
    let witness = Witness { supported, commands: 0 };
    let executor = Executor::new(Box::new(witness), &epoch()).with_levels(REPLICAS.into(), toy.clone());
    (executor.with_checkpoints(CheckpointRule::new(8, 1, 0)), toy)
}

fn executor(supported: u16) -> Executor {
    counted(supported).0
}

fn change_in(epoch: &EpochId, level: u16, until: u64) -> LevelChange {
    let (level, until) = (FeatureLevel(level), Height(until));
    let support = |replica| {
        let replica = ReplicaId(replica);
        LevelSupport { until, signature: sign(replica, &statement(epoch, replica, level, until)) }
    };
    LevelChange { level, supports: (0..REPLICAS).map(support).collect() }
}

fn change(level: u16) -> LevelChange {
    change_in(&epoch(), level, 1000)
}

fn order(change: &LevelChange) -> Bundle {
    bundle(CLIENT, &[(CLIENT, SYSTEM_SEQUENCE, &change.to_payload())])
}

/// Executes a block, and returns the outcome of the first command.
fn outcome(executor: &mut Executor, bundle: Bundle) -> Result<Vec<u8>, Outcome<'static>> {
    match step(executor, &[bundle])[0].results.outcomes().next().expect("it has a command") {
        Outcome::Executed(result) => Ok(result.to_vec()),
        Outcome::Duplicate => Err(Outcome::Duplicate),
        Outcome::Refused => Err(Outcome::Refused),
        other => panic!("{other:?}"),
    }
}

/// Executes a block with one command, and returns the level that it saw.
fn seen(executor: &mut Executor) -> u16 {
    let sequence = executor.height().0 + 1;
    let level = outcome(executor, bundle(1, &[(1, sequence, b"level?")])).expect("it is executed");
    u16::from_le_bytes(level.try_into().expect("two bytes"))
}

fn raise(executor: &mut Executor, level: u16) -> PendingLevel {
    let result = outcome(executor, order(&change(level))).expect("all replicas signed");
    let mut input = Decoder::new(result.into());
    let pending = PendingLevel::decode(&mut input).expect("the level and its first height");
    input.finish("end of the result").expect("nothing else");
    pending
}

fn fault(executor: &Executor, change: &LevelChange) -> LevelFault {
    executor.judge_change(&order(change)).expect("it is a change").expect_err("it has no effect")
}

#[test]
fn a_change_that_all_replicas_signed_takes_effect_at_one_height() {
    let mut executor = executor(3);
    assert_eq!(seen(&mut executor), 0);
    assert_eq!(executor.judge_change(&order(&change(2))).map(|judged| judged.is_ok()), Some(true));
    let pending = raise(&mut executor, 2);
    assert_eq!(pending, PendingLevel { level: FeatureLevel(2), height: Height(2 + ACTIVATION_DELAY_BLOCKS) });
    while executor.height() < pending.height {
        let (next, level) = (executor.height().next(), executor.level());
        assert_eq!((level.pending, level.active.0), if next < pending.height { (Some(pending), 0) } else { (None, 2) });
        assert_eq!(seen(&mut executor), if next < pending.height { 0 } else { 2 }, "height {next}");
    }
    assert_eq!(raise(&mut executor, 3).height, Height(pending.height.0 + 1 + ACTIVATION_DELAY_BLOCKS));
}

/// Each reason is reported before the command is ordered, and the ordered command changes nothing but the history.
#[test]
fn other_changes_have_no_effect() {
    let honest = change(1);
    let mut forged = honest.clone();
    forged.supports[2].signature =
        sign(ReplicaId(1), &statement(&epoch(), ReplicaId(2), FeatureLevel(1), Height(1000)));
    let mut swapped = honest.clone();
    swapped.supports.swap(0, 3);
    let mut later = honest.clone();
    later.supports[1].until = Height(1001);
    let replica = ReplicaId;
    let level = FeatureLevel(1);
    let cases = [
        (
            LevelChange { supports: honest.supports[..3].to_vec(), ..honest.clone() },
            LevelFault::Incomplete { found: 3, needed: 4 },
        ),
        (LevelChange { supports: Vec::new(), ..honest.clone() }, LevelFault::Incomplete { found: 0, needed: 4 }),
        (forged, LevelFault::Forged { replica: replica(2), level }),
        (swapped, LevelFault::Forged { replica: replica(0), level }),
        (later, LevelFault::Forged { replica: replica(1), level }),
        (
            LevelChange { level: FeatureLevel(2), ..honest.clone() },
            LevelFault::Forged { replica: replica(0), level: FeatureLevel(2) },
        ),
        (change_in(&EpochId::of_name("other"), 1, 1000), LevelFault::Forged { replica: replica(0), level }),
        (
            change_in(&epoch(), 1, 5),
            LevelFault::Expired { replica: replica(0), level, until: Height(5), height: Height(6) },
        ),
        (change(0), LevelFault::NotHigher { level: FeatureLevel(0), reached: FeatureLevel(0) }),
    ];
    for (change, why) in cases {
        let (mut executor, mut without) = (executor(3), executor(3));
        (0..5).for_each(|_| assert_eq!((seen(&mut executor), seen(&mut without)), (0, 0)));
        assert_eq!(fault(&executor, &change), why);
        assert_eq!(outcome(&mut executor, order(&change)), Err(Outcome::Refused), "{why}");
        assert_eq!(executor.level(), without.level(), "{why}");
        assert_eq!(executor.application_state(), without.application_state(), "{why}");
        assert_eq!(executor.commands(), without.commands());
    }
    let torn = [&honest.to_payload()[..], b"more"].concat();
    let torn = bundle(CLIENT, &[(CLIENT, SYSTEM_SEQUENCE, &torn)]);
    let mut executor = executor(3);
    assert!(matches!(executor.judge_change(&torn), Some(Err(LevelFault::Malformed(_)))));
    assert_eq!(outcome(&mut executor, torn), Err(Outcome::Refused));
    assert_eq!(executor.judge_change(&bundle(1, &[(1, 1, &honest.to_payload())])), None, "it is the application's");
}

/// While nothing is agreed, a replica whose program knows no levels gives the same results, history and state.
#[test]
fn refused_changes_leave_no_trace_that_an_older_program_would_not() {
    let mut older = Executor::new(Box::new(Witness { supported: 0, commands: 0 }), &epoch());
    older = older.with_checkpoints(CheckpointRule::new(8, 1, 0));
    let mut newer = executor(1);
    let mut incomplete = change(1);
    incomplete.supports.pop();
    for change in [incomplete, change(0), change_in(&EpochId::of_name("other"), 1, 9)] {
        let block = [order(&change), bundle(1, &[(1, older.height().0 + 1, b"x"), (2, SYSTEM_SEQUENCE, b"idle")])];
        assert_eq!(step(&mut older, &block), step(&mut newer, &block));
    }
    assert_eq!((older.state_digest(), older.snapshot()), (newer.state_digest(), newer.snapshot()));
}

#[test]
fn a_replayed_or_lower_change_has_no_second_effect() {
    let mut executor = executor(3);
    let first = order(&change(2));
    let pending = raise(&mut executor, 2);
    assert_eq!(fault(&executor, &change(3)), LevelFault::Pending(pending));
    assert_eq!(outcome(&mut executor, order(&change(3))), Err(Outcome::Refused));
    for later in 0..2 * ACTIVATION_DELAY_BLOCKS {
        let before = executor.level().pending;
        assert_eq!(outcome(&mut executor, first.clone()), Err(Outcome::Duplicate), "{later} blocks later");
        assert_eq!(outcome(&mut executor, order(&change(1))), Err(Outcome::Duplicate));
        assert!(executor.level().pending == before || executor.level().active == FeatureLevel(2));
        let settled = executor.settled(&first).expect("nobody needs to order it again");
        assert_eq!(settled.results.outcomes().next(), Some(Outcome::Duplicate));
    }
    assert_eq!(
        fault(&executor, &change(1)),
        LevelFault::NotHigher { level: FeatureLevel(1), reached: FeatureLevel(2) }
    );
    assert_eq!(executor.level().active, FeatureLevel(2));
}

/// By restart and by state transfer, between the command and the activation, and after it.
#[test]
fn a_restored_state_continues_at_the_same_level() {
    let mut executor = executor(1);
    seen(&mut executor);
    let pending = raise(&mut executor, 1);
    let mut restored = Vec::new();
    while executor.height().0 < pending.height.0 + 8 {
        if executor.height().0.is_multiple_of(8) {
            let mut restarted = self::executor(1);
            restarted.restore(executor.snapshot()).expect("the snapshot is sound");
            let mut caught_up = self::executor(1);
            let state = executor.checkpoint(Digest::ZERO, || Bytes::from_static(b"frontier")).run();
            caught_up.adopt(state.kept.expect("the state is kept").1).expect("the state is sound");
            restored.extend([restarted, caught_up]);
        }
        let level = seen(&mut executor);
        for other in &mut restored {
            assert_eq!(seen(other), level);
            assert_eq!(other.level(), executor.level());
            assert_eq!(other.state_digest(), executor.state_digest());
            assert_eq!(other.snapshot(), executor.snapshot());
        }
    }
    assert!(restored.len() > 16);
    assert_eq!(executor.level().active, FeatureLevel(1));
}

#[test]
fn a_state_that_never_had_a_level_keeps_its_format() {
    let mut executor = executor(1);
    seen(&mut executor);
    assert_eq!(executor.snapshot()[0], 5);
    raise(&mut executor, 1);
    assert_eq!(executor.snapshot()[0], 6);
    // A format 6 of a state that has no level, and one whose pending level does not rise, are not canonical.
    let snapshot = executor.snapshot();
    for (at, bytes) in [(1, [0; 10].to_vec()), (1, [9, 0].to_vec())] {
        let mut damaged = snapshot.to_vec();
        damaged[at..at + bytes.len()].copy_from_slice(&bytes);
        if bytes.len() == 10 {
            damaged.splice(11..22, [0]);
        }
        assert!(matches!(self::executor(1).restore(damaged.into()), Err(RestoreError::Damaged(_))));
    }
}

#[test]
fn a_program_that_does_not_support_the_level_stops_before_it_executes() {
    let mut newer = executor(2);
    let pending = raise(&mut newer, 2);
    let mut downgraded = executor(1);
    downgraded.restore(newer.snapshot()).expect("level 2 is not active yet");
    while downgraded.height().next() < pending.height {
        assert_eq!((seen(&mut newer), seen(&mut downgraded)), (0, 0));
    }
    let before = downgraded.state_digest();
    let mut replies: Vec<Reply> = Vec::new();
    let next = BlockContext::untimed(pending.height);
    let stopped = downgraded.try_execute(next, &[bundle(1, &[(1, 900, b"x")])], &mut replies);
    let Err(ExecutionError::UnsupportedLevel(why)) = stopped else { panic!("{stopped:?}") };
    assert_eq!((why.level, why.supported, why.since), (FeatureLevel(2), FeatureLevel(1), pending.height));
    assert!(why.to_string().contains("start the version of the program that supports level 2"), "{why}");
    assert_eq!((replies.len(), downgraded.state_digest()), (0, before));
    seen(&mut newer);
    let adopted = executor(1).restore(newer.snapshot());
    assert!(matches!(adopted, Err(RestoreError::UnsupportedLevel(_))), "{adopted:?}");
    let begun = executor(1).beginning_at(FeatureLevel(2)).check_level();
    assert_eq!(begun.map_err(|why| why.level), Err(FeatureLevel(2)));
}

/// A level of the engine, in the upper byte, is above every level of an application, so that a program of this release
/// stops before a block at such a level, by each way to it.
#[test]
fn a_program_without_levels_of_the_engine_stops_where_one_begins() {
    let highest = MAX_APPLICATION_LEVEL.0;
    let of_engine = highest + 1;
    let mut executor = executor(highest);
    let pending = raise(&mut executor, of_engine);
    while executor.height().next() < pending.height {
        assert_eq!(seen(&mut executor), 0);
    }
    let why = executor.check_level().expect_err("the level is the engine's");
    assert_eq!((why.level, why.supported, why.since), (FeatureLevel(of_engine), MAX_APPLICATION_LEVEL, pending.height));
    let next = BlockContext::untimed(pending.height);
    let stopped = executor.try_execute(next, &[bundle(1, &[(1, 900, b"x")])], &mut Vec::new());
    assert!(matches!(stopped, Err(ExecutionError::UnsupportedLevel(_))), "{stopped:?}");
    let restarted = self::executor(highest).restore(executor.snapshot());
    assert!(matches!(restarted, Err(RestoreError::UnsupportedLevel(_))), "{restarted:?}");
    let claims_it = std::panic::catch_unwind(|| self::executor(of_engine).level());
    assert!(claims_it.is_err(), "an application supports a level of the engine");
}

/// A liar's block with many changes costs a bounded number of verifications.
#[test]
fn a_block_verifies_few_changes() {
    let (mut executor, toy) = counted(3);
    let mut forged = change(1);
    forged.supports[3].signature = Bytes::from_static(b"forged");
    let mut builder = BundleBuilder::new(ClientId(CLIENT.into()), Height(0).latest_expiry());
    (0..100).for_each(|_| builder.push(ClientId(CLIENT.into()), SYSTEM_SEQUENCE, &forged.to_payload()));
    step(&mut executor, &[builder.finish(), order(&change(1))]);
    assert_eq!(toy.verified.load(Ordering::Relaxed), MAX_CHANGES_PER_BLOCK * usize::from(REPLICAS));
    assert_eq!(executor.level().pending, None, "the genuine one came too late in this block");
    raise(&mut executor, 1);
}

#[test]
fn an_application_without_levels_stays_at_0() {
    let mut executor = key_value(ApplicationKind::KEY_VALUE);
    assert_eq!(executor.level(), quorate_types::LevelStatus::default());
    assert_eq!(outcome(&mut executor, order(&change(1))), Err(Outcome::Refused));
    assert_eq!(fault(&executor, &change(1)), LevelFault::Incomplete { found: 4, needed: 0 });
}
