//! `[[axis]]`: the varied keys and their values.

use crate::experiments::names::Instrument;
use crate::experiments::source::{Node, Table};
use crate::experiments::value::Value;
use quorate_types::Fault;
use serde::{Deserialize, Serialize};

/// Maximum number of values of an axis.
pub const MAX_AXIS_VALUES: usize = 1000;
/// Computed values are rounded to this many significant digits, so that 0.1 * 3 is 0.3.
const SIGNIFICANT_DIGITS: usize = 12;
/// Axis names with another meaning in files.
const RESERVED: &[&str] = &["instrument", "profile", "repetition"];
const KEYS: &[&str] =
    &["key", "name", "values", "from", "to", "step", "factor", "times", "together", "rest", "not_yet"];

/// Keys of a value that apply to every instrument.
type Common = Vec<(String, Value)>;
/// Keys of a value that apply to one instrument each.
type Own = Vec<(Instrument, String, Value)>;

/// Varied key, or several keys that vary together.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// Name in claims and plots: `name`, or else `key`, or the keys that vary together, joined with `+`.
    pub name: String,
    /// Keys of the specification that it sets.
    pub keys: Vec<String>,
    /// Key whose value multiplies the axis's values.
    pub times: Option<String>,
    pub entries: Vec<Entry>,
    /// Values that the program does not support yet: claims may name them, and no cell has them.
    pub not_yet: Vec<Value>,
    /// File, line and key, for errors.
    pub place: String,
    coordinates: Vec<String>,
    /// Source of the coordinates of `together` entries; `None` without `together`.
    places: Option<Places>,
    /// Values of the keys that an entry of `together` leaves out.
    rest: Common,
}

/// Source of the coordinates of `together` entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Places {
    /// The keys that the entries set.
    Settings,
    /// `at` or `label`, under the axis's name.
    Name,
    /// `at`, a table.
    Table,
}

/// A value of an axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    pub coordinates: Vec<Coordinate>,
    /// Keys and values for the specification; with [`Axis::times`], factors.
    pub settings: Vec<(String, Value)>,
    /// Keys and values for one instrument each.
    pub own: Vec<(Instrument, String, Value)>,
}

/// Position of a cell on an axis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Coordinate {
    pub name: String,
    /// A number, a text or a flag; never a list.
    pub value: Value,
    /// Text for readers, if the value alone is unclear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Axis {
    pub(crate) fn read(table: &Table) -> Result<Axis, Fault> {
        table.known(KEYS)?;
        let name = table.text("name")?;
        let axis = match table.get("together") {
            Some(together) => Axis::read_together(table, name, &together)?,
            None => Axis::read_key(table, name)?,
        };
        match axis.coordinates.iter().find(|name| RESERVED.contains(&name.as_str())) {
            Some(name) => Err(table.fault(format!("an axis cannot be called `{name}`"), "set another `name`")),
            None => Ok(axis),
        }
    }

    fn read_key(table: &Table, name: Option<String>) -> Result<Axis, Fault> {
        let key = table.need("key")?.text()?;
        let times = table.text("times")?;
        if times.is_some() && name.as_ref().is_none_or(|name| *name == key) {
            let what = format!("`times` makes the values of `{key}` differ from the axis's values");
            return Err(table.fault(what, "give the axis a `name` of its own"));
        }
        let name = name.unwrap_or_else(|| key.clone());
        let not_yet = table.get("not_yet").map_or(Ok(Vec::new()), |node| read_list(&node))?;
        let mut axis = Axis {
            coordinates: vec![name.clone()],
            name,
            keys: vec![key],
            times,
            entries: Vec::new(),
            not_yet,
            place: table.place(),
            places: None,
            rest: Vec::new(),
        };
        let values = match table.get("values") {
            Some(values) => {
                let other = ["from", "to", "step", "factor"].into_iter().find_map(|key| table.get(key));
                if let Some(other) = other {
                    return Err(other.fault("stands beside `values`", "keep one of them"));
                }
                read_list(&values)?
            }
            None => read_range(table)?,
        };
        axis.set_values(values, table.place())?;
        Ok(axis)
    }

    fn read_together(table: &Table, name: Option<String>, together: &Node) -> Result<Axis, Fault> {
        let other =
            KEYS.iter().filter(|key| !["name", "together", "rest"].contains(key)).find_map(|key| table.get(key));
        if let Some(other) = other {
            return Err(other.fault("stands beside `together`", "keep one of them"));
        }
        let tables: Vec<Table> = together.list()?.iter().map(Node::table).collect::<Result<_, _>>()?;
        let first = tables.first().ok_or_else(|| together.fault("is empty", "write a table for each value"))?;
        let rest = table.get("rest").map_or(Ok(Vec::new()), |rest| values_of(&rest.table()?))?;
        let (settings, own) = settings_of(first)?;
        let mut common: Vec<String> = settings.into_iter().map(|(key, _)| key).collect();
        common.extend(rest.iter().map(|(key, _)| key).filter(|key| !common.contains(key)).cloned().collect::<Vec<_>>());
        let mut keys = common.clone();
        for (_, key, _) in own {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            return Err(first.fault("sets no key", "write the keys that go together"));
        }
        let at = first.get("at").filter(Node::is_table).map(|at| at.table()).transpose()?;
        let (places, coordinates) = match (&name, at) {
            (Some(_), Some(at)) => return Err(at.fault("names the axes", "leave `name` of the axis out")),
            (Some(name), None) => (Places::Name, vec![name.clone()]),
            (None, Some(at)) => (Places::Table, at.nodes().into_iter().map(|(key, _)| key).collect()),
            (None, None) => (Places::Settings, common),
        };
        if coordinates.is_empty() {
            return Err(first.fault("has no place on the axis", "write `at = { name = value }`"));
        }
        let mut axis = Axis {
            name: coordinates.join("+"),
            keys,
            times: None,
            entries: Vec::new(),
            not_yet: Vec::new(),
            place: table.place(),
            coordinates,
            places: Some(places),
            rest,
        };
        axis.set_entries(&tables, together)?;
        Ok(axis)
    }

    /// Returns the axis with a profile's values.
    pub(crate) fn with(&self, node: &Node) -> Result<Axis, Fault> {
        let mut axis = Axis { entries: Vec::new(), place: node.place(), ..self.clone() };
        if node.is_table() {
            if self.places.is_some() {
                return Err(node.fault("is a range of keys that go together", "write a list of their places"));
            }
            let range = node.table()?;
            range.known(&["from", "to", "step", "factor"])?;
            axis.set_values(read_range(&range)?, node.place())?;
            return Ok(axis);
        }
        let nodes = node.list()?;
        if nodes.first().is_some_and(Node::is_table) {
            let tables: Vec<Table> = nodes.iter().map(Node::table).collect::<Result<_, _>>()?;
            axis.set_entries(&tables, node)?;
        } else if self.places.is_some() {
            let picked = nodes.iter().map(|node| self.pick(node)).collect::<Result<Vec<_>, _>>()?;
            axis.entries = picked;
            axis.refuse_repeats(&node.place())?;
        } else {
            axis.set_values(read_list(node)?, node.place())?;
        }
        Ok(axis)
    }

    /// Finds an entry by its label or its value of `at`.
    fn pick(&self, node: &Node) -> Result<Entry, Fault> {
        if self.places == Some(Places::Table) {
            return Err(node.fault("is no table", "write the tables of the values to keep, as in the axis"));
        }
        let wanted = node.value()?;
        let is_it = |entry: &&Entry| {
            entry.coordinates.iter().any(|own| {
                own.value == wanted || own.label.as_deref().is_some_and(|label| Some(label) == wanted.as_text())
            })
        };
        let found = self.entries.iter().find(is_it).cloned();
        let known: Vec<String> = self.entries.iter().map(|entry| entry.coordinates[0].shown()).collect();
        found
            .ok_or_else(|| node.fault(format!("{wanted} is no value of the axis"), format!("use {}", known.join(", "))))
    }

    fn set_values(&mut self, values: Vec<Value>, place: String) -> Result<(), Fault> {
        for value in values {
            let is_number = value.as_number().is_some();
            if matches!(value, Value::List(_)) || (self.times.is_some() && !is_number) {
                let what = format!("`{value}` cannot be a value of the axis `{}`", self.name);
                let help = match self.times {
                    Some(_) => "write numbers: they are multiplied",
                    None => "give each list a name: name = \"..\", together = [{ at = .., key = [..] }, ..]",
                };
                return Err(Fault::new(place, what, help));
            }
            let at = Coordinate { name: self.name.clone(), value: value.clone(), label: None };
            self.entries.push(Entry {
                coordinates: vec![at],
                settings: vec![(self.keys[0].clone(), value)],
                own: Vec::new(),
            });
        }
        self.refuse_repeats(&place)
    }

    fn set_entries(&mut self, tables: &[Table], list: &Node) -> Result<(), Fault> {
        for table in tables {
            let entry = self.read_entry(table)?;
            self.entries.push(entry);
        }
        self.refuse_repeats(&list.place())
    }

    fn read_entry(&self, table: &Table) -> Result<Entry, Fault> {
        let (mut settings, own) = settings_of(table)?;
        for (key, value) in &self.rest {
            if settings.iter().all(|(own, _)| own != key) {
                settings.push((key.clone(), value.clone()));
            }
        }
        let set = |key: &String| settings.iter().any(|(own, _)| own == key) || own.iter().any(|(_, own, _)| own == key);
        let known = |key: &String| self.keys.contains(key);
        let keys = || settings.iter().map(|(key, _)| key).chain(own.iter().map(|(_, key, _)| key));
        if !self.keys.iter().all(set) || !keys().all(known) {
            let what = "does not set the same keys as the other values of the axis";
            return Err(table.fault(what, format!("set {}", self.keys.join(", "))));
        }
        let label = table.text("label")?;
        match self.places {
            Some(Places::Name) => return self.entry_at(table, label, settings, own),
            Some(Places::Table) => return self.entry_in(table, label, settings, own),
            Some(Places::Settings) | None => {}
        }
        if let Some(at) = table.get("at") {
            return Err(at.fault("needs an axis with a `name`", "give the axis a name, or leave `at` out"));
        }
        let mut coordinates = Vec::new();
        for (name, value) in &settings {
            if matches!(value, Value::List(_)) {
                return Err(
                    table.fault(format!("`{name}` is a list"), "give the axis a `name`, and each value an `at`")
                );
            }
            coordinates.push(Coordinate { name: name.clone(), value: value.clone(), label: label.clone() });
        }
        Ok(Entry { coordinates, settings, own })
    }

    /// Reads `at` or `label` as the position on a named axis.
    fn entry_at(&self, table: &Table, label: Option<String>, settings: Common, own: Own) -> Result<Entry, Fault> {
        let at = table.get("at").map(|at| at.value()).transpose()?;
        let value = at.or_else(|| label.clone().map(Value::Text)).filter(|at| !matches!(at, Value::List(_)));
        let value = value.ok_or_else(|| {
            table.fault("has no place on the axis", "write `at = ..` (a number or a text), or `label = \"..\"`")
        })?;
        Ok(Entry { coordinates: vec![Coordinate { name: self.name.clone(), value, label }], settings, own })
    }

    /// Reads `at` as a table of positions.
    fn entry_in(&self, table: &Table, label: Option<String>, settings: Common, own: Own) -> Result<Entry, Fault> {
        let at = table.need("at")?.table()?;
        at.known(&self.coordinates())?;
        let mut coordinates = Vec::new();
        for name in &self.coordinates {
            let node = at.need(name)?;
            let value = node.value()?;
            if matches!(value, Value::List(_)) {
                return Err(node.fault("is a list", "write a number or a text"));
            }
            coordinates.push(Coordinate { name: name.clone(), value, label: None });
        }
        if let (Some(label), Some(last)) = (label, coordinates.last_mut()) {
            last.label = Some(label);
        }
        Ok(Entry { coordinates, settings, own })
    }

    fn refuse_repeats(&self, place: &str) -> Result<(), Fault> {
        if self.entries.is_empty() {
            return Err(Fault::new(place, "there are no values", "write one at least"));
        }
        if self.entries.len() > MAX_AXIS_VALUES {
            let what = format!("there are {} values, more than {MAX_AXIS_VALUES}", self.entries.len());
            return Err(Fault::new(place, what, "take larger steps"));
        }
        if let Some(own) =
            self.entries.iter().map(|entry| &entry.coordinates[0].value).find(|own| self.not_yet.contains(own))
        {
            let what = format!("{own} is there already, and in `not_yet`");
            return Err(Fault::new(place, what, "remove it from one of them"));
        }
        let values = |entry: &Entry| entry.coordinates.iter().map(|own| own.value.clone()).collect::<Vec<_>>();
        for (at, entry) in self.entries.iter().enumerate() {
            if self.entries[..at].iter().any(|other| values(other) == values(entry)) {
                let what = format!("{} stands there twice", entry.coordinates[0].shown());
                return Err(Fault::new(place, what, "remove one"));
            }
        }
        Ok(())
    }

    /// Returns the names of the coordinates.
    pub fn coordinates(&self) -> Vec<&str> {
        self.coordinates.iter().map(String::as_str).collect()
    }

    /// Returns the values of one of the coordinates, in the order of the file, without repeats.
    pub fn values(&self, coordinate: &str) -> Vec<Value> {
        let mut values = Vec::new();
        for own in self.entries.iter().flat_map(|entry| &entry.coordinates).filter(|own| own.name == coordinate) {
            if !values.contains(&own.value) {
                values.push(own.value.clone());
            }
        }
        values
    }
}

impl Coordinate {
    /// Returns the label, or else the value.
    pub fn shown(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.value.to_string())
    }
}

fn values_of(table: &Table) -> Result<Common, Fault> {
    table.nodes().into_iter().map(|(key, node)| Ok((key, node.value()?))).collect()
}

/// Reads the keys of a value that vary together, and the keys for one instrument in tables named after it.
fn settings_of(table: &Table) -> Result<(Common, Own), Fault> {
    let (mut common, mut own) = (Vec::new(), Vec::new());
    for (key, node) in table.nodes().into_iter().filter(|(key, _)| key != "label" && key != "at") {
        match key.parse::<Instrument>() {
            Ok(instrument) => {
                for (key, node) in node.table()?.nodes() {
                    own.push((instrument, key, node.value()?));
                }
            }
            Err(_) => common.push((key, node.value()?)),
        }
    }
    if let Some((_, key, _)) = own.iter().find(|(_, key, _)| common.iter().any(|(other, _)| other == key)) {
        let what = format!("`{key}` stands there for all instruments, and for one");
        return Err(table.fault(what, "keep one of them"));
    }
    Ok((common, own))
}

fn read_list(node: &Node) -> Result<Vec<Value>, Fault> {
    node.list()?.iter().map(Node::value).collect()
}

/// Reads `from`, `to` and either `step` or `factor`. `to` is included if the steps reach it exactly.
fn read_range(table: &Table) -> Result<Vec<Value>, Fault> {
    let hint = "write `values = [..]`, or `from`, `to` and `step` or `factor`";
    let (from, to) = match (table.get("from"), table.get("to")) {
        (Some(from), Some(to)) => (from, to),
        _ => return Err(table.fault("the axis has no values", hint)),
    };
    let (step, is_factor) = match (table.get("step"), table.get("factor")) {
        (Some(step), None) => (step, false),
        (None, Some(factor)) => (factor, true),
        _ => return Err(table.fault("needs either `step` or `factor`", hint)),
    };
    let whole = [&from, &to, &step].iter().all(|node| matches!(node.value(), Ok(Value::Integer(_))));
    let (first, last, by) = (from.number()?, to.number()?, step.number()?);
    if first > last {
        return Err(to.fault(format!("{last} is below `from`, {first}"), "write the lower end first"));
    }
    if is_factor && (by <= 1.0 || first <= 0.0) {
        return Err(step.fault(
            format!("the factor {by} from {first} reaches nothing"),
            "set a factor above 1 and `from` above 0",
        ));
    }
    if !is_factor && by <= 0.0 {
        return Err(step.fault(format!("a step of {by} reaches nothing"), "set a step above 0"));
    }
    let mut values = Vec::new();
    for index in 0.. {
        let exact = if is_factor { first * by.powi(index) } else { first + by * f64::from(index) };
        let value = rounded(exact);
        // Also ends a range whose steps are too small to change the value.
        if value > last || values.len() > MAX_AXIS_VALUES {
            break;
        }
        values.push(if whole { Value::Integer(value as i64) } else { Value::Number(value) });
    }
    Ok(values)
}

fn rounded(number: f64) -> f64 {
    format!("{number:.*e}", SIGNIFICANT_DIGITS - 1).parse().unwrap_or(number)
}
