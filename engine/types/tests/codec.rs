//! Properties of the codec for every wire type: each value has one encoding, and no input does harm.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use quorate_types::codec::{DecodeReason, WIRE_VERSION};
use quorate_types::*;
use std::fmt::Debug;
use std::sync::Arc;

fn flipped(message: &[u8], bit: usize) -> Bytes {
    let mut bytes = message.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes.into()
}

/// Checks that decoded bytes are the value's only encoding.
fn canonical<T: Wire>(message: Bytes) {
    if let Ok(value) = decode_message::<T>(message.clone()) {
        assert_eq!(encode_message(&value), message, "a second encoding of one value");
    }
}

fn laws<T: Wire + PartialEq + Debug>(value: &T) {
    let message = encode_message(value);
    assert_eq!(decode_message::<T>(message.clone()).as_ref(), Ok(value));
    for length in 0..message.len() {
        let error = decode_message::<T>(message.slice(..length)).expect_err("a prefix is no message");
        assert!(error.at <= length, "{error} in a message of {length} bytes");
    }
    let longer = Bytes::from([&message[..], &[0]].concat());
    let error = decode_message::<T>(longer).expect_err("a byte is left over");
    assert_eq!(error.why, DecodeReason::Trailing(1));
    for bit in 0..message.len() * 8 {
        canonical::<T>(flipped(&message, bit));
    }
}

/// Mostly small bytes: as kinds, counts and lengths, they pass the first field, which uniformly random ones rarely do.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![6 => Just(0u8), 3 => 1u8..4, 1 => any::<u8>()];
    prop_oneof![prop::collection::vec(byte, 0..300), prop::collection::vec(any::<u8>(), 0..300)]
}

/// Returns a digest of the encodings of some values, and of the errors about damaged encodings.
fn fingerprint<T: Wire + Debug>(strategy: impl Strategy<Value = T>) -> String {
    let (mut runner, mut hasher) = (TestRunner::deterministic(), Hasher::new(*b"test"));
    for _ in 0..FINGERPRINT_VALUES {
        let message = encode_message(&strategy.new_tree(&mut runner).expect("it has values").current());
        hasher.update(&message);
        for bit in (0..message.len() * 8).step_by(7) {
            let error = decode_message::<T>(flipped(&message, bit)).err();
            hasher.update(error.map_or_else(String::new, |error| error.to_string()).as_bytes());
        }
    }
    hasher.finish().to_hex()[..16].to_owned()
}

const FINGERPRINT_VALUES: usize = 64;

macro_rules! wire_types {
    ($($name:ident: $type:ty = $strategy:expr;)*) => {
        /// Digests of the encodings and errors, by type.
        fn fingerprints() -> Vec<(&'static str, String)> {
            vec![$((stringify!($name), fingerprint::<$type>($strategy))),*]
        }
    $(
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(48))]

                #[test]
                fn values_have_one_encoding_and_prefixes_are_refused(value in $strategy) {
                    laws::<$type>(&value);
                }

                #[test]
                fn a_splice_of_two_is_canonical_or_refused(
                    one in $strategy,
                    two in $strategy,
                    cut in any::<prop::sample::Index>(),
                    join in any::<prop::sample::Index>(),
                ) {
                    let (one, two) = (encode_message::<$type>(&one), encode_message::<$type>(&two));
                    let (head, tail) = (&one[..cut.index(one.len())], &two[join.index(two.len())..]);
                    canonical::<$type>(Bytes::from([head, tail].concat()));
                }
            }

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(1000))]

                #[test]
                fn noise_is_canonical_or_refused(noise in noise()) {
                    canonical::<$type>(Bytes::from([&[WIRE_VERSION], &noise[..]].concat()));
                }
            }
        }
    )*};
}

/// A difference means another wire format or another error, or the generators of the values have changed.
#[test]
fn encodings_and_errors_are_those_of_this_version() {
    let expected: Vec<(&str, String)> =
        FINGERPRINTS.iter().map(|(name, digest)| (*name, (*digest).to_owned())).collect();
    assert_eq!(fingerprints(), expected);
}

const FINGERPRINTS: &[(&str, &str)] = &[
    ("replica_id", "8d7de06dfd6dfed5"),
    ("client_id", "4869d099a2bc8adf"),
    ("view", "24ad975a79309fd9"),
    ("height", "24ad975a79309fd9"),
    ("digest", "7cd9fd9309605df3"),
    ("domain", "5264c64d2c9c0e7f"),
    ("subject", "94c9313531cf776e"),
    ("signers", "6db43ac129dbc365"),
    ("attachment", "603746e1096cd31b"),
    ("certificate", "e99cc8b62ea0c801"),
    ("vote", "5b2e9ba04906b091"),
    ("block", "569c4404b9f822d9"),
    ("covered_block", "204e7be6e1fcba86"),
    ("bundle", "d9ea54ee234d0cba"),
    ("results", "d095efbbfaa6fb0b"),
    ("request", "10934275c1a78da8"),
    ("reply", "48dc77d05edd7ef3"),
    ("authenticated", "4b1775f609e80c77"),
    ("optional", "a555194f90e0edb8"),
    ("shared", "569c4404b9f822d9"),
];

wire_types! {
    replica_id: ReplicaId = any::<u16>().prop_map(ReplicaId);
    client_id: ClientId = crate::common::client();
    view: View = crate::common::view();
    height: Height = crate::common::height();
    digest: Digest = crate::common::digest();
    domain: Domain = crate::common::domain();
    subject: Subject = crate::common::subject();
    signers: Signers = crate::common::signers();
    attachment: Attachment = crate::common::attachment();
    certificate: Certificate = crate::common::certificate();
    vote: Vote = crate::common::vote();
    block: Block = crate::common::block();
    covered_block: Block = crate::common::covered_block();
    bundle: Bundle = crate::common::bundle();
    results: Results = crate::common::results();
    request: ClientRequest = crate::common::request();
    reply: ReplicaReply = crate::common::reply();
    authenticated: AuthenticatedReplies = crate::common::authenticated();
    optional: Option<Vote> = crate::common::optional_vote();
    shared: Arc<Block> = crate::common::block().prop_map(Arc::new);
}

#[test]
fn a_message_of_another_version_is_refused() {
    let message = encode_message(&View(7));
    for version in (0..=255).filter(|version| *version != WIRE_VERSION) {
        let other = Bytes::from([&[version], &message[1..]].concat());
        let error = decode_message::<View>(other).expect_err("the version is unknown");
        assert_eq!(
            error.to_string(),
            "cannot decode wire version at byte 0: the peer uses another version of the wire format"
        );
    }
}

#[test]
fn errors_name_the_field_and_the_byte() {
    let error = decode_message::<Subject>(Bytes::from_static(&[WIRE_VERSION, 200])).expect_err("the domain is unknown");
    assert_eq!(error.to_string(), "cannot decode domain at byte 2: no such domain");
    let error =
        decode_message::<Subject>(Bytes::from_static(&[WIRE_VERSION, 1, 0, 0])).expect_err("the message is too short");
    assert_eq!(error.to_string(), "cannot decode View at byte 2: 8 bytes are needed and 2 are left");
}

#[test]
fn byte_strings_are_slices_of_the_message() {
    let bundle = {
        let mut builder = BundleBuilder::new(ClientId(1), Height(0).latest_expiry());
        builder.push(ClientId(1), 1, &[7; 1000]);
        builder.finish()
    };
    let message = encode_message(&bundle);
    let decoded: Bundle = decode_message(message.clone()).expect("the message decodes");
    let (outer, inner) = (message.as_ptr_range(), decoded.body().as_ptr_range());
    assert!(outer.start <= inner.start && inner.end <= outer.end, "the body was copied");
}

#[test]
fn there_is_one_attachment_for_each_signer_and_no_nesting() {
    let subject = Subject { domain: Domain::Timeout, view: View(3), height: Height(2), digest: Digest::ZERO };
    let certificate = |signers: &[u16], attachments: Vec<Attachment>| Certificate {
        subject,
        signers: signers.iter().copied().map(ReplicaId).collect(),
        attachments,
        proof: Bytes::new(),
    };
    let reason = |certificate: &Certificate| match decode_message::<Certificate>(encode_message(certificate)) {
        Ok(_) => panic!("{certificate:?} decodes"),
        Err(error) => error.to_string(),
    };
    let high = || Attachment::HighView(View(1));
    assert!(reason(&certificate(&[1, 2], vec![high()])).contains("neither zero nor that of the signers"));
    assert!(reason(&certificate(&[], vec![high()])).contains("neither zero nor that of the signers"));
    assert!(reason(&certificate(&[1, 2], vec![high(), Attachment::None])).contains("ambiguous"));
    let inner = certificate(&[1], vec![high()]);
    let nested = certificate(&[1], vec![Attachment::HighCertificate(Box::new(inner))]);
    assert!(reason(&nested).contains("carries no attachments"));
    let flat = certificate(&[1], vec![Attachment::HighCertificate(Box::new(certificate(&[1], Vec::new())))]);
    assert_eq!(decode_message(encode_message(&flat)), Ok(flat));
}
