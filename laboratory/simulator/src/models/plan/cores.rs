//! Tables of hardware cores and devices, each row with its source.
//!
//! The rows are in `data/fpga.toml`. A slice of a Virtex-7 has four look-up tables and eight flip-flops, and one of
//! UltraScale+ (a CLB) eight and sixteen. Resources are therefore counted in tables and flip-flops, and converted to
//! the minimum number of slices of the device that hold both.

use quorate_types::choice::nearest;
use quorate_types::{Fault, choice};
use serde::{Deserialize, Serialize};

const SHIPPED: &str = include_str!("../../../data/fpga.toml");

choice!(
    /// Stage of a replica in hardware.
    Stage, "stage",
    /// TCP/IP and its memory controller.
    Network = "network",
    /// The protocol itself, and the log.
    Decision = "decision",
    /// SHA-256 of received and sent data.
    Hash = "hash",
    /// MACs on messages, computed and verified.
    Macs = "macs",
    /// Verification of clients' signatures and, in the profile `pk`, of replicas' signatures.
    Verify = "verify",
    /// Signatures on votes or replies.
    Sign = "sign",
);

choice!(
    /// Reliability of a row's figures.
    Basis, "basis",
    /// The source prints all figures.
    Published = "published",
    /// The source prints the resources; the cycles follow from its code or its rate.
    Derived = "derived",
    /// The source prints the rate; the resources are an upper bound.
    Bound = "bound",
    /// No source prints the figures.
    Assumed = "assumed",
);

/// Row of the table of cores: resources, clock and cycles of one published circuit.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    pub name: String,
    pub stage: Stage,
    /// Signature scheme, for stages that have one.
    #[serde(default)]
    pub scheme: Option<String>,
    pub luts: f64,
    pub ffs: f64,
    pub dsps: f64,
    /// Blocks of 36 Kbit.
    pub brams: f64,
    pub clock_mhz: f64,
    /// Cycles per unit of the stage: a block of 64 B, a MAC, a signature, a message.
    pub cycles: f64,
    pub basis: Basis,
    /// Paper or data sheet, table, year.
    pub source: String,
    /// Uncertainties of the figures.
    #[serde(default)]
    pub note: Option<String>,
}

/// Row of the table of devices: an FPGA and its resources.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub name: String,
    pub about: String,
    pub slices: f64,
    pub luts_per_slice: f64,
    pub ffs_per_slice: f64,
    pub dsps: f64,
    /// Blocks of 36 Kbit.
    pub brams: f64,
    pub year: u32,
    pub source: String,
}

/// All cores and devices.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    #[serde(rename = "core")]
    pub cores: Vec<Core>,
    #[serde(rename = "device")]
    pub devices: Vec<Device>,
}

impl Core {
    /// Returns the units per second of one core, with an optional limit on its clock.
    pub fn units_per_s(&self, clock_limit_mhz: Option<f64>) -> f64 {
        let clock = clock_limit_mhz.map_or(self.clock_mhz, |limit| self.clock_mhz.min(limit));
        clock * 1e6 / self.cycles
    }
}

impl Device {
    /// Returns the slices that hold these look-up tables and flip-flops.
    pub fn slices_for(&self, luts: f64, ffs: f64) -> f64 {
        (luts / self.luts_per_slice).max(ffs / self.ffs_per_slice).ceil()
    }

    /// Returns the look-up tables of the whole device.
    pub fn luts(&self) -> f64 {
        self.slices * self.luts_per_slice
    }
}

impl Tables {
    pub fn shipped() -> Tables {
        toml::from_str(SHIPPED).expect("a test reads the shipped tables")
    }

    /// Returns a device by name.
    ///
    /// # Errors
    /// If there is none, with the available names.
    pub fn device(&self, name: &str) -> Result<&Device, Fault> {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name.as_str()).collect();
        self.devices
            .iter()
            .find(|device| device.name == name)
            .ok_or_else(|| unknown("--device", "device", name, &names))
    }

    /// Returns a core of a stage by name.
    ///
    /// # Errors
    /// If the stage has no such core, with the available names.
    pub fn core_named(&self, stage: Stage, flag: &str, name: &str) -> Result<&Core, Fault> {
        let cores: Vec<&Core> = self.cores.iter().filter(|core| core.stage == stage).collect();
        let names: Vec<&str> = cores.iter().map(|core| core.name.as_str()).collect();
        cores.iter().find(|core| core.name == name).copied().ok_or_else(|| unknown(flag, "core", name, &names))
    }

    /// Returns the first core of a stage, for a scheme if the stage has schemes.
    ///
    /// # Errors
    /// If there is no such core.
    pub fn core_for(&self, stage: Stage, scheme: &str) -> Result<&Core, Fault> {
        let fits = |core: &&Core| core.stage == stage && core.scheme.as_deref().is_none_or(|own| own == scheme);
        self.cores.iter().find(fits).ok_or_else(|| {
            let of_stage = self.cores.iter().filter(|core| core.stage == stage);
            let known: Vec<&str> = of_stage.filter_map(|core| core.scheme.as_deref()).collect();
            let what = format!("no core of the table does the stage `{stage}` with {scheme}");
            Fault::new("--scheme", what, format!("use one of {}, or another --profile", known.join(", ")))
        })
    }

    /// Returns the schemes with a core that verifies their signatures.
    pub fn schemes(&self) -> Vec<&str> {
        self.cores.iter().filter(|core| core.stage == Stage::Verify).filter_map(|core| core.scheme.as_deref()).collect()
    }
}

fn unknown(flag: &str, what: &str, name: &str, known: &[&str]) -> Fault {
    let hint = nearest(name, known).map_or(String::new(), |name| format!(" (did you mean `{name}`?)"));
    let known = known.join(", ");
    Fault::new(flag, format!("unknown {what} `{name}`"), format!("use one of {known}{hint}"))
}
