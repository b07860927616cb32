//! Conversion of networks between the file format and CSV.

use crate::input;
use crate::spec::choice;
use clap::Args;
use quorate_simulator::NetworkSpec;
use quorate_types::{Fault, choice};
use std::path::Path;

choice!(
    #[derive(Default)]
    NetworkFormat, "format of a network",
    /// A network file: docs/SIMULATOR_FILES.md.
    #[default]
    Toml = "toml",
    /// A matrix of round trips in milliseconds.
    Csv = "csv",
);

/// Flags of `quorate lab network`.
#[derive(Args)]
pub struct NetworkArgs {
    /// Network: lan, wan4, us4, world12, loopback, lossmodel, a network file, or round trips in a file that ends with
    /// .csv.
    #[arg(value_name = "NAME|FILE")]
    pub network: String,
    /// Format to write.
    #[arg(long, default_value = "toml", value_parser = choice::<NetworkFormat>())]
    pub to: NetworkFormat,
    /// The file to write; - is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: String,
}

/// Returns the network in the other format.
///
/// # Errors
/// If the file cannot be read or is invalid, or the network has no regions, which CSV needs.
pub fn convert(arguments: &NetworkArgs) -> Result<String, Fault> {
    let name = &arguments.network;
    let network = match NetworkSpec::preset(name) {
        Some(network) => network,
        None => {
            let text = input::settings(Path::new(name)).map_err(|error| not_read(name, &error))?;
            NetworkSpec::of_file(&text, name)?
        }
    };
    match arguments.to {
        NetworkFormat::Toml => Ok(network.to_toml()),
        NetworkFormat::Csv => network.to_csv(name),
    }
}

fn not_read(name: &str, error: &std::io::Error) -> Fault {
    let presets: Vec<&str> = NetworkSpec::presets().collect();
    let help = format!("name a file that is there, or one of {}", presets.join(", "));
    Fault::new(name, format!("cannot be read: {error}"), help)
}
