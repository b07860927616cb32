//! Hardware cores that a replica needs at line rate, and the remaining capacity of a device (pipeline paper, section
//! 6.2).
//!
//! At line rate L, the leader handles b = L / 8 / B batches per second, where B is the larger of the sent and the
//! received bytes per batch ([`Load`]). A stage with w units of work per batch needs ceil(b w / r) cores of r units per
//! second each. Any replica may lead, so each is sized as the leader. Resources add up; a design fits a device if its
//! slices, DSPs and memory blocks all do, up to a utilization limit.

use super::cores::{Basis, Core, Device, Stage, Tables};
use super::load::{BITS_PER_BYTE, Load, Work};
use super::positive;
use quorate_types::Fault;
use serde::{Deserialize, Serialize};

/// Capacity of one core of the stage `network`.
const NETWORK_CORE_BITS_PER_S: f64 = 10e9;
/// Maximum group size in the search for the smallest one that fits.
pub const MAX_TRIED_REPLICAS: usize = 100;
/// Maximum value size in the search for the smallest one that fits, in bytes.
pub const MAX_TRIED_VALUE_BYTES: u32 = 16_384;
/// Maximum rate of a link, in bits per second.
pub const MAX_LINE_RATE_BITS_PER_S: f64 = 1e15;
/// Tolerance for rounding errors: a smaller fraction of a core needs no core.
const ROUNDING: f64 = 1e-9;

/// Question to the planner.
#[derive(Clone, PartialEq, Debug)]
pub struct FpgaQuestion {
    pub line_rate_bits_per_s: f64,
    /// Numbers of replicas, each planned separately.
    pub replicas: Vec<usize>,
    /// Sizes of values in bytes.
    pub values: Vec<u32>,
    /// The rest of the load; its replicas and its value size are ignored.
    pub load: Load,
    pub device: Device,
    /// The core of each stage in the profile.
    pub cores: Vec<Core>,
    /// Upper limit of every core's clock, in MHz.
    pub clock_limit_mhz: Option<f64>,
    /// Maximum utilization of the device, in percent.
    pub fill_percent: f64,
    /// Factor on the resources of assumed cores, in percent.
    pub allowance_percent: f64,
}

/// Resources of a design.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Slices of the device.
    pub slices: f64,
    pub dsps: f64,
    /// Blocks of 36 Kbit.
    pub brams: f64,
}

/// A stage at line rate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StagePlan {
    pub stage: Stage,
    pub core: String,
    /// Units per second at line rate: blocks, MACs, signatures, messages, or 10 Gbit/s each.
    pub units_per_s: f64,
    pub units_per_s_and_core: f64,
    pub cores: f64,
    #[serde(flatten)]
    pub resources: Resources,
    pub basis: Basis,
}

/// Work and cores of a stage.
struct Size {
    units_per_s: f64,
    units_per_s_and_core: f64,
    cores: f64,
    resources: Resources,
}

/// Plan for one group and one value size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    pub replicas: usize,
    pub faults: usize,
    pub value_bytes: u32,
    pub batch: u32,
    /// Operations per second at the link's capacity.
    pub operations_per_s: f64,
    /// Values in the leader's PRE-PREPAREs relative to the link rate, in percent.
    pub goodput_percent: f64,
    /// Bytes sent by the leader per operation.
    pub bytes_out_per_operation: f64,
    pub stages: Vec<StagePlan>,
    /// Slices of the stages `verify` and `sign`.
    pub signature_slices: f64,
    pub total: Resources,
    /// Unused resources of the device; negative if the design does not fit.
    pub remaining: Resources,
    /// Utilization of the device, in percent.
    pub used_percent: Resources,
    pub fits: bool,
    /// The most utilized resource: `slices`, `dsps` or `brams`.
    pub limit: String,
}

/// The smallest group for a value size, or the smallest value size for a group, from which on all larger ones fit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Least {
    pub value_bytes: Option<u32>,
    pub replicas: Option<usize>,
}

/// Plan for all groups and sizes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FpgaPlan {
    pub line_rate_bits_per_s: f64,
    pub profile: String,
    pub device: Device,
    /// One point per group and size, ordered by group.
    pub points: Vec<Point>,
    /// The smallest group for each size; no `replicas` if none up to [`MAX_TRIED_REPLICAS`] fits.
    pub least_replicas: Vec<Least>,
    /// The smallest size for each group; no `value_bytes` if none up to [`MAX_TRIED_VALUE_BYTES`] fits.
    pub least_values: Vec<Least>,
    /// Sources of the cores.
    pub sources: Vec<Source>,
}

/// Source of a core's figures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Source {
    pub core: String,
    pub basis: Basis,
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl FpgaQuestion {
    /// Returns the stages of a load.
    pub fn stages(load: &Load) -> Vec<Stage> {
        let work = load.work();
        let has = |stage: &Stage| match stage {
            Stage::Macs => work.macs > 0.0,
            Stage::Sign => work.signatures > 0.0,
            _ => true,
        };
        Stage::ALL.iter().copied().filter(has).collect()
    }

    /// Refuses invalid questions.
    ///
    /// # Errors
    /// The invalid flag, with a remedy.
    pub fn validate(&self) -> Result<(), Fault> {
        let rate = positive("--line-rate", self.line_rate_bits_per_s, "bits per second")?;
        if rate > MAX_LINE_RATE_BITS_PER_S {
            let help = "use at most 1000T, 1e15 bits per second";
            return Err(Fault::new("--line-rate", format!("is {rate} bits per second"), help));
        }
        let percent = |flag: &str, value: f64, least: f64, most: f64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(Fault::new(flag, format!("is {value}"), format!("use {least} to {most} percent"))),
        };
        percent("--fill-percent", self.fill_percent, 1.0, 100.0)?;
        percent("--allowance-percent", self.allowance_percent, 0.0, 1000.0)?;
        if let Some(limit) = self.clock_limit_mhz {
            positive("--clock-mhz", limit, "MHz")?;
        }
        for (flag, is_empty) in [("--replicas", self.replicas.is_empty()), ("--value", self.values.is_empty())] {
            if is_empty {
                return Err(Fault::new(flag, "is empty", "give at least one number"));
            }
        }
        for replicas in &self.replicas {
            self.at(*replicas, 0).validate()?;
        }
        self.values.iter().try_for_each(|value| self.at(2, *value).validate())?;
        let missing = FpgaQuestion::stages(&self.load).into_iter().find(|stage| self.core(*stage).is_none());
        match missing {
            None => Ok(()),
            Some(stage) => {
                let stages = FpgaQuestion::stages(&self.load).len();
                let what = format!("{stages} stages, but {} cores: none does `{stage}`", self.cores.len());
                Err(Fault::new("--profile", what, "use another profile or scheme"))
            }
        }
    }

    fn core(&self, stage: Stage) -> Option<&Core> {
        self.cores.iter().find(|core| core.stage == stage)
    }

    fn at(&self, replicas: usize, value_bytes: u32) -> Load {
        Load { replicas, value_bytes, ..self.load }
    }

    /// Computes the plan.
    ///
    /// # Errors
    /// As [`FpgaQuestion::validate`].
    pub fn plan(&self) -> Result<FpgaPlan, Fault> {
        self.validate()?;
        let groups = self.replicas.iter();
        let points = groups.flat_map(|replicas| self.values.iter().map(|value| self.point(*replicas, *value)));
        let source = |core: &Core| Source {
            core: core.name.clone(),
            basis: core.basis,
            source: core.source.clone(),
            note: core.note.clone(),
        };
        Ok(FpgaPlan {
            line_rate_bits_per_s: self.line_rate_bits_per_s,
            profile: self.load.profile.name().to_owned(),
            device: self.device.clone(),
            points: points.collect(),
            least_replicas: self.values.iter().map(|value| self.least_replicas(*value)).collect(),
            least_values: self.replicas.iter().map(|replicas| self.least_value(*replicas)).collect(),
            sources: self.cores.iter().map(source).collect(),
        })
    }

    /// Computes the plan for a validated group and size.
    pub fn point(&self, replicas: usize, value_bytes: u32) -> Point {
        let load = self.at(replicas, value_bytes);
        let work = load.work();
        let batches = load.batches_per_s(self.line_rate_bits_per_s).expect("the line's rate was validated");
        let operations_per_s = batches * f64::from(load.batch);
        let stage = |stage: Stage| self.stage(stage, batches * work_of(&work, stage));
        let stages: Vec<StagePlan> = FpgaQuestion::stages(&load).into_iter().map(stage).collect();
        let total = stages.iter().fold(Resources::default(), |sum, own| sum.plus(own.resources));
        let capacity = self.capacity();
        let used = total.percent_of(capacity);
        let is_signature = |own: &&StagePlan| matches!(own.stage, Stage::Verify | Stage::Sign);
        let copies = (replicas - 1) as f64 * f64::from(value_bytes);
        let (limit, most) = used.largest();
        Point {
            replicas,
            faults: load.faults(),
            value_bytes,
            batch: load.batch,
            operations_per_s,
            goodput_percent: 100.0 * operations_per_s * copies * BITS_PER_BYTE / self.line_rate_bits_per_s,
            bytes_out_per_operation: work.bytes_out / f64::from(load.batch),
            signature_slices: stages.iter().filter(is_signature).map(|own| own.resources.slices).sum(),
            stages,
            total,
            remaining: capacity.minus(total),
            used_percent: used,
            fits: most <= self.fill_percent,
            limit: limit.to_owned(),
        }
    }

    fn stage(&self, stage: Stage, batch_units_per_s: f64) -> StagePlan {
        let core = self.core(stage).expect("each stage was found to have a core");
        let size = self.size(core, batch_units_per_s);
        StagePlan {
            stage,
            core: core.name.clone(),
            units_per_s: size.units_per_s,
            units_per_s_and_core: size.units_per_s_and_core,
            cores: size.cores,
            resources: size.resources,
            basis: core.basis,
        }
    }

    fn size(&self, core: &Core, batch_units_per_s: f64) -> Size {
        let is_network = core.stage == Stage::Network;
        let units_per_s = if is_network { self.line_rate_bits_per_s } else { batch_units_per_s };
        let units_per_s_and_core =
            if is_network { NETWORK_CORE_BITS_PER_S } else { core.units_per_s(self.clock_limit_mhz) };
        let cores = (units_per_s / units_per_s_and_core - ROUNDING).ceil().max(1.0);
        let factor = if core.basis == Basis::Assumed { self.allowance_percent / 100.0 } else { 1.0 };
        // No two cores share a slice.
        let slices = (self.device.slices_for(core.luts, core.ffs) * factor).ceil();
        let brams = (cores * core.brams * factor).ceil();
        let resources = Resources { slices: cores * slices, dsps: cores * core.dsps * factor, brams };
        Size { units_per_s, units_per_s_and_core, cores, resources }
    }

    /// Returns whether a validated group and size fit, like [`Point::fits`], but without computing the other figures.
    pub fn fits(&self, replicas: usize, value_bytes: u32) -> bool {
        let load = self.at(replicas, value_bytes);
        let work = load.work();
        let batches = load.batches_per_s(self.line_rate_bits_per_s).expect("the line's rate was validated");
        let needed = |core: &&Core| match core.stage {
            Stage::Macs => work.macs > 0.0,
            Stage::Sign => work.signatures > 0.0,
            _ => true,
        };
        let sizes = self.cores.iter().filter(needed).map(|core| self.size(core, batches * work_of(&work, core.stage)));
        let total = sizes.fold(Resources::default(), |sum, own| sum.plus(own.resources));
        total.percent_of(self.capacity()).largest().1 <= self.fill_percent
    }

    fn capacity(&self) -> Resources {
        Resources { slices: self.device.slices, dsps: self.device.dsps, brams: self.device.brams }
    }

    /// Returns the smallest group from which on all groups fit, with this value size.
    pub fn least_replicas(&self, value_bytes: u32) -> Least {
        let sizes = (2..=MAX_TRIED_REPLICAS).rev();
        let replicas = sizes.take_while(|replicas| self.fits(*replicas, value_bytes)).last();
        Least { value_bytes: Some(value_bytes), replicas }
    }

    /// Returns the smallest value size from which on all sizes fit, in this group.
    pub fn least_value(&self, replicas: usize) -> Least {
        let sizes = (0..=MAX_TRIED_VALUE_BYTES).rev();
        let value_bytes = sizes.take_while(|value| self.fits(replicas, *value)).last();
        Least { value_bytes, replicas: Some(replicas) }
    }
}

fn work_of(work: &Work, stage: Stage) -> f64 {
    match stage {
        Stage::Network => 0.0,
        Stage::Decision => work.messages_in + work.messages_out,
        Stage::Hash => work.hash_blocks,
        Stage::Macs => work.macs,
        Stage::Verify => work.verifications,
        Stage::Sign => work.signatures,
    }
}

impl FpgaQuestion {
    /// Returns the cores for a load: for each stage the named one, or else the first of the tables.
    ///
    /// # Errors
    /// If a stage has no core, or a named core is of another stage.
    pub fn cores_for(
        tables: &Tables,
        load: &Load,
        scheme: &str,
        named: &[(Stage, &str, &str)],
    ) -> Result<Vec<Core>, Fault> {
        let schemes = tables.schemes();
        if !schemes.contains(&scheme) {
            let what = format!("unknown scheme `{scheme}`");
            return Err(Fault::new("--scheme", what, format!("use one of {}", schemes.join(", "))));
        }
        let core = |stage: Stage| match named.iter().find(|(own, ..)| *own == stage) {
            Some((_, flag, name)) => tables.core_named(stage, flag, name).cloned(),
            None => tables.core_for(stage, scheme).cloned(),
        };
        FpgaQuestion::stages(load).into_iter().map(core).collect()
    }
}

impl Resources {
    fn plus(self, other: Resources) -> Resources {
        self.with(other, |a, b| a + b)
    }

    fn minus(self, other: Resources) -> Resources {
        self.with(other, |a, b| a - b)
    }

    fn percent_of(self, other: Resources) -> Resources {
        self.with(other, |a, b| 100.0 * a / b)
    }

    fn with(self, other: Resources, of: fn(f64, f64) -> f64) -> Resources {
        let Resources { slices, dsps, brams } = self;
        let (slices, dsps, brams) = (of(slices, other.slices), of(dsps, other.dsps), of(brams, other.brams));
        Resources { slices, dsps, brams }
    }

    /// Returns the largest of the values, with its name.
    pub fn largest(self) -> (&'static str, f64) {
        let all = [("slices", self.slices), ("dsps", self.dsps), ("brams", self.brams)];
        all.into_iter().fold(all[0], |most, own| if own.1 > most.1 { own } else { most })
    }
}
