//! One replica per process, from a directory created by [`testnet`](crate::testnet).

use crate::assemble::{Attachment, assemble};
use crate::config::{CONFIG_FILE, NodeConfig};
use crate::descriptors;
use crate::embedded::ended_by;
use crate::error::{HostError, NodeError};
use crate::host::Order;
use crate::interrupt;
use crate::memory::Returning;
use crate::observer::{NodeEvent, Observer};
use crate::reload::Reloader;
use crate::testnet::replica_directory;
use quorate_crypto::{KeyPair, ReplicaKeys, key_file};
use quorate_storage::CpuAccount;
use quorate_types::{ClusterId, ReplicaId, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs the replica of a directory on this thread until it fails, or until a signal requests a stop if the process
/// [handles](crate::interrupt::install) signals.
pub fn run_directory(directory: &Path, mut observer: Box<dyn Observer>) -> Result<Status, NodeError> {
    let is_testnet = replica_directory(directory, ReplicaId(0)).is_dir() && !directory.join(CONFIG_FILE).exists();
    if is_testnet {
        return Err(NodeError::Testnet(directory.to_owned()));
    }
    let config = NodeConfig::read(&directory.join(CONFIG_FILE))?;
    let cluster = ClusterId::from_name(&config.cluster);
    let (source, passphrases) = (config.key_source(directory), config.passphrases(directory));
    let (scheme, replica) = (config.scheme, config.replica);
    let keys = match config.signer.socket {
        None => key_file::read_from(&source, scheme, &cluster, replica, &passphrases)?,
        Some(_) => {
            let public_key = config.members[replica.index()].voting_key.clone();
            let identity = key_file::read_identity(&source, scheme, &cluster, replica, &passphrases)?;
            ReplicaKeys { identity, voting: KeyPair::held_elsewhere(scheme, public_key) }
        }
    };
    descriptors::check(&config)?;
    config.warnings().into_iter().for_each(|fault| observer.observe(config.replica, NodeEvent::ConfigWarning(fault)));
    let _all_counts = CpuAccount::of_process().lend();
    let assembled = assemble(&config, directory, keys, Attachment::Listen(None), None, observer)?;
    let (orders, waker, _monitoring) = (assembled.orders, assembled.waker, assembled.monitoring);
    let reloader = Reloader::new(directory, config.clone(), assembled.reloads);
    let wakes = waker.clone();
    let _reloads = interrupt::when_reload(move || {
        reloader.read();
        wakes();
    });
    let _until_the_end = interrupt::when_requested(move || {
        orders.give(Order::Finish);
        waker();
    });
    let failed = |source| NodeError::Host { replica: config.replica, source };
    let no_thread = |source| failed(HostError::Thread { purpose: "give memory back on", source });
    let _while_it_runs = Returning::start().map_err(no_thread)?;
    let (node, replica) = (assembled.node, config.replica);
    // A panic of a helper thread makes this thread panic.
    match catch_unwind(AssertUnwindSafe(|| node.run())) {
        Ok(ended) => ended.map_err(failed),
        Err(panic) => Err(ended_by(replica, panic)),
    }
}
