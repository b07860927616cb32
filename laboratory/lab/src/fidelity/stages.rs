//! Differences between the stages of simulated and real replicas.

use crate::result::BenchResult;
use comfy_table::{CellAlignment, Table, presets};
use quorate_types::stages::{MessageKind, Stage, StageCost, StageRole};
use serde::Serialize;
use std::collections::BTreeMap;

const NS_PER_US: f64 = 1e3;
const PERCENT: f64 = 100.0;
/// Maximum number of lines of the table.
const SHOWN: usize = 12;

/// A stage of a kind of message, measured and simulated.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StageGap {
    pub role: StageRole,
    pub message: MessageKind,
    pub stage: Stage,
    /// Microseconds per executed command, over all replicas.
    pub measured_us: f64,
    pub simulated_us: f64,
    /// The same in percent of all stages of the measured replicas.
    pub measured_percent: f64,
    pub simulated_percent: f64,
}

impl StageGap {
    /// Returns the simulator's overcharge in percent; negative if it charges too little.
    pub fn percent(&self) -> f64 {
        self.simulated_percent - self.measured_percent
    }
}

type Key = (StageRole, MessageKind, Stage);

fn us_per_command(result: &BenchResult) -> BTreeMap<Key, f64> {
    let mut sums: BTreeMap<Key, f64> = BTreeMap::new();
    for StageCost { role, message, stage, nanoseconds, count, .. } in &result.stages {
        let us = nanoseconds.unwrap_or(0.0) * *count as f64 / NS_PER_US / result.executed_commands.max(1) as f64;
        *sums.entry((*role, *message, *stage)).or_default() += us;
    }
    sums
}

/// Compares two runs of a specification, the largest difference first.
pub fn gaps(measured: &BenchResult, simulated: &BenchResult) -> Vec<StageGap> {
    let [measured, simulated] = [measured, simulated].map(us_per_command);
    let whole: f64 = measured.values().sum();
    let percent = |us: f64| us / whole.max(f64::MIN_POSITIVE) * PERCENT;
    let keys: BTreeMap<Key, ()> = measured.keys().chain(simulated.keys()).map(|key| (*key, ())).collect();
    let gap = |key: Key| {
        let [measured_us, simulated_us] = [&measured, &simulated].map(|sums| sums.get(&key).copied().unwrap_or(0.0));
        let [measured_percent, simulated_percent] = [measured_us, simulated_us].map(percent);
        let (role, message, stage) = key;
        StageGap { role, message, stage, measured_us, simulated_us, measured_percent, simulated_percent }
    };
    sorted(keys.into_keys().map(gap).collect())
}

fn sorted(mut gaps: Vec<StageGap>) -> Vec<StageGap> {
    gaps.sort_by(|one, other| other.percent().abs().total_cmp(&one.percent().abs()));
    gaps
}

/// Returns the means over specifications, all of which have equal weight.
fn means<'a>(cells: impl Iterator<Item = &'a [StageGap]>) -> Vec<StageGap> {
    let mut sums: BTreeMap<Key, StageGap> = BTreeMap::new();
    let mut compared = 0u32;
    for gaps in cells {
        compared += 1;
        for gap in gaps {
            let nothing = StageGap {
                measured_us: 0.0,
                simulated_us: 0.0,
                measured_percent: 0.0,
                simulated_percent: 0.0,
                ..gap.clone()
            };
            let sum = sums.entry((gap.role, gap.message, gap.stage)).or_insert(nothing);
            sum.measured_us += gap.measured_us;
            sum.simulated_us += gap.simulated_us;
            sum.measured_percent += gap.measured_percent;
            sum.simulated_percent += gap.simulated_percent;
        }
    }
    let by = f64::from(compared.max(1));
    let mean = |gap: StageGap| StageGap {
        measured_us: gap.measured_us / by,
        simulated_us: gap.simulated_us / by,
        measured_percent: gap.measured_percent / by,
        simulated_percent: gap.simulated_percent / by,
        ..gap
    };
    sorted(sums.into_values().map(mean).collect())
}

/// Returns a table of the largest differences over all specifications; empty if there are none.
pub(super) fn table<'a>(cells: impl Iterator<Item = &'a [StageGap]>) -> String {
    let means = means(cells.filter(|gaps| !gaps.is_empty()));
    if means.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["role", "message", "stage", "measured %", "simulated %", "difference"]);
    for gap in means.iter().take(SHOWN) {
        let names = [gap.role.name(), gap.message.name(), gap.stage.name()].map(str::to_owned);
        let numbers = [gap.measured_percent, gap.simulated_percent].map(|percent| format!("{percent:.1}"));
        table.add_row(names.into_iter().chain(numbers).chain([format!("{:+.1}", gap.percent())]));
    }
    table.column_iter_mut().skip(3).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let measured: f64 = means.iter().map(|gap| gap.measured_percent).sum();
    let simulated: f64 = means.iter().map(|gap| gap.simulated_percent).sum();
    format!(
        "stages of the replicas' work, in percent of what was measured, the largest differences first\n{table}\n\
         all stages: measured {measured:.0}, simulated {simulated:.0}\n"
    )
}
