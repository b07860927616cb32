//! From the stages of a result to the figures of a row.

use quorate_experiments::Row;
use quorate_types::stages::{MessageKind, Stage, StageCost, StageRole};
use serde_json::Value;

/// Stages that are system calls, and no computation.
const SYSTEM_CALLS: [Stage; 3] = [Stage::Receive, Stage::Send, Stage::Wait];
const PERCENT: f64 = 100.0;

/// Fills the figures of stages, if the run measured them.
pub(crate) fn fill(row: &mut Row, stages: &Value) {
    let costs: Vec<StageCost> = serde_json::from_value(stages.clone()).unwrap_or_default();
    if costs.is_empty() {
        return;
    }
    let at_leader = || costs.iter().filter(|cost| cost.role == StageRole::Leader);
    let sum = |stage| -> f64 {
        let own = at_leader().filter(|cost| cost.stage == stage);
        own.filter_map(|cost| Some(cost.cycles? * cost.count as f64)).sum()
    };
    let commands = row.figures.get("executed_commands").copied().filter(|commands| *commands > 0.0);
    for stage in Stage::ALL {
        row.set(&format!("leader_{}_cycles", stage.name()), commands.map(|commands| sum(stage) / commands));
    }
    let codec = sum(Stage::Unmarshal) + sum(Stage::Marshal);
    row.set("leader_codec_cycles", commands.map(|commands| codec / commands));
    let computed: f64 = Stage::ALL.into_iter().filter(|stage| !SYSTEM_CALLS.contains(stage)).map(sum).sum();
    let share = (codec + sum(Stage::Hash)) / computed * PERCENT;
    row.set("codec_and_hash_percent", (computed > 0.0).then_some(share));
    let of = |message, stage| at_leader().find(|cost| (cost.message, cost.stage) == (message, stage))?.cycles;
    row.set("request_hash_cycles", of(MessageKind::Request, Stage::Hash));
    row.set("reply_sign_cycles", of(MessageKind::Reply, Stage::Sign));
    row.stages = costs;
}
