//! `quorate plan`: computes with [`quorate_simulator::models::plan`] the hardware that a load needs. Runs nothing.

mod amounts;
mod cpu;
mod fpga;
mod page;
mod table;

pub use amounts::Amounts;
pub use cpu::CpuOptions;
pub use fpga::{FpgaAnswer, FpgaOptions};
pub use page::page;

use clap::{Args, Subcommand};
use quorate_operator::report::Report;
use quorate_simulator::models::plan::CpuPlan;
use quorate_types::Fault;
use serde::{Deserialize, Serialize};

/// Commands of `quorate plan`.
#[derive(Subcommand, Clone, Debug)]
pub enum PlanCommand {
    /// Compute the hardware cores that a replica needs at link rate, and the remaining capacity of an FPGA.
    Fpga(FpgaArgs),
    /// Compute the CPU cores that a replica needs under a load, and the stage that saturates first.
    Cpu(CpuArgs),
}

/// Flags of `quorate plan fpga`.
#[derive(Args, Clone, Debug)]
pub struct FpgaArgs {
    #[command(flatten)]
    pub options: FpgaOptions,
    #[command(flatten)]
    pub outputs: PlanOutputs,
}

/// Flags of `quorate plan cpu`.
#[derive(Args, Clone, Debug)]
pub struct CpuArgs {
    #[command(flatten)]
    pub options: CpuOptions,
    #[command(flatten)]
    pub outputs: PlanOutputs,
}

/// Files to write.
#[derive(Args, Clone, Debug)]
pub struct PlanOutputs {
    /// Write a page with plots to this file.
    #[arg(long, value_name = "PATH")]
    pub report: Option<String>,
    /// Write the plan as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    pub json: Option<String>,
}

/// Result of `quorate plan`, for an FPGA or for CPUs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Plan {
    Fpga(Box<FpgaAnswer>),
    Cpu(Box<CpuPlan>),
}

impl PlanCommand {
    pub fn outputs(&self) -> &PlanOutputs {
        match self {
            PlanCommand::Fpga(arguments) => &arguments.outputs,
            PlanCommand::Cpu(arguments) => &arguments.outputs,
        }
    }

    /// Computes the plan.
    ///
    /// # Errors
    /// The invalid flag, with a remedy.
    pub fn plan(&self) -> Result<Plan, Fault> {
        Ok(match self {
            PlanCommand::Fpga(arguments) => Plan::Fpga(Box::new(arguments.options.answer()?)),
            PlanCommand::Cpu(arguments) => Plan::Cpu(Box::new(arguments.options.answer()?)),
        })
    }
}

impl Report for Plan {
    /// Formats the plan as a table.
    fn to_table(&self) -> String {
        match self {
            Plan::Fpga(answer) => table::fpga(answer),
            Plan::Cpu(plan) => table::cpu(plan),
        }
    }
}
