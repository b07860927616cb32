//! Hardware that a load needs, by arithmetic without measurements.
//!
//! [`load`] counts the leader's work for a batch in PBFT and the link capacity in batches, as the pipeline paper does
//! (Sit, Bravo, István, 2021, sections 4.2, 5 and 6.2). [`cores`] has the tables of hardware cores and devices, with
//! their sources. [`fpga`] divides one by the other: figure 11. [`cpu`] does the same with software costs, from a
//! calibrated table or from the paper's own figures ([`paper`]).

pub mod cores;
pub mod cpu;
pub mod fpga;
pub mod load;
pub mod paper;

pub use cores::{Basis, Core, Device, Stage, Tables};
pub use cpu::{CpuCosts, CpuPlan, CpuQuestion};
pub use fpga::{FpgaPlan, FpgaQuestion, Point};
pub use load::{Framing, Load, Profile, Work};

use quorate_types::Fault;

/// Refuses a number that is not finite and positive.
///
/// # Errors
/// With the flag as the place.
pub fn positive(flag: &str, value: f64, unit: &str) -> Result<f64, Fault> {
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(Fault::new(flag, format!("is {value}"), format!("set a number of {unit} above 0"))),
    }
}
