//! Formats plans for the terminal.

use super::FpgaAnswer;
use comfy_table::{CellAlignment, Table, presets};
use quorate_simulator::models::plan::cpu::CpuPoint;
use quorate_simulator::models::plan::fpga::Least;
use quorate_simulator::models::plan::{Basis, CpuPlan, Point};

const BITS_PER_GBIT: f64 = 1e9;

/// Formats a whole number with separators.
fn whole(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 && digits != "0" { format!("-{text}") } else { text }
}

fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.to_vec());
    table
}

/// Right-aligns all columns except the first `left` ones and the last.
fn aligned(mut table: Table, left: usize) -> String {
    let columns = table.column_count();
    let numbers = columns.saturating_sub(left + 1);
    table.column_iter_mut().skip(left).take(numbers).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

/// Describes a plan for an FPGA.
pub fn fpga(answer: &FpgaAnswer) -> String {
    let plan = &answer.plan;
    let device = &plan.device;
    let mut text = format!(
        "{} Gbit/s, profile {}, {}\n{}, {}: {} slices, {} DSPs, {} BRAMs\n\n",
        plan.line_rate_bits_per_s / BITS_PER_GBIT,
        plan.profile,
        answer.scheme,
        device.name,
        device.about,
        whole(device.slices),
        whole(device.dsps),
        whole(device.brams)
    );
    match plan.points.as_slice() {
        [only] => text += &stages(only),
        points => text += &rows(points),
    }
    text += "\n\nleast group from which on all fit\n";
    let of = |name: &str, least: &[Least]| -> String {
        let all: Vec<String> = least.iter().map(least_group).collect();
        format!("{name:<10} {}\n", all.join("; "))
    };
    text += &of(&device.name, &plan.least_replicas);
    for other in &answer.other_devices {
        text += &of(&other.device, &other.least_replicas);
    }
    let assumed: Vec<&str> =
        plan.sources.iter().filter(|own| own.basis == Basis::Assumed).map(|own| own.core.as_str()).collect();
    if !assumed.is_empty() {
        text += &format!("\nassumed, since no source prints their resources: {}", assumed.join(", "));
    }
    text
}

fn least_group(least: &Least) -> String {
    let value = whole(f64::from(least.value_bytes.unwrap_or_default()));
    match least.replicas {
        Some(replicas) => format!("{value} B: {replicas} replicas"),
        None => format!("{value} B: none"),
    }
}

fn verdict(point: &Point) -> String {
    let used = [point.used_percent.slices, point.used_percent.dsps, point.used_percent.brams];
    let most = used.into_iter().fold(0.0, f64::max);
    let verdict = if point.fits { "fits" } else { "does not fit" };
    format!("{verdict}, {most:.0} % of {}", point.limit)
}

fn stages(point: &Point) -> String {
    let mut table = plain(&["stage", "core", "needed/s", "of one/s", "cores", "slices", "DSPs", "BRAMs", "basis"]);
    for own in &point.stages {
        table.add_row([
            own.stage.to_string(),
            own.core.clone(),
            whole(own.units_per_s),
            whole(own.units_per_s_and_core),
            whole(own.cores),
            whole(own.resources.slices),
            whole(own.resources.dsps),
            whole(own.resources.brams),
            own.basis.to_string(),
        ]);
    }
    for (name, own) in [("total", point.total), ("remaining", point.remaining)] {
        let [slices, dsps, brams] = [own.slices, own.dsps, own.brams].map(whole);
        let empty = String::new;
        table.add_row([name.to_owned(), empty(), empty(), empty(), empty(), slices, dsps, brams, empty()]);
    }
    let head = format!(
        "{} replicas, values of {} B, batches of {}: {} operations/s, {:.1} % of the line are values\n",
        point.replicas,
        whole(f64::from(point.value_bytes)),
        point.batch,
        whole(point.operations_per_s),
        point.goodput_percent
    );
    format!("{head}{}\n{}", aligned(table, 2), verdict(point))
}

fn rows(points: &[Point]) -> String {
    let stages = points.first().map_or(&[][..], |point| &point.stages);
    let names: Vec<String> = stages.iter().map(|own| own.stage.to_string()).collect();
    let mut header = vec!["replicas", "value B", "operations/s"];
    header.extend(names.iter().map(String::as_str));
    header.extend(["slices", "DSPs", "BRAMs", "remaining slices", ""]);
    let mut table = plain(&header);
    for point in points {
        let mut row =
            vec![point.replicas.to_string(), whole(f64::from(point.value_bytes)), whole(point.operations_per_s)];
        row.extend(point.stages.iter().map(|own| whole(own.cores)));
        row.extend([point.total.slices, point.total.dsps, point.total.brams, point.remaining.slices].map(whole));
        row.push(verdict(point));
        table.add_row(row);
    }
    aligned(table, 0)
}

/// Describes a plan for a processor.
pub fn cpu(plan: &CpuPlan) -> String {
    let mut text = format!("costs: {}\nprofile {}, {}\n\n", plan.costs, plan.profile, plan.scheme);
    match plan.points.as_slice() {
        [only] => text += &roles(only),
        points => text += &cpu_rows(points),
    }
    text
}

fn roles(point: &CpuPoint) -> String {
    let mut header = vec!["stage".to_owned()];
    for role in &point.roles {
        header.extend([format!("{} us", role.role), format!("{} cores", role.role)]);
    }
    header.push(String::new());
    let mut table = plain(&header.iter().map(String::as_str).collect::<Vec<_>>());
    let stages = point.roles.first().map_or(&[][..], |role| &role.stages);
    for (at, own) in stages.iter().enumerate() {
        let mut row = vec![own.stage.to_string()];
        for role in &point.roles {
            let own = role.stages[at];
            row.extend([format!("{:.2}", own.us_per_operation), format!("{:.2}", own.cores)]);
        }
        table.add_row(row);
    }
    let mut row = vec!["all".to_owned()];
    for role in &point.roles {
        row.extend([format!("{:.2}", role.us_per_operation), format!("{:.2}", role.cores)]);
    }
    table.add_row(row);
    let head = format!(
        "{} replicas, values of {} B, batches of {}: {} operations/s, at most {} at link capacity\n",
        point.replicas,
        whole(f64::from(point.value_bytes)),
        point.batch,
        whole(point.operations_per_s),
        whole(point.line_limit_per_s)
    );
    let mut text = format!("{head}{}\n\ncores per replica: {}\n", aligned(table, 1), whole(point.cores));
    for role in &point.roles {
        let at = whole(role.saturates_at_per_s);
        text += &format!("{}: `{}` saturates one core first, at {at}/s\n", role.role, role.saturates_first);
    }
    for own in &point.on_cores {
        let cores = if own.cores == 1 { "core" } else { "cores" };
        text += &format!("on {} {cores}: {}/s, limited by {}\n", own.cores, whole(own.operations_per_s), own.limit);
    }
    text.trim_end().to_owned()
}

fn cpu_rows(points: &[CpuPoint]) -> String {
    let cores: Vec<String> =
        points.first().map_or(&[][..], |point| &point.on_cores).iter().map(|own| format!("on {}", own.cores)).collect();
    let mut header = vec!["replicas", "value B", "operations/s", "us", "cores"];
    header.extend(cores.iter().map(String::as_str));
    header.push("saturates first");
    let mut table = plain(&header);
    for point in points {
        let busiest = point.roles.iter().max_by(|a, b| a.cores.total_cmp(&b.cores)).expect("a role");
        let mut row = vec![
            point.replicas.to_string(),
            whole(f64::from(point.value_bytes)),
            whole(point.operations_per_s),
            format!("{:.1}", busiest.us_per_operation),
            format!("{:.2}", busiest.cores),
        ];
        row.extend(point.on_cores.iter().map(|own| whole(own.operations_per_s)));
        row.push(format!("{} of the {}", busiest.saturates_first, busiest.role));
        table.add_row(row);
    }
    aligned(table, 0)
}
