//! Finds the cells of a claim.

use crate::experiments::axes::{Cell, Plan};
use crate::experiments::file::{Claim, Pick, Relation, Selection};
use crate::experiments::names::Instrument;
use crate::experiments::value::Value;

/// The cells of a claim at one point: one combination of values of the axes that the relation does not name.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// The point in words; empty if there is only one.
    pub at: String,
    /// The values that the relation compares, in its order: for a crossing, `first` and then `second`.
    pub terms: Vec<Term>,
}

/// One value that a relation compares.
#[derive(Clone, PartialEq, Debug)]
pub struct Term {
    pub label: String,
    /// The value on the relation's axis, if it is a number.
    pub at: Option<f64>,
    /// Indices of the cells over which the figure is reduced.
    pub cells: Vec<usize>,
}

/// Returns the instrument that judges a claim in a plan.
pub fn instrument_of(claim: &Claim, plan: &Plan) -> Instrument {
    claim.instrument.unwrap_or(plan.instruments[0])
}

/// Returns the cases of a claim.
///
/// # Errors
/// If the plan lacks the cells to judge the claim, with the reason.
pub fn cases(plan: &Plan, claim: &Claim) -> Result<Vec<Case>, String> {
    let instrument = instrument_of(claim, plan);
    if !plan.instruments.contains(&instrument) {
        return Err(format!("the instrument {instrument} was not run"));
    }
    let of_instrument = (0..plan.cells.len()).filter(|cell| plan.cells[*cell].instrument == instrument).collect();
    let cells = select(plan, of_instrument, &claim.selection);
    if cells.is_empty() {
        let awaited = not_yet(plan, &claim.selection);
        return Err(format!("the profile {} has no cell that the claim is about{awaited}", plan.profile));
    }
    let named: Vec<&str> = claim.relation.axes().into_iter().chain(claim.over.iter().map(String::as_str)).collect();
    let mut cases = Vec::new();
    let mut lacking = String::new();
    for (at, group) in groups(plan, &cells, &named) {
        match terms(plan, &claim.relation, group) {
            Ok(terms) => cases.push(Case { at, terms }),
            Err(why) => lacking = why,
        }
    }
    if cases.is_empty() { Err(format!("the profile {} {lacking}", plan.profile)) } else { Ok(cases) }
}

impl Relation {
    /// Returns the axes that the relation names.
    pub fn axes(&self) -> Vec<&str> {
        match self {
            Relation::Order { by, .. } => vec![by],
            Relation::Ratio { numerator, .. } => numerator.keys(),
            Relation::Trend { along, .. } | Relation::Saturation { along, .. } | Relation::Plateau { along, .. } => {
                vec![along]
            }
            Relation::Crossing { along, first, .. } => first.keys().into_iter().chain([along.as_str()]).collect(),
            Relation::Bound { .. } | Relation::Agreement { .. } => Vec::new(),
        }
    }
}

/// Returns the cells that meet all conditions. Conditions on values apply first; smallest and largest apply to the
/// remaining cells.
pub fn select(plan: &Plan, mut cells: Vec<usize>, selection: &Selection) -> Vec<usize> {
    for (axis, pick) in &selection.0 {
        if let Pick::OneOf(values) = pick {
            cells.retain(|cell| plan.cells[*cell].is_one_of(axis, values));
        }
    }
    for (axis, pick) in &selection.0 {
        let number = |cell: &usize| plan.cells[*cell].get(axis).and_then(Value::as_number);
        let numbers = cells.iter().filter_map(number);
        let wanted = match pick {
            Pick::OneOf(_) => continue,
            Pick::Smallest => numbers.reduce(f64::min),
            Pick::Largest => numbers.reduce(f64::max),
        };
        cells.retain(|cell| number(cell).is_some() && number(cell) == wanted);
    }
    cells
}

/// Groups cells by their values on all axes except the named ones, described by the axes on which the groups differ.
fn groups(plan: &Plan, cells: &[usize], named: &[&str]) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(Vec<String>, Vec<usize>)> = Vec::new();
    for cell in cells {
        let rest = plan.cells[*cell].coordinates.iter().filter(|own| !named.contains(&own.name.as_str()));
        let rest: Vec<String> = rest.map(|own| format!("{} {}", own.name, own.shown())).collect();
        match groups.iter_mut().find(|(at, _)| *at == rest) {
            Some((_, group)) => group.push(*cell),
            None => groups.push((rest, vec![*cell])),
        }
    }
    let differs = |index: usize| groups.iter().any(|(at, _)| at[index] != groups[0].0[index]);
    let telling: Vec<usize> = (0..groups.first().map_or(0, |(at, _)| at.len())).filter(|at| differs(*at)).collect();
    let words = |at: &[String]| telling.iter().map(|index| at[*index].clone()).collect::<Vec<_>>().join(", ");
    groups.iter().map(|(at, group)| (words(at), group.clone())).collect()
}

fn terms(plan: &Plan, relation: &Relation, cells: Vec<usize>) -> Result<Vec<Term>, String> {
    let picked = |selection: &Selection| select(plan, cells.clone(), selection);
    match relation {
        Relation::Bound { .. } => Ok(vec![Term { label: String::new(), at: None, cells }]),
        Relation::Agreement { with, .. } => {
            let own = &plan.cells[cells[0]];
            let is_same = |other: &Cell| other.instrument == *with && other.coordinates == own.coordinates;
            let other = plan.cells.iter().position(is_same).ok_or_else(|| format!("has no such cell of {with}"))?;
            let term = |instrument: Instrument, cells| Term { label: instrument.to_string(), at: None, cells };
            Ok(vec![term(own.instrument, cells), term(*with, vec![other])])
        }
        Relation::Order { by, values, .. } => {
            let one = |value: &Value| {
                let selection = Selection(vec![(by.clone(), Pick::OneOf(vec![value.clone()]))]);
                let cells = picked(&selection);
                let label = format!("{by} {value}");
                if cells.is_empty() {
                    return Err(format!("has no cell with {label}{}", not_yet(plan, &selection)));
                }
                Ok(Term { label, at: value.as_number(), cells })
            };
            values.iter().map(one).collect()
        }
        Relation::Ratio { numerator, denominator, .. } => {
            let both = [numerator, denominator].map(|selection| {
                let cells = picked(selection);
                Term { label: label_of(plan, &cells, &selection.keys()), at: None, cells }
            });
            if both.iter().any(|term| term.cells.is_empty()) {
                let awaited = not_yet(plan, numerator) + &not_yet(plan, denominator);
                return Err(format!("lacks one of the two points{awaited}"));
            }
            if both[0].cells == both[1].cells {
                return Err("has only one of the two points".to_owned());
            }
            Ok(both.into())
        }
        Relation::Trend { along, .. } | Relation::Saturation { along, .. } => steps(plan, along, &cells),
        Relation::Plateau { along, from, to, .. } => {
            let number = |cell: &usize| plan.cells[*cell].get(along).and_then(Value::as_number);
            let between = |cell: &usize| number(cell).is_some_and(|at| *from <= at && at <= *to);
            let cells: Vec<usize> = cells.into_iter().filter(between).collect();
            steps(plan, along, &cells).map_err(|why| format!("{why} from {from} to {to}"))
        }
        Relation::Crossing { along, first, second, .. } => {
            let (mut a, mut b) = (steps(plan, along, &picked(first))?, steps(plan, along, &picked(second))?);
            let has = |terms: &[Term], at: Option<f64>| terms.iter().any(|term| term.at == at);
            let (own, other) = (a.clone(), b.clone());
            a.retain(|term| has(&other, term.at));
            b.retain(|term| has(&own, term.at));
            if a.len() < 2 {
                return Err(format!("has fewer than two values of {along} for both series"));
            }
            Ok(a.into_iter().chain(b).collect())
        }
    }
}

/// Returns a term for each value of an axis, in ascending order.
fn steps(plan: &Plan, along: &str, cells: &[usize]) -> Result<Vec<Term>, String> {
    let mut terms: Vec<Term> = Vec::new();
    for cell in cells {
        let value = plan.cells[*cell].get(along);
        let at = value.and_then(Value::as_number);
        let Some(number) = at else { return Err(format!("has values of {along} that are no numbers")) };
        match terms.iter_mut().find(|term| term.at == at) {
            Some(term) => term.cells.push(*cell),
            None => terms.push(Term { label: format!("{along} {number}"), at, cells: vec![*cell] }),
        }
    }
    terms.sort_by(|a, b| a.at.unwrap_or(0.0).total_cmp(&b.at.unwrap_or(0.0)));
    if terms.len() < 2 { Err(format!("has fewer than two values of {along}")) } else { Ok(terms) }
}

/// Returns a remark about values of a selection that the program does not support yet.
fn not_yet(plan: &Plan, selection: &Selection) -> String {
    let mut remark = String::new();
    for (axis, pick) in &selection.0 {
        let Pick::OneOf(values) = pick else { continue };
        let awaited = plan.axes.iter().filter(|own| own.coordinates() == [axis]).flat_map(|own| &own.not_yet);
        for value in awaited.filter(|value| values.contains(value)) {
            remark.push_str(&format!("; {axis} {value} is not there yet"));
        }
    }
    remark
}

fn label_of(plan: &Plan, cells: &[usize], axes: &[&str]) -> String {
    let Some(cell) = cells.first() else { return String::new() };
    let own = plan.cells[*cell].coordinates.iter().filter(|own| axes.contains(&own.name.as_str()));
    own.map(|own| format!("{} {}", own.name, own.shown())).collect::<Vec<_>>().join(", ")
}
