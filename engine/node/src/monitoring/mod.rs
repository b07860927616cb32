//! The monitoring listener of a replica: metrics and health over HTTP, for monitors and supervisors ([ADR
//! 118](https://github.com/quorate/quorate/blob/main/docs/adr/118-a-minimal-http-listener.md)).
//!
//! Threads of its own serve it, and ask the event loop for a [status](port) at most every few hundred milliseconds. So
//! a stranger can neither hold up the replica nor cost it more than that.

mod config;
mod families;
mod health;
mod http;
mod page;
mod port;
mod process;
mod server;

pub use config::MonitoringConfig;
pub use families::{About, page};
pub use health::{MAX_READY_LAG_BLOCKS, unreadiness};
pub use http::{MAX_HEADERS, MAX_REQUEST_BYTES, Request, Response, TRANSFER_TIMEOUT, parse};
pub use page::{Format, Page};
pub use port::{ANSWER_TIMEOUT, NoStatus, Phase, STATUS_INTERVAL, StatusPort, StatusReader};
pub use process::{Directories, Resources};
pub use server::{MAX_CONNECTIONS, MonitoringServer, Pages};
