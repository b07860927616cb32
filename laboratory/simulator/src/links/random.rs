//! Random numbers from one seed, the same on every machine.
//!
//! Each purpose and each sender has a stream of its own, so that an extra draw in one place does not affect another.
//! All numbers come from integer arithmetic, basic IEEE 754 operations and `libm`, which is portable Rust.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Purpose of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Fate of packets; one stream per sender.
    Links = 1,
    Faults = 2,
    /// Salts of the replicas' hash tables.
    Salts = 3,
    /// Keys of the replicas.
    Keys = 4,
    /// Distances between replicas, under chaos.
    Distances = 5,
    /// Nonces of handshakes.
    Nonces = 6,
    /// Other work on the cores; one stream per core.
    Interruptions = 7,
    /// Packets of off-path senders.
    OffPath = 8,
}

/// Stream of random numbers.
pub struct Random {
    stream: ChaCha8Rng,
    /// Second number of the last normally distributed pair.
    spare: Option<f64>,
}

impl Random {
    /// Returns a stream for a purpose. `number` distinguishes several streams of one purpose.
    pub fn new(seed: u64, purpose: Purpose, number: u64) -> Random {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
        key[16..24].copy_from_slice(&number.to_le_bytes());
        Random { stream: ChaCha8Rng::from_seed(key), spare: None }
    }

    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// Draws a number below `limit`, which must not be 0. The bias is below `limit` / 2^64.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "the limit is 0");
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Draws a number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns true with a probability. Draws nothing if it is 0 or 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && (probability >= 1.0 || self.unit() < probability)
    }

    /// Draws a time below `limit`. Draws nothing if that is 0.
    pub fn time_below(&mut self, limit: Duration) -> Duration {
        match u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX) {
            0 => Duration::ZERO,
            nanos => Duration::from_nanos(self.below(nanos)),
        }
    }

    /// Draws one of `choices`.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Draws the time to the next of a series of independent events.
    pub fn time_to_next(&mut self, mean: Duration) -> Duration {
        let nanos = -libm::log(1.0 - self.unit()) * mean.as_nanos() as f64;
        Duration::from_nanos(nanos as u64)
    }

    /// Draws from the standard normal distribution (Marsaglia's polar method, 1964).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = libm::sqrt(-2.0 * libm::log(square) / square);
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }
}
