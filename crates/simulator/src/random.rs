//! Random numbers out of one seed, the same on every machine.
//!
//! Each purpose and each sender has a stream of its own, so that a draw more in one place moves nothing in another. Only integer
//! arithmetic, the four operations and square roots of IEEE 754, and `libm`, which is plain Rust, enter a number.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// What a stream is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// What links do to packets; one stream for each sender.
    Links = 1,
    /// What goes wrong, and when.
    Faults = 2,
    /// The salts of the replicas' hash tables.
    Salts = 3,
    /// The replicas' keys.
    Keys = 4,
    /// How far replicas are from each other, under chaos.
    Distances = 5,
    /// What makes each handshake of a transport its own.
    Nonces = 6,
}

/// A stream of numbers.
pub struct Random {
    stream: ChaCha8Rng,
    /// The second of a pair of normal numbers.
    spare: Option<f64>,
}

impl Random {
    /// The stream of a seed for a purpose; `number` tells apart several of one purpose.
    pub fn new(seed: u64, purpose: Purpose, number: u64) -> Random {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
        key[16..24].copy_from_slice(&number.to_le_bytes());
        Random { stream: ChaCha8Rng::from_seed(key), spare: None }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// A number below `limit`, which is not 0; the bias is below `limit` / 2^64.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below zero");
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with that probability; draws nothing where the answer is certain.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && (probability >= 1.0 || self.unit() < probability)
    }

    /// A time below `limit`; draws nothing where that is none.
    pub fn time_below(&mut self, limit: Duration) -> Duration {
        match u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX) {
            0 => Duration::ZERO,
            nanos => Duration::from_nanos(self.below(nanos)),
        }
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// A number of the standard normal distribution (Marsaglia's polar method, 1964).
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
