//! Bundles and results decode to the values that were encoded.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_types::limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_COMMANDS, MAX_PAYLOAD_BYTES};
use quorate_types::*;

proptest! {
    #[test]
    fn commands_survive_encoding(
        origin in crate::common::client(),
        expires in crate::common::height(),
        signer in prop::option::of(crate::common::authenticator()),
        commands in prop::collection::vec(
            (any::<u16>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..30)),
            1..20,
        ),
    ) {
        let origin = signer.map_or(origin, |(key, _)| ClientId::of_key(&key));
        let builder = crate::common::filled(origin, expires, &commands);
        let bundle = match &signer {
            Some((key, signature)) => {
                builder.finish_signed(&ClusterId::from_name("one"), 1, key, |_| Bytes::copy_from_slice(signature))
            }
            None => builder.finish(),
        };
        prop_assert_eq!((bundle.origin(), bundle.expires(), bundle.len()), (origin, expires, commands.len()));
        let read: Vec<_> =
            bundle.commands().map(|command| (command.client, command.sequence, command.payload.to_vec())).collect();
        let written = commands
            .into_iter()
            .map(|(session, sequence, payload)| (origin.with_session(session), sequence, payload));
        prop_assert_eq!(read, written.collect::<Vec<_>>());
        let shown = bundle.authenticator().map(|shown| (shown.public_key.to_vec(), shown.signature.to_vec()));
        prop_assert_eq!(shown, signer.map(|(key, signature)| (key.to_vec(), signature.to_vec())));
        prop_assert_eq!(Bundle::from_body(bundle.body().clone()), Ok(bundle));
    }

    #[test]
    fn a_bundle_is_identified_by_its_bytes(one in crate::common::bundle(), two in crate::common::bundle()) {
        prop_assert_eq!(one.digest() == two.digest(), one.body() == two.body());
    }

    #[test]
    fn outcomes_survive_encoding(
        outcomes in prop::collection::vec((0u8..7, prop::collection::vec(any::<u8>(), 1..9)), 0..20),
        reused in any::<bool>(),
    ) {
        let outcomes: Vec<Outcome<'_>> = outcomes
            .iter()
            .map(|(kind, result)| match kind {
                0 => Outcome::Executed(result),
                1 => Outcome::Duplicate,
                2 => Outcome::Refused,
                3 => Outcome::Expired,
                4 => Outcome::Forgotten,
                _ => Outcome::Executed(&[]),
            })
            .collect();
        let mut builder = ResultsBuilder::default();
        if reused {
            builder.push(Outcome::Executed(b"of the bundle before"));
            builder.finish();
        }
        outcomes.iter().for_each(|outcome| builder.push(*outcome));
        let results = builder.finish();
        prop_assert_eq!(&results, &Results::collect(outcomes.iter().copied()));
        prop_assert_eq!((results.len(), results.is_empty()), (outcomes.len(), outcomes.is_empty()));
        prop_assert_eq!(results.outcomes().collect::<Vec<_>>(), outcomes);
    }

    #[test]
    fn decoded_results_can_be_read_and_are_the_shortest(
        kind in 0u8..3,
        count in 0u8..5,
        tail in prop::collection::vec(0u8..3, 0..40),
    ) {
        let bytes = [&[kind, count, 0, 0, 0], &tail[..]].concat();
        if let Ok(results) = Results::decode(&mut Decoder::new(bytes.into())) {
            prop_assert_eq!(results.outcomes().count(), results.len());
            prop_assert_eq!(Results::collect(results.outcomes()), results);
        }
    }

    #[test]
    fn digests_are_hexadecimal(digest in crate::common::digest(), junk in ".{0,70}") {
        prop_assert_eq!(Digest::from_hex(&digest.to_hex()), Some(digest));
        prop_assert_eq!(Digest::from_hex(&digest.to_hex().to_uppercase()), Some(digest));
        if let Some(parsed) = Digest::from_hex(&junk) {
            prop_assert_eq!(parsed.to_hex(), junk.to_lowercase());
        }
    }
}

#[test]
fn empty_results_have_the_short_form() {
    for count in [0, 1, 400] {
        assert_eq!(Results::all_empty(count), Results::collect(std::iter::repeat_n(Outcome::Executed(&[]), count)));
    }
}

#[test]
fn a_list_of_empty_results_is_refused() {
    for bytes in [&[1, 0, 0, 0, 0][..], &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0], &[1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
    {
        let error = Results::decode(&mut Decoder::new(Bytes::copy_from_slice(bytes)))
            .expect_err("the results have a shorter form");
        assert!(error.to_string().contains("shortest form"), "{error}");
    }
}

#[test]
fn signs_are_not_hexadecimal_digits() {
    assert_eq!(digest::decode_hex("+1"), None);
    assert_eq!(digest::decode_hex("0"), None);
    assert_eq!(digest::decode_hex("0g"), None);
    assert_eq!(digest::decode_hex("é"), None);
}

#[test]
fn the_limits_of_a_bundle_are_enforced() {
    let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
    assert!(builder.fits(MAX_PAYLOAD_BYTES) && !builder.fits(MAX_PAYLOAD_BYTES + 1));
    (0..MAX_BUNDLE_COMMANDS as u64).for_each(|sequence| builder.push(ClientId(1), sequence, b""));
    assert!(!builder.fits(0));
    assert_eq!(builder.finish().len(), MAX_BUNDLE_COMMANDS);
    let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
    let payload = vec![0; MAX_PAYLOAD_BYTES];
    while builder.fits(payload.len()) {
        builder.push(ClientId(1), builder.len() as u64, &payload);
    }
    assert!(builder.finish().body().len() <= MAX_BUNDLE_BYTES);
    let error = Bundle::from_body(Bytes::from(vec![0; MAX_BUNDLE_BYTES + 1])).expect_err("the bundle is too long");
    assert!(error.to_string().contains("over the limit"), "{error}");
    let error = Bundle::from_body(Bytes::from(vec![0; 29])).expect_err("the bundle is empty");
    assert!(error.to_string().contains("no command"), "{error}");
}
