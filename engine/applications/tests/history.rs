//! Histories: the sampled heights, and their comparison.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_applications::compare_histories;
use quorate_applications::history::{History, MAX_SAMPLES, RECENT_HEIGHTS, SAMPLE_STRIDE};
use quorate_types::{Decoder, Digest, Encoder, Height, ReplicaId, Wire};
use std::collections::BTreeMap;

fn digest(height: u64, branch: u8) -> Digest {
    let mut digest = Digest::ZERO;
    digest.0[..8].copy_from_slice(&height.to_le_bytes());
    digest.0[8] = branch;
    digest
}

/// Creates a history up to `height` that differs from the common one from `fork` on.
fn history(height: u64, fork: u64) -> History {
    let mut history = History::new(digest(0, 0));
    (1..=height).for_each(|at| history.push(digest(at, u8::from(at >= fork))));
    history
}

fn compare(histories: &[&History]) -> Result<Height, quorate_applications::Divergence> {
    let named: Vec<_> = histories.iter().zip(0..).map(|(history, at)| (ReplicaId(at), history.samples())).collect();
    compare_histories(&named)
}

fn round_trip(history: &History) {
    let mut out = Encoder::default();
    history.encode(&mut out);
    let mut input = Decoder::new(out.finish());
    assert_eq!(&History::decode(&mut input).expect("the history decodes"), history);
    input.finish("test").expect("nothing is left");
}

#[test]
fn the_last_heights_and_every_stride_are_sampled() {
    for height in [0, 1, 1023, 1024, 4095, 4096, 4097, 10_000] {
        let history = history(height, u64::MAX);
        let heights: Vec<u64> = history.samples().iter().map(|(height, _)| height.0).collect();
        let expected: Vec<u64> =
            (0..=height).filter(|at| at % SAMPLE_STRIDE == 0 || at + RECENT_HEIGHTS as u64 > height).collect();
        assert_eq!(heights, expected);
        assert!(history.samples().iter().all(|(height, sample)| *sample == digest(height.0, 0)));
        round_trip(&history);
    }
}

#[test]
fn long_histories_are_thinned_and_stay_comparable() {
    let long = history(2 * SAMPLE_STRIDE * MAX_SAMPLES as u64 + 5000, u64::MAX);
    assert!(long.samples().len() <= MAX_SAMPLES + RECENT_HEIGHTS);
    assert_eq!(long.samples()[1].0, Height(4 * SAMPLE_STRIDE), "the stride has doubled twice");
    round_trip(&long);
    let short = history(50 * SAMPLE_STRIDE, u64::MAX);
    assert_eq!(compare(&[&long, &short]), Ok(Height(48 * SAMPLE_STRIDE)));
    let other = history(50 * SAMPLE_STRIDE, 13 * SAMPLE_STRIDE);
    assert_eq!(compare(&[&long, &other]).expect_err("the histories differ").height, Height(16 * SAMPLE_STRIDE));
}

#[test]
fn the_first_difference_is_found_with_its_sides() {
    let (one, two, three) = (history(900, u64::MAX), history(700, u64::MAX), history(800, 333));
    assert_eq!(compare(&[&one, &two]), Ok(Height(700)));
    let divergence = compare(&[&one, &two, &three]).expect_err("the histories differ");
    assert_eq!(divergence.height, Height(333));
    assert_eq!(
        divergence.sides,
        vec![(digest(333, 0), vec![ReplicaId(0), ReplicaId(1)]), (digest(333, 1), vec![ReplicaId(2)])]
    );
    assert!(divergence.to_string().contains("height 333"), "{divergence}");
}

#[test]
fn a_difference_above_the_height_of_the_third_replica_is_found() {
    let (short, one, two) = (history(10, u64::MAX), history(400, u64::MAX), history(400, 250));
    assert_eq!(compare(&[&short, &one, &two]).expect_err("the histories differ").height, Height(250));
}

#[test]
fn histories_without_a_common_height_give_height_zero() {
    assert_eq!(compare_histories(&[]), Ok(Height(0)));
    assert_eq!(
        compare_histories(&[(ReplicaId(0), history(9, 99).samples()), (ReplicaId(1), Vec::new())]),
        Ok(Height(0))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn comparison_matches_the_definition(
        heights in prop::collection::vec((0u64..9000, 1u64..12_000), 1..5),
    ) {
        let histories: Vec<History> = heights.iter().map(|(height, fork)| history(*height, *fork)).collect();
        let verdict = compare(&histories.iter().collect::<Vec<_>>());
        let samples: Vec<BTreeMap<Height, Digest>> =
            histories.iter().map(|history| history.samples().into_iter().collect()).collect();
        let all = 0..histories.len();
        let mut first = None;
        let mut common = Height(0);
        for height in (0..9000).map(Height) {
            let here: Vec<Digest> =
                all.clone().filter_map(|replica: usize| samples[replica].get(&height).copied()).collect();
            if first.is_none() && here.iter().any(|digest| *digest != here[0]) {
                first = Some(height);
            }
            if here.len() == histories.len() {
                common = height;
            }
        }
        match verdict {
            Ok(height) => prop_assert_eq!((None, common), (first, height)),
            Err(divergence) => prop_assert_eq!(Some(divergence.height), first),
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(height in any::<u64>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut out = Encoder::default();
        out.put_u64(height);
        out.put_slice(&bytes);
        let message: Bytes = out.finish();
        let mut input = Decoder::new(message.clone());
        if let Ok(history) = History::decode(&mut input) {
            let mut again = Encoder::default();
            history.encode(&mut again);
            prop_assert_eq!(&again.finish()[..], &message[..input.position()]);
        }
    }
}

#[test]
fn a_history_with_two_digests_for_one_height_is_refused() {
    let mut out = Encoder::default();
    out.put_u64(0);
    out.put_slice(&[1; 32]);
    out.put_slice(&[2; 32]);
    let error = History::decode(&mut Decoder::new(out.finish())).expect_err("the history is invalid");
    assert!(error.to_string().contains("two digests"), "{error}");
    let mut out = Encoder::default();
    out.put_u64(u64::MAX);
    let error = History::decode(&mut Decoder::new(out.finish())).expect_err("the history is invalid");
    assert!(error.to_string().contains("maximum height"), "{error}");
}
