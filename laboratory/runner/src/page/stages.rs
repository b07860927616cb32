//! Plots of the stages of replicas' work.

use super::series::in_panels;
use super::sketch::Sketch;
use quorate_lab::experiments::Row;
use quorate_plots::{Bar, BarSeries, Hover, Plot};
use quorate_types::stages::{MessageKind, Stage, StageCost, StageRole};
use quorate_types::text;

/// Minimum number of messages of a kind, over all runs, for it to be drawn.
const MIN_MESSAGES: u64 = 20;

/// Sum of some runs.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    cycles: f64,
}

/// Draws the cycles per message by kind of message and stage. Each role, and each cell, has a panel of its own.
pub(super) fn stages(sketch: &mut Sketch) -> Plot {
    sketch
        .notes
        .push("Means of all messages of the runs that had the stage; kinds with few messages are left out.".into());
    let mut axes = sketch.panel_axes();
    axes.extend(sketch.series_axes(&[]));
    let groups = sketch.cells.groups(&sketch.drawn, &axes, &[]);
    let mut series = Vec::new();
    for group in &groups {
        let rows: Vec<&Row> = group.cells.iter().flat_map(|cell| sketch.cells.rows(*cell)).copied().collect();
        for role in StageRole::ALL {
            let at = match group.panel.as_str() {
                "" => format!("at the {}", role.name()),
                panel => format!("{panel}, at the {}", role.name()),
            };
            series.extend(of_role(&rows, role).into_iter().map(|own| (at.clone(), own)));
        }
    }
    Plot::Stacked(in_panels(series.into_iter()))
}

fn of_role(rows: &[&Row], role: StageRole) -> Vec<BarSeries> {
    let costs = || rows.iter().flat_map(|row| &row.stages).filter(move |cost| cost.role == role);
    let sum = |kind: MessageKind, stage: Stage| {
        let own = costs().filter(|cost| (cost.message, cost.stage) == (kind, stage));
        own.fold(Sum::default(), |sum, StageCost { cycles, count, .. }| match cycles {
            Some(cycles) => Sum { count: sum.count + count, cycles: sum.cycles + cycles * *count as f64 },
            None => sum,
        })
    };
    let is_drawn = |kind: &MessageKind| {
        *kind != MessageKind::None && Stage::ALL.into_iter().any(|stage| sum(*kind, stage).count >= MIN_MESSAGES)
    };
    let kinds: Vec<MessageKind> = MessageKind::ALL.into_iter().filter(is_drawn).collect();
    let series = |stage: Stage| {
        let bar = |kind: &MessageKind| {
            let Sum { count, cycles } = sum(*kind, stage);
            let hover = Hover { rows: vec![("messages".to_owned(), text::count(count))], command: None };
            (count > 0).then(|| Bar { hover, ..Bar::new(kind.name(), cycles / count as f64) })
        };
        let bars: Vec<Bar> = kinds.iter().filter_map(bar).collect();
        (!bars.is_empty()).then(|| BarSeries { name: stage.name().to_owned(), paper: false, bars })
    };
    Stage::ALL.into_iter().filter_map(series).collect()
}
