//! Hash of a run: two runs with equal hashes had the same events at the same times.

/// Multiplier of the mixing step: 2^64 divided by the golden ratio, odd.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Folds one word into a hash. Not collision resistant, which is not needed here.
#[inline]
pub fn mix(sum: u64, word: u64) -> u64 {
    let product = u128::from(sum ^ word).wrapping_mul(u128::from(MULTIPLIER));
    (((product >> 64) as u64) ^ (product as u64)).rotate_left(23).wrapping_add(word)
}

/// Returns a hash of bytes, read as little-endian words.
pub fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(MULTIPLIER ^ bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}

/// Running hash of a run.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    sums: [u64; 2],
}

impl Default for Trace {
    fn default() -> Trace {
        Trace { sums: [1, 2] }
    }
}

impl Trace {
    #[inline]
    pub fn add(&mut self, time: u64, what: u64, content: u64) {
        self.sums[0] = mix(mix(self.sums[0], time), what);
        self.sums[1] = mix(self.sums[1] ^ self.sums[0], content);
    }

    /// Returns the hash as 32 hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}{:016x}", self.sums[0], self.sums[1])
    }
}
