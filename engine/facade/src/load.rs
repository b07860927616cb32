//! Loads of your own commands, by the load generator of `quorate bench`.

use crate::error::Error;
use crate::machine;
use quorate_client::load::LoadGenerator;
pub use quorate_client::load::{LoadError, LoadMode, LoadOptions, LoadReport};
pub use quorate_client::workload::Workload;
use quorate_client::{ClientConfig, ClientError, ConnectError, connect, new_identity, reply_verifier};
pub use quorate_types::ClientId;
use serde::Serialize;
use std::time::Duration;

/// Loads a cluster with the commands of a workload, and returns what its clients measured.
///
/// # Errors
/// If the options contradict each other, f+1 replicas cannot be reached, or they refuse a command for good.
pub fn run(config: &ClientConfig, options: LoadOptions, workload: Box<dyn Workload>) -> Result<LoadReport, Error> {
    let refused = |error: ConnectError| Error::from(ClientError::from(error));
    let identity = new_identity(config).map_err(refused)?;
    let transport = connect(config, identity.origin()).map_err(refused)?;
    let verifier = reply_verifier(config, &identity).map_err(refused)?;
    let session = config.session().map_err(|error| refused(error.into()))?;
    let timeout = Duration::from_millis(config.connect_timeout_ms);
    let generator = LoadGenerator::new(transport, identity, session, options, workload, timeout)?;
    Ok(generator.comparing(config).with_verifier(verifier).run()?)
}

/// Appends a command as a [`StateMachine`](crate::StateMachine) decodes it.
///
/// # Errors
/// If the type's own encoding fails.
pub fn encode(command: &impl Serialize, payload: &mut Vec<u8>) -> Result<(), Error> {
    machine::append(command, payload).map_err(Error::Encoding)
}
