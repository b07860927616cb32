//! Flags of `quorate bench --host deployed`.

use crate::spec::{BenchSpec, Fault, Host, Problem, SpecError, When, quote};
use clap::Args;

/// Help heading of these flags.
const DEPLOYMENT: &str = "Deployment (--host deployed)";

/// The hosts of `--host deployed`. Other hosts refuse these flags.
#[derive(Args, Clone, PartialEq, Eq, Debug, Default)]
pub struct DeploymentOptions {
    /// Machines that run the replicas and the clients, over SSH: a file as described in docs/HOSTS.md.
    #[arg(long, help_heading = DEPLOYMENT, value_name = "FILE.toml")]
    pub hosts: Option<String>,
    /// Keep the run's directory on each host, with keys, configuration and journal; the result names it.
    #[arg(long, hide_short_help = true, help_heading = DEPLOYMENT)]
    pub keep: bool,
    /// Check the hosts and print the placement; copy and start nothing.
    #[arg(long, hide_short_help = true, help_heading = DEPLOYMENT)]
    pub dry_run: bool,
    /// Write the output of each replica to this directory, as NAME.log for the host NAME.
    #[arg(long, hide_short_help = true, help_heading = DEPLOYMENT, value_name = "DIR")]
    pub logs: Option<String>,
    /// Sample call stacks on each host in the measured time, with its `perf`, and write them to this directory: as
    /// NAME.stacks, the output of `perf script`, and as NAME.svg, a flame graph.
    #[arg(long, hide_short_help = true, help_heading = DEPLOYMENT, value_name = "DIR")]
    pub perf: Option<String>,
}

impl DeploymentOptions {
    /// Refuses flags that have no effect on the spec's host, and specs that hosts cannot run.
    ///
    /// # Errors
    /// The first such flag, with a remedy.
    pub fn fit(&self, spec: &BenchSpec) -> Result<(), SpecError> {
        let problem = |place: &str, what: String, help: &str| {
            Err(SpecError::Impossible(vec![Problem { place: place.to_owned(), what, help: help.to_owned() }]))
        };
        if spec.host != Host::Deployed {
            let Some(flag) = self.flags().into_iter().next() else { return Ok(()) };
            let what = format!("{flag} needs hosts, but the host is `{}`", spec.host);
            return problem(&format!("{flag}, --host"), what, "set --host deployed");
        }
        if self.hosts.is_none() {
            let help = "set --hosts FILE.toml (docs/HOSTS.md)";
            return problem("--host, --hosts", "`deployed` needs hosts".to_owned(), help);
        }
        if spec.cores > 0 {
            return problem("--cores", "hosts do not share cores".to_owned(), "set `cores` in the hosts file");
        }
        // The hosts' replicas start long before the load, at a time that depends on the hosts.
        let is_timed = |fault: &&Fault| matches!(fault, Fault::Misbehave(_, _, when) if *when != When::ALWAYS);
        if let Some(fault) = spec.fault.iter().find(is_timed) {
            let what = format!("`{fault}` has times of the load, which replicas on hosts do not know");
            return problem("--fault, --host", what, "leave out its times, or use --host processes");
        }
        Ok(())
    }

    fn flags(&self) -> Vec<&'static str> {
        let flags = [
            ("--hosts", self.hosts.is_some()),
            ("--keep", self.keep),
            ("--dry-run", self.dry_run),
            ("--logs", self.logs.is_some()),
            ("--perf", self.perf.is_some()),
        ];
        flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }

    /// Returns the flags that matter for the result.
    pub fn arguments(&self) -> Vec<String> {
        self.hosts.iter().flat_map(|hosts| ["--hosts".to_owned(), hosts.clone()]).collect()
    }

    /// Returns the command that repeats a run of this spec, quoted for a shell.
    pub fn command_line(&self, spec: &BenchSpec) -> String {
        let own = self.arguments();
        std::iter::once(spec.command_line()).chain(own.iter().map(|word| quote(word))).collect::<Vec<_>>().join(" ")
    }
}
