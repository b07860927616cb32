//! The client library and the load generators.
//!
//! A [`Client`] executes one command at a time and believes what f+1 replicas say. A [`load::LoadGenerator`] drives many logical
//! clients from one thread. Both stand on [`session::Session`], which decides without a clock or a socket what is sent to whom,
//! what is sent again, and which reply counts.

mod client;
pub mod config;
mod connect;
mod heights;
pub mod load;
pub mod quorum_reply;
pub mod reach;
mod retry;
pub mod session;
mod status_probe;
pub mod workload;

pub use client::{Client, ClientError, NoQuorum};
pub use config::{CLIENT_CONFIG_FILE, ClientConfig, ConfigError};
pub use connect::{ConnectError, connect, new_identity};
pub use quorate_types::{Dissemination, ReplyMode};
pub use quorum_reply::ReplyQuorum;
pub use retry::{MAX_BACKOFF_DOUBLINGS, REFUSED_RETRY_DIVISOR};
pub use session::{Accepted, Destination, Outgoing, Session, SessionCounters, SessionOptions, SubmitError};
pub use status_probe::StatusProbe;
