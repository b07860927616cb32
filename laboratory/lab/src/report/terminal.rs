//! Tables printed at the end of `quorate bench` and `quorate sim`.

use super::render_html;
use crate::experiments::Outliers;
use crate::figures::{Outcome, Run, rows};
use crate::record::describe;
use crate::result::{
    Agreement, BenchResult, DeploymentResult, EmulationResult, StageThreads, ThreadLoads, describe_bottleneck,
    describe_cluster, describe_journal, describe_load, first_of, shown_evidence, tables,
};
use crate::sim::SimResult;
use crate::spec::flat::TABLE;
use crate::text::{figure, line, partial_line};
use comfy_table::{CellAlignment, Table, presets};
use quorate_operator::report::{Report, indented};

impl Report for BenchResult {
    fn to_table(&self) -> String {
        render(self, describe_journal(self))
    }

    /// Leaves out the spec's keys that are unknown for a running cluster.
    fn to_json(&self) -> String {
        if self.loaded.is_none() {
            return indented(self);
        }
        let mut json = serde_json::to_value(self).expect("a result is plain data");
        if let Some(spec) = json["spec"].as_object_mut() {
            spec.retain(|key, _| key == TABLE || self.knows(key));
            if let Some(switches) = spec[TABLE].as_object_mut() {
                switches.retain(|key, _| self.knows(key));
            }
        }
        indented(&json)
    }

    fn to_page(&self) -> String {
        render_html(self)
    }

    /// Returns a message if nothing completed, since such a run shows nothing.
    fn failure(&self) -> Option<String> {
        let nothing = self.committed_commands == 0 && self.partial.is_none();
        nothing.then(|| "no command was completed in the measured time, so the figures show nothing".to_owned())
    }
}

impl Report for SimResult {
    fn to_table(&self) -> String {
        let mut text = render(&self.bench, "simulated disks".to_owned());
        let simulated =
            describe(self, "{virtual_seconds} in {wall_seconds}, {simulated_events}, {delivered_messages} delivered");
        for (name, value) in [("simulated", &simulated), ("trace", &self.trace_hash), ("costs", &self.costs)] {
            text.push_str(&line(name, value));
        }
        if self.client_machines.len() > 1 {
            self.client_machines.iter().for_each(|machine| text.push_str(&line("clients", machine)));
        }
        if self.seeds.len() > 1 {
            let (first, seeds, failed) = (self.seeds[0].seed, self.seeds.len(), self.failed().count());
            text.push_str(&line(
                "seeds",
                format!("{seeds}, {failed} failed; the figures above are from seed {first}; --json has all"),
            ));
        }
        for seed in self.failed() {
            let (oracle, what) = seed.oracle.as_ref().expect("it failed");
            text.push_str(&format!("\n seed {}: {oracle}: {what}\n", seed.seed));
            seed.transcript.iter().for_each(|line| text.push_str(&format!("   {line}\n")));
            text.push_str(&line("reproduce", &seed.replay));
        }
        text
    }

    fn to_page(&self) -> String {
        render_html(&self.bench)
    }

    /// Returns a message if an oracle reported a violation, or no run completed a command.
    fn failure(&self) -> Option<String> {
        if let Some(seed) = self.failed().next() {
            let (failed, all) = (self.failed().count(), self.seeds.len());
            return Some(format!(
                "an oracle reported a violation in {failed} of {all} runs; reproduce the first with\n  {}",
                seed.replay
            ));
        }
        // Under chaos, a sound run may complete nothing before the network heals; an oracle judges the time after that.
        let is_idle = || self.seeds.iter().all(|seed| seed.throughput_ops.unwrap_or(0.0) == 0.0);
        self.bench.failure().filter(|_| !self.is_chaos && is_idle())
    }
}

/// Formats the table of a cluster, real or simulated.
fn render(result: &BenchResult, journal: String) -> String {
    let run = Run { outcome: Outcome::Bench(Box::new(result.clone())), outliers: Outliers::None, instructions: None };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    rows(&run).into_iter().for_each(|row| _ = table.add_row(row));
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    let spec = &result.spec;
    let mut text = format!("\n {}\n {}\n {}\n\n", describe_cluster(result), describe_load(spec), journal);
    text.push_str(&partial_line(result.partial.as_ref()));
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    result.steps.iter().for_each(|step| text.push_str(&line("step", step)));
    if let Some(search) = &result.search {
        search.probes.iter().for_each(|probe| text.push_str(&line("probe", probe)));
        text.push_str(&line("saturation", search));
    }
    for (name, told) in result.emulation.iter().flat_map(EmulationResult::lines) {
        text.push_str(&line(name, told));
    }
    for told in result.deployment.iter().flat_map(DeploymentResult::lines) {
        text.push_str(&line("host", told));
    }
    if let Some(told) = result.threads.as_ref().and_then(describe_threads) {
        text.push_str(&line("threads", told));
    }
    if let Some(clock) = &result.stage_clock {
        text.push_str(&tables(&result.stages));
        text.push_str(&line("cycles", clock.describe()));
    }
    text.push_str(&format!("\n{}", line("bottleneck", describe_bottleneck(result))));
    text.push_str(&line("agreement", &result.agreement));
    for event in &result.events {
        text.push_str(&line("event", format!("{:.1} s: {}", event.time_s, event.text)));
    }
    shown_evidence(result).iter().for_each(|proof| text.push_str(&line("evidence", proof)));
    first_of(&result.hearsay).iter().for_each(|rumour| text.push_str(&line("hearsay", rumour)));
    result.warnings.iter().for_each(|warning| text.push_str(&line("warning", warning)));
    let is_violated = matches!(result.agreement, Agreement::Differs(_));
    if is_violated && result.spec.beyond_faults().is_some() {
        text.push_str("\n Safety is violated. With more than f liars this is expected, not a bug.\n");
    } else if is_violated {
        text.push_str("\n SAFETY IS VIOLATED: please keep the command and the seed, and report it.\n");
    }
    text + &line("reproduce", &result.command)
}

/// Describes the utilization of a replica's stages, if there are several.
fn describe_threads(loads: &ThreadLoads) -> Option<String> {
    let told = |stage: &StageThreads| match stage.threads {
        1 => format!("{} {} %", stage.stage, figure(stage.busy_percent)),
        threads => format!("{threads} {} {} % each", stage.stage, figure(stage.busy_percent)),
    };
    let all: Vec<String> = loads.stages.iter().map(told).collect();
    let (replica, limit) = (loads.replica, &loads.limiting_stage);
    (all.len() > 1).then(|| format!("{}; {limit} busiest, at replica {replica}", all.join(", ")))
}
