//! `quorate lab fidelity`: compares the simulator with the node on this machine, in emulated networks, and on hosts.

use crate::Outcome;
use clap::Args;
use quorate_lab::calibrate::{self, Extent};
use quorate_lab::experiments::{Instrument, Profile};
use quorate_lab::fidelity::{self, Cell, GRID, Grid, Observer, Setting};
use quorate_lab::input;
use quorate_lab::sim::{SimError, SimOptions};
use quorate_lab::spec::choice;
use quorate_operator::output::{self, Outputs};
use quorate_types::Fault;
use std::path::{Path, PathBuf};

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
    /// Measure on this instrument: real, emulated or deployed; may be repeated, to compare several of them with the
    /// simulator [default: real].
    #[arg(long, value_parser = choice::<Instrument>())]
    instrument: Vec<Instrument>,
    /// Machines for the instrument `deployed`: a file as described in docs/HOSTS.md.
    #[arg(long, value_name = "FILE.toml")]
    hosts: Option<String>,
    /// Network of emulated runs, and of the simulations of emulated and deployed ones [default: lan].
    #[arg(long, value_name = "NAME|FILE")]
    network: Option<String>,
    /// Specifications to run, in the form of laboratory/lab/src/fidelity/grid.toml [default: that file].
    #[arg(long, value_name = "FILE.toml")]
    grid: Option<PathBuf>,
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
        .chain(arguments.grid.as_deref())
        .collect();
    let outputs = Outputs::open(&[("--json", arguments.json.as_deref())], &inputs)?;
    let setting = setting(arguments)?;
    let grid = match &arguments.grid {
        Some(path) => {
            let name = path.display().to_string();
            let unreadable = |error| Fault::<String>::new(&*name, format!("cannot be read: {error}"), "name a grid");
            Grid::parse(&input::settings(path).map_err(unreadable)?, &name)?
        }
        None => Grid::parse(GRID, "the grid")?,
    };
    let mut entries = grid.entries(arguments.profile)?;
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
    let result = fidelity::run(&entries, &setting, &costs, &mut Told);
    outputs.show(&result, &[])
}

/// Returns the instruments, with the hosts and the network that they need. Refuses those that cannot measure.
fn setting(arguments: &FidelityArgs) -> Result<Setting, Fault> {
    let FidelityArgs { instrument, hosts, network, .. } = arguments;
    let instruments = if instrument.is_empty() { vec![Instrument::Real] } else { instrument.clone() };
    let measures = |own: &&Instrument| matches!(own, Instrument::Real | Instrument::Emulated | Instrument::Deployed);
    if let Some(other) = instruments.iter().find(|own| !measures(own)) {
        let what = format!("`{other}` measures no replicas");
        return Err(Fault::new("--instrument", what, "use real, emulated or deployed"));
    }
    let is_deployed = instruments.contains(&Instrument::Deployed);
    if is_deployed && hosts.is_none() {
        return Err(Fault::new("--instrument", "`deployed` needs hosts", "set --hosts FILE.toml (docs/HOSTS.md)"));
    }
    if hosts.is_some() && !is_deployed {
        return Err(Fault::new("--hosts", "no instrument needs hosts", "add --instrument deployed"));
    }
    if network.is_some() && instruments == [Instrument::Real] {
        return Err(Fault::new("--network", "has no effect on the instrument `real`", "add another --instrument"));
    }
    Ok(Setting { instruments, hosts: hosts.clone(), network: network.clone() })
}
