//! Plots of the stages of replicas' work.

use super::series::in_panels;
use super::sketch::Sketch;
use quorate_lab::report::stage_bars;
use quorate_plots::Plot;
use quorate_types::stages::{StageCost, StageRole};

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
        let rows = group.cells.iter().flat_map(|cell| sketch.cells.rows(*cell));
        let costs: Vec<&StageCost> = rows.flat_map(|row| &row.stages).collect();
        for role in StageRole::ALL {
            let at = match group.panel.as_str() {
                "" => format!("at the {}", role.name()),
                panel => format!("{panel}, at the {}", role.name()),
            };
            series.extend(stage_bars(&costs, role).into_iter().map(|own| (at.clone(), own)));
        }
    }
    Plot::Stacked(in_panels(series.into_iter()))
}
