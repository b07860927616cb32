//! Experiments and runs that the commands of `quorate lab` choose, and the delivery of their results.

use crate::Outcome;
use crate::running::COMMIT;
use clap::Args;
use quorate_lab::bench;
use quorate_lab::experiments::{Instrument, Profile};
use quorate_lab::spec::choice;
use quorate_node::interrupt;
use quorate_operator::output::{self, Form, Outputs};
use quorate_runner::backend::Backend;
use quorate_runner::here::calibrated;
use quorate_runner::judged::{Judged, Verdicts};
use quorate_runner::run::nothing_to_run;
use quorate_runner::store::DEFAULT_DIR;
use quorate_runner::{Here, Run, Source, Store, catalogue};
use std::path::{Path, PathBuf};

/// Flags that choose runs and their directory.
#[derive(Args)]
pub struct Selection {
    /// Experiments to run: a file, PAPER/ID or PAPER as listed by `quorate lab list`, or all.
    #[arg(value_name = "FILE|PAPER/ID|PAPER|all", default_value = "all")]
    pub experiment: String,
    /// Extent: quick takes about a minute on two cores, full has the parameters of the paper.
    #[arg(long, default_value = "quick", value_parser = choice::<Profile>())]
    profile: Profile,
    /// Run only on this instrument; may be repeated [default: the experiment's].
    #[arg(long, value_parser = choice::<Instrument>())]
    instrument: Vec<Instrument>,
    /// Directory of the results.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    /// Seed of the first repetition of each cell; later repetitions increment it [default: the experiment's].
    #[arg(long, value_name = "SEED", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Cost table of the simulator, written by `quorate calibrate` [default: costs.toml in DIR or here, otherwise the
    /// shipped table].
    #[arg(long, value_name = "FILE|none")]
    pub costs: Option<String>,
    /// Machines for the cells of the instrument `deployed`: a file as described in docs/HOSTS.md.
    #[arg(long, value_name = "FILE.toml")]
    hosts: Option<String>,
}

/// Returns the runs that the flags choose, on this machine.
pub fn of_selection(selection: &Selection) -> Result<Run, Box<dyn std::error::Error>> {
    if let Some(hosts) = &selection.hosts {
        bench::read_hosts(Path::new(hosts))?;
    }
    let costs = selection.costs.clone().or_else(|| calibrated(&selection.dir));
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program's file: {error}"))?;
    Ok(Run {
        here: Here { hosts: selection.hosts.clone(), ..Here::new(program, COMMIT, costs)? },
        store: Store::at(&selection.dir),
        profile: selection.profile,
        instruments: (!selection.instrument.is_empty()).then(|| selection.instrument.clone()),
        seed: selection.seed,
        slots: Backend::default().slots(),
        workers: None,
        until: None,
        only_claims: false,
        shared: false,
        counts_instructions: false,
    })
}

/// Returns the experiments that run on one of the chosen instruments. An experiment that was named alone must be among
/// them.
pub fn chosen(arguments: &Selection) -> Result<Vec<Source>, Box<dyn std::error::Error>> {
    let found = catalogue::find(&arguments.experiment)?;
    let is_single = found.len() == 1;
    let mut chosen = Vec::new();
    for (source, experiment) in found {
        let own = match experiment.plan(arguments.profile, None) {
            Ok(plan) if arguments.instrument.is_empty() => plan.instruments,
            _ => arguments.instrument.clone(),
        };
        let has = |instrument: &Instrument| experiment.instruments.contains(instrument);
        if !is_single && !own.iter().all(has) {
            output::report(&format!("{} does not run on this instrument: skipped", experiment.name()));
        } else {
            chosen.push(source);
        }
    }
    if chosen.is_empty() { Err(nothing_to_run(&arguments.experiment).into()) } else { Ok(chosen) }
}

/// Writes results. Returns an error if no run succeeded, or one is missing.
pub fn deliver(outputs: Outputs, judged: &[Judged]) -> Outcome {
    deliver_with(outputs, judged, &[])
}

/// Like [`deliver`], with further formats.
pub fn deliver_with(outputs: Outputs, judged: &[Judged], others: &[Form<'_>]) -> Outcome {
    outputs.show(&Verdicts(judged), others)?;
    let partial = judged.iter().find_map(|own| own.partial.as_deref());
    // After a signal to this program, the exit status reports it.
    partial.filter(|_| interrupt::requested().is_none()).map_or(Ok(()), |partial| Err(partial.into()))
}
