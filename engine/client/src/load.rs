//! Load generators. One thread drives all logical clients over one connection to each replica. Commands of different
//! clients may share a bundle; each has its own client, sequence number, result and latency.
//!
//! [`LoadCore`] decides what to send and when. It is pure: each step receives the time. [`LoadGenerator`] adds a clock
//! and a transport, and measures the cost of its thread, so that a harness can detect whether the client was the
//! bottleneck. A load can be split over several machines, whose parts start together and whose reports are merged.

mod commits;
mod core;
mod generator;
mod histogram;
mod merge;
mod options;
mod pace;
mod pause;
mod recorder;
mod replies;
mod samples;
mod throttle;
mod usage;

pub use self::core::{LoadCore, Stage};
pub use generator::{LoadError, LoadGenerator, LoadHandle, LoadProgress, STAGES};
pub use histogram::Counts;
pub use options::{DEFAULT_MAX_OUTSTANDING, LoadMode, LoadOptions, LoadOptionsError, LoadStep, MAX_STEPS, USUAL_BURST};
pub use pace::Pace;
pub use pause::Pause;
pub use recorder::{INTERVAL, LoadReport, StepReport};
pub use replies::ReplyCounts;
pub use samples::{MAX_SAMPLES, Reservoir, Sample};
pub use throttle::Throttle;
pub use usage::{Usage, thread_cpu_time, thread_schedule};
