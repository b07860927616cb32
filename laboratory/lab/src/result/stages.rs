//! Costs of the stages of the replicas' work, by message and role.

use super::growth::Growth;
use crate::record::{describe, record};
use comfy_table::{CellAlignment, Table, presets};
use quorate_types::stages::{MessageKind, Stage, StageCost, StageCounts, StageRole};
use quorate_types::text::count;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const PERCENT: f64 = 100.0;

record! {
    /// Timing method of the stages.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct StageClock {
        /// Cycle counter: `tsc`, `cntvct`, or `clock` in nanoseconds.
        pub counter: String,
        /// Cycles of the counter per second.
        pub counter_hz: f64 ["Hz"],
        /// Event-loop iterations of all replicas' threads in the measured time.
        pub turns: u64 ["iterations"],
        /// Timed iterations, without those whose times do not add up to the CPU time.
        pub timed_turns: u64 ["iterations"],
        /// Iterations timed but discarded, because the thread was preempted.
        pub disturbed_turns: u64 ["iterations"],
        /// CPU time of the timed iterations divided by the sum of their stages.
        pub cpu_by_stages: Option<f64>,
    }
}

impl StageClock {
    fn of(counts: &StageCounts) -> StageClock {
        let [turns, timed, disturbed] = counts.turns;
        let stages_ns = counts.timed_cycles() as f64 / counts.counter_hz * 1e9;
        StageClock {
            counter: counts.counter.clone(),
            counter_hz: counts.counter_hz,
            turns,
            timed_turns: timed.saturating_sub(disturbed),
            disturbed_turns: disturbed,
            cpu_by_stages: (stages_ns > 0.0).then(|| counts.timed_cpu_ns as f64 / stages_ns),
        }
    }

    /// Describes the unit of a cycle.
    pub(crate) fn describe(&self) -> String {
        describe(self, "of the counter {counter}, {counter_hz}, in {timed_turns}")
    }
}

/// Returns the costs of all replicas' stages and the timing method; `None` if they were not measured.
pub(crate) fn stages(growth: &Growth<'_>) -> Option<(Vec<StageCost>, StageClock)> {
    let counts = growth.stages()?;
    Some((counts.costs(), StageClock::of(&counts)))
}

/// Sums the cycles of one role by stage.
fn by_stage(costs: &[StageCost], role: StageRole) -> BTreeMap<Stage, f64> {
    let mut sums = BTreeMap::new();
    for cost in costs.iter().filter(|cost| cost.role == role) {
        *sums.entry(cost.stage).or_insert(0.0) += cost.cycles.unwrap_or(0.0) * cost.count as f64;
    }
    sums
}

/// Returns tables for a terminal: cycles per message, by message and stage, one table per role.
pub(crate) fn tables(costs: &[StageCost]) -> String {
    let mut text = String::new();
    for role in StageRole::ALL {
        let own: Vec<&StageCost> = costs.iter().filter(|cost| cost.role == role).collect();
        if !own.is_empty() {
            text.push_str(&format!("\n stages at the {}: cycles per message\n", role.name()));
            text.push_str(&table(&own, &by_stage(costs, role)));
        }
    }
    text
}

fn table(costs: &[&StageCost], sums: &BTreeMap<Stage, f64>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let head = ["", "messages"].into_iter().chain(Stage::ALL.map(Stage::name)).chain(["sum"]);
    table.add_row(head.collect::<Vec<_>>());
    for kind in MessageKind::ALL {
        let of_kind: Vec<&&StageCost> = costs.iter().filter(|cost| cost.message == kind).collect();
        // A sent frame counts once per recipient.
        let handled = of_kind.iter().filter(|cost| cost.stage != Stage::Send).map(|cost| cost.count).max();
        let Some(messages) = handled.or_else(|| of_kind.first().map(|cost| cost.count)) else { continue };
        let cycles = |stage| of_kind.iter().find(|cost| cost.stage == stage).map(|cost| cost.cycles);
        let shown = |stage| cycles(stage).map_or_else(String::new, |cycles| cycles.map_or("–".into(), whole));
        let sum: f64 = of_kind.iter().filter_map(|cost| cost.cycles).sum();
        let first = [kind.name().to_owned(), count(messages)];
        table.add_row(first.into_iter().chain(Stage::ALL.map(shown)).chain([whole(sum)]).collect::<Vec<_>>());
    }
    let whole_sum: f64 = sums.values().sum();
    let share =
        |stage| sums.get(&stage).map_or_else(String::new, |sum| format!("{:.1}", sum / whole_sum.max(1.0) * PERCENT));
    let first = ["% of all".to_owned(), String::new()];
    table.add_row(first.into_iter().chain(Stage::ALL.map(share)).chain([String::new()]).collect::<Vec<_>>());
    for at in 1..Stage::ALL.len() + 3 {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

fn whole(cycles: f64) -> String {
    count(cycles.round() as u64)
}
