//! Page with the plots of a sweep.

use super::Swept;
use quorate_plots::{Axis, Block, Figure, Page, Panel, Plot, PlotError, Point, Section, Series};
use quorate_simulator::models::{Answer, Protocol};
use quorate_types::text::quote;

/// A line of a figure: its name, and its value in an answer.
type Line = (&'static str, fn(&Answer) -> Option<f64>);

/// Draws the answers of a sweep: success, replies, latency, packets and view changes. `command` is shown as the way to
/// reproduce it.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn page(swept: &Swept, protocol: Protocol, command: &[String]) -> Result<String, PlotError> {
    let words: Vec<String> = command.iter().map(|word| quote(word)).collect();
    let figures = [
        figure(
            swept,
            "success",
            "Success of a request",
            Axis::from_zero("probability", ""),
            &[
                ("the client has its replies", |own| Some(own.success_probability)),
                ("a quorum commits", |own| own.agreement_probability),
            ],
        ),
        figure(
            swept,
            "replies",
            "Expected replies",
            Axis::from_zero("replies", ""),
            &[
                ("exact", |own| Some(own.expected_replies)),
                ("lower bound (equation 2)", |own| own.expected_replies_lower_bound),
                ("criterion (2f+1)", |own| Some(own.switching_threshold as f64)),
            ],
        ),
        figure(
            swept,
            "latency",
            "Time until the client has its replies",
            Axis::from_zero("latency", "ms"),
            &[
                ("mean", |own| own.latency_ms.mean),
                ("p50", |own| own.latency_ms.p50),
                ("p90", |own| own.latency_ms.p90),
                ("p99", |own| own.latency_ms.p99),
            ],
        ),
        figure(
            swept,
            "packets",
            "Messages and packets of a request",
            Axis::from_zero("number", ""),
            &[
                ("messages without loss", |own| Some(own.messages.without_loss)),
                ("packets expected", |own| Some(own.messages.packets)),
            ],
        ),
        figure(
            swept,
            "view-changes",
            "Requests that need a view change",
            Axis::from_zero("probability", ""),
            &[("at the timeout", |own| own.view_change.map(|change| change.probability))],
        ),
    ];
    let blocks = figures.into_iter().flatten().map(|figure| Block::Figure(Box::new(figure)));
    let blocks = blocks.chain([Block::Command(format!("quorate {}", words.join(" ")))]).collect();
    quorate_plots::page(&Page {
        title: format!("{protocol} by {}", swept.flag),
        lead: vec!["Closed forms: nothing was run. docs/MODELS.md lists their assumptions.".to_owned()],
        sections: vec![Section { id: "sweep".to_owned(), title: String::new(), blocks }],
        footer: crate::result::version(),
    })
}

/// Returns a figure of lines along the sweep; `None` if no answer has any of their values.
fn figure(swept: &Swept, id: &str, title: &str, y: Axis, lines: &[Line]) -> Option<Figure> {
    let series = lines.iter().filter_map(|(name, value)| {
        let at = swept.values.iter().zip(&swept.answers);
        let points: Vec<Point> = at.filter_map(|(x, own)| Some(Point::new(*x, value(own)?))).collect();
        (!points.is_empty()).then(|| Series { name: (*name).to_owned(), points, ..Series::default() })
    });
    let series: Vec<Series> = series.collect();
    (!series.is_empty()).then(|| Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: String::new(),
        x: Axis::new(&swept.flag, ""),
        y,
        plot: Plot::Line(vec![Panel::new("", series)]),
    })
}
