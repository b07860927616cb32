//! `quorate lab fidelity`: compares the simulator with the node on this machine.

use crate::Outcome;
use clap::Args;
use quorate_lab::calibrate::{self, Extent};
use quorate_lab::experiments::Profile;
use quorate_lab::fidelity::{self, Cell, GRID, Grid, Observer};
use quorate_lab::sim::{SimError, SimOptions};
use quorate_lab::spec::choice;
use quorate_operator::output::{self, Outputs};
use std::path::Path;

/// Flags of `quorate lab fidelity`.
#[derive(Args)]
pub struct FidelityArgs {
    /// Amount to run: quick runs 12 specifications, in four minutes including the calibration; full runs nearly 200, in
    /// half an hour.
    #[arg(long, default_value = "quick", value_parser = choice::<Profile>())]
    profile: Profile,
    /// Cost table of the simulator [default: calibrate this machine first].
    #[arg(long, value_name = "FILE|none")]
    costs: Option<String>,
    /// Also measure the stages of the replicas' work in both, and list the largest differences.
    #[arg(long)]
    stages: bool,
    /// Write the ratios as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

/// Runs the grid. Returns an error if no cell could be compared; a bad ratio is a finding, not an error.
struct Told;

impl Observer for Told {
    fn on_cell(&mut self, number: usize, of: usize, label: &str) {
        output::report(&format!("[{number}/{of}] {label}"));
    }

    fn on_end(&mut self, cell: &Cell) {
        if let Some(why) = &cell.failure {
            output::report(&format!("failed: {why}"));
        }
    }
}

/// Runs the grid. Returns an error if no cell could be compared; a bad ratio is a finding, not an error.
pub fn run(arguments: &FidelityArgs) -> Outcome {
    let inputs: Vec<&Path> = arguments
        .costs
        .as_deref()
        .filter(|path| !["none", "paper"].contains(path))
        .map(Path::new)
        .into_iter()
        .collect();
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &inputs)?;
    let mut entries = Grid::parse(GRID, "the grid")?.entries(arguments.profile)?;
    entries.iter_mut().for_each(|entry| entry.spec.node.stages = arguments.stages);
    let costs = match &arguments.costs {
        Some(_) => SimOptions { costs: arguments.costs.clone(), ..SimOptions::default() }.cost_table()?,
        None => {
            output::report("calibrating");
            calibrate::measure(Extent::Whole, None)?
        }
    };
    if arguments.stages && costs.is_free() {
        return Err(SimError::FreeStages.into());
    }
    let result = fidelity::run(&entries, &costs, &mut Told);
    outputs.show(&result, &[])
}
