//! `quorate snapshot`: saves a certified state of a cluster to a file, verifies such a file without the cluster, and
//! begins a new cluster with it.

use crate::backup::BackupError;
use crate::backup::file::Backup;
use crate::backup::save::save;
use crate::backup::verify::{Trusted, Verified, verify};
use crate::failure::{cannot_use, wrong_call};
use crate::node::keep_memory_secret;
use crate::testnet::{self, ClusterArgs, Hosts, Program, Testnet};
use crate::{Outcome, choice, output};
use clap::{Args, Subcommand};
use quorate_client::{CLIENT_CONFIG_FILE, ClientConfig};
use quorate_crypto::AdmittedClients;
use quorate_node::config::MAX_CLUSTER_NAME_CHARACTERS;
use quorate_node::initial_state::{self, INITIAL_STATE_FILE, InitialState};
use quorate_node::testnet::replica_directory;
use quorate_node::{NodeConfig, private};
use quorate_types::text::{count, escaped};
use quorate_types::{ClusterId, Committee, ReplicaId};
use std::fs;
use std::path::{Path, PathBuf};

/// Help on the exit status.
pub const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  the snapshot is incomplete, damaged, or not proven, or nothing is certified yet
  2  the call is wrong, a file cannot be read, or it is of another cluster";

/// Commands of `quorate snapshot`.
#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Write the last certified state in a replica's directory to a file. The replica may be running.
    Save(SaveArgs),
    /// Check a file against the keys of its cluster. Needs no replica.
    Verify(VerifyArgs),
    /// Write a new cluster, with new keys, that begins with the state in a file.
    Restore(Box<RestoreArgs>),
}

/// Flags of `quorate snapshot save`.
#[derive(Args)]
pub struct SaveArgs {
    /// A replica's directory, such as DIR/replica-0 of a testnet. It is only read.
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// The file to write. Only its owner may read it.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The directory of a client.toml of the cluster: includes everything that was acknowledged before, by ordering
    /// reads until the next checkpoint. Without it, up to checkpoint_interval blocks may be missing.
    #[arg(long, value_name = "DIR")]
    pub client: Option<PathBuf>,
}

/// Flags of `quorate snapshot verify`.
#[derive(Args)]
pub struct VerifyArgs {
    /// The file.
    file: PathBuf,
    /// The client.toml of the snapshot's cluster, or its directory. Its keys are trusted.
    #[arg(long, value_name = "PATH")]
    keys: PathBuf,
}

/// Flags of `quorate snapshot restore`.
#[derive(Args)]
pub struct RestoreArgs {
    /// The file.
    file: PathBuf,
    /// The client.toml of the snapshot's cluster, or its directory. Its keys are trusted.
    #[arg(long, value_name = "PATH")]
    keys: PathBuf,
    /// Directory to write; it must be empty or not exist.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Name of the new cluster; it must differ from the old one's, so that no signature is valid in both.
    #[arg(long = "name", value_name = "NAME")]
    name: String,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Hosts of the replicas, as for testnet [default: only this host].
    #[arg(long, value_name = "HOST,HOST,..", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Number of client keys to write.
    #[arg(long, value_name = "N", default_value_t = testnet::DEFAULT_CLIENT_KEYS)]
    client_keys: u32,
    /// Clients to admit, as for testnet.
    #[arg(long, value_name = "RULE", default_value = "any", value_parser = choice::<AdmittedClients>())]
    admitted_clients: AdmittedClients,
}

/// Runs a command of `quorate snapshot`.
///
/// # Errors
/// [`BackupError`], or if the new cluster cannot be written.
pub fn run(command: SnapshotCommand, program: &Program) -> Outcome {
    keep_memory_secret()?;
    match command {
        SnapshotCommand::Save(arguments) => {
            let saved = save(&arguments.dir, arguments.client.as_deref(), &arguments.out)?;
            output::say(&described(&arguments.out, &saved.verified, saved.bytes))?;
            if saved.left_out > 0 {
                output::report(&format!(
                    "warning: {} committed blocks are not certified by a checkpoint yet, and are not in it{}",
                    count(saved.left_out),
                    if arguments.client.is_none() { "; help: use --client" } else { "" }
                ));
            }
            Ok(())
        }
        SnapshotCommand::Verify(VerifyArgs { file, keys }) => {
            let (verified, _) = read(&file, &keys)?;
            let bytes = std::fs::metadata(&file).map_or(0, |about| about.len());
            Ok(output::say(&described(&file, &verified, bytes))?)
        }
        SnapshotCommand::Restore(arguments) => {
            check_name(&arguments.name)?;
            let (verified, trusted) = read(&arguments.file, &arguments.keys)?;
            let name = arguments.name.clone();
            restore(*arguments, &verified, &trusted.committee, &name, program)
        }
    }
}

/// Reads and verifies a snapshot. `keys` is a client.toml or its directory.
fn read(file: &Path, keys: &Path) -> Result<(Verified, Trusted), BackupError> {
    let keys = if keys.is_dir() { keys.join(CLIENT_CONFIG_FILE) } else { keys.to_owned() };
    let trusted = Trusted::of_client(&ClientConfig::load(&keys)?)?;
    Ok((verify(&Backup::read(file)?, &trusted)?, trusted))
}

fn described(file: &Path, verified: &Verified, bytes: u64) -> String {
    let Verified { height, commands, signers, application, level, state, caveat, .. } = verified;
    let of_level = if level.0 > 0 { format!(", feature level {level}") } else { String::new() };
    let of_file = if bytes > 0 { format!(", {} bytes", count(bytes)) } else { String::new() };
    let mut text = format!(
        "{}: state of {} at height {height} after {} commands{of_level}, {} bytes, certified by {signers} \
         replicas{of_file}",
        escaped(&file.display().to_string()),
        application.name(),
        count(*commands),
        count(state.len() as u64)
    );
    if let Some(caveat) = caveat {
        text.push_str(&format!("\nnote: {caveat}"));
    }
    text
}

/// Writes a new cluster whose application begins with a verified state.
///
/// # Errors
/// If the cluster would have the identity of an existing one, or cannot be written.
fn restore(arguments: RestoreArgs, verified: &Verified, old: &Committee, cluster: &str, program: &Program) -> Outcome {
    let RestoreArgs { file, dir, cluster: flags, hosts, client_keys, admitted_clients, .. } = arguments;
    if ClusterId::from_name(cluster) == old.cluster {
        return Err(BackupError::SameCluster(cluster.to_owned()).into());
    }
    if let Some(journal) = journal_in(&dir) {
        return Err(BackupError::HasJournal(journal).into());
    }
    output::report(&described(&file, verified, 0));
    let initial = InitialState {
        genesis: old.epoch,
        height: verified.height,
        level: verified.level,
        application: verified.application.name().to_owned(),
        state: verified.state.clone(),
    };
    let content = initial.encode();
    let (template, replicas, base_port) = flags.into_parts(&hosts)?;
    let template = NodeConfig {
        cluster: cluster.to_owned(),
        application: verified.application,
        initial_state: Some(initial_state::digest(&content)),
        ..template
    };
    let hosts = Hosts::Named(&hosts);
    let testnet = Testnet { template, replicas, base_port, hosts, client_keys, admitted_clients };
    testnet::write(&testnet, &dir, program)?;
    for replica in (0..).map(ReplicaId).take(replicas) {
        let path = replica_directory(&dir, replica).join(INITIAL_STATE_FILE);
        private::write(&path, &content)
            .map_err(|error| cannot_use(format!("cannot write {}", path.display()), &error))?;
    }
    Ok(())
}

/// Returns the journal of a replica in a directory, or in one of its directories.
fn journal_in(directory: &Path) -> Option<PathBuf> {
    let below = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_journal = |path: &PathBuf| path.join("lock").exists() || path.with_extension("snapshots").exists();
    let candidates = below.flat_map(|path| [path.join("journal"), path]).chain([directory.join("journal")]);
    candidates.into_iter().find(|path| path.is_dir() && is_journal(path))
}

/// Checks the name of a new cluster.
///
/// # Errors
/// If it is empty or too long.
fn check_name(name: &str) -> Outcome {
    let characters = name.chars().count();
    match (1..=MAX_CLUSTER_NAME_CHARACTERS).contains(&characters) {
        true => Ok(()),
        false => {
            Err(wrong_call(format!("--name has {characters} characters; help: use 1 to {MAX_CLUSTER_NAME_CHARACTERS}")))
        }
    }
}
