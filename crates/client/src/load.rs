//! Load generators. One thread drives all logical clients over one connection to each replica; commands of different clients may
//! share a bundle, and each has its own client, sequence number, result and latency.
//!
//! [`LoadCore`] decides what is sent when and is pure: it gets the time with each step. [`LoadGenerator`] gives it a clock and a
//! transport, and measures what the thread itself costs, so that a harness can tell whether the client was the limit.

mod core;
mod generator;
mod options;
mod recorder;
mod usage;

pub use self::core::{LoadCore, Stage};
pub use generator::{LoadError, LoadGenerator, LoadHandle, LoadProgress};
pub use options::{DEFAULT_MOST_OUTSTANDING, LoadMode, LoadOptions, LoadOptionsError};
pub use recorder::{INTERVAL, LoadReport};
pub use usage::{Usage, thread_cpu_time, thread_schedule};
