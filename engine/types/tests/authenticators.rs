//! Coverage of a bundle's authenticator, as far as it can be tested without keys: its format, its digests and the
//! signed statement.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_types::*;

/// Bytes of a public key and a signature.
const AUTHENTICATOR_BYTES: usize = 32 + 64;

fn one() -> ClusterId {
    ClusterId::from_name("one")
}

proptest! {
    #[test]
    fn every_change_gives_another_digest_and_only_changes_of_the_content_another_statement(
        bundle in crate::common::signed_bundle(), at in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let mut body = bundle.body().to_vec();
        let at = at.index(body.len());
        body[at] ^= 1 << bit;
        let is_content = at < body.len() - AUTHENTICATOR_BYTES;
        if let Ok(other) = Bundle::from_body(body.into()) {
            prop_assert_ne!(other.digest(), bundle.digest());
            prop_assert_eq!(other.statement(&one()) == bundle.statement(&one()), !is_content);
            prop_assert_eq!(other.origin().owner(), bundle.origin().owner(), "a key signs for its own owner only");
        }
    }

    #[test]
    fn statements_differ_between_clusters(bundle in crate::common::bundle()) {
        prop_assert_ne!(bundle.statement(&one()), bundle.statement(&ClusterId::from_name("two")));
    }

    #[test]
    fn a_bundle_cannot_be_replayed_under_another_client(
        bundle in crate::common::signed_bundle(),
        other in crate::common::client(),
    ) {
        prop_assume!(other.owner() != bundle.origin().owner());
        let mut body = bundle.body().to_vec();
        body[1..17].copy_from_slice(&other.0.to_le_bytes());
        let error = Bundle::from_body(body.into()).expect_err("the key is not of that origin");
        prop_assert!(error.to_string().contains("does not belong to the key"), "{}", error);
    }

    #[test]
    fn removing_the_authenticator_gives_another_bundle(bundle in crate::common::signed_bundle()) {
        let mut body = bundle.body()[..bundle.body().len() - AUTHENTICATOR_BYTES].to_vec();
        let cut = Bundle::from_body(body.clone().into()).expect_err("the authenticator is missing");
        prop_assert!(cut.to_string().contains("96 bytes are needed"), "{}", cut);
        body[0] = 0;
        let bare = Bundle::from_body(body.into()).expect("a bundle without an authenticator");
        prop_assert!(bare.authenticator().is_none());
        prop_assert_ne!(bare.digest(), bundle.digest());
        prop_assert_ne!(bare.statement(&one()), bundle.statement(&one()), "its kind is signed too");
    }

    #[test]
    fn an_unknown_authenticator_is_refused(bundle in crate::common::bundle(), kind in 131u8..) {
        let mut body = bundle.body().to_vec();
        body[0] = kind;
        let error = Bundle::from_body(Bytes::from(body)).expect_err("the kind is unknown");
        prop_assert!(error.to_string().contains("no such kind of authenticator"), "{}", error);
    }
}

#[test]
fn the_encoding_is_stable() {
    let key: [u8; 32] = std::array::from_fn(|at| at as u8);
    let origin = ClientId::of_key(&key).with_session(7);
    let mut builder = BundleBuilder::new(origin, Height(0x0102_0304_0506_0708));
    builder.push(origin.with_session(258), 3, b"put");
    let mut signed = None;
    let bundle = builder.finish_signed(&one(), 1, &key, |statement| {
        signed = Some(*statement);
        vec![0xee; 64].into()
    });
    assert_eq!(signed, Some(bundle.statement(&one())));
    assert_eq!(digest::encode_hex(bundle.body()), BODY);
    assert_eq!(digest::encode_hex(&bundle.statement(&one())), STATEMENT);
    assert_eq!(bundle.digest().to_hex(), DIGEST);
}

// Computed with Python's hashlib from the layouts in `command.rs` and `ids.rs`.
const BODY: &str = "\
    010700c62b964b7fbfcfb8be4661110ecb0807060504030201010000000201030000000000000003000000707574000102030405060708\
    090a0b0c0d0e0f101112131415161718191a1b1c1d1e1feeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\
    eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee";
const STATEMENT: &str = "\
    71756f726174652062756e646c652032925ffeb36c90799aaae48b81226090dcbf4d53ccfad066b947a46f2c35f5829d2ae05be534383a\
    3efde58003689504379ec94726cfbe66f8952b0ba68df284ce";
const DIGEST: &str = "6298c61ca54ad31354d80a0fb1cecdea840ce52f1f33e966b8a8823193daed25";

#[test]
#[should_panic(expected = "the authenticator is not of kind 1")]
fn a_signature_of_the_wrong_length_panics() {
    let origin = ClientId::of_key(&[1; 32]);
    let mut builder = BundleBuilder::new(origin, Height(0).latest_expiry());
    builder.push(origin, 1, b"");
    builder.finish_signed(&one(), 1, &[1; 32], |_| vec![0; 63].into());
}

#[test]
#[should_panic(expected = "is no session of")]
fn a_command_of_another_owner_panics() {
    BundleBuilder::new(ClientId(1), Height(0).latest_expiry()).push(ClientId(1 << 16), 1, b"");
}

#[test]
#[should_panic(expected = "belongs to another key")]
fn signing_with_another_owners_key_panics() {
    let mut builder = BundleBuilder::new(ClientId(1 << 16), Height(0).latest_expiry());
    builder.push(ClientId(1 << 16), 1, b"");
    builder.finish_signed(&one(), 1, &[1; 32], |_| vec![0; 64].into());
}
