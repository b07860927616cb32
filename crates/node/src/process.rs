//! One replica per process, from a directory that [`testnet`](crate::testnet) made.

use crate::assemble::assemble;
use crate::config::{CONFIG_FILE, NodeConfig};
use crate::error::NodeError;
use crate::observer::Observer;
use quorate_crypto::key_file;
use quorate_types::{ClusterId, Status};
use std::path::Path;

/// Runs the replica of a directory on this thread. It returns only if the replica cannot start or cannot go on.
pub fn run_directory(directory: &Path, observer: Box<dyn Observer>) -> Result<Status, NodeError> {
    let config = NodeConfig::read(&directory.join(CONFIG_FILE))?;
    let cluster = ClusterId::from_name(&config.cluster);
    let key = key_file::read(&directory.join(&config.key_file), config.scheme, &cluster, config.replica)?;
    let assembled = assemble(&config, directory, key, None, None, observer)?;
    assembled.node.run().map_err(|source| NodeError::Host { replica: config.replica, source })
}
