//! Hashes of 64-bit words.

/// 2^64 divided by the golden ratio, odd.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a word into a hash. Not cryptographic: the inputs come from the scenario, not from an adversary.
#[inline]
pub fn mix(sum: u64, word: u64) -> u64 {
    let product = u128::from(sum ^ word.rotate_left(32)).wrapping_mul(u128::from(MULTIPLIER));
    ((product >> 64) as u64 ^ product as u64).rotate_left(23).wrapping_add(word)
}

/// Mixes several words into a hash.
#[inline]
pub fn mix_all<const N: usize>(sum: u64, words: [u64; N]) -> u64 {
    words.into_iter().fold(sum, mix)
}
