//! Spans of misbehaviour in plots over time.

use super::sketch::Sketch;
use quorate_lab::spec::{BenchSpec, Fault, Interval};
use quorate_plots::Event;

/// Maximum number of marked spans of one fault.
const MAX_SPANS: usize = 100;

/// Returns the spans, without duplicates, in which replicas of the drawn cells misbehave after the start of the
/// measured time.
pub(super) fn events(sketch: &Sketch) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for cell in &sketch.drawn {
        let specification = &sketch.cells.cell(*cell).specification;
        let text = |value: &toml::Value| value.as_str().map(str::to_owned);
        let duration = specification.get("duration").and_then(text).and_then(|text| text.parse::<Interval>().ok());
        let end_ms = duration.unwrap_or(BenchSpec::default().duration).as_millis();
        let faults = specification.get("fault").and_then(toml::Value::as_array).into_iter().flatten();
        for fault in faults.filter_map(text).filter_map(|text| text.parse::<Fault>().ok()) {
            let Fault::Misbehave(_, _, when) = fault else { continue };
            if when.at.is_none() {
                continue;
            }
            let name = fault.to_string();
            let label = name.split('@').next().unwrap_or_default();
            for (from, to) in when.spans_ms(end_ms).take(MAX_SPANS) {
                let seconds = |ms: u64| ms.min(end_ms) as f64 / 1e3;
                let event = Event { from: seconds(from), to: Some(seconds(to.unwrap_or(end_ms))), label: label.into() };
                if !events.contains(&event) {
                    events.push(event);
                }
            }
        }
    }
    events
}
