//! Costs of the stages of the replicas' work, as stacked bars.

use crate::result::{BenchResult, count};
use quorate_plots::{Axis, Bar, BarSeries, Block, Figure, Hover, Panel, Plot, Section, check_figure};
use quorate_types::stages::{MessageKind, Stage, StageCost, StageRole};

/// Minimum number of messages of a drawn kind: the mean of fewer is uncertain, and often reflects the start-up.
const MIN_MESSAGES: u64 = 20;

/// Draws the cycles per message by kind and stage, with a panel per role; `None` if stages were not measured.
pub fn section(result: &BenchResult) -> Option<Section> {
    let clock = result.stage_clock.as_ref()?;
    let panels: Vec<_> = StageRole::ALL.into_iter().filter_map(|role| panel(&result.stages, role)).collect();
    let mut figure = Figure {
        id: "cost-by-stage".to_owned(),
        title: "Cost of a message by stage".to_owned(),
        caption: "Means of the messages that had a stage. A stage that interrupts another one does not count twice."
            .to_owned(),
        x: Axis::new("message", ""),
        y: Axis::from_zero("cost of one message", "cycles"),
        plot: Plot::Stacked(panels),
    };
    let text = format!(
        "Cycles of the counter {}, {:.0} per microsecond, from {} turns of the replicas' threads that were timed.",
        clock.counter,
        clock.counter_hz / 1e6,
        count(clock.timed_turns)
    );
    let drawn = match check_figure(&figure) {
        Ok(()) => Block::Figure(Box::new(figure)),
        Err(error) => {
            figure.title.push_str(" cannot be drawn: ");
            Block::Paragraph(format!("{}{error}.", figure.title))
        }
    };
    let (id, title) = ("stages".to_owned(), "Where the time goes".to_owned());
    Some(Section { id, title, blocks: vec![Block::Paragraph(text), drawn] })
}

fn panel(costs: &[StageCost], role: StageRole) -> Option<Panel<BarSeries>> {
    let is_drawn = |cost: &&StageCost| cost.role == role && cost.message != MessageKind::None;
    let own: Vec<&StageCost> = costs.iter().filter(is_drawn).collect();
    let handled = |kind| own.iter().filter(|cost| cost.message == kind).map(|cost| cost.count).max().unwrap_or(0);
    let kinds: Vec<MessageKind> = MessageKind::ALL.into_iter().filter(|kind| handled(*kind) >= MIN_MESSAGES).collect();
    let bar = |cost: &&&StageCost| {
        let rows = vec![
            ("messages".to_owned(), count(cost.count)),
            ("nanoseconds".to_owned(), format!("{:.0}", cost.nanoseconds.unwrap_or_default())),
        ];
        let hover = Hover { rows, command: None };
        Some(Bar { hover, ..Bar::new(cost.message.name(), cost.cycles?) })
    };
    let series = |stage: Stage| {
        let of_stage = own.iter().filter(|cost| cost.stage == stage && kinds.contains(&cost.message));
        let bars: Vec<Bar> = of_stage.filter_map(|cost| bar(&cost)).collect();
        (!bars.is_empty()).then(|| BarSeries { name: stage.name().to_owned(), paper: false, bars })
    };
    let series: Vec<BarSeries> = Stage::ALL.into_iter().filter_map(series).collect();
    (!series.is_empty()).then(|| Panel::new(&format!("At the {}", role.name()), series))
}
