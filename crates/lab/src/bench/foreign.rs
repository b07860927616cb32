//! A cluster that somebody else runs: what is known of it is what its replicas tell.

use super::error::BenchError;
use crate::spec::{BenchSpec, LOAD, OUTPUT, Problem, SpecError, quote};
use quorate_client::{ClientConfig, StatusProbe};
use quorate_types::{Settings, Status};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// How long replicas may take to tell what they are set to. If none does, the load finds out what is wrong.
const ASK_TIMEOUT: Duration = Duration::from_millis(2000);

/// That a running cluster was loaded, and what is known of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loaded {
    /// What its replicas are set to; none if they are of a version that does not tell. The keys of the result's spec are then the
    /// client's alone.
    pub settings: Option<Settings>,
}

impl Loaded {
    /// Asks the replicas, and believes the first that answers.
    pub(super) fn ask(config: &ClientConfig) -> Result<Loaded, BenchError> {
        let told = StatusProbe::connect(config)?.read_first(ASK_TIMEOUT)?;
        Ok(Loaded::of(told.iter()))
    }

    /// How many commands a bundle may hold at most. The default is lowered to what a block takes, and a warning says so.
    pub(super) fn bundle(&self, spec: &BenchSpec) -> Result<(u32, Option<String>), SpecError> {
        let bundle = spec.bundle;
        let Some(batch) = self.settings.as_ref().map(|told| told.batch).filter(|batch| bundle > *batch) else {
            return Ok((bundle, None));
        };
        if bundle == BenchSpec::default().bundle {
            let warning = format!(
                "--bundle: a block of this cluster takes {batch} commands, so bundles hold {batch}, not {bundle}"
            );
            return Ok((batch, Some(warning)));
        }
        Err(SpecError::Impossible(vec![Problem {
            place: "--bundle".into(),
            what: format!("{bundle} commands do not fit a block of this cluster, which takes {batch}"),
            help: format!("set at most {batch}, or raise `batch` in config.toml of every replica"),
        }]))
    }

    /// From what replicas told.
    pub(super) fn of<'a>(mut statuses: impl Iterator<Item = &'a Status>) -> Loaded {
        Loaded { settings: statuses.find_map(|status| status.settings.clone()) }
    }

    /// A spec with what is known of the cluster in place of the defaults of `quorate bench`. A name that this version does not know
    /// leaves its key as it is.
    pub(super) fn describe(&self, spec: &BenchSpec, config: &ClientConfig) -> BenchSpec {
        let mut spec = BenchSpec {
            client_authentication: config.client_authentication,
            replicas: config.members.len() as u32,
            faults: config.faults.map(|faults| faults as u32),
            ..spec.clone()
        };
        if let Some(told) = &self.settings {
            fn take<T: std::str::FromStr>(place: &mut T, name: &str) {
                if let Ok(value) = name.parse() {
                    *place = value;
                }
            }
            take(&mut spec.protocol, &told.protocol);
            take(&mut spec.leader, &told.leader);
            take(&mut spec.votes, &told.votes);
            take(&mut spec.batch_policy, &told.batch_policy);
            take(&mut spec.dissemination, &told.dissemination);
            take(&mut spec.view_duration, &told.view_duration);
            take(&mut spec.scheme, &told.scheme);
            take(&mut spec.channel, &told.channel);
            take(&mut spec.transport, &told.transport);
            take(&mut spec.fsync, &told.fsync);
            spec.journal = told.journal.parse().ok();
            (spec.batch, spec.batch_wait_ms) = (told.batch, told.batch_wait_ms);
            (spec.view_timeout_ms, spec.window) = (told.view_timeout_ms, told.window);
            (spec.checkpoint_interval, spec.pipeline) = (told.checkpoint_interval, told.pipeline);
        }
        spec
    }
}

/// The command that loads the cluster of a directory again.
pub(super) fn command(spec: &BenchSpec, directory: &Path) -> String {
    let mut words = vec!["quorate client --dir".to_owned(), quote(&directory.display().to_string()), "load".to_owned()];
    let own = |heading: &str| heading == LOAD || heading == OUTPUT;
    for setting in spec.settings().into_iter().filter(|setting| own(&setting.heading) && !setting.is_default) {
        for value in setting.values {
            words.extend([setting.flag.clone(), quote(&value)]);
        }
    }
    words.join(" ")
}
