//! Runs a benchmark on other machines.

use super::cluster::Cluster;
use super::course::{self, Course};
use super::deployed::{Deployed, DeploymentOptions, FleetLoad};
use super::error::BenchError;
use super::measure;
use super::progress::Watcher;
use crate::partial;
use crate::result::{BenchResult, DeploymentResult};
use crate::search::search;
use crate::spec::BenchSpec;

/// Runs the spec on the machines of `--hosts`, and returns its result. Nothing is left on them unless asked for.
///
/// # Errors
/// If the spec or the hosts file is wrong, a host fails before the load begins, or no client machine measured anything.
/// A host that fails later is named in the result.
pub fn run_deployed(
    spec: &BenchSpec,
    options: &DeploymentOptions,
    watcher: &mut dyn Watcher,
) -> Result<BenchResult, BenchError> {
    spec.validate()?;
    spec.validate_real()?;
    options.fit(spec)?;
    if !spec.search {
        return run(spec, options, watcher);
    }
    let found =
        search(spec, watcher, |spec, watcher| run(spec, options, watcher), |watcher, probe| watcher.probe(probe))?;
    Ok(BenchResult { command: options.command_line(spec), ..found })
}

fn run(spec: &BenchSpec, options: &DeploymentOptions, watcher: &mut dyn Watcher) -> Result<BenchResult, BenchError> {
    let mut warnings = spec.warnings();
    warnings.iter().for_each(|warning| watcher.warn(warning));
    let deployed = Deployed::start(spec, options, watcher)?;
    let (load, mut probe) = deployed.begin();
    let mut cluster = Cluster::Deployed(Box::new(deployed));
    let readings = Course::new(spec, &mut cluster, &mut probe, watcher).watch(&load);
    let mut readings = match readings {
        Err(_) if !partial::goes_on() => return Err(BenchError::Interrupted),
        readings => readings?,
    };
    let report = load.report().map(|(report, _)| report);
    let report = match report.filter(|report| partial::goes_on() || !report.window.is_zero()) {
        Some(report) => report,
        None if !partial::goes_on() => return Err(BenchError::Interrupted),
        None => return Err(BenchError::NoReport),
    };
    // A last reading without machines that can read: the result says that histories were not compared.
    if course::settle(&mut probe, &mut readings).is_err() {
        readings.end.clear();
    }
    let (deployment, more) = finish(cluster, &load)?;
    more.iter().for_each(|warning| watcher.warn(warning));
    warnings.extend(more);
    let machine = deployment.hosts[0].machine.clone();
    let result = measure::result(spec, &report, readings, warnings, 0);
    Ok(BenchResult { command: options.command_line(spec), deployment: Some(deployment), machine, ..result })
}

fn finish(cluster: Cluster, load: &FleetLoad) -> Result<(DeploymentResult, Vec<String>), BenchError> {
    let Cluster::Deployed(deployed) = cluster else { unreachable!("the cluster was deployed") };
    deployed.finish(load)
}
