//! Lines of a peer's output: fixed text around named fields.

use serde::{Deserialize, Deserializer, de};

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// Pattern of a line, such as `{date} {time} [info] {latency_s}`. A field ends where the text after it begins. Text
/// before the first part and after the last one is ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Field(String),
}

impl Line {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If a brace is not closed, a field has no name, or no text separates two fields.
    pub fn parse(pattern: &str) -> Result<Line, String> {
        let (mut parts, mut rest): (Vec<Part>, &str) = (Vec::new(), pattern);
        while !rest.is_empty() {
            let Some((text, after)) = rest.split_once('{') else {
                parts.push(Part::Text(rest.to_owned()));
                break;
            };
            let (name, after) = after.split_once('}').ok_or("a brace is not closed")?;
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            } else if matches!(parts.last(), Some(Part::Field(_))) {
                return Err("no text separates two fields".to_owned());
            }
            if name.is_empty() {
                return Err("a field has no name".to_owned());
            }
            parts.push(Part::Field(name.to_owned()));
            rest = after;
        }
        if parts.iter().all(|part| matches!(part, Part::Text(_))) {
            return Err("it has no field".to_owned());
        }
        Ok(Line(parts))
    }

    /// Returns whether the pattern has a field.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Field(own) if own == name))
    }

    /// Returns the value of a field in a line; `None` if the line does not match.
    pub fn field<'l>(&self, name: &str, line: &'l str) -> Option<&'l str> {
        let (mut rest, mut found) = (line, None);
        let mut parts = self.0.iter().peekable();
        while let Some(part) = parts.next() {
            match part {
                Part::Text(text) => rest = rest.split_once(text.as_str())?.1,
                Part::Field(own) => {
                    let end = match parts.peek() {
                        Some(Part::Text(text)) => rest.find(text.as_str())?,
                        _ => rest
                            .trim_start()
                            .find(char::is_whitespace)
                            .map_or(rest.len(), |end| end + rest.len() - rest.trim_start().len()),
                    };
                    if own == name {
                        found = Some(rest[..end].trim());
                    }
                    rest = &rest[end..];
                }
            }
        }
        found
    }

    /// Returns a number in a line, which may be quoted and have commas between its digits; `None` if the line does not
    /// match.
    pub fn number(&self, name: &str, line: &str) -> Option<f64> {
        let text = self.field(name, line)?.trim_matches('"').replace(',', "");
        text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
    }

    /// Returns the field `time` of a line in seconds since midnight.
    pub fn time_of_day(&self, line: &str) -> Option<f64> {
        let mut seconds = 0.0;
        let text = self.field("time", line)?;
        // A date may stand before it.
        let clock = text.trim_matches('"').trim_end_matches('Z').rsplit([' ', 'T']).next()?;
        for part in clock.splitn(3, ':') {
            let part: f64 = part.parse().ok()?;
            seconds = seconds * 60.0 + part;
        }
        (clock.matches(':').count() == 2 && (0.0..DAY_S).contains(&seconds)).then_some(seconds)
    }
}

/// Returns the time from `start` to `at`, both in seconds since midnight, if it is less than half a day in either
/// direction; negative if `at` is earlier.
pub(super) fn since(start: f64, at: f64) -> f64 {
    (at - start + DAY_S * 1.5).rem_euclid(DAY_S) - DAY_S / 2.0
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Line, D::Error> {
        let pattern = String::deserialize(deserializer)?;
        Line::parse(&pattern).map_err(|why| de::Error::custom(format!("the line `{pattern}` is wrong: {why}")))
    }
}
