//! Load on a running cluster that this process did not start. Its replicas report their settings.

use super::error::BenchError;
use crate::result::Loaded;
use crate::spec::{BenchSpec, LOAD, OUTPUT, Problem, SpecError, quote};
use quorate_client::{ClientConfig, StatusProbe};
use std::path::Path;
use std::time::Duration;

/// Timeout for the settings of the replicas. If none answers, the load reports why.
const ASK_TIMEOUT: Duration = Duration::from_millis(2000);

impl Loaded {
    /// Asks the replicas for their settings, and trusts the first answer.
    pub(super) fn ask(config: &ClientConfig) -> Result<Loaded, BenchError> {
        let statuses = StatusProbe::connect(config)?.read_first(ASK_TIMEOUT)?;
        Ok(Loaded::of(statuses.iter()))
    }

    /// Returns the maximum size of a bundle. If the default exceeds a block, lowers it and returns a warning.
    pub(super) fn bundle(&self, spec: &BenchSpec) -> Result<(u32, Option<String>), SpecError> {
        let bundle = spec.bundle;
        let Some(batch) =
            self.settings.as_ref().map(|known| known.batch.max_commands() as u32).filter(|batch| bundle > *batch)
        else {
            return Ok((bundle, None));
        };
        if bundle == BenchSpec::default().bundle {
            let warning = format!(
                "--bundle: a block of this cluster holds {batch} commands, so bundles hold {batch}, not {bundle}"
            );
            return Ok((batch, Some(warning)));
        }
        Err(SpecError::Impossible(vec![Problem {
            place: "--bundle".into(),
            what: format!("{bundle} commands exceed a block of this cluster, which holds {batch}"),
            help: format!("set at most {batch}, or raise `batch` in config.toml of every replica"),
        }]))
    }

    /// Replaces the defaults of `quorate bench` in a spec with the known settings of the cluster. A name that this
    /// version does not know leaves its key unchanged.
    pub(super) fn describe(&self, spec: &BenchSpec, config: &ClientConfig) -> BenchSpec {
        let mut spec = BenchSpec {
            client_authentication: config.client_authentication,
            reply_authentication: config.reply_authentication,
            replicas: config.members.len() as u32,
            faults: config.faults.map(|faults| faults as u32),
            ..spec.clone()
        };
        if let Some(known) = &self.settings {
            fn take<T: std::str::FromStr>(place: &mut T, name: &str) {
                if let Ok(value) = name.parse() {
                    *place = value;
                }
            }
            take(&mut spec.protocol, &known.protocol);
            take(&mut spec.leader, &known.leader);
            take(&mut spec.votes, &known.votes);
            take(&mut spec.reproduction.batch_policy, &known.batch_policy);
            take(&mut spec.dissemination, &known.dissemination);
            take(&mut spec.view_duration, &known.view_duration);
            take(&mut spec.scheme, &known.scheme);
            take(&mut spec.auth_profile, &known.auth_profile);
            take(&mut spec.mac_scheme, &known.mac_scheme);
            take(&mut spec.channel, &known.channel);
            take(&mut spec.transport, &known.transport);
            take(&mut spec.fsync, &known.fsync);
            spec.journal = known.journal.parse().ok();
            (spec.batch, spec.batch_latency_ms) = (known.batch, known.batch_latency_ms);
            (spec.reproduction.batch_wait_ms, spec.vote_wait_us) = (known.batch_wait_ms, known.vote_wait_us);
            spec.max_queue_ms = None;
            let default = spec.consensus().max_queue();
            spec.max_queue_ms = Some(known.max_queue_ms).filter(|set| Duration::from_millis(*set) != default);
            (spec.view_timeout_ms, spec.window) = (known.view_timeout_ms, known.window);
            (spec.checkpoint_interval, spec.pipeline) = (known.checkpoint_interval, known.pipeline);
        }
        spec
    }
}

/// Returns the command that repeats the load.
pub(super) fn command(spec: &BenchSpec, directory: &Path) -> String {
    let mut words = vec!["quorate client --dir".to_owned(), quote(&directory.display().to_string()), "load".to_owned()];
    let own = |heading: &str| heading == LOAD || heading == OUTPUT;
    for setting in spec.settings().into_iter().filter(|setting| own(&setting.heading) && !setting.is_default) {
        if setting.is_switch {
            words.push(setting.flag);
            continue;
        }
        for value in setting.values {
            words.extend([setting.flag.clone(), quote(&value)]);
        }
    }
    words.join(" ")
}
