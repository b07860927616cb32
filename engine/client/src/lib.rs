//! The client library and the load generators.
//!
//! A [`Client`] executes one command at a time and trusts a reply given by f+1 replicas. A [`Pipeline`] keeps many
//! commands of many threads or tasks outstanding. A [`load::LoadGenerator`] drives many logical clients from one
//! thread. All use [`session::Session`], a state machine without clock or sockets that decides where bundles are sent,
//! when they are resent, and which reply counts.

mod asked;
mod client;
mod client_error;
mod comparison;
pub mod config;
mod connect;
mod connection;
mod distrust;
mod heights;
mod homes;
pub mod load;
mod outgoing;
pub mod pipeline;
pub mod quorum_reply;
pub mod reach;
mod retry;
pub mod session;
mod status_probe;
pub mod workload;

pub use client::Client;
pub use client_error::{ClientError, NoQuorum};
pub use config::{CLIENT_CONFIG_FILE, CLIENT_KEY_FILE, ClientConfig, ConfigError};
pub use connect::{ConnectError, connect, new_identity, reply_verifier};
pub use distrust::Distrusted;
pub use outgoing::{Destination, Outgoing};
pub use pipeline::{Pending, Pipeline, PipelineOptions};
pub use quorate_types::{Dissemination, ReplyMode};
pub use quorum_reply::ReplyQuorum;
pub use retry::{MAX_BACKOFF_DOUBLINGS, REFUSED_RETRY_DIVISOR};
pub use session::{Accepted, Session, SessionCounters, SessionOptions, SubmitError, TurnedAway};
pub use status_probe::StatusProbe;
