//! Names, units and meanings of the figures and series that rows may have.
//!
//! This module knows no figure. The program that runs the cells declares the figures, with the way to derive each from
//! a run, and passes their descriptions as a [`Vocabulary`].

/// Name suffixes that only repeat the unit.
const UNIT_SUFFIXES: &[&str] = &["_mbit_per_s", "_per_s", "_ms", "_us", "_percent", "_mb", "_s", "_bytes", "_cycles"];
/// Names of latencies without the unit.
const LATENCIES: &[&str] = &["mean", "p50", "p90", "p99", "p999", "max"];

/// Returns the label of a figure or series, without its unit.
pub fn label(name: &str) -> String {
    let unit = UNIT_SUFFIXES.iter().find(|suffix| name.ends_with(**suffix));
    let bare = unit.map_or(name, |suffix| &name[..name.len() - suffix.len()]);
    match LATENCIES.contains(&bare) {
        true => format!("{bare} latency"),
        false => bare.replace("_us_per_", "_per_").replace("cpu_", "CPU_").replace('_', " "),
    }
}

/// Method that combines the figures of repeated runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fold {
    /// Arithmetic mean, with its confidence interval.
    #[default]
    Mean,
    /// Share pooled over all runs, with its exact interval. The named figure counts the whole.
    ShareOf(&'static str),
}

/// Description of a figure of a row, or of a series with one value per second. A name ends with its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    pub name: &'static str,
    pub unit: &'static str,
    pub about: &'static str,
    pub fold: Fold,
    /// Whether it may be negative.
    pub signed: bool,
    /// Whether it is a count, shown without decimals.
    pub whole: bool,
}

impl Figure {
    /// Describes a figure that is averaged and never negative.
    pub const fn new(name: &'static str, unit: &'static str, about: &'static str) -> Figure {
        Figure { name, unit, about, fold: Fold::Mean, signed: false, whole: false }
    }
}

/// All figures and series that rows may have, in the order of tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vocabulary {
    pub figures: &'static [Figure],
    pub series: &'static [Figure],
}

impl Vocabulary {
    /// Returns the figure with a name.
    pub fn figure(&self, name: &str) -> Option<&'static Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Returns the names of all figures.
    pub fn figure_names(&self) -> Vec<&'static str> {
        self.figures.iter().map(|figure| figure.name).collect()
    }

    /// Returns the names of all series.
    pub fn series_names(&self) -> Vec<&'static str> {
        self.series.iter().map(|series| series.name).collect()
    }

    /// Returns the figure that counts the whole of a share; `None` if the named figure is not a share.
    pub fn count_of(&self, name: &str) -> Option<&'static str> {
        match self.figure(name)?.fold {
            Fold::ShareOf(count) => Some(count),
            Fold::Mean => None,
        }
    }
}
