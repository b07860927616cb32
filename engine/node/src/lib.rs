//! quorate: the production host.
//!
//! A replica is a pure state machine. This crate gives it a network, keys, a journal, a clock and an application, and
//! runs it: all replicas of a cluster in one process ([`EmbeddedCluster`]), or one per process from a directory
//! ([`run_directory`]). Only `assemble.rs` names concrete parts; `host.rs` is the main loop.

mod alarms;
#[cfg(feature = "laboratory")]
pub mod allocations;
mod assemble;
mod attention;
mod checkpoints;
mod client_links;
mod client_rules;
mod clients;
pub mod config;
pub mod config_file;
mod config_warnings;
mod cycles;
mod descriptors;
mod devices;
pub mod disk;
pub mod durability;
mod embedded;
pub mod error;
mod finish;
mod host;
pub mod initial_state;
pub mod interrupt;
#[cfg(feature = "laboratory")]
pub mod laboratory;
#[cfg(not(feature = "laboratory"))]
#[path = "no_laboratory.rs"]
pub mod laboratory;
mod limits;
pub mod log;
pub mod log_level;
mod measure;
pub mod memory;
pub mod meters;
pub mod monitoring;
pub mod network;
pub mod observer;
pub mod parameters;
pub mod peers;
mod process;
pub mod progress;
pub mod recording;
mod recovery;
pub mod reload;
mod reply_sender;
mod reproduction;
pub mod scripted;
pub mod secrecy;
mod settings;
pub mod signer;
pub mod signer_config;
mod signer_process;
pub mod snapshots;
mod spool;
mod states;
mod status;
pub mod testnet;
mod verifiers;
pub mod vocabulary;

pub use client_rules::ClientRules;
pub use config::NodeConfig;
pub use config_file::ConfigFault;
pub use durability::JournalConfig;
pub use embedded::EmbeddedCluster;
pub use error::{DISK_TROUBLE_STATUS, HostError, NodeError};
pub use laboratory::{Fault, Laboratory};
pub use log::LogObserver;
pub use monitoring::MonitoringConfig;
pub use observer::{NoObserver, NodeEvent, Observer, StderrObserver};
pub use process::run_directory;
pub use quorate_storage::{Fsync, JournalKind, private};
pub use quorate_types::ReplyMode;
pub use recording::RecordingConfig;
pub use reproduction::Reproduction;
pub use signer_config::SignerConfig;
pub use signer_process::{RECORD_DIRECTORY, SOCKET_FILE, VOTING_KEY_FILE, init_signer, rebuild_signer, run_signer};
