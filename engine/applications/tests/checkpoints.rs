//! Checkpoints: all replicas have the same digests, keep the state at the same checkpoints, and continue from it in the
//! same way.

use crate::common::{bundle, executor, put, step};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_applications::{ApplicationKind, Checkpoint, CheckpointRule, Executor, RestoreError};
use quorate_types::{Bundle, Digest, EpochId, Height, Manifest};

const RULE: CheckpointRule = CheckpointRule { interval: 3, bytes_between: 2000, block_bytes: 100 };

fn keeper(kind: ApplicationKind, rule: CheckpointRule) -> Executor {
    executor(kind).with_checkpoints(rule)
}

/// The frontier that all replicas have at a height.
fn frontier(height: Height) -> (Digest, Bytes) {
    (Digest([height.0 as u8; 32]), Bytes::from(format!("frontier at {}", height.0)))
}

fn checkpoint(executor: &mut Executor) -> Checkpoint {
    let (digest, frontier) = frontier(executor.height());
    executor.checkpoint(digest, || frontier).run()
}

/// Executes a block. Returns the checkpoint after it, if there is one.
fn advance(executor: &mut Executor, rule: CheckpointRule, bundles: &[Bundle]) -> Option<Checkpoint> {
    step(executor, bundles);
    rule.is_checkpoint(executor.height()).then(|| checkpoint(executor))
}

fn write(number: u64, bytes: usize) -> Bundle {
    bundle(1, &[(1, number, &put(&number.to_le_bytes(), &vec![7; bytes]))])
}

#[test]
fn the_state_is_kept_after_enough_bytes() {
    let mut executor = keeper(ApplicationKind::LOG, RULE);
    let mut kept = Vec::new();
    for number in 1..=60 {
        let checkpoint = advance(&mut executor, RULE, &[write(number, 50)]);
        assert_eq!(checkpoint.is_some(), number.is_multiple_of(3));
        if let Some(Checkpoint { digest, kept: Some((manifest, state)) }) = checkpoint {
            assert_eq!((manifest.digest(), Manifest::of(&state)), (digest, manifest));
            kept.push(number);
        }
    }
    let block = 100 + 256 + write(1, 50).body().len() as u64;
    let blocks = RULE.bytes_between.div_ceil(block).next_multiple_of(3);
    assert_eq!(kept, (1..=60 / blocks).map(|times| times * blocks).collect::<Vec<_>>());
}

#[test]
fn empty_blocks_count_too() {
    let mut executor = keeper(ApplicationKind::LOG, RULE);
    let kept: Vec<u64> = (1..=45)
        .filter(|_| advance(&mut executor, RULE, &[]).is_some_and(|checkpoint| checkpoint.kept.is_some()))
        .collect();
    assert_eq!(kept, [21, 42], "20 blocks of 100 bytes, and on to the next checkpoint");
}

#[test]
fn a_large_state_is_kept_less_often_up_to_a_limit() {
    let rule = CheckpointRule { interval: 1, ..RULE };
    let kept_with = |bytes: usize| {
        let mut executor = keeper(ApplicationKind::KEY_VALUE, rule);
        step(&mut executor, &[write(1, bytes)]);
        let kept =
            |number: &u64| advance(&mut executor, rule, &[write(*number, 10)]).is_some_and(|it| it.kept.is_some());
        (2..400).filter(kept).collect::<Vec<u64>>()
    };
    let gap = |kept: &[u64]| kept[2] - kept[1];
    let (small, large, huge) = (kept_with(1), kept_with(6000), kept_with(1 << 20));
    assert!(gap(&large) >= 2 * gap(&small), "{} and {}", gap(&large), gap(&small));
    assert!(gap(&huge) <= 8 * gap(&small) + 8, "{} and {}", gap(&huge), gap(&small));
}

#[test]
fn without_a_rule_no_state_is_kept() {
    let mut executor = executor(ApplicationKind::LOG);
    for number in 1..100 {
        step(&mut executor, &[write(number, 1000)]);
        assert_eq!(checkpoint(&mut executor).kept, None);
    }
}

#[test]
fn the_digest_covers_height_history_and_frontier() {
    let mut one = keeper(ApplicationKind::LOG, RULE);
    step(&mut one, &[write(1, 1)]);
    let own = checkpoint(&mut one).digest;
    assert_ne!(one.checkpoint(Digest([9; 32]), Bytes::new).run().digest, own, "another frontier");
    let mut other = keeper(ApplicationKind::LOG, RULE);
    step(&mut other, &[write(2, 1)]);
    assert_ne!(checkpoint(&mut other).digest, own, "other commands");
    step(&mut one, &[]);
    assert_ne!(one.checkpoint(frontier(Height(1)).0, Bytes::new).run().digest, own, "another height");
}

#[test]
fn damaged_states_are_refused_and_change_nothing() {
    let mut source = keeper(ApplicationKind::KEY_VALUE, CheckpointRule { interval: 1, bytes_between: 1, ..RULE });
    step(&mut source, &[write(1, 30)]);
    let (_, state) = checkpoint(&mut source).kept.expect("every state is kept");
    let mut target = keeper(ApplicationKind::KEY_VALUE, RULE);
    step(&mut target, &[write(5, 5)]);
    let before = target.snapshot();
    for length in 0..state.len() {
        assert!(target.adopt(state.slice(..length)).is_err(), "{length} of {} bytes", state.len());
    }
    assert!(target.adopt(Bytes::from([&state[..], b"x"].concat())).is_err());
    assert!(target.adopt(source.snapshot()).is_err(), "a snapshot is not the whole state");
    let mut stranger = Executor::new(ApplicationKind::KEY_VALUE.make(), &EpochId::of_name("other"));
    assert_eq!(stranger.adopt(state.clone()), Err(RestoreError::OtherCluster));
    let other =
        executor(ApplicationKind::LOG).adopt(state.clone()).expect_err("the state belongs to another application");
    assert!(matches!(other, RestoreError::OtherApplication { .. }), "{other}");
    assert_eq!(target.snapshot(), before);
    assert_eq!(target.adopt(state), Ok(frontier(Height(1)).1));
    assert_eq!((target.snapshot(), target.height()), (source.snapshot(), Height(1)));
}

#[test]
#[should_panic(expected = "a checkpoint rule must be positive")]
fn a_rule_without_an_interval_panics() {
    keeper(ApplicationKind::LOG, CheckpointRule { interval: 0, ..RULE });
}

proptest! {
    /// A frozen state, with sessions and history, is the state of its height, regardless of later execution. Another
    /// replica executes the same blocks and encodes its state immediately.
    #[test]
    fn a_frozen_state_is_the_state_of_its_height(
        blocks in prop::collection::vec(prop::collection::vec((0..6u64, 1..300u64), 0..4), 1..40),
        freezes in prop::collection::btree_set(0..40usize, 1..6),
        patience in 1..20usize,
        log in any::<bool>(),
    ) {
        let kind = if log { ApplicationKind::LOG } else { ApplicationKind::KEY_VALUE };
        let (mut one, mut other) = (keeper(kind, RULE), keeper(kind, RULE));
        let mut held = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            let write = |(client, sequence): &(u64, u64)| {
                bundle(1, &[(*client, *sequence, &put(&sequence.to_le_bytes()[..1], &at.to_le_bytes()))])
            };
            let bundles: Vec<Bundle> = block.iter().map(write).collect();
            prop_assert_eq!(step(&mut one, &bundles), step(&mut other, &bundles));
            if freezes.contains(&at) {
                held.push((at + patience, one.own_state(), other.own_state().encode()));
            }
            let (due, still): (Vec<_>, Vec<_>) = held.into_iter().partition(|(due, ..)| *due <= at);
            for (_, frozen, expected) in due {
                let encoded = std::thread::spawn(|| frozen.encode()).join().expect("encoding does not panic");
                prop_assert_eq!(encoded, expected);
            }
            held = still;
        }
        for (_, frozen, expected) in held {
            prop_assert_eq!(frozen.encode(), expected);
        }
        prop_assert_eq!(one.snapshot(), other.snapshot());
    }

    /// One replica executes everything, one restarts from its own snapshots, and one begins with a state kept by the
    /// first. All have equal digests at the same heights and keep the same states.
    #[test]
    fn all_replicas_have_the_same_checkpoints(
        blocks in prop::collection::vec(prop::collection::vec((0..40u64, 0..900usize), 0..3), 10..60),
        restarts in prop::collection::btree_set(0..60usize, 0..6),
        joins in 0..4usize,
        log in any::<bool>(),
    ) {
        let kind = if log { ApplicationKind::LOG } else { ApplicationKind::KEY_VALUE };
        let (mut one, mut restarted) = (keeper(kind, RULE), keeper(kind, RULE));
        let mut joined: Option<Executor> = None;
        let mut states = 0;
        for (at, block) in blocks.iter().enumerate() {
            let bundles: Vec<Bundle> = block.iter().map(|(number, bytes)| write(*number, *bytes)).collect();
            let checkpoint = advance(&mut one, RULE, &bundles);
            prop_assert_eq!(&advance(&mut restarted, RULE, &bundles), &checkpoint);
            if let Some(joined) = &mut joined {
                prop_assert_eq!(&advance(joined, RULE, &bundles), &checkpoint);
                prop_assert_eq!(joined.snapshot(), one.snapshot());
            }
            if let Some((_, state)) = checkpoint.and_then(|checkpoint| checkpoint.kept) {
                states += 1;
                if states > joins && joined.is_none() {
                    let mut fresh = keeper(kind, RULE);
                    prop_assert_eq!(fresh.adopt(state), Ok(frontier(one.height()).1));
                    joined = Some(fresh);
                }
            }
            if restarts.contains(&at) {
                let snapshot = restarted.snapshot();
                restarted = keeper(kind, RULE);
                prop_assert_eq!(restarted.restore(snapshot), Ok(()));
            }
        }
    }
}
