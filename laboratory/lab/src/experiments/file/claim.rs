//! `[[claim]]`: a relation by which results are judged.

use crate::experiments::figures::Vocabulary;
use crate::experiments::names::{ClaimKind, Direction, Instrument, Take};
use crate::experiments::source::{Table, unknown};
use crate::experiments::value::Value;
use quorate_types::Fault;

/// Maximum number of claims of an experiment.
pub const MAX_CLAIMS: usize = 200;
const COMMON: &[&str] = &["id", "text", "kind", "paper", "instrument", "overturned", "figure", "where", "over", "take"];

/// Relation that the results satisfy or not.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// Unique within the file.
    pub id: String,
    /// The paper's statement, in our words.
    pub text: String,
    /// The paper's measurement; empty if it gives no number.
    pub paper: String,
    /// Instrument that judges it; `None`: the first instrument of the plan.
    pub instrument: Option<Instrument>,
    /// Why our results overturn it, if they do.
    pub overturned: Option<String>,
    /// Name of the figure.
    pub figure: String,
    /// Cells to which the claim applies.
    pub selection: Selection,
    /// Axes over which the figure is reduced to one value before the relation is judged.
    pub over: Vec<String>,
    pub take: Take,
    pub relation: Relation,
    /// File, line and key, for errors.
    pub place: String,
}

/// Limits, at least one of which is set. Values equal to a limit are within.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    pub min: Option<f64>,
    pub max: Option<f64>,
}

/// Relation of a claim. It has to hold at every point, that is, for each combination of values of the axes that the
/// relation does not name.
#[derive(Clone, PartialEq, Debug)]
pub enum Relation {
    /// The figure rises from each value of axis `by` to the next, by more than a margin.
    Order { by: String, values: Vec<Value>, margin_percent: f64 },
    /// The figure at one position divided by the figure at another lies within limits.
    Ratio { numerator: Selection, denominator: Selection, limits: Limits },
    /// Rises or falls: in every step along the axis, and from its first value to its last. A step may go against the
    /// direction by up to the tolerance. Flat: no two values differ by more than the tolerance.
    Trend { along: String, direction: Direction, tolerance_percent: f64 },
    /// The figure lies within limits.
    Bound { limits: Limits },
    /// The saturation point lies within limits: the first value of the axis after which the figure is nowhere more than
    /// `rise_percent` higher. If it is the last value, the figure does not saturate, and satisfies only a lower limit
    /// without an upper one.
    Saturation { along: String, rise_percent: f64, limits: Limits },
    /// The figure differs by at most `within_percent` between these values of the axis.
    Plateau { along: String, from: f64, to: f64, within_percent: f64 },
    /// The crossing lies within limits: the first value of the axis from which on `first` is more than `above` (or less
    /// than `below`) times `second`. Without a crossing, only a lower limit without an upper one is satisfied.
    Crossing { along: String, first: Selection, second: Selection, side: Side, limits: Limits },
    /// The figure is within a tolerance of the same cell's figure on another instrument. A share of counted things must
    /// also have the other figure in its exact interval: at [`AGREEMENT_CONFIDENCE`], for all points of the claim
    /// together.
    ///
    /// [`AGREEMENT_CONFIDENCE`]: crate::experiments::statistics::AGREEMENT_CONFIDENCE
    Agreement { with: Instrument, tolerance: Tolerance, is_share: bool },
}

/// Maximum difference between two figures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tolerance {
    /// In the figure's unit.
    Within(f64),
    /// In percent of the other figure.
    Percent(f64),
}

/// A side of a ratio.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Side {
    Above(f64),
    Below(f64),
}

/// Cells that meet all these conditions on their coordinates.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selection(pub Vec<(String, Pick)>);

/// A condition on a coordinate.
#[derive(Clone, PartialEq, Debug)]
pub enum Pick {
    /// One of these values.
    OneOf(Vec<Value>),
    /// `"smallest"`: the smallest number among the cells that meet the other conditions.
    Smallest,
    /// `"largest"`.
    Largest,
}

impl Selection {
    pub(crate) fn read(table: &Table) -> Result<Selection, Fault> {
        let mut conditions = Vec::new();
        for (key, node) in table.nodes() {
            let pick = match node.value()? {
                Value::Text(text) if text == "smallest" => Pick::Smallest,
                Value::Text(text) if text == "largest" => Pick::Largest,
                Value::List(values) if values.is_empty() => {
                    return Err(node.fault("selects nothing", "write a value at least"));
                }
                Value::List(values) => Pick::OneOf(values),
                value => Pick::OneOf(vec![value]),
            };
            conditions.push((key, pick));
        }
        Ok(Selection(conditions))
    }

    /// Reads a selection with one value per key.
    fn read_point(table: &Table, key: &str) -> Result<Selection, Fault> {
        let point = table.need(key)?.table()?;
        let selection = Selection::read(&point)?;
        if selection.0.is_empty() {
            return Err(point.fault("selects nothing", "write `{ axis = value }`"));
        }
        match selection.0.iter().find(|(_, pick)| matches!(pick, Pick::OneOf(values) if values.len() > 1)) {
            Some((axis, _)) => Err(point.fault(format!("`{axis}` has several values"), "write one")),
            None => Ok(selection),
        }
    }

    /// Returns the axes that it names.
    pub fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(key, _)| key.as_str()).collect()
    }
}

impl Limits {
    fn read(table: &Table, what: &str) -> Result<Limits, Fault> {
        let limits = Limits { min: table.number("min")?, max: table.number("max")? };
        match limits {
            Limits { min: None, max: None } => {
                Err(table.fault(format!("{what} without limits cannot fail"), "set `min`, `max` or both"))
            }
            Limits { min: Some(min), max: Some(max) } if min > max => {
                Err(table.fault(format!("min {min} is above max {max}"), "exchange them"))
            }
            limits => Ok(limits),
        }
    }

    /// Reads the limits of a quantity that is never negative.
    fn read_of_positive(table: &Table, what: &str) -> Result<Limits, Fault> {
        let limits = Limits::read(table, what)?;
        if limits.max.is_none() && limits.min.is_some_and(|min| min <= 0.0) {
            return Err(table.fault("nothing is below 0, so the claim cannot fail", "set `min` above 0, or `max`"));
        }
        if limits.max.is_some_and(|max| max < 0.0) {
            return Err(table.fault("nothing is below 0, so the claim cannot hold", "set `max` to 0 at least"));
        }
        Ok(limits)
    }

    pub fn contain(&self, value: f64) -> bool {
        self.min.is_none_or(|min| min <= value) && self.max.is_none_or(|max| value <= max)
    }
}

impl Tolerance {
    fn read(table: &Table) -> Result<Tolerance, Fault> {
        match (table.number("within")?, table.number("within_percent")?) {
            (Some(within), None) if within > 0.0 => Ok(Tolerance::Within(within)),
            (None, Some(percent)) if percent > 0.0 => Ok(Tolerance::Percent(percent)),
            _ => {
                let help = "set one of them above 0: no measurement equals another instrument's exactly";
                Err(table.fault("needs either `within` or `within_percent`", help))
            }
        }
    }

    /// Returns the lowest and the highest figure that agree with `other`.
    pub fn around(self, other: f64) -> (f64, f64) {
        let by = match self {
            Tolerance::Within(by) => by,
            Tolerance::Percent(percent) => other.abs() * percent / 100.0,
        };
        (other - by, other + by)
    }
}

impl Claim {
    pub(crate) fn read(table: &Table, vocabulary: &Vocabulary) -> Result<Claim, Fault> {
        let kind = table.need("kind")?.choice::<ClaimKind>()?;
        table.known(&[COMMON, keys_of(kind)].concat())?;
        let figure = table.need("figure")?;
        let name = figure.text()?;
        if vocabulary.figure(&name).is_none() {
            return Err(unknown(figure.place(), "figure", &name, &vocabulary.figure_names()));
        }
        let over = table.texts("over")?;
        let take = table.choice("take")?;
        if over.is_empty() != take.is_none() {
            return Err(table.fault("`over` and `take` go together", "write both: over = [\"axis\"], take = \"max\""));
        }
        if let Some(node) = table.get("over").filter(|_| kind == ClaimKind::Agreement) {
            return Err(node.fault("means nothing in an agreement", "leave it out, and `take`, too"));
        }
        Ok(Claim {
            id: table.need("id")?.text()?,
            text: table.need("text")?.text()?,
            paper: table.text("paper")?.unwrap_or_default(),
            instrument: table.choice("instrument")?,
            overturned: table.text("overturned")?,
            selection: table.table("where")?.map_or(Ok(Selection::default()), |table| Selection::read(&table))?,
            over,
            take: take.unwrap_or(Take::Max),
            relation: Relation::read(kind, table, vocabulary.count_of(&name).is_some())?,
            figure: name,
            place: table.place(),
        })
    }
}

fn keys_of(kind: ClaimKind) -> &'static [&'static str] {
    match kind {
        ClaimKind::Order => &["by", "values", "margin_percent"],
        ClaimKind::Ratio => &["numerator", "denominator", "min", "max"],
        ClaimKind::Trend => &["along", "direction", "tolerance_percent"],
        ClaimKind::Bound => &["min", "max"],
        ClaimKind::Saturation => &["along", "rise_percent", "min", "max"],
        ClaimKind::Plateau => &["along", "from", "to", "within_percent"],
        ClaimKind::Crossing => &["along", "first", "second", "above", "below", "min", "max"],
        ClaimKind::Agreement => &["with", "within", "within_percent"],
    }
}

impl Relation {
    fn read(kind: ClaimKind, table: &Table, is_share: bool) -> Result<Relation, Fault> {
        let along = || table.need("along").and_then(|node| node.text());
        match kind {
            ClaimKind::Order => Relation::read_order(table),
            ClaimKind::Ratio => {
                let (numerator, denominator) = read_points(table, "numerator", "denominator")?;
                Ok(Relation::Ratio { numerator, denominator, limits: Limits::read_of_positive(table, "a ratio")? })
            }
            ClaimKind::Trend => {
                let direction = table.need("direction")?.choice()?;
                let tolerance_percent = percentage(table, "tolerance_percent")?;
                if direction == Direction::Flat && tolerance_percent.is_none() {
                    let help = "set the largest difference that counts as flat";
                    return Err(table.fault("`tolerance_percent` is missing", help));
                }
                Ok(Relation::Trend { along: along()?, direction, tolerance_percent: tolerance_percent.unwrap_or(0.0) })
            }
            ClaimKind::Bound => Ok(Relation::Bound { limits: Limits::read_of_positive(table, "a bound")? }),
            ClaimKind::Saturation => Ok(Relation::Saturation {
                along: along()?,
                rise_percent: needed_percentage(table, "rise_percent")?,
                limits: Limits::read(table, "a saturation point")?,
            }),
            ClaimKind::Plateau => {
                let (from, to) = (table.need("from")?.number()?, table.need("to")?.number()?);
                if from >= to {
                    return Err(table.fault(format!("nothing lies between {from} and {to}"), "set `from` below `to`"));
                }
                let within_percent = needed_percentage(table, "within_percent")?;
                Ok(Relation::Plateau { along: along()?, from, to, within_percent })
            }
            ClaimKind::Agreement => Ok(Relation::Agreement {
                with: table.need("with")?.choice()?,
                tolerance: Tolerance::read(table)?,
                is_share,
            }),
            ClaimKind::Crossing => {
                let (first, second) = read_points(table, "first", "second")?;
                let side = match (table.number("above")?, table.number("below")?) {
                    (Some(above), None) if above > 0.0 => Side::Above(above),
                    (None, Some(below)) if below > 0.0 => Side::Below(below),
                    _ => {
                        let help = "write `above = 1` for `first` overtakes `second`, `below = 1` for the reverse";
                        return Err(table.fault("needs either `above` or `below`, a ratio above 0", help));
                    }
                };
                Ok(Relation::Crossing {
                    along: along()?,
                    first,
                    second,
                    side,
                    limits: Limits::read(table, "a crossing")?,
                })
            }
        }
    }

    fn read_order(table: &Table) -> Result<Relation, Fault> {
        let values = table.need("values")?;
        let Value::List(list) = values.value()? else {
            return Err(values.fault("is no list", "write the values of the axis, in ascending order of the figure"));
        };
        if list.len() < 2 {
            return Err(values.fault("one value has no order, so the claim cannot fail", "write two values at least"));
        }
        if (1..list.len()).any(|at| list[..at].contains(&list[at])) {
            return Err(values.fault("a value stands there twice, so the claim cannot hold", "remove one"));
        }
        let margin_percent = percentage(table, "margin_percent")?.unwrap_or(0.0);
        Ok(Relation::Order { by: table.need("by")?.text()?, values: list, margin_percent })
    }
}

/// Reads two different selections on the same axes.
fn read_points(table: &Table, first: &str, second: &str) -> Result<(Selection, Selection), Fault> {
    let (a, b) = (Selection::read_point(table, first)?, Selection::read_point(table, second)?);
    let sorted = |selection: &Selection| {
        let mut keys: Vec<String> = selection.keys().into_iter().map(str::to_owned).collect();
        keys.sort();
        keys
    };
    if sorted(&a) != sorted(&b) {
        let what = format!("`{first}` and `{second}` name different axes");
        return Err(table.fault(what, "give each of them a value for the same axes"));
    }
    let same = |(key, pick): &(String, Pick)| b.0.iter().any(|(other, value)| other == key && value == pick);
    if a.0.iter().all(same) {
        return Err(table.fault(format!("`{first}` and `{second}` are the same"), "compare two different points"));
    }
    Ok((a, b))
}

/// Reads a percentage of 0 or more.
fn percentage(table: &Table, key: &str) -> Result<Option<f64>, Fault> {
    match table.number(key)? {
        Some(percent) if percent < 0.0 => Err(table.fault(format!("`{key}` is {percent}"), "set 0 or more")),
        percent => Ok(percent),
    }
}

fn needed_percentage(table: &Table, key: &str) -> Result<f64, Fault> {
    percentage(table, key)?.ok_or_else(|| table.fault(format!("`{key}` is missing"), "set a percentage"))
}
