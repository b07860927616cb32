//! Nonces of deterministic ECDSA (RFC 6979, section 3.2), for SHA-256 and 256-bit group orders.

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

const BYTES: usize = 32;
/// Block length of SHA-256, in bytes.
const BLOCK_BYTES: usize = 64;

type Secret = Zeroizing<[u8; BYTES]>;

/// A stream of nonces for one private key and one digest.
pub(crate) struct Nonces<'a> {
    order: &'a [u8; BYTES],
    key: Secret,
    value: Secret,
    /// Whether a nonce was taken and rejected.
    is_used: bool,
}

impl Nonces<'_> {
    /// `order` must have its highest bit set, so that digests and nonces have equally many bits, and are never shifted.
    pub(crate) fn new<'a>(secret: &[u8; BYTES], digest: &[u8; BYTES], order: &'a [u8; BYTES]) -> Nonces<'a> {
        assert!(order[0] >> 7 == 1, "the order has 256 bits");
        let digest = reduced(digest, order);
        let mut nonces =
            Nonces { order, key: Zeroizing::new([0; BYTES]), value: Zeroizing::new([1; BYTES]), is_used: false };
        for separator in [0, 1] {
            nonces.key = hmac(&nonces.key, &[&nonces.value[..], &[separator], secret, &digest]);
            nonces.value = hmac(&nonces.key, &[&nonces.value[..]]);
        }
        nonces
    }

    /// Returns the next nonce: nonzero and below the order.
    pub(crate) fn next(&mut self) -> Secret {
        loop {
            if self.is_used {
                self.key = hmac(&self.key, &[&self.value[..], &[0]]);
                self.value = hmac(&self.key, &[&self.value[..]]);
            }
            self.is_used = true;
            self.value = hmac(&self.key, &[&self.value[..]]);
            if self.value[..] < self.order[..] && self.value.iter().any(|byte| *byte != 0) {
                return self.value.clone();
            }
        }
    }
}

/// Subtracts the order once if the number is not below it. The result is below the order, since the order exceeds
/// 2^255.
fn reduced(number: &[u8; BYTES], order: &[u8; BYTES]) -> [u8; BYTES] {
    let mut result = *number;
    if number[..] < order[..] {
        return result;
    }
    let mut borrow = 0;
    for (byte, order) in result.iter_mut().zip(order).rev() {
        let difference = i16::from(*byte) - i16::from(*order) - borrow;
        borrow = i16::from(difference < 0);
        *byte = difference.rem_euclid(256) as u8;
    }
    result
}

fn hmac(key: &[u8; BYTES], parts: &[&[u8]]) -> Secret {
    let pad = |with: u8| {
        let mut block = Zeroizing::new([with; BLOCK_BYTES]);
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let mut inner = Sha256::new().chain_update(*pad(0x36));
    parts.iter().for_each(|part| inner.update(part));
    Zeroizing::new(Sha256::new().chain_update(*pad(0x5c)).chain_update(inner.finalize()).finalize().into())
}
