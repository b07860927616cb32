//! An experiment, read from its file. `docs/EXPERIMENTS.md` describes the keys.

mod axis;
mod claim;
mod plot;
mod profile;

pub use axis::{Axis, Coordinate, Entry, MAX_AXIS_VALUES};
pub use claim::{Claim, Limits, MAX_CLAIMS, Pick, Relation, Selection, Side, Tolerance};
pub use plot::{PaperValue, Plot};
pub use profile::{Base, DEFAULT_MAX_REPETITIONS, DEFAULT_MIN_REPETITIONS, MAX_REPETITIONS, Overrides, Repeat};

use crate::experiments::figures::Vocabulary;
use crate::experiments::names::{Instrument, Outliers, Profile};
use crate::experiments::source::{Node, Source, Table, unknown};
use crate::experiments::value::Value;
use quorate_types::{Choice, Fault};
use std::collections::BTreeMap;

/// Maximum size of a file in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// Maximum number of axes.
pub const MAX_AXES: usize = 12;
const KEYS: &[&str] = &[
    "title",
    "paper",
    "figure",
    "about",
    "instruments",
    "base",
    "axis",
    "exclude",
    "profile",
    "repeat",
    "outliers",
    "plot",
    "paper_value",
    "claim",
];

/// One experiment file: cells to run, plots to draw, and claims to judge.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// File name in errors.
    pub file: String,
    /// File name without `.toml`.
    pub id: String,
    pub title: String,
    /// `transports`, `signatures`, `lossmodel`, `pipeline`, `framework`, or a name chosen by the user.
    pub paper: String,
    /// Number of the figure or table in the paper; empty without one.
    pub figure: String,
    /// Description, one paragraph.
    pub about: String,
    /// Instruments. The first one is the default.
    pub instruments: Vec<Instrument>,
    pub base: Base,
    pub axes: Vec<Axis>,
    pub exclusions: Vec<Exclusion>,
    pub profiles: BTreeMap<Profile, Overrides>,
    pub repeat: Repeat,
    pub outliers: Outliers,
    pub plots: Vec<Plot>,
    pub paper_values: Vec<PaperValue>,
    pub claims: Vec<Claim>,
    /// Figures that the file may name.
    pub vocabulary: Vocabulary,
}

/// Cells to leave out: those that meet all conditions.
#[derive(Clone, PartialEq, Debug)]
pub struct Exclusion {
    /// Values by coordinate, of which `instrument` is one.
    pub conditions: Vec<(String, Vec<Value>)>,
    /// Exceptions: cells that meet all of these run nevertheless. No exceptions if empty.
    pub unless: Vec<(String, Vec<Value>)>,
    pub why: Option<String>,
    /// File, line and key, for errors.
    pub place: String,
}

impl Experiment {
    /// Parses a file. `file` names it in errors, and `vocabulary` has the figures that it may use.
    /// [`read`](crate::experiments::read) checks more.
    ///
    /// # Errors
    /// The file, the line, the key and the remedy.
    pub fn parse(text: &str, file: &str, vocabulary: Vocabulary) -> Result<Experiment, Fault> {
        if text.len() > MAX_FILE_BYTES {
            let what = format!("is {} bytes long, more than {MAX_FILE_BYTES}", text.len());
            return Err(Fault::new(file, what, "split the experiment"));
        }
        let source = Source { name: file, text };
        let entries = source.parse()?;
        let root = Table::root(&source, entries.get_ref());
        root.known(KEYS)?;
        let instruments = read_instruments(&root)?
            .ok_or_else(|| root.fault("`instruments` is missing", "write instruments = [\"simulated\"]"))?;
        let base = root.table("base")?.map_or(Ok(Base::default()), |table| Base::read(&table))?;
        let axes: Vec<Axis> = root.tables("axis")?.iter().map(Axis::read).collect::<Result<_, _>>()?;
        check_axes(&axes)?;
        let coordinates: Vec<&str> = axes.iter().flat_map(Axis::coordinates).collect();
        let read_repeat = |table: &Table| Repeat::default().with(table);
        let repeat = root.table("repeat")?.map_or(Ok(Repeat::default()), |table| read_repeat(&table))?;
        let claims: Vec<Claim> =
            root.tables("claim")?.iter().map(|table| Claim::read(table, &vocabulary)).collect::<Result<_, _>>()?;
        let read_plot = |table| Plot::read(table, &coordinates, &vocabulary);
        let plots = root.tables("plot")?.iter().map(read_plot).collect::<Result<_, _>>()?;
        let read_value = |table| PaperValue::read(table, &coordinates, &vocabulary);
        let paper_values = root.tables("paper_value")?.iter().map(read_value).collect::<Result<_, _>>()?;
        let exclusions = root.tables("exclude")?;
        let experiment = Experiment {
            file: file.to_owned(),
            id: id_of(file),
            title: root.need("title")?.text()?,
            paper: root.need("paper")?.text()?,
            figure: root.text("figure")?.unwrap_or_default(),
            about: root.need("about")?.text()?,
            profiles: read_profiles(&root, &axes, repeat, &instruments)?,
            instruments,
            base,
            exclusions: exclusions
                .iter()
                .map(|table| Exclusion::read(table, &coordinates))
                .collect::<Result<_, _>>()?,
            axes,
            repeat,
            outliers: root.choice("outliers")?.unwrap_or_default(),
            plots,
            paper_values,
            claims,
            vocabulary,
        };
        experiment.check_bases()?;
        experiment.check_claims()?;
        Ok(experiment)
    }

    /// Returns `PAPER/ID`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.paper, self.id)
    }

    /// Returns the names of all coordinates of its cells.
    pub fn coordinates(&self) -> Vec<&str> {
        self.axes.iter().flat_map(Axis::coordinates).collect()
    }

    /// Returns the place of a specification key's value: file, line and key. For errors of a runner, which knows the
    /// meaning of the values.
    pub fn place_of(&self, profile: Profile, instrument: Instrument, key: &str) -> String {
        let axis = |axes: &[Axis]| {
            axes.iter().find(|axis| axis.keys.iter().any(|own| own == key)).map(|axis| axis.place.clone())
        };
        let overrides = self.profiles.get(&profile);
        let places = [
            overrides.and_then(|overrides| axis(&overrides.axes)),
            axis(&self.axes),
            overrides.and_then(|overrides| overrides.base.place(instrument, key).map(str::to_owned)),
            self.base.place(instrument, key).map(str::to_owned),
        ];
        places.into_iter().flatten().next().unwrap_or_else(|| self.file.clone())
    }

    /// An axis overrides the base, so a key in both would mislead readers of the file.
    fn check_bases(&self) -> Result<(), Fault> {
        let bases = std::iter::once(&self.base).chain(self.profiles.values().map(|overrides| &overrides.base));
        for base in bases {
            let taken = |path: &&String| {
                let key = path.split_once('.').map_or(path.as_str(), |(_, key)| key);
                self.axes.iter().any(|axis| axis.keys.iter().any(|own| own == key))
            };
            if let Some(path) = base.places.keys().find(taken) {
                return Err(Fault::new(base.places[path].as_str(), "is set by an axis, too", "remove one of them"));
            }
        }
        Ok(())
    }

    fn check_claims(&self) -> Result<(), Fault> {
        if self.claims.len() > MAX_CLAIMS {
            let what = format!("there are {} claims, more than {MAX_CLAIMS}", self.claims.len());
            return Err(Fault::new(self.claims[MAX_CLAIMS].place.as_str(), what, "split the experiment"));
        }
        for (at, claim) in self.claims.iter().enumerate() {
            if self.claims[..at].iter().any(|other| other.id == claim.id) {
                let what = format!("the id `{}` stands there twice", claim.id);
                return Err(Fault::new(claim.place.as_str(), what, "give each claim an id of its own"));
            }
            let with = if let Relation::Agreement { with, .. } = &claim.relation { Some(*with) } else { None };
            if with.is_some() && with == Some(claim.instrument.unwrap_or(self.instruments[0])) {
                let what = "an instrument always agrees with itself";
                return Err(Fault::new(claim.place.as_str(), what, "set `instrument` or `with` to another one"));
            }
            let named = claim.instrument.into_iter().chain(with);
            if let Some(other) = named.into_iter().find(|other| !self.instruments.contains(other)) {
                let what = format!("the experiment does not run on the instrument `{other}`");
                return Err(Fault::new(claim.place.as_str(), what, "add it to `instruments`, or name one of them"));
            }
        }
        Ok(())
    }
}

impl Exclusion {
    fn read(table: &Table, axes: &[&str]) -> Result<Exclusion, Fault> {
        let is_condition = |(key, _): &(String, Node)| key != "why" && key != "unless";
        let conditions = Exclusion::conditions(table.nodes().into_iter().filter(is_condition), axes)?;
        let unless = table.table("unless")?;
        let unless = unless.map_or(Ok(Vec::new()), |table| Exclusion::conditions(table.nodes().into_iter(), axes))?;
        if conditions.is_empty() {
            return Err(table.fault("excludes every cell", "write the values of axes to leave out"));
        }
        Ok(Exclusion { conditions, unless, why: table.text("why")?, place: table.place() })
    }

    fn conditions<'s>(
        nodes: impl Iterator<Item = (String, Node<'s>)>,
        axes: &[&str],
    ) -> Result<Vec<(String, Vec<Value>)>, Fault> {
        let known: Vec<&str> = axes.iter().copied().chain(["instrument"]).collect();
        let mut conditions = Vec::new();
        for (key, node) in nodes {
            if !known.contains(&key.as_str()) {
                return Err(unknown(node.place(), "axis", &key, &known));
            }
            if key == "instrument" && !node.is_list() {
                node.choice::<Instrument>()?;
            }
            let values = match node.value()? {
                Value::List(values) => values,
                value => vec![value],
            };
            conditions.push((key, values));
        }
        Ok(conditions)
    }
}

fn id_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".toml").unwrap_or(name).to_owned()
}

fn read_instruments(table: &Table) -> Result<Option<Vec<Instrument>>, Fault> {
    let Some(node) = table.get("instruments") else { return Ok(None) };
    let mut instruments = Vec::new();
    for node in node.list()? {
        let instrument = node.choice::<Instrument>()?;
        if instruments.contains(&instrument) {
            return Err(node.fault(format!("`{instrument}` stands there twice"), "remove one"));
        }
        instruments.push(instrument);
    }
    if instruments.is_empty() {
        return Err(node.fault("is empty", format!("write one of {}", Instrument::names().join(", "))));
    }
    Ok(Some(instruments))
}

fn check_axes(axes: &[Axis]) -> Result<(), Fault> {
    if axes.len() > MAX_AXES {
        let what = format!("there are {} axes, more than {MAX_AXES}", axes.len());
        return Err(Fault::new(axes[MAX_AXES].place.as_str(), what, "let keys go together, or split the experiment"));
    }
    for (at, axis) in axes.iter().enumerate() {
        let names = || axis.keys.iter().map(String::as_str).chain(axis.coordinates());
        let taken =
            |other: &Axis, name: &str| other.keys.iter().any(|key| key == name) || other.coordinates().contains(&name);
        for other in &axes[..at] {
            if let Some(name) = names().find(|name| taken(other, name)) {
                let what = format!("`{name}` belongs to another axis, too");
                return Err(Fault::new(axis.place.as_str(), what, "set each key by one axis"));
            }
        }
        if let Some(times) = axes
            .iter()
            .find(|other| other.times.is_some() && axis.times.as_ref().is_some_and(|key| other.keys.contains(key)))
        {
            let what = format!("multiplies by `{}`, which is itself a multiple", times.keys[0]);
            return Err(Fault::new(axis.place.as_str(), what, "multiply by a key with a value of its own"));
        }
    }
    Ok(())
}

fn read_profiles(
    root: &Table,
    axes: &[Axis],
    repeat: Repeat,
    instruments: &[Instrument],
) -> Result<BTreeMap<Profile, Overrides>, Fault> {
    let mut profiles = BTreeMap::new();
    let Some(table) = root.table("profile")? else { return Ok(profiles) };
    table.known(&Profile::names())?;
    for (name, node) in table.nodes() {
        let profile = node.table()?;
        profile.known(&["base", "axes", "repeat", "instruments"])?;
        let mut changed = Vec::new();
        if let Some(table) = profile.table("axes")? {
            table.known(&axes.iter().map(|axis| axis.name.as_str()).collect::<Vec<_>>())?;
            for (name, node) in table.nodes() {
                let axis = axes.iter().find(|axis| axis.name == name);
                changed.extend(axis.map(|axis| axis.with(&node)).transpose()?);
            }
        }
        let own = read_instruments(&profile)?;
        if let Some(other) = own.iter().flatten().find(|own| !instruments.contains(own)) {
            let what = format!("the experiment does not run on the instrument `{other}`");
            return Err(profile.fault(what, "add it to `instruments` at the top, or leave it out"));
        }
        let overrides = Overrides {
            base: profile.table("base")?.map_or(Ok(Base::default()), |table| Base::read(&table))?,
            axes: changed,
            repeat: profile.table("repeat")?.map(|table| repeat.with(&table)).transpose()?,
            instruments: own,
        };
        if let Ok(profile) = name.parse() {
            profiles.insert(profile, overrides);
        }
    }
    Ok(profiles)
}
