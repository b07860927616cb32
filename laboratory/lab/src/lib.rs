//! quorate: experiments, results and reports.
//!
//! [`spec`] defines a run, [`result`] holds the measurements, and [`report`] renders them as a page. [`emulation`]
//! provides a network between replicas in namespaces of one host. [`experiments`] reads files that vary a spec and make
//! claims about the results.

pub mod affinity;
pub mod bench;
pub mod calibrate;
pub mod configuration;
pub mod demo;
pub mod emulation;
pub mod experiments;
pub mod fidelity;
pub mod figures;
pub mod input;
mod link_flags;
pub mod model;
pub mod network;
pub mod noise;
mod partial;
pub mod peers;
pub mod plan;
pub mod record;
pub mod recording;
pub mod replay;
pub mod report;
pub mod requests;
pub mod result;
pub mod search;
pub mod settings;
pub mod sim;
pub mod spec;
mod text;
pub mod torture;
pub mod twins;

pub use report::{Verdict, render_html, render_verdict};
pub use result::{BenchResult, Event};
pub use spec::{BenchArgs, BenchSpec, SpecError};
