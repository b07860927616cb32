//! `quorate peer`: measures other systems.

use crate::Outcome;
use clap::{Args, Subcommand};
use quorate_lab::figures::vocabulary;
use quorate_lab::peers::{self, PeerLoad, Recipe};
use quorate_operator::output::{self, Outputs};
use std::path::PathBuf;

/// Commands of `quorate peer`.
#[derive(Subcommand)]
pub enum PeerCommand {
    /// List the systems that have a recipe.
    List,
    /// Show the commands that fetch and build a system. Call them in the directory of the sources.
    Show(ShowArgs),
    /// Start a system's replicas and clients on this machine, measure them, and stop them.
    Run(RunArgs),
}

/// Flags of `quorate peer show`.
#[derive(Args)]
pub struct ShowArgs {
    /// Name of the recipe.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Flags of `quorate peer run`.
#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    load: PeerLoad,
    /// Directory that contains the built source of the system, in a directory with the recipe's name [default:
    /// $QUORATE_PEERS, otherwise peers-source].
    #[arg(long, value_name = "DIR")]
    sources: Option<PathBuf>,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

impl PeerCommand {
    /// Returns whether the command runs for a while and reports a partial result if a signal interrupts it.
    pub fn has_result(&self) -> bool {
        matches!(self, PeerCommand::Run(_))
    }
}

pub fn run(command: &PeerCommand) -> Outcome {
    match command {
        PeerCommand::List => {
            for name in Recipe::names() {
                let recipe = Recipe::named(name, &vocabulary())?;
                output::say(&format!("{name:<16}  {} {}", recipe.repository, recipe.revision))?;
            }
            Ok(())
        }
        PeerCommand::Show(ShowArgs { name }) => {
            output::say(Recipe::named(name, &vocabulary())?.commands(name).trim_end())?;
            Ok(())
        }
        PeerCommand::Run(RunArgs { load, sources, json }) => {
            let recipe = Recipe::named(&load.system, &vocabulary())?;
            load.fit(&recipe)?;
            let outputs = Outputs::open(&[("--json", json.as_deref())], &[])?;
            outputs.show(&peers::run(&recipe, load, &load.source(sources.clone()))?, &[])
        }
    }
}
