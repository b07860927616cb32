//! Checks of a whole experiment: its cells exist, and its claims can be judged and can fail.

use crate::experiments::axes::{INSTRUMENT, Plan};
use crate::experiments::claims::{cases, instrument_of, select};
use crate::experiments::figures::Vocabulary;
use crate::experiments::file::{Claim, Exclusion, Experiment, Limits, Pick, Plot, Relation, Selection};
use crate::experiments::names::{Instrument, Profile};
use crate::experiments::source::unknown;
use crate::experiments::value::Value;
use quorate_types::Fault;

/// Reads an experiment from a file's text. `file` names it in errors, and `vocabulary` has the figures that it may use.
/// Checks everything except the keys of specifications, for which there is [`Experiment::check_keys`].
///
/// # Errors
/// The file, the line, the key and the remedy.
pub fn read(text: &str, file: &str, vocabulary: Vocabulary) -> Result<Experiment, Fault> {
    let experiment = Experiment::parse(text, file, vocabulary)?;
    let plans: Vec<Plan> =
        Profile::ALL.iter().map(|profile| experiment.plan(*profile, None)).collect::<Result<_, _>>()?;
    for exclusion in &experiment.exclusions {
        check_exclusion(&experiment, exclusion)?;
    }
    for plot in &experiment.plots {
        check_plot(&plans, plot)?;
    }
    for claim in &experiment.claims {
        check_claim(&plans, claim)?;
    }
    drop(plans);
    Ok(experiment)
}

impl Experiment {
    /// Checks that all keys of the specifications are known. `known` returns the keys of an instrument, or `None` if
    /// they are not known.
    ///
    /// # Errors
    /// The first unknown key, its place and the nearest name.
    pub fn check_keys(&self, known: impl Fn(Instrument) -> Vec<String>) -> Result<(), Fault> {
        for profile in Profile::ALL {
            let plan = self.plan(*profile, None)?;
            for instrument in &plan.instruments {
                let keys = known(*instrument);
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                let cells = plan.cells.iter().filter(|cell| cell.instrument == *instrument);
                let unknown_key =
                    cells.flat_map(|cell| cell.specification.keys()).find(|key| !keys.contains(&key.as_str()));
                if let Some(key) = unknown_key {
                    let place = self.place_of(*profile, *instrument, key);
                    let other =
                        self.instruments.iter().find(|other| *other != instrument && known(**other).contains(key));
                    return Err(match other {
                        Some(other) => Fault::new(
                            place,
                            format!("the instrument {instrument} has no key `{key}`"),
                            format!("write it in [base.{other}], or leave {instrument} out"),
                        ),
                        None => unknown(place, "key of a specification", key, &keys),
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns the values of a coordinate over all profiles.
    fn all_values(&self, coordinate: &str) -> Vec<Value> {
        let changed = self.profiles.values().flat_map(|overrides| &overrides.axes);
        let values = self.axes.iter().chain(changed).flat_map(|axis| axis.values(coordinate));
        values.chain(self.not_yet(coordinate).iter().cloned()).collect()
    }

    /// Returns the values of a coordinate that the program does not support yet.
    pub(crate) fn not_yet(&self, coordinate: &str) -> &[Value] {
        self.axes.iter().find(|axis| axis.coordinates() == [coordinate]).map_or(&[], |axis| &axis.not_yet)
    }
}

fn check_exclusion(experiment: &Experiment, exclusion: &Exclusion) -> Result<(), Fault> {
    let all = exclusion.conditions.iter().chain(&exclusion.unless);
    for (key, values) in all.filter(|(key, _)| key != INSTRUMENT) {
        check_values(experiment, key, values, &exclusion.place)?;
    }
    Ok(())
}

/// Checks the selection of a plot, which may name instruments.
fn check_plot(plans: &[Plan], plot: &Plot) -> Result<(), Fault> {
    let (of_instruments, of_axes): (Vec<_>, Vec<_>) =
        plot.selection.0.iter().cloned().partition(|(key, _)| key == INSTRUMENT);
    let known = &plans[0].experiment.instruments;
    for (_, pick) in of_instruments {
        let Pick::OneOf(values) = pick else { continue };
        let is_known = |value: &Value| known.iter().any(|own| Some(own.name()) == value.as_text());
        if let Some(other) = values.iter().find(|value| !is_known(value)) {
            let names: Vec<&str> = known.iter().map(|own| own.name()).collect();
            return Err(unknown(plot.place.clone(), "instrument of the experiment", &other.to_string(), &names));
        }
    }
    check_selection(plans, &Selection(of_axes), &plot.place)
}

/// Checks that each value is on the axis in some profile.
fn check_values(experiment: &Experiment, axis: &str, values: &[Value], place: &str) -> Result<(), Fault> {
    let known = experiment.all_values(axis);
    let Some(other) = values.iter().find(|value| !known.contains(value)) else { return Ok(()) };
    let names: Vec<String> = known.iter().map(Value::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Err(unknown(place.to_owned(), &format!("value of the axis `{axis}`"), &other.to_string(), &names))
}

/// Checks the axes and values of a selection, and that some profile has a matching cell.
fn check_selection(plans: &[Plan], selection: &Selection, place: &str) -> Result<(), Fault> {
    let experiment = plans[0].experiment;
    for (axis, pick) in &selection.0 {
        check_axis(experiment, axis, place)?;
        match pick {
            Pick::OneOf(values) => check_values(experiment, axis, values, place)?,
            Pick::Smallest | Pick::Largest => check_numeric(experiment, axis, place)?,
        }
    }
    if selection.0.iter().any(|(axis, pick)| is_not_yet(experiment, axis, pick)) {
        return Ok(());
    }
    let matches = |plan: &Plan| !select(plan, (0..plan.cells.len()).collect(), selection).is_empty();
    if plans.iter().any(matches) {
        return Ok(());
    }
    Err(Fault::new(place, "selects no cell of any profile", "change the values, or the exclusions"))
}

/// Returns whether the program supports none of a condition's values yet.
fn is_not_yet(experiment: &Experiment, axis: &str, pick: &Pick) -> bool {
    let awaited = experiment.not_yet(axis);
    matches!(pick, Pick::OneOf(values) if values.iter().all(|value| awaited.contains(value)))
}

/// Returns whether a claim compares values that the program does not support yet.
fn awaits(experiment: &Experiment, claim: &Claim) -> bool {
    let any = |selection: &Selection| selection.0.iter().any(|(axis, pick)| is_not_yet(experiment, axis, pick));
    any(&claim.selection)
        || match &claim.relation {
            Relation::Order { by, values, .. } => values.iter().any(|value| experiment.not_yet(by).contains(value)),
            Relation::Ratio { numerator: a, denominator: b, .. } | Relation::Crossing { first: a, second: b, .. } => {
                any(a) || any(b)
            }
            _ => false,
        }
}

fn check_axis(experiment: &Experiment, axis: &str, place: &str) -> Result<(), Fault> {
    let axes = experiment.coordinates();
    if axes.contains(&axis) { Ok(()) } else { Err(unknown(place.to_owned(), "axis", axis, &axes)) }
}

fn check_numeric(experiment: &Experiment, axis: &str, place: &str) -> Result<(), Fault> {
    match experiment.all_values(axis).iter().find(|value| value.as_number().is_none()) {
        None => Ok(()),
        Some(value) => {
            let what = format!("the axis `{axis}` has the value `{value}`, which is no number");
            Err(Fault::new(place, what, "use kind = \"order\" or \"ratio\", or give the values numbers with `at`"))
        }
    }
}

fn check_claim(plans: &[Plan], claim: &Claim) -> Result<(), Fault> {
    let (experiment, place) = (plans[0].experiment, claim.place.as_str());
    check_selection(plans, &claim.selection, place)?;
    for axis in &claim.over {
        check_axis(experiment, axis, place)?;
        if claim.relation.axes().contains(&axis.as_str()) {
            let what = format!("`{axis}` is reduced by `over` and named by the relation");
            return Err(Fault::new(place, what, "remove it from one of them"));
        }
    }
    check_relation(plans, claim)?;
    let reasons: Vec<String> = plans.iter().filter_map(|plan| cases(plan, claim).err()).collect();
    if reasons.len() == plans.len() && !awaits(experiment, claim) {
        return Err(Fault::new(
            place,
            format!("no profile can judge it: {}", reasons.join("; ")),
            "change the claim, or the axes",
        ));
    }
    check_repetitions(plans, claim)
}

fn check_relation(plans: &[Plan], claim: &Claim) -> Result<(), Fault> {
    let (experiment, place) = (plans[0].experiment, claim.place.as_str());
    match &claim.relation {
        Relation::Bound { .. } | Relation::Agreement { .. } => Ok(()),
        Relation::Order { by, values, .. } => {
            check_axis(experiment, by, place)?;
            check_values(experiment, by, values, place)
        }
        Relation::Ratio { numerator, denominator, .. } => {
            check_selection(plans, numerator, place)?;
            check_selection(plans, denominator, place)
        }
        Relation::Trend { along, .. } | Relation::Plateau { along, .. } => {
            check_axis(experiment, along, place)?;
            check_numeric(experiment, along, place)
        }
        Relation::Saturation { along, limits, .. } => {
            check_axis(experiment, along, place)?;
            check_numeric(experiment, along, place)?;
            check_place_limits(experiment, along, *limits, place)
        }
        Relation::Crossing { along, first, second, limits, .. } => {
            check_axis(experiment, along, place)?;
            check_numeric(experiment, along, place)?;
            if first.keys().contains(&along.as_str()) {
                let what = format!("`first` and `second` fix `{along}`, along which they are compared");
                return Err(Fault::new(place, what, "leave it out of them"));
            }
            check_selection(plans, first, place)?;
            check_selection(plans, second, place)?;
            check_place_limits(experiment, along, *limits, place)
        }
    }
}

/// Checks that a position on an axis can lie both outside and within its limits.
fn check_place_limits(experiment: &Experiment, along: &str, limits: Limits, place: &str) -> Result<(), Fault> {
    let values: Vec<f64> = experiment.all_values(along).iter().filter_map(Value::as_number).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    if limits.max.is_none() && limits.min.is_some_and(|min| min <= least) {
        let what = format!("`{along}` starts at {least}, so the claim cannot fail");
        return Err(Fault::new(place, what, "raise `min`, or set `max`"));
    }
    if limits.max.is_some() && !values.iter().any(|value| limits.contain(*value)) {
        let what = format!("no value of `{along}` lies within the limits, so the claim cannot hold");
        return Err(Fault::new(place, what, "change `min` or `max`"));
    }
    Ok(())
}

/// A single inexact run decides nothing, so a claim needs two repetitions in a profile that can judge it.
fn check_repetitions(plans: &[Plan], claim: &Claim) -> Result<(), Fault> {
    let is_stuck =
        |plan: &&Plan| cases(plan, claim).is_ok() && !instrument_of(claim, plan).is_exact() && plan.repeat.max < 2;
    match plans.iter().find(is_stuck) {
        Some(plan) => Err(Fault::new(
            claim.place.as_str(),
            format!("one repetition in the profile {} cannot decide it", plan.profile),
            "set `max` in [repeat] to 2 at least",
        )),
        None => Ok(()),
    }
}
