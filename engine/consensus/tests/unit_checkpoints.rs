//! Checkpoints, and the frontier that a replica keeps of a committed block.

use crate::unit_support::{block, chain, digest, genesis, quorum, signed_by, vote};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_consensus::Config;
use quorate_consensus::recovery::checkpoints::{Checkpoints, MAX_STATES_KEPT, Meaning};
use quorate_consensus::recovery::frontier::Frontier;
use quorate_consensus::seam::Drop;
use quorate_types::*;
use std::sync::Arc;

const INTERVAL: u64 = 4;
const WINDOW: u64 = 16;

fn checkpoints() -> Checkpoints {
    let config = Config { checkpoint_interval: INTERVAL, window: WINDOW, ..crate::unit_support::config() };
    Checkpoints::new(&config, quorum(4), genesis())
}

fn at(height: u64, state: u64) -> Subject {
    Subject { domain: Domain::Checkpoint, view: View(0), height: Height(height), digest: digest(state) }
}

fn certificate(height: u64, state: u64) -> Certificate {
    Certificate { signers: signed_by(&[0, 1, 2]), subject: at(height, state), ..genesis() }
}

/// Returns checkpoints executed up to a height, where the state of each checkpoint is its height.
fn executed_up_to(height: u64) -> Checkpoints {
    let mut checkpoints = checkpoints();
    for height in (INTERVAL..=height).step_by(INTERVAL as usize) {
        assert_eq!(checkpoints.on_execution(Height(height), digest(height), height.is_multiple_of(8)), Meaning::Old);
    }
    checkpoints
}

#[test]
fn invalid_checkpoint_votes_are_refused() {
    let mut checkpoints = checkpoints();
    let from = ReplicaId(1);
    let refused = |checkpoints: &Checkpoints, subject| checkpoints.refuses(from, &vote(1, subject), Height(5));
    assert_eq!(refused(&checkpoints, at(8, 1)), None);
    assert_eq!(refused(&checkpoints, at(4, 1)), None, "votes count for an executed checkpoint without a certificate");
    assert_eq!(refused(&checkpoints, at(20, 1)), None, "votes count up to the end of the window");
    assert_eq!(refused(&checkpoints, at(24, 1)), Some(Drop::TooFarAhead));
    assert_eq!(refused(&checkpoints, at(u64::MAX - 3, 1)), Some(Drop::TooFarAhead));
    assert_eq!(checkpoints.refuses(ReplicaId(2), &vote(1, at(8, 1)), Height(5)), Some(Drop::NotTheSender));
    for malformed in
        [at(0, 1), at(7, 1), Subject { view: View(1), ..at(8, 1) }, Subject { domain: Domain::Commit, ..at(8, 1) }]
    {
        assert_eq!(refused(&checkpoints, malformed), Some(Drop::Malformed));
    }
    let telling = Vote { attachment: Attachment::HighView(View(1)), ..vote(1, at(8, 1)) };
    assert_eq!(checkpoints.refuses(from, &telling, Height(5)), Some(Drop::Malformed));
    assert_eq!(checkpoints.raise(certificate(8, 1)), Meaning::Stable);
    assert_eq!(refused(&checkpoints, at(8, 1)), Some(Drop::Late));
    assert_eq!(refused(&checkpoints, at(4, 1)), Some(Drop::Late));
    assert_eq!(refused(&checkpoints, at(24, 1)), None, "the window moves with the committed height");
}

/// Hashing a kept state takes long, and meanwhile a quorum finishes and certifies the next checkpoints.
#[test]
fn a_certificate_waits_until_its_state_is_digested_here() {
    let mut checkpoints = executed_up_to(4);
    assert_eq!(checkpoints.raise(certificate(8, 8)), Meaning::Stable);
    assert_eq!(checkpoints.raise(certificate(12, 12)), Meaning::Stable);
    assert_eq!(checkpoints.raise(certificate(16, 1)), Meaning::Stable);
    checkpoints.invariants();
    assert_eq!(checkpoints.on_execution(Height(8), digest(8), true), Meaning::Kept);
    assert_eq!(checkpoints.offered(), Some(&certificate(8, 8)), "the state is offered although it is not the newest");
    assert_eq!(checkpoints.stable(), &certificate(16, 1));
    assert_eq!(checkpoints.on_execution(Height(12), digest(12), false), Meaning::Stable);
    assert_eq!(checkpoints.on_execution(Height(16), digest(16), true), Meaning::Diverged(Height(16)));
    checkpoints.invariants();
    let mut checkpoints = executed_up_to(4);
    checkpoints.raise(certificate(8, 1));
    checkpoints.raise(certificate(12, 12));
    assert_eq!(checkpoints.on_execution(Height(8), digest(8), true), Meaning::Diverged(Height(8)));
    let mut checkpoints = executed_up_to(4);
    for number in 2..1000 {
        assert_eq!(checkpoints.raise(certificate(INTERVAL * number, 1)), Meaning::Stable);
    }
    checkpoints.invariants();
    assert_eq!(
        checkpoints.on_execution(Height(8), digest(8), true),
        Meaning::Old,
        "the oldest certificate was evicted"
    );
}

#[test]
fn a_certificate_is_compared_with_the_executed_state() {
    let mut checkpoints = executed_up_to(12);
    assert_eq!(checkpoints.raise(certificate(4, 4)), Meaning::Stable, "the state is not kept here");
    assert_eq!((checkpoints.offered(), checkpoints.needed_above()), (None, Height(0)));
    assert_eq!(checkpoints.raise(certificate(8, 8)), Meaning::Kept);
    assert_eq!(checkpoints.offered(), Some(&certificate(8, 8)));
    assert_eq!(checkpoints.needed_above(), Height(8));
    assert_eq!(checkpoints.raise(certificate(8, 8)), Meaning::Old);
    assert_eq!(checkpoints.raise(certificate(4, 4)), Meaning::Old, "the stable checkpoint never decreases");
    assert_eq!(
        checkpoints.raise(Certificate { subject: at(13, 1), ..certificate(8, 8) }),
        Meaning::Old,
        "a height between checkpoints is no checkpoint"
    );
    assert_eq!(checkpoints.raise(certificate(12, 13)), Meaning::Diverged(Height(12)));
    assert_eq!(checkpoints.stable().subject.height, Height(12));
    checkpoints.invariants();
}

#[test]
fn a_certificate_may_come_before_the_state() {
    for (state, kept, meaning) in
        [(16, false, Meaning::Stable), (16, true, Meaning::Kept), (17, true, Meaning::Diverged(Height(16)))]
    {
        let mut checkpoints = executed_up_to(8);
        assert_eq!(checkpoints.raise(certificate(16, 16)), Meaning::Stable);
        assert_eq!(checkpoints.on_execution(Height(12), digest(12), false), Meaning::Old);
        assert_eq!(checkpoints.on_execution(Height(16), digest(state), kept), meaning);
        assert_eq!(checkpoints.offered().is_some(), meaning == Meaning::Kept);
        checkpoints.invariants();
    }
}

#[test]
fn the_last_two_states_are_offered() {
    let mut checkpoints = checkpoints();
    for height in [8, 16, 24, 32] {
        checkpoints.offer(certificate(height, height));
        checkpoints.invariants();
    }
    assert_eq!(checkpoints.needed_above(), Height(24));
    assert_eq!(checkpoints.offered(), Some(&certificate(32, 32)));
    checkpoints.offer(certificate(32, 32));
    checkpoints.offer(certificate(28, 28));
    checkpoints.offer(certificate(33, 33));
    checkpoints.offer(genesis());
    assert_eq!((checkpoints.needed_above(), checkpoints.offered()), (Height(24), Some(&certificate(32, 32))));
    assert_eq!(MAX_STATES_KEPT, 2);
}

#[test]
fn executed_states_are_bounded_without_a_certificate() {
    let mut checkpoints = checkpoints();
    for height in (INTERVAL..4000).step_by(INTERVAL as usize) {
        for ahead in (0..=WINDOW).step_by(INTERVAL as usize) {
            let vote = vote(1, at(height + ahead, height));
            if checkpoints.refuses(ReplicaId(1), &vote, Height(height)).is_none() {
                checkpoints.tally.add(vote);
            }
        }
        checkpoints.on_execution(Height(height), digest(height), true);
        checkpoints.invariants();
        assert!(checkpoints.tally.rounds() as u64 <= 2 * WINDOW / INTERVAL + 1, "{}", checkpoints.tally.rounds());
    }
    assert_eq!(checkpoints.offered(), None);
}

fn linked(blocks: Vec<Arc<Block>>) -> Frontier {
    Frontier::new(blocks.into_iter().map(|block| (block, Arc::from([ReplicaId(1), ReplicaId(2)]))).collect())
}

fn decoded(frontier: &Frontier) -> Result<Frontier, DecodeError> {
    let mut out = Encoder::with_capacity(512);
    frontier.encode(&mut out);
    let mut input = Decoder::new(out.finish());
    let frontier = Frontier::decode(&mut input)?;
    input.finish("end of a frontier")?;
    Ok(frontier)
}

/// Returns the same chain with other proofs in its certificates.
fn with_proofs(blocks: &[Arc<Block>], proof: &'static [u8]) -> Vec<Arc<Block>> {
    let with = |one: &Arc<Block>| {
        let mut block = Block::clone(one);
        block.justify.proof = Bytes::from_static(proof);
        Arc::new(block)
    };
    blocks.iter().map(with).collect()
}

#[test]
fn frontiers_do_not_depend_on_proofs() {
    let blocks = chain(&[1, 2, 4, 5]);
    let (one, other) = (linked(with_proofs(&blocks, b"one")), linked(with_proofs(&blocks, b"another")));
    assert_eq!(one.digest(), other.digest());
    let (one, other) = (decoded(&one).expect("the frontier is valid"), decoded(&other).expect("the frontier is valid"));
    assert_eq!(one, other, "frontiers are equal regardless of proofs");
    assert_eq!((one.height(), one.head().digest()), (Height(4), blocks[3].digest()));
    assert_eq!(one.into_blocks().len(), 4);
}

#[test]
fn a_frontiers_digest_covers_all_of_it() {
    let blocks = chain(&[1, 2, 3]);
    let whole = linked(blocks.clone());
    let shorter = linked(blocks[1..].to_vec());
    let other = linked(chain(&[1, 2, 4]));
    let mut elected: Vec<_> = whole.clone().into_blocks();
    elected[0].1 = Arc::from([ReplicaId(1)]);
    let elected = Frontier::new(elected);
    let digests = [&whole, &shorter, &other, &elected].map(Frontier::digest);
    for (number, digest) in digests.iter().enumerate() {
        assert!(!digests[..number].contains(digest), "{number}");
    }
}

#[test]
fn the_blocks_of_a_frontier_are_consecutive() {
    let blocks = chain(&[1, 2, 3]);
    assert!(decoded(&linked(vec![blocks[0].clone(), blocks[2].clone()])).is_err(), "a gap");
    assert!(decoded(&linked(vec![blocks[1].clone(), blocks[0].clone()])).is_err(), "backwards");
    let mut none = Encoder::with_capacity(4);
    none.put_count(0);
    let error = Frontier::decode(&mut Decoder::new(none.finish())).expect_err("a frontier without blocks is invalid");
    assert_eq!(error.what, "frontier");
    let mut proven = Encoder::with_capacity(512);
    proven.put_count(1);
    with_proofs(&blocks, b"proof")[1].encode(&mut proven);
    proven.put_count(0);
    let error =
        Frontier::decode(&mut Decoder::new(proven.finish())).expect_err("a frontier with proofs is a second encoding");
    assert_eq!(error.what, "frontier");
    let slots: Vec<_> = (7..9)
        .map(|slot| Arc::new(Block::of_slot(View(1), ReplicaId(0), Height(slot), vec![digest(slot)], 0)))
        .collect();
    assert!(decoded(&linked(slots)).is_ok(), "unlinked blocks of consecutive slots are a frontier");
    let last =
        block(9, 1, Certificate { subject: Subject { height: Height(u64::MAX - 1), ..at(4, 1) }, ..genesis() }, vec![]);
    assert!(decoded(&linked(vec![last.clone(), last])).is_err(), "no block follows the last height");
}

#[test]
#[should_panic(expected = "a frontier has at least one block")]
fn an_empty_frontier_panics() {
    Frontier::new(Vec::new());
}

proptest! {
    /// For any order of executions and certificates, the stable checkpoint never falls, and memory is bounded.
    #[test]
    fn the_stable_checkpoint_rises(steps in prop::collection::vec((any::<bool>(), 1..60u64, any::<bool>()), 1..60)) {
        let mut checkpoints = checkpoints();
        let mut executed = 0;
        for (executes, number, kept) in steps {
            let before = checkpoints.stable().subject.height;
            let meaning = match executes {
                true => {
                    executed += INTERVAL;
                    checkpoints.on_execution(Height(executed), digest(executed), kept)
                }
                false => checkpoints.raise(certificate(number * INTERVAL, number * INTERVAL)),
            };
            prop_assert!(!matches!(meaning, Meaning::Diverged(_)));
            prop_assert!(checkpoints.stable().subject.height >= before);
            if meaning == Meaning::Kept {
                let height = if executes { Height(executed) } else { checkpoints.stable().subject.height };
                prop_assert_eq!(checkpoints.offered().map(|offered| offered.subject.height), Some(height));
            }
            checkpoints.invariants();
        }
    }
}
