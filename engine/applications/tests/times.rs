//! Commands see the time of their block, which never goes back, and its randomness.

use crate::common::bundle;
use bytes::Bytes;
use quorate_applications::{Application, BlockContext, CheckpointRule, Executor, Frozen, RestoreError};
use quorate_types::{Bundle, Command, Digest, EpochId, Hasher, Height, Outcome};

/// Returns the height, the time and the randomness of the block.
struct Witness;

impl Application for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn execute(&mut self, block: &BlockContext, _command: &Command<'_>, result: &mut Vec<u8>) {
        result.extend(block.height().0.to_le_bytes());
        result.extend(block.time_ms().to_le_bytes());
        result.extend(block.randomness());
    }

    fn query(&self, _question: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn freeze(&mut self) -> Frozen {
        Box::new(|| Bytes::from_static(b"nothing"))
    }

    fn snapshot_bytes(&self) -> usize {
        0
    }

    fn restore(&mut self, _snapshot: Bytes) -> Result<(), RestoreError> {
        Ok(())
    }
}

fn executor() -> Executor {
    let rule = CheckpointRule::new(1, 1, 0);
    Executor::new(Box::new(Witness), &EpochId::of_name("times")).with_checkpoints(rule)
}

/// Returns the height, the time and the random bytes that each command saw.
fn seen(executor: &mut Executor, block: BlockContext, bundles: &[Bundle]) -> Vec<(u64, u64, [u8; 32])> {
    let mut replies = Vec::new();
    executor.execute(block, bundles, &mut replies);
    let outcomes = replies.iter().flat_map(|reply| reply.results.outcomes());
    let results = outcomes.map(|outcome| match outcome {
        Outcome::Executed(result) => result.to_vec(),
        other => panic!("{other:?}"),
    });
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    results.map(|of| (number(&of[..8]), number(&of[8..16]), of[16..].try_into().expect("32 bytes"))).collect()
}

fn command(number: u64) -> Bundle {
    bundle(number, &[(number, 1, b"what is the time")])
}

#[test]
fn time_never_goes_back() {
    let mut executor = executor();
    assert_eq!(executor.time_ms(), 0);
    for (height, (proposed_ms, expected_ms)) in (1..).zip([(5, 5), (3, 5), (9, 9), (0, 9), (10, 10)]) {
        let block = BlockContext::new(Height(height), proposed_ms, Digest([height as u8; 32]));
        let seen = seen(&mut executor, block, &[command(2 * height), command(2 * height + 1)]);
        assert!(seen.iter().all(|(at, time_ms, _)| (*at, *time_ms) == (height, expected_ms)), "{seen:?}");
        assert_eq!((seen.len(), executor.time_ms()), (2, expected_ms));
    }
    seen(&mut executor, BlockContext::new(Height(6), 20, Digest::ZERO), &[]);
    assert_eq!(executor.time_ms(), 20, "a block without commands moves the time, too");
}

/// By restart and by state transfer.
#[test]
fn a_restored_state_continues_at_the_time_of_its_last_block() {
    let (mut first, mut restarted, mut caught_up) = (executor(), executor(), executor());
    seen(&mut first, BlockContext::new(Height(1), 1000, Digest([1; 32])), &[command(1)]);
    restarted.restore(first.snapshot()).expect("the snapshot is sound");
    let state = first.checkpoint(Digest([7; 32]), || Bytes::from_static(b"frontier")).run();
    caught_up.adopt(state.kept.expect("the state is kept").1).expect("the state is sound");
    let earlier = BlockContext::new(Height(2), 999, Digest([2; 32]));
    let expected = seen(&mut first, earlier, &[command(2)]);
    assert_eq!(expected[0].1, 1000);
    for mut other in [restarted, caught_up] {
        assert_eq!(other.time_ms(), 1000);
        assert_eq!(seen(&mut other, earlier, &[command(2)]), expected);
        assert_eq!(other.snapshot(), first.snapshot());
    }
}

#[test]
fn randomness_is_a_hash_of_the_block_alone() {
    let random = |digest| BlockContext::new(Height(1), 1, digest).randomness();
    let mut hasher = Hasher::new(*b"qR02");
    hasher.update(&[7; 32]);
    assert_eq!(random(Digest([7; 32])), hasher.finish().0);
    assert_eq!(BlockContext::new(Height(9), 8, Digest([7; 32])).randomness(), random(Digest([7; 32])));
    assert_ne!(random(Digest([8; 32])), random(Digest([7; 32])));
}

#[test]
fn the_history_covers_the_time() {
    let history = |time_ms| {
        let mut executor = executor();
        executor.execute(BlockContext::new(Height(1), time_ms, Digest::ZERO), &[], &mut Vec::new());
        executor.state_digest()
    };
    assert_ne!(history(1), history(2));
    assert_eq!(history(1), history(1));
}
