//! States in chunks: each chunk accepts only its own bytes, and a manifest has one encoding.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_types::codec::DecodeReason;
use quorate_types::state::{CHUNK_BYTES, MAX_CHUNKS, chunk_digest, chunk_of};
use quorate_types::{Decoder, Digest, Encoder, Manifest, Wire};

/// States of few chunks, with lengths near multiples of the chunk size.
fn state() -> impl Strategy<Value = Bytes> {
    let length = prop_oneof![
        1..200usize,
        (1..4usize, -2..3isize).prop_map(|(chunks, more)| (chunks * CHUNK_BYTES).saturating_add_signed(more)),
    ];
    (length, any::<u8>()).prop_map(|(length, salt)| (0..length).map(|at| (at / 1000) as u8 ^ salt).collect())
}

fn encoded(manifest: &Manifest) -> Bytes {
    let mut out = Encoder::with_capacity(64);
    manifest.encode(&mut out);
    out.finish()
}

fn decoded(bytes: Bytes) -> Result<Manifest, quorate_types::DecodeError> {
    let mut input = Decoder::new(bytes);
    let manifest = Manifest::decode(&mut input)?;
    input.finish("end of a manifest")?;
    Ok(manifest)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunks_make_up_the_state_and_other_bytes_are_refused(
        state in state(),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let manifest = Manifest::of(&state);
        prop_assert_eq!(manifest.bytes(), state.len() as u64);
        prop_assert_eq!(manifest.chunks() as usize, state.len().div_ceil(CHUNK_BYTES));
        let chunks: Vec<Bytes> = (0..manifest.chunks()).filter_map(|chunk| chunk_of(&state, chunk)).collect();
        prop_assert_eq!(chunks.concat(), &state[..]);
        for (number, chunk) in chunks.iter().enumerate() {
            let number = number as u32;
            prop_assert!(manifest.fits(number, chunk));
            prop_assert_eq!(manifest.digests()[number as usize], chunk_digest(chunk));
            let mut flipped = chunk.to_vec();
            let place = at.index(flipped.len());
            flipped[place] ^= 1 << bit;
            prop_assert!(!manifest.fits(number, &flipped));
            prop_assert!(!manifest.fits(number, &chunk[..chunk.len() - 1]));
            prop_assert!(!manifest.fits(number, &[chunk, &b"x"[..]].concat()));
            prop_assert!(!manifest.fits(manifest.chunks() + number, chunk));
            let others = chunks.iter().enumerate().filter(|(other, bytes)| *other as u32 != number && *bytes != chunk);
            for (other, _) in others {
                prop_assert!(!manifest.fits(other as u32, chunk));
            }
        }
        prop_assert!(!manifest.fits(u32::MAX, &chunks[0]) && !manifest.fits(0, b""));
        for beyond in [manifest.chunks(), u32::MAX] {
            prop_assert_eq!(chunk_of(&state, beyond), None);
        }
    }

    #[test]
    fn manifests_have_one_encoding(
        state in state(),
        other in state(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let manifest = Manifest::of(&state);
        let bytes = encoded(&manifest);
        prop_assert_eq!(decoded(bytes.clone()), Ok(manifest.clone()));
        prop_assert_eq!(Manifest::of(&other).digest() == manifest.digest(), other == state);
        let mut spoilt = bytes.to_vec();
        spoilt[at.index(bytes.len())] = byte;
        if let Ok(another) = decoded(spoilt.clone().into()) {
            prop_assert_eq!(encoded(&another), Bytes::from(spoilt));
            prop_assert_eq!(another.digest() == manifest.digest(), another == manifest);
        }
        prop_assert!(decoded(bytes.slice(..at.index(bytes.len()))).is_err());
    }
}

#[test]
fn the_number_of_chunks_must_match_the_length() {
    let claim = |bytes: u64, chunks: usize| {
        let mut out = Encoder::with_capacity(64);
        out.put_u64(bytes);
        quorate_types::codec::encode_list(&vec![Digest([7; 32]); chunks], &mut out);
        decoded(out.finish())
    };
    let chunk = CHUNK_BYTES as u64;
    for (bytes, chunks) in [(1, 1), (chunk, 1), (chunk + 1, 2), (3 * chunk, 3)] {
        assert_eq!(claim(bytes, chunks).map(|manifest| manifest.chunks()), Ok(chunks as u32));
    }
    for (bytes, chunks) in [(0, 0), (0, 1), (1, 0), (1, 2), (chunk + 1, 1), (2 * chunk, 3), (u64::MAX, 5)] {
        let error = claim(bytes, chunks).expect_err("the number of chunks does not match");
        assert_eq!(error.what, "chunks of a state", "{bytes} bytes in {chunks} chunks");
    }
    let mut out = Encoder::with_capacity(64);
    out.put_u64(u64::MAX);
    out.put_u32(MAX_CHUNKS as u32 + 1);
    let error = decoded(out.finish()).expect_err("too many");
    assert_eq!(error.why, DecodeReason::OverLimit { value: MAX_CHUNKS + 1, limit: MAX_CHUNKS });
}

#[test]
#[should_panic(expected = "a state has 1 to")]
fn an_empty_state_panics() {
    Manifest::of(b"");
}
