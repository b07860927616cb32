//! `quorate plan fpga`: builds the question from flags.

use super::amounts::Amounts;
use crate::spec::{Rate, choice};
use clap::Args;
use quorate_simulator::models::plan::fpga::Least;
use quorate_simulator::models::plan::load::HEADER_BYTES;
use quorate_simulator::models::plan::{FpgaPlan, FpgaQuestion, Framing, Load, Profile, Stage, Tables};
use quorate_types::{Fault, choice};
use serde::{Deserialize, Serialize};

choice!(
    /// Core that computes MACs.
    MacCore, "MAC",
    /// CMAC with AES-256, as in the paper.
    Cmac = "aes-256-cmac",
    /// HMAC with SHA-256.
    Hmac = "hmac-sha256",
);

impl MacCore {
    fn core(self) -> &'static str {
        match self {
            MacCore::Cmac => "aes256-cmac-vitis",
            MacCore::Hmac => "hmac-sha256-vitis",
        }
    }
}

/// Planned load and hardware.
#[derive(Args, Clone, Debug)]
pub struct FpgaOptions {
    /// Rate of the leader's link in bits per second, in each direction, with K, M, G or T.
    #[arg(long, value_name = "BITS_PER_S", default_value = "10G", allow_hyphen_values = true)]
    pub line_rate: Rate,
    /// Numbers of replicas: a list, or an inclusive range.
    #[arg(long, value_name = "N,N|A..B", default_value = "15", allow_hyphen_values = true)]
    pub replicas: Amounts,
    /// Sizes of values in bytes: a list, or an inclusive range.
    #[arg(long, value_name = "BYTES,BYTES|A..B/STEP", default_value = "512", allow_hyphen_values = true)]
    pub value: Amounts,
    /// Requests in a batch.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch: u32,
    /// Authentication of messages; clients sign in all profiles.
    #[arg(long, default_value = "domain", value_parser = choice::<Profile>())]
    pub profile: Profile,
    /// Signatures of clients and replicas: rsa-2048, ed25519 or bls.
    #[arg(long, value_name = "SCHEME", default_value = "rsa-2048")]
    pub scheme: String,
    /// MACs on messages.
    #[arg(long, alias = "code", default_value = "aes-256-cmac", value_parser = choice::<MacCore>())]
    pub mac: MacCore,
    /// Core for SHA-256: sha256-secworks, sha256-vitis or sha256-design-gateway.
    #[arg(long, value_name = "CORE", default_value = "sha256-secworks")]
    pub hash_core: String,
    /// Device: xc7vx690t, vu9p, u250 or u55c.
    #[arg(long, value_name = "NAME", default_value = "xc7vx690t")]
    pub device: String,
    /// Maximum utilization of the device, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, allow_hyphen_values = true)]
    pub fill_percent: f64,
    /// Upper limit of every core's clock, in MHz [default: as published].
    #[arg(long, value_name = "MHZ", allow_hyphen_values = true)]
    pub clock_mhz: Option<f64>,
    /// Factor on the resources of modules without published figures, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, allow_hyphen_values = true)]
    pub allowance_percent: f64,
    /// Size of a message's header with its authentication, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = HEADER_BYTES)]
    pub header_bytes: u32,
    /// Overhead on the link besides messages: none, as in the paper, or full Ethernet packets with TCP/IP.
    #[arg(long, default_value = "none", value_parser = choice::<Framing>())]
    pub framing: Framing,
    /// Operations from one signed checkpoint to the next [default: checkpoints are not signed].
    #[arg(long, value_name = "N")]
    pub checkpoint_interval: Option<u32>,
}

/// The plan, and the loads that fit on other devices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FpgaAnswer {
    #[serde(flatten)]
    pub plan: FpgaPlan,
    pub scheme: String,
    /// The other devices of the tables.
    pub other_devices: Vec<OtherDevice>,
}

/// The loads that fit on another device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OtherDevice {
    pub device: String,
    /// The smallest group for each size.
    pub least_replicas: Vec<Least>,
}

impl FpgaOptions {
    /// Builds the question.
    ///
    /// # Errors
    /// The invalid flag, with a remedy.
    pub fn question(&self) -> Result<FpgaQuestion, Fault> {
        let tables = Tables::shipped();
        let load = Load {
            replicas: 2,
            value_bytes: 0,
            batch: self.batch,
            header_bytes: self.header_bytes,
            framing: self.framing,
            profile: self.profile,
            checkpoint_interval: self.checkpoint_interval,
        };
        load.validate()?;
        let named = [(Stage::Macs, "--mac", self.mac.core()), (Stage::Hash, "--hash-core", self.hash_core.as_str())];
        let question = FpgaQuestion {
            line_rate_bits_per_s: self.line_rate.0,
            replicas: self.replicas.0.iter().map(|replicas| *replicas as usize).collect(),
            values: self.value.0.clone(),
            load,
            device: tables.device(&self.device)?.clone(),
            cores: FpgaQuestion::cores_for(&tables, &load, &self.scheme, &named)?,
            clock_limit_mhz: self.clock_mhz,
            fill_percent: self.fill_percent,
            allowance_percent: self.allowance_percent,
        };
        question.validate()?;
        Ok(question)
    }

    /// Computes the plan.
    ///
    /// # Errors
    /// As [`FpgaOptions::question`].
    pub fn answer(&self) -> Result<FpgaAnswer, Fault> {
        let question = self.question()?;
        let plan = question.plan()?;
        let others = Tables::shipped().devices.into_iter().filter(|device| device.name != self.device);
        let other = |device: quorate_simulator::models::plan::Device| {
            let name = device.name.clone();
            let question = FpgaQuestion { device, ..question.clone() };
            let least = question.values.iter().map(|value| question.least_replicas(*value));
            OtherDevice { device: name, least_replicas: least.collect() }
        };
        Ok(FpgaAnswer { plan, scheme: self.scheme.clone(), other_devices: others.map(other).collect() })
    }
}
