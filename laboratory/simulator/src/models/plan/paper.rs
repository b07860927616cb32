//! The pipeline paper's own costs of software, as far as it prints them.
//!
//! It prints the cycles of a signature, 4.5 million, and two throughputs of the variant that signs nothing but clients'
//! requests, on six cores with 15 replicas: 25 % of 80,000/s with 512 B and 60 % of 19,000/s with 4096 B. If these
//! saturate all cores, an operation takes 6 * 3.75e9 / 20,000 = 1.125 million cycles, and 1.974 million: 1.004 million
//! and 237 for each byte of the value. That is everything but signing: receiving, parsing, hashing, verifying the
//! client, deciding, codes, copying and sending. We take the fixed part to grow with the leader's messages, and the
//! part by value with its copies.
//!
//! With signatures on top the result is an upper bound: the paper does not print what verifying them costs. It is
//! 4,000/s with codes between replicas where the paper measured 2,600/s, and 10,000/s against 6,500/s with an
//! accelerator, both 1.54 times as much; 1,176/s against "less than 800" and 4,000/s against 3,200/s with signatures on
//! everything.

use serde::Deserialize;

/// The shipped figures.
const SHIPPED: &str = include_str!("../../../data/paper.toml");

/// A measured saturation of the variant `domain`.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturation {
    pub value_bytes: u32,
    /// Theoretical maximum of operations per second.
    pub limit_per_s: f64,
    /// Part of it that was reached.
    pub fraction: f64,
}

/// Figures of the paper.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperCosts {
    pub cores: u32,
    pub clock_ghz: f64,
    /// Of a signature with RSA-2048.
    pub sign_cycles: f64,
    /// RSA-2048 by RSA-1024.
    pub accelerated_sign_factor: f64,
    pub replicas: usize,
    /// Two, by size of the value.
    #[serde(rename = "saturation")]
    pub saturations: [Saturation; 2],
}

impl PaperCosts {
    pub fn shipped() -> PaperCosts {
        toml::from_str(SHIPPED).expect("a test reads the shipped figures")
    }

    /// Returns the cycles of a signature of a scheme; `None` if the paper has none.
    pub fn sign_cycles(&self, scheme: &str) -> Option<f64> {
        match scheme {
            "rsa-2048" => Some(self.sign_cycles),
            "rsa-1024" => Some(self.sign_cycles / self.accelerated_sign_factor),
            _ => None,
        }
    }

    /// Returns the cycles of an operation without signing, in the paper's own group.
    fn rest_there(&self, saturation: &Saturation) -> f64 {
        let rate = saturation.limit_per_s * saturation.fraction;
        f64::from(self.cores) * self.clock_ghz * 1e9 / rate
    }

    /// Returns the cycles of a batch without signing: a part for each message of the leader, and one for each copy of a
    /// value.
    pub fn rest_cycles(&self, replicas: usize, value_bytes: u32, batch: u32) -> f64 {
        let [small, large] = &self.saturations;
        let by_byte =
            (self.rest_there(large) - self.rest_there(small)) / f64::from(large.value_bytes - small.value_bytes);
        let fixed = self.rest_there(small) - by_byte * f64::from(small.value_bytes);
        let messages = |replicas: usize, batch: f64| 5.0 * (replicas - 1) as f64 + 2.0 * batch;
        let scale = messages(replicas, f64::from(batch)) / messages(self.replicas, 1.0);
        let copies = replicas as f64 / self.replicas as f64;
        fixed * scale + by_byte * copies * f64::from(value_bytes) * f64::from(batch)
    }
}
