//! The load generator of a benchmark.

use super::error::BenchError;
use crate::spec::BenchSpec;
use quorate_client::load::{LoadGenerator, LoadHandle, LoadOptions};
use quorate_client::workload::Workload;
use quorate_client::{ClientConfig, connect, new_identity, reply_verifier};
use std::time::Duration;

/// Creates the generator of a load and the handle to watch it.
///
/// # Errors
/// If the configuration or the options are unusable, or the transport cannot be set up.
pub fn generator(
    spec: &BenchSpec,
    config: &ClientConfig,
    options: LoadOptions,
    commands: Box<dyn Workload>,
) -> Result<(LoadGenerator, LoadHandle), BenchError> {
    let identity = new_identity(config)?;
    let transport = connect(config, identity.origin())?;
    let verifier = reply_verifier(config, &identity)?;
    let mut session = config.session()?;
    session.reply = spec.node.reply;
    let timeout = Duration::from_millis(config.connect_timeout_ms);
    let generator = LoadGenerator::new(transport, identity, session, options, commands, timeout)?
        .comparing(config)
        .with_verifier(verifier);
    let handle = generator.handle();
    Ok((generator, handle))
}
