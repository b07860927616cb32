//! Pages with the plots of plans.

use super::{FpgaAnswer, Plan};
use quorate_plots::{Axis, Block, Figure, Page, Panel, Plot, PlotError, Point, Section, Series, Trace};
use quorate_simulator::models::plan::CpuPlan;
use quorate_simulator::models::plan::cpu::CpuPoint;
use quorate_types::text::quote;
use std::collections::BTreeSet;

/// Draws a plan. `command` is shown as the way to reproduce it.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn page(plan: &Plan, command: &[String]) -> Result<String, PlotError> {
    let (title, lead, figures) = match plan {
        Plan::Fpga(answer) => fpga(answer),
        Plan::Cpu(plan) => cpu(plan),
    };
    let words: Vec<String> = command.iter().map(|word| quote(word)).collect();
    let blocks = figures.into_iter().map(|figure| Block::Figure(Box::new(figure)));
    let blocks = blocks.chain([Block::Command(format!("quorate {}", words.join(" ")))]).collect();
    quorate_plots::page(&Page {
        title,
        lead: vec![lead, "Arithmetic: nothing was run. docs/MODELS.md lists its assumptions.".to_owned()],
        sections: vec![Section { id: "plan".to_owned(), title: String::new(), blocks }],
        footer: crate::result::version(),
    })
}

/// A point of a plan: its group, its value size, and the drawn value.
type Place = (usize, u32, f64);

/// Returns the axis and its series: along the groups, with a series per size, or along the sizes if there is only one
/// group.
fn series(places: &[Place]) -> (Axis, Vec<Series>) {
    let groups: BTreeSet<usize> = places.iter().map(|(replicas, ..)| *replicas).collect();
    let along_groups = groups.len() > 1;
    let rest: BTreeSet<u32> =
        places.iter().map(|(replicas, value, _)| if along_groups { *value } else { *replicas as u32 }).collect();
    let of = |own: u32| {
        let points = places.iter().filter_map(|(replicas, value, y)| match along_groups {
            true => (*value == own).then(|| Point::new(*replicas as f64, *y)),
            false => (*replicas as u32 == own).then(|| Point::new(f64::from(*value), *y)),
        });
        let name = if along_groups { format!("{own} B") } else { format!("{own} replicas") };
        Series { name, points: points.collect(), ..Series::default() }
    };
    let x = if along_groups { Axis::new("replicas", "") } else { Axis::new("value", "B") };
    (x, rest.into_iter().map(of).collect())
}

fn figure(id: &str, title: &str, x: Axis, y: Axis, panels: Vec<Panel<Series>>) -> Figure {
    let (id, title) = (id.to_owned(), title.to_owned());
    Figure { id, title, caption: String::new(), x, y, plot: Plot::Line(panels) }
}

/// Adds a line at the device's capacity.
fn with_limit(title: &str, mut all: Vec<Series>, name: &str, limit: f64) -> Panel<Series> {
    let ends = all.iter().flat_map(|series| &series.points).map(|point| point.x);
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let points = vec![Point::new(low, limit), Point::new(high, limit)];
    all.push(Series { name: name.to_owned(), trace: Trace::Line, points, ..Series::default() });
    Panel::new(title, all)
}

fn fpga(answer: &FpgaAnswer) -> (String, String, Vec<Figure>) {
    let plan = &answer.plan;
    let device = &plan.device;
    let places = |of: &dyn Fn(&quorate_simulator::models::plan::Point) -> f64| {
        let place = |point: &quorate_simulator::models::plan::Point| (point.replicas, point.value_bytes, of(point));
        series(&plan.points.iter().map(place).collect::<Vec<Place>>())
    };
    let (x, total) = places(&|point| point.total.slices);
    let (_, signatures) = places(&|point| point.signature_slices);
    let (_, dsps) = places(&|point| point.total.dsps);
    let (_, rates) = places(&|point| point.operations_per_s);
    let logic = vec![
        with_limit("all stages", total, &device.name, device.slices),
        with_limit("signatures alone", signatures, &device.name, device.slices),
    ];
    let dsps = vec![with_limit("", dsps, &device.name, device.dsps)];
    let rates = vec![Panel::new("", rates)];
    let figures = vec![
        figure("slices", "Logic of a replica at line rate", x.clone(), Axis::from_zero("slices", ""), logic),
        figure("dsps", "Multipliers of a replica at line rate", x.clone(), Axis::from_zero("DSPs", ""), dsps),
        figure("operations", "Operations at link capacity", x, Axis::from_zero("operations", "1/s"), rates),
    ];
    let gigabits = plan.line_rate_bits_per_s / 1e9;
    let lead = format!("{gigabits} Gbit/s, profile {}, {}, on {}.", plan.profile, answer.scheme, device.name);
    ("Plan for an FPGA".to_owned(), lead, figures)
}

fn cpu(plan: &CpuPlan) -> (String, String, Vec<Figure>) {
    let busiest = |point: &CpuPoint| point.roles.iter().map(|role| role.cores).fold(0.0, f64::max);
    let place = |point: &CpuPoint| (point.replicas, point.value_bytes, busiest(point));
    let (x, cores) = series(&plan.points.iter().map(place).collect::<Vec<Place>>());
    let by_cores = plan.points.iter().map(|point| Series {
        name: format!("{} replicas, {} B", point.replicas, point.value_bytes),
        points: point.on_cores.iter().map(|own| Point::new(f64::from(own.cores), own.operations_per_s)).collect(),
        ..Series::default()
    });
    let (cores, by_cores) = (vec![Panel::new("", cores)], vec![Panel::new("", by_cores.collect())]);
    let (title, y) = ("Throughput by the number of cores", Axis::from_zero("operations", "1/s"));
    let figures = vec![
        figure("cores", "Cores of a replica under the load", x, Axis::from_zero("cores", ""), cores),
        figure("throughput", title, Axis::new("cores", ""), y, by_cores),
    ];
    let lead = format!("Profile {}, {}, costs: {}.", plan.profile, plan.scheme, plan.costs);
    ("Plan for a processor".to_owned(), lead, figures)
}
