//! RSA signatures of PKCS #1 version 1.5 with SHA-256, and RSA keys with the public exponent 65537.

use super::{Number, Owned, ffi, forget_errors, sha256, write};
use sha2::{Digest, Sha512};
use std::ptr::null_mut;
use zeroize::Zeroizing;

/// The public exponent of every key: the fourth Fermat prime.
const EXPONENT: u64 = 65_537;
const EXPONENT_BYTES: [u8; 3] = [1, 0, 1];
/// Maximum length of an encoded 2,048-bit private key, in bytes.
const MAX_ENCODED_BYTES: usize = 1_200;

/// A key object that no function changes after its creation, except for its own caches of Montgomery and blinding
/// values, which it guards with a lock.
struct Key(Owned<ffi::RSA>);

// SAFETY: AWS-LC allows several threads to sign and verify with one key.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Key {
    fn modulus(&self, out: &mut [u8]) -> bool {
        // SAFETY: the key is valid, and its modulus lives as long as it.
        unsafe { write(ffi::RSA_get0_n(self.0.get()), out) }
    }
}

pub(crate) struct RsaPublic {
    key: Key,
    bytes: usize,
}

impl RsaPublic {
    /// Decodes a modulus; `None` if it is even or its highest bit is zero.
    pub(crate) fn decode(modulus: &[u8]) -> Option<RsaPublic> {
        let (first, last) = (modulus.first()?, modulus.last()?);
        if first >> 7 == 0 || last & 1 == 0 {
            return None;
        }
        let (n, e) = (Number::read(modulus), Number::read(&EXPONENT_BYTES));
        // SAFETY: the numbers are valid, and are copied; the new key is owned here.
        let key = unsafe { Owned::new(ffi::RSA_new_public_key(n.get(), e.get()), ffi::RSA_free) };
        if key.is_none() {
            forget_errors();
        }
        Some(RsaPublic { key: Key(key?), bytes: modulus.len() })
    }

    /// Verifies a signature as long as the modulus. AWS-LC compares the whole padding, so a signature has one form.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        if signature.len() != self.bytes {
            return false;
        }
        let digest = sha256(message);
        // SAFETY: the key is valid, and pointers and lengths belong to slices.
        let valid = unsafe {
            ffi::RSA_verify(
                ffi::NID_sha256,
                digest.as_ptr(),
                digest.len(),
                signature.as_ptr(),
                signature.len(),
                self.key.0.get(),
            ) == 1
        };
        if !valid {
            forget_errors();
        }
        valid
    }
}

/// A private key.
pub(crate) struct RsaSecret {
    key: Key,
    bytes: usize,
}

impl RsaSecret {
    /// Decodes and checks an RSAPrivateKey structure of RFC 8017; `None` if it is not a key with a modulus of `bits`
    /// bits and the exponent 65537.
    pub(crate) fn decode(encoded: &[u8], bits: usize) -> Option<RsaSecret> {
        // SAFETY: pointer and length belong to a slice; the new key is owned here.
        let key =
            unsafe { Owned::new(ffi::RSA_private_key_from_bytes(encoded.as_ptr(), encoded.len()), ffi::RSA_free) };
        if key.is_none() {
            forget_errors();
        }
        RsaSecret::checked(Key(key?), bits)
    }

    fn checked(key: Key, bits: usize) -> Option<RsaSecret> {
        let mut exponent = [0; EXPONENT_BYTES.len()];
        // SAFETY: the key is valid, and its exponent lives as long as it.
        let sound = unsafe {
            ffi::RSA_bits(key.0.get()) as usize == bits
                && write(ffi::RSA_get0_e(key.0.get()), &mut exponent)
                && ffi::RSA_check_key(key.0.get()) == 1
        };
        forget_errors();
        (sound && exponent == EXPONENT_BYTES).then_some(RsaSecret { key, bytes: bits / 8 })
    }

    /// Derives a key with a modulus of `bits` bits from a seed: two primes with their two highest bits set, each the
    /// first suitable candidate of a stream. Only comparisons and divisions by small numbers take a time that depends
    /// on the primes.
    pub(crate) fn derive(seed: &[u8], bits: usize) -> RsaSecret {
        let arithmetic = Arithmetic::new();
        let mut candidates = Candidates::new(seed, bits);
        let first = arithmetic.prime(&mut candidates);
        let second = loop {
            let second = arithmetic.prime(&mut candidates);
            // SAFETY: both numbers are valid.
            if unsafe { ffi::BN_cmp(first.get(), second.get()) } != 0 {
                break second;
            }
        };
        // SAFETY: both numbers are valid.
        let is_descending = unsafe { ffi::BN_cmp(first.get(), second.get()) } > 0;
        let (p, q) = if is_descending { (first, second) } else { (second, first) };
        let (p_less, q_less) = (arithmetic.less_one(&p), arithmetic.less_one(&q));
        let (n, phi) = (arithmetic.product(&p, &q), arithmetic.product(&p_less, &q_less));
        let (d, d_p, d_q) = (arithmetic.private(&phi), arithmetic.private(&p_less), arithmetic.private(&q_less));
        let (inverse, e) = (arithmetic.inverse(&q, &p), Number::read(&EXPONENT_BYTES));
        // SAFETY: all numbers are valid, and are copied; the new key is owned here.
        let key = unsafe {
            let key = ffi::RSA_new_private_key(
                n.get(),
                e.get(),
                d.get(),
                p.get(),
                q.get(),
                d_p.get(),
                d_q.get(),
                inverse.get(),
            );
            Owned::new(key, ffi::RSA_free).expect("the numbers of a private key")
        };
        RsaSecret::checked(Key(key), bits).expect("the key is consistent")
    }

    pub(crate) fn modulus(&self) -> Vec<u8> {
        let mut modulus = vec![0; self.bytes];
        assert!(self.key.modulus(&mut modulus), "the modulus has the key's length");
        modulus
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let (digest, mut signature, mut written) = (sha256(message), vec![0; self.bytes], 0);
        // SAFETY: the key is valid, and the signature has as many bytes as its modulus.
        let signed = unsafe {
            ffi::RSA_sign(
                ffi::NID_sha256,
                digest.as_ptr(),
                digest.len(),
                signature.as_mut_ptr(),
                &raw mut written,
                self.key.0.get(),
            )
        };
        assert!(signed == 1 && written as usize == self.bytes, "a checked key signs every digest");
        signature
    }

    /// Encodes the RSAPrivateKey structure of RFC 8017.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let (mut bytes, mut length) = (null_mut(), 0);
        // SAFETY: the key is valid; the new bytes are owned here, and `OPENSSL_free` wipes and frees them.
        unsafe {
            let encoded = ffi::RSA_private_key_to_bytes(&raw mut bytes, &raw mut length, self.key.0.get());
            assert!(encoded == 1 && length <= MAX_ENCODED_BYTES, "a key can be encoded");
            let copy = Zeroizing::new(std::slice::from_raw_parts(bytes, length).to_vec());
            ffi::OPENSSL_free(bytes.cast());
            copy
        }
    }
}

/// A stream of odd numbers with their two highest bits set, derived by SHA-512 from a seed and a counter.
struct Candidates {
    start: Sha512,
    block: u64,
    bytes: usize,
}

impl Candidates {
    fn new(seed: &[u8], bits: usize) -> Candidates {
        let start = Sha512::new().chain_update(b"quorate RSA primes 1").chain_update((bits as u64).to_le_bytes());
        Candidates { start: start.chain_update(seed), block: 0, bytes: bits / 16 }
    }

    fn next(&mut self) -> Zeroizing<Vec<u8>> {
        let mut candidate = Zeroizing::new(Vec::with_capacity(self.bytes));
        while candidate.len() < self.bytes {
            let block = self.start.clone().chain_update(self.block.to_le_bytes()).finalize();
            let missing = self.bytes - candidate.len();
            candidate.extend_from_slice(&block[..missing.min(block.len())]);
            self.block += 1;
        }
        candidate[0] |= 0b1100_0000;
        candidate[self.bytes - 1] |= 1;
        candidate
    }
}

/// Big-number arithmetic. It fails only for lack of memory, and then panics.
struct Arithmetic(Owned<ffi::BN_CTX>);

impl Arithmetic {
    fn new() -> Arithmetic {
        // SAFETY: the new context is owned here.
        Arithmetic(unsafe { Owned::new(ffi::BN_CTX_new(), ffi::BN_CTX_free) }.expect("memory for a context"))
    }

    /// Returns the first candidate that is a prime p such that e and p - 1 are coprime.
    fn prime(&self, candidates: &mut Candidates) -> Number {
        loop {
            let candidate = Number::read(&candidates.next());
            let mut is_prime = 0;
            // SAFETY: the number and the context are valid.
            unsafe {
                if ffi::BN_mod_word(candidate.get(), EXPONENT) == 1 {
                    continue;
                }
                let checks = ffi::BN_prime_checks_for_generation;
                let done =
                    ffi::BN_primality_test(&raw mut is_prime, candidate.get(), checks, self.0.get(), 1, null_mut());
                assert_eq!(done, 1, "memory for a test");
            }
            if is_prime == 1 {
                return candidate;
            }
        }
    }

    fn less_one(&self, number: &Number) -> Number {
        let result = Number::zero();
        // SAFETY: the numbers are valid.
        let done =
            unsafe { !ffi::BN_copy(result.get(), number.get()).is_null() && ffi::BN_sub_word(result.get(), 1) == 1 };
        assert!(done, "memory for a number");
        result
    }

    fn product(&self, one: &Number, other: &Number) -> Number {
        let result = Number::zero();
        // SAFETY: the numbers and the context are valid.
        let done = unsafe { ffi::BN_mul(result.get(), one.get(), other.get(), self.0.get()) };
        assert_eq!(done, 1, "memory for a number");
        result
    }

    /// Returns the inverse of e modulo `modulus`, which is coprime to it: (1 + k modulus) / e for the k below e that
    /// makes the division exact.
    fn private(&self, modulus: &Number) -> Number {
        let result = Number::zero();
        // SAFETY: the numbers are valid.
        unsafe {
            let rest = ffi::BN_mod_word(modulus.get(), EXPONENT);
            let factor = EXPONENT - inverse_modulo_exponent(rest);
            let done = !ffi::BN_copy(result.get(), modulus.get()).is_null()
                && ffi::BN_mul_word(result.get(), factor) == 1
                && ffi::BN_add_word(result.get(), 1) == 1;
            assert!(done, "memory for a number");
            assert_eq!(ffi::BN_div_word(result.get(), EXPONENT), 0, "the division is exact");
        }
        result
    }

    /// Returns the inverse of `number` modulo a prime by Fermat's theorem.
    fn inverse(&self, number: &Number, prime: &Number) -> Number {
        let (result, exponent) = (Number::zero(), self.less_one(&self.less_one(prime)));
        // SAFETY: the numbers and contexts are valid; the new Montgomery context is owned here.
        let done = unsafe {
            let montgomery =
                Owned::new(ffi::BN_MONT_CTX_new_consttime(prime.get(), self.0.get()), ffi::BN_MONT_CTX_free);
            let montgomery = montgomery.expect("memory for a context");
            ffi::BN_mod_exp_mont_consttime(
                result.get(),
                number.get(),
                exponent.get(),
                prime.get(),
                self.0.get(),
                montgomery.get(),
            )
        };
        assert_eq!(done, 1, "memory for a number");
        result
    }
}

/// Inverse modulo the prime e by Fermat's theorem.
fn inverse_modulo_exponent(number: u64) -> u64 {
    let (mut result, mut power, mut exponent) = (1, number % EXPONENT, EXPONENT - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * power % EXPONENT;
        }
        power = power * power % EXPONENT;
        exponent >>= 1;
    }
    result
}
