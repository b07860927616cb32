//! Pages of metrics in the two text formats that monitors read: OpenMetrics 1.0, and Prometheus' own 0.0.4.

use quorate_types::DurationHistogram;
use std::fmt::{self, Display, Write};

/// Format of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    OpenMetrics,
    /// Prometheus' text format, for readers that do not ask for OpenMetrics.
    Prometheus,
}

impl Format {
    /// Returns the format for a request that accepts these media types.
    pub fn accepted(accept: &str) -> Format {
        let is_named = accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_open = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"));
            is_open && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        });
        if is_named { Format::OpenMetrics } else { Format::Prometheus }
    }

    /// Returns the media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Value of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    Integer(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Number {
        Number::Integer(value)
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Number {
        Number::Integer(value as u64)
    }
}

impl From<bool> for Number {
    fn from(value: bool) -> Number {
        Number::Integer(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number::Real(value)
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => value.fmt(f),
            Number::Real(value) => value.fmt(f),
        }
    }
}

/// Label of a sample: its name and its value.
pub type Label<'a> = (&'static str, &'a str);

/// A page of metric families under construction.
pub struct Page {
    format: Format,
    text: String,
}

impl Page {
    pub fn new(format: Format) -> Page {
        Page { format, text: String::new() }
    }

    /// Begins a family of values that may fall.
    pub fn gauge(&mut self, name: &'static str, help: &str) -> Samples<'_> {
        self.begin(name, name, "gauge", help)
    }

    /// Begins a family of values that only grow. Its name ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &str) -> Samples<'_> {
        let family = name.strip_suffix("_total").expect("the name of a counter ends in _total");
        let family = if self.format == Format::OpenMetrics { family } else { name };
        self.begin(family, name, "counter", help)
    }

    /// Adds a histogram, in seconds.
    pub fn histogram(&mut self, name: &'static str, help: &str, of: &DurationHistogram) {
        self.begin(name, name, "histogram", help);
        let mut line = |text: fmt::Arguments<'_>| writeln!(self.text, "{text}").expect("a string takes all");
        for (bound_us, count) in of.cumulative() {
            line(format_args!("{name}_bucket{{le=\"{:?}\"}} {count}", seconds(bound_us)));
        }
        line(format_args!("{name}_bucket{{le=\"+Inf\"}} {}", of.count()));
        line(format_args!("{name}_sum {}", seconds(of.sum_us)));
        line(format_args!("{name}_count {}", of.count()));
    }

    fn begin(&mut self, family: &str, name: &'static str, kind: &str, help: &str) -> Samples<'_> {
        let help = escaped(help, false);
        writeln!(self.text, "# HELP {family} {help}\n# TYPE {family} {kind}").expect("a string takes all");
        Samples { page: self, name }
    }

    /// Returns the text, with the end marker that OpenMetrics demands.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// Samples of one family.
pub struct Samples<'a> {
    page: &'a mut Page,
    name: &'static str,
}

impl Samples<'_> {
    /// Adds the only sample of a family.
    pub fn value(mut self, value: impl Into<Number>) {
        self.add(&[], value);
    }

    pub fn add(&mut self, labels: &[Label<'_>], value: impl Into<Number>) {
        let text = &mut self.page.text;
        text.push_str(self.name);
        for (at, (name, value)) in labels.iter().enumerate() {
            let opens = if at == 0 { '{' } else { ',' };
            write!(text, "{opens}{name}=\"{}\"", escaped(value, true)).expect("a string takes all");
        }
        let closes = if labels.is_empty() { "" } else { "}" };
        writeln!(text, "{closes} {}", value.into()).expect("a string takes all");
    }
}

/// Escapes a help text, or the value of a label.
fn escaped(text: &str, is_label: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if is_label { text.replace('"', "\\\"") } else { text }
}

/// Converts microseconds to seconds.
pub fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
