//! quorate: experiments, results and reports.
//!
//! [`spec`] is what to run, [`result`] what was measured, [`report`] the page that shows it.

pub mod bench;
pub mod calibrate;
pub mod report;
pub mod result;
pub mod sim;
pub mod spec;

pub use report::render_html;
pub use result::BenchResult;
pub use spec::{BenchArgs, BenchSpec, SpecError};
