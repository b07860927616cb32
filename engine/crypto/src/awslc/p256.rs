//! ECDSA over P-256 with SHA-256, deterministic nonces (RFC 6979), and low s.

use super::{Number, Owned, ffi, forget_errors, sha256, write};
use crate::rfc6979::Nonces;
use std::ptr::{null, null_mut};
use zeroize::Zeroizing;

/// Length of a scalar and of a coordinate, in bytes.
const SCALAR_BYTES: usize = 32;
const PUBLIC_KEY_BYTES: usize = 1 + SCALAR_BYTES;
const SIGNATURE_BYTES: usize = 2 * SCALAR_BYTES;

/// Order of the group (FIPS 186-5).
pub(crate) const ORDER: [u8; SCALAR_BYTES] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa,
    0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];
/// Half of the order, rounded down: the greatest accepted s.
const HALF_ORDER: [u8; SCALAR_BYTES] = [
    0x7f, 0xff, 0xff, 0xff, 0x80, 0x00, 0x00, 0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xde, 0x73, 0x7d,
    0x56, 0xd3, 0x8b, 0xcf, 0x42, 0x79, 0xdc, 0xe5, 0x61, 0x7e, 0x31, 0x92, 0xa8,
];

/// A key object that no function changes after its creation.
struct Key(Owned<ffi::EC_KEY>);

// SAFETY: AWS-LC allows several threads to use one key with functions that do not change it, and only those are called
// after creation.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Key {
    fn new() -> Key {
        // SAFETY: the new key is owned here.
        Key(unsafe {
            Owned::new(ffi::EC_KEY_new_by_curve_name(ffi::NID_X9_62_prime256v1), ffi::EC_KEY_free)
                .expect("memory for a key")
        })
    }

    fn get(&self) -> *mut ffi::EC_KEY {
        self.0.get()
    }

    fn group(&self) -> *const ffi::EC_GROUP {
        // SAFETY: the key is valid.
        unsafe { ffi::EC_KEY_get0_group(self.get()) }
    }

    fn point(&self) -> Owned<ffi::EC_POINT> {
        // SAFETY: the group is the key's; the new point is owned here.
        unsafe { Owned::new(ffi::EC_POINT_new(self.group()), ffi::EC_POINT_free) }.expect("memory for a point")
    }
}

pub(crate) struct P256Public(Key);

impl P256Public {
    /// Decodes a compressed point; `None` if it is not on the curve, or is the identity.
    pub(crate) fn decode(encoded: &[u8]) -> Option<P256Public> {
        if encoded.len() != PUBLIC_KEY_BYTES || !matches!(encoded[0], 2 | 3) {
            return None;
        }
        let key = Key::new();
        let point = key.point();
        // SAFETY: group, point and key are valid, and pointer and length belong to a slice.
        let sound = unsafe {
            ffi::EC_POINT_oct2point(key.group(), point.get(), encoded.as_ptr(), encoded.len(), null_mut()) == 1
                && ffi::EC_KEY_set_public_key(key.get(), point.get()) == 1
        };
        if !sound {
            forget_errors();
        }
        sound.then_some(P256Public(key))
    }

    /// Verifies r and s, 32 bytes each. A high s is refused, because it would be a second form of a signature.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        if signature.len() != SIGNATURE_BYTES || signature[SCALAR_BYTES..] > HALF_ORDER[..] {
            return false;
        }
        let (r, s) = signature.split_at(SCALAR_BYTES);
        // SAFETY: the new object is owned here.
        let pair = unsafe { Owned::new(ffi::ECDSA_SIG_new(), ffi::ECDSA_SIG_free) }.expect("memory for a signature");
        let (r, s) = (Number::read(r).0.release(), Number::read(s).0.release());
        let digest = sha256(message);
        // SAFETY: all objects are valid; `pair` takes the numbers, and fails for null pointers only.
        let valid = unsafe {
            assert_eq!(ffi::ECDSA_SIG_set0(pair.get(), r, s), 1, "numbers that are not null are taken");
            ffi::ECDSA_do_verify(digest.as_ptr(), digest.len(), pair.get(), self.0.get()) == 1
        };
        if !valid {
            forget_errors();
        }
        valid
    }
}

/// A private key.
pub(crate) struct P256Secret {
    key: Key,
    scalar: Box<Zeroizing<[u8; SCALAR_BYTES]>>,
    public_key: [u8; PUBLIC_KEY_BYTES],
}

impl P256Secret {
    /// Takes a scalar; `None` if it is zero or not below the order.
    pub(crate) fn decode(scalar: &[u8]) -> Option<P256Secret> {
        let scalar = Box::new(Zeroizing::new(<[u8; SCALAR_BYTES]>::try_from(scalar).ok()?));
        if scalar[..] >= ORDER[..] || scalar.iter().all(|byte| *byte == 0) {
            return None;
        }
        let (key, number) = (Key::new(), Number::read(&scalar[..]));
        let point = key.point();
        let mut public_key = [0; PUBLIC_KEY_BYTES];
        let form = ffi::point_conversion_form_t::POINT_CONVERSION_COMPRESSED;
        // SAFETY: group, point, number and key are valid, and the length is the array's.
        let sound = unsafe {
            ffi::EC_POINT_mul(key.group(), point.get(), number.get(), null(), null(), null_mut()) == 1
                && ffi::EC_KEY_set_private_key(key.get(), number.get()) == 1
                && ffi::EC_KEY_set_public_key(key.get(), point.get()) == 1
                && ffi::EC_POINT_point2oct(
                    key.group(),
                    point.get(),
                    form,
                    public_key.as_mut_ptr(),
                    PUBLIC_KEY_BYTES,
                    null_mut(),
                ) == PUBLIC_KEY_BYTES
        };
        assert!(sound, "a scalar within the order is a private key");
        Some(P256Secret { key, scalar, public_key })
    }

    pub(crate) fn scalar(&self) -> &[u8] {
        &self.scalar[..]
    }

    pub(crate) fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Signs with the nonces of RFC 6979. The function's long name warns of known or repeated nonces, which these are
    /// not; its arithmetic is the same as the ordinary function's, in constant time.
    pub(crate) fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let digest = sha256(message);
        let mut nonces = Nonces::new(&self.scalar, &digest, &ORDER);
        loop {
            let nonce = nonces.next();
            // SAFETY: the key is valid, and pointers and lengths belong to arrays; the new object is owned here.
            let pair = unsafe {
                let signed = ffi::ECDSA_sign_with_nonce_and_leak_private_key_for_testing(
                    digest.as_ptr(),
                    digest.len(),
                    self.key.get(),
                    nonce.as_ptr(),
                    nonce.len(),
                );
                Owned::new(signed, ffi::ECDSA_SIG_free)
            };
            // Fails only if r or s is zero; then RFC 6979 continues with the next nonce.
            let Some(pair) = pair else { continue };
            let mut signature = [0; SIGNATURE_BYTES];
            let (r, s) = signature.split_at_mut(SCALAR_BYTES);
            // SAFETY: the pair's numbers live as long as the pair.
            let written =
                unsafe { write(ffi::ECDSA_SIG_get0_r(pair.get()), r) && write(ffi::ECDSA_SIG_get0_s(pair.get()), s) };
            assert!(written, "r and s are below the order");
            if s[..] > HALF_ORDER[..] {
                negate(s);
            }
            return signature;
        }
    }
}

/// Replaces a nonzero number by the order minus the number.
fn negate(number: &mut [u8]) {
    let mut borrow = 0;
    for (byte, order) in number.iter_mut().zip(ORDER).rev() {
        let difference = i16::from(order) - i16::from(*byte) - borrow;
        borrow = i16::from(difference < 0);
        *byte = difference.rem_euclid(256) as u8;
    }
}
