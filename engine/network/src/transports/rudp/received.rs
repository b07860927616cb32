//! Numbers of received packets.

use std::collections::VecDeque;

/// Maximum distance of an accepted number from the first missing one; packets beyond it are dropped.
const MAX_AHEAD: u64 = 1 << 16;
/// Maximum length of the selective-acknowledgement bitmap, in 64-bit words.
pub const MAX_WORDS: usize = 4;
/// Maximum number of ranges in one NACK.
const MAX_RANGES: usize = 32;

/// The numbers of received packets: all below `missing`, and some after it.
#[derive(Debug, Default)]
pub struct Received {
    missing: u64,
    latest: u64,
    /// Whether `missing + 1`, `missing + 2` and so on were received; the last entry is always true.
    later: VecDeque<bool>,
}

impl Received {
    /// Records a number. Returns whether it is new and not too far ahead.
    pub fn note(&mut self, number: u64) -> bool {
        if number < self.missing || number - self.missing > MAX_AHEAD {
            return false;
        }
        if number > self.missing {
            let at = (number - self.missing - 1) as usize;
            if at >= self.later.len() {
                self.later.resize(at + 1, false);
            }
            let is_new = !std::mem::replace(&mut self.later[at], true);
            if is_new {
                self.latest = number;
            }
            return is_new;
        }
        (self.missing, self.latest) = (number + 1, number);
        while let Some(came) = self.later.pop_front() {
            if !came {
                return true;
            }
            self.missing += 1;
        }
        true
    }

    /// Returns the first missing number.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the low 32 bits of the number received last.
    pub fn latest(&self) -> u32 {
        self.latest as u32
    }

    /// Returns whether a number was received before an earlier one.
    pub fn has_gap(&self) -> bool {
        !self.later.is_empty()
    }

    /// Returns the selective-acknowledgement bitmap: the received numbers after the first missing one. Empty if there
    /// are none.
    pub fn later(&self) -> impl Iterator<Item = u64> {
        let words = self.later.len().div_ceil(64).min(MAX_WORDS);
        (0..words).map(|word| {
            let bits = self.later.iter().skip(64 * word).take(64).enumerate();
            bits.fold(0, |bits, (at, came)| bits | u64::from(*came) << at)
        })
    }

    /// Returns the first missing ranges, as first numbers and lengths.
    pub fn ranges(&self) -> Vec<(u64, u16)> {
        if !self.has_gap() {
            return Vec::new();
        }
        let mut ranges = vec![(self.missing, 1)];
        for (at, _) in self.later.iter().enumerate().filter(|(_, came)| !**came) {
            let number = self.missing + 1 + at as u64;
            let (first, length) = ranges.last_mut().expect("the first missing number begins a range");
            if *first + u64::from(*length) == number && *length < u16::MAX {
                *length += 1;
            } else if ranges.len() < MAX_RANGES {
                ranges.push((number, 1));
            } else {
                break;
            }
        }
        ranges
    }
}
