//! The pipeline paper's own software costs, as far as it prints them.
//!
//! It prints the cycles of a signature, 4.5 million, and two throughputs of the variant in which only clients sign, on
//! six cores with 15 replicas: 25 % of 80,000/s with 512 B and 60 % of 19,000/s with 4096 B. If these saturate all
//! cores, an operation takes 6 * 3.75e9 / 20,000 = 1.125 million cycles, or 1.974 million: 1.004 million plus 237 per
//! byte of the value. This covers everything except signing: receiving, parsing, hashing, verifying the client,
//! deciding, MACs, copying and sending. We assume that the fixed part grows with the leader's messages, and the part
//! per byte with the copies of the value.
//!
//! With signatures the result is an upper bound, because the paper does not print their verification cost. The bound is
//! 4,000/s with MACs between replicas where the paper measured 2,600/s, and 10,000/s against 6,500/s with an
//! accelerator, both 1.54 times as much; 1,176/s against "less than 800" and 4,000/s against 3,200/s with signatures on
//! everything.

use serde::Deserialize;

const SHIPPED: &str = include_str!("../../../data/paper.toml");

/// A measured saturation of the variant `domain`.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturation {
    pub value_bytes: u32,
    /// Theoretical maximum of operations per second.
    pub limit_per_s: f64,
    /// Fraction of the maximum that was reached.
    pub fraction: f64,
}

/// Figures of the paper.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperCosts {
    pub cores: u32,
    pub clock_ghz: f64,
    /// Cycles of an RSA-2048 signature.
    pub sign_cycles: f64,
    /// Ratio of RSA-2048 to RSA-1024.
    pub accelerated_sign_factor: f64,
    pub replicas: usize,
    /// Two measurements, by value size.
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

    /// Returns the cycles of a batch without signing: one part per message of the leader, and one per copy of a value.
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
