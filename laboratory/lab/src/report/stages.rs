//! Costs of the stages of the replicas' work, as stacked bars.

use crate::result::{BenchResult, count};
use quorate_plots::{Axis, Bar, BarSeries, Block, Figure, Hover, Panel, Plot, Section, check_figure};
use quorate_types::stages::{MessageKind, Stage, StageCost, StageRole};

/// Minimum number of messages of a kind, over all runs, for it to be drawn. With fewer, costs are too uncertain, and
/// often belong to the start.
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
    let series = stage_bars(&costs.iter().collect::<Vec<_>>(), role);
    (!series.is_empty()).then(|| Panel::new(&format!("At the {}", role.name()), series))
}

/// Sum of the costs of a stage for a kind of message.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    cycles: f64,
    nanoseconds: f64,
}

/// Returns the mean cycles of a message at a role, over the costs of any number of runs: a series for each stage, with
/// a bar for each kind of message that was frequent enough.
pub fn stage_bars(costs: &[&StageCost], role: StageRole) -> Vec<BarSeries> {
    let sum = |kind: MessageKind, stage: Stage| {
        let is_own = |cost: &&&StageCost| (cost.role, cost.message, cost.stage) == (role, kind, stage);
        costs.iter().filter(is_own).fold(Sum::default(), |sum, cost| match cost.cycles {
            Some(cycles) => Sum {
                count: sum.count + cost.count,
                cycles: sum.cycles + cycles * cost.count as f64,
                nanoseconds: sum.nanoseconds + cost.nanoseconds.unwrap_or_default() * cost.count as f64,
            },
            None => sum,
        })
    };
    let is_drawn = |kind: &MessageKind| {
        *kind != MessageKind::None && Stage::ALL.into_iter().any(|stage| sum(*kind, stage).count >= MIN_MESSAGES)
    };
    let kinds: Vec<MessageKind> = MessageKind::ALL.into_iter().filter(is_drawn).collect();
    let series = |stage: Stage| {
        let bar = |kind: &MessageKind| {
            let Sum { count: messages, cycles, nanoseconds } = sum(*kind, stage);
            let rows = vec![
                ("messages".to_owned(), count(messages)),
                ("nanoseconds".to_owned(), format!("{:.0}", nanoseconds / messages as f64)),
            ];
            let hover = Hover { rows, command: None };
            (messages > 0).then(|| Bar { hover, ..Bar::new(kind.name(), cycles / messages as f64) })
        };
        let bars: Vec<Bar> = kinds.iter().filter_map(bar).collect();
        (!bars.is_empty()).then(|| BarSeries { name: stage.name().to_owned(), paper: false, bars })
    };
    Stage::ALL.into_iter().filter_map(series).collect()
}
