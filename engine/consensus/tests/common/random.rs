//! Random numbers from a seed (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).

use std::time::Duration;

/// Stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "the limit is positive");
        self.next() % limit
    }

    /// Returns true with the given probability in thousandths.
    pub fn per_mille(&mut self, chance: u64) -> bool {
        chance > 0 && self.below(1000) < chance
    }

    /// Returns a duration below `limit`.
    pub fn time_below(&mut self, limit: Duration) -> Duration {
        match limit.as_nanos() as u64 {
            0 => Duration::ZERO,
            nanos => Duration::from_nanos(self.below(nanos)),
        }
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}
