//! Load on a running cluster that this process did not start. Its replicas report their settings.

use super::error::BenchError;
use crate::result::Loaded;
use crate::spec::{BenchSpec, LOAD, OUTPUT, Problem, SpecError, quote};
use quorate_client::{ClientConfig, StatusProbe};
use quorate_node::NodeConfig;
use quorate_types::settings::{at, keys, set, tree};
use quorate_types::{BatchSize, Settings};
use std::path::Path;
use std::time::Duration;

/// Timeout for the settings of the replicas. If none answers, the load reports why.
const ASK_TIMEOUT: Duration = Duration::from_millis(2000);

impl Loaded {
    /// Asks the replicas for their settings, and uses the first answer.
    pub(super) fn ask(config: &ClientConfig) -> Result<Loaded, BenchError> {
        let statuses = StatusProbe::connect(config)?.read_first(ASK_TIMEOUT)?;
        Ok(Loaded::of(statuses.iter()))
    }

    /// Returns the size of blocks, if it is known.
    fn batch(&self) -> Option<BatchSize> {
        let value = at(&self.settings.as_ref()?.0, "consensus.batch")?;
        serde_json::from_value(value.clone()).ok()
    }

    /// Returns the maximum size of a bundle. If the default exceeds a block, lowers it and returns a warning.
    pub(super) fn bundle(&self, spec: &BenchSpec) -> Result<(u32, Option<String>), SpecError> {
        let bundle = spec.bundle;
        let Some(batch) = self.batch().map(|batch| batch.max_commands() as u32).filter(|batch| bundle > *batch) else {
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

    /// Replaces the defaults of `quorate bench` in a spec with the known settings of the cluster. Keys whose settings
    /// this version does not know stay unchanged.
    pub(super) fn describe(&self, spec: &BenchSpec, config: &ClientConfig) -> BenchSpec {
        let mut spec = BenchSpec { replicas: config.members.len() as u32, ..spec.clone() };
        spec.node.client_authentication = config.client_authentication;
        spec.node.reply_authentication = config.reply_authentication;
        if let Some(Settings(known)) = &self.settings {
            for key in keys::<NodeConfig>() {
                let Some(value) = at(known, &key.path) else { continue };
                let mut tree = tree(&spec.node);
                set(&mut tree, &key.path, value.clone());
                spec.node = serde_json::from_value(tree).unwrap_or(spec.node);
            }
            spec.journal = Some(spec.node.journal.kind);
        }
        spec.node.faults = config.faults;
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
