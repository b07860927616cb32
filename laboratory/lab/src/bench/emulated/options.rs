//! Flags of `quorate bench --host emulated`.

use crate::emulation::Emulator;
use crate::link_flags::{parse_delay, parse_loss, parse_nic_rate};
use crate::sim::{SimError, SimOptions};
use crate::spec::{BenchSpec, Host, Problem, SpecError, choice, quote};
use clap::Args;
use quorate_simulator::NetworkSpec;

/// Help heading of these flags.
const EMULATION: &str = "Emulated network (--host emulated)";
/// Default network, as in `quorate sim`.
const DEFAULT_NETWORK: &str = "lan";
/// Default congestion control of TCP; most hosts use it.
const DEFAULT_CONGESTION_CONTROL: &str = "cubic";
/// Range of `--rto-min-ms`.
const RTO_MIN_MS: std::ops::RangeInclusive<f64> = 0.001..=120_000.0;

/// The network of `--host emulated`. Other hosts refuse these flags.
#[derive(Args, Clone, PartialEq, Debug, Default)]
pub struct EmulationOptions {
    /// Network: lan, wan4, us4, world12, loopback, lossmodel, or a file as described in docs/SIMULATOR_FILES.md
    /// [default: lan].
    #[arg(long, help_heading = EMULATION, value_name = "FILE|lan|wan4|us4|world12|loopback|lossmodel")]
    pub network: Option<String>,
    /// Fraction of packets to drop, from 0 to 1; overrides the network's loss.
    #[arg(long, help_heading = EMULATION, value_name = "FRACTION", value_parser = parse_loss)]
    pub loss: Option<f64>,
    /// One-way delay of each link in milliseconds; overrides the network's delays.
    #[arg(long, help_heading = EMULATION, value_name = "MS", value_parser = parse_delay)]
    pub delay_ms: Option<f64>,
    /// Bandwidth of each network interface in Mbit/s, in either direction; 0: no limit; overrides the network's
    /// bandwidth.
    #[arg(long, hide_short_help = true, help_heading = EMULATION)]
    #[arg(value_name = "MBIT_PER_S", value_parser = parse_nic_rate)]
    pub card_mbit_per_s: Option<u32>,
    /// Minimum retransmission timeout of the kernel's TCP, in milliseconds [default: from the network file, or 200].
    /// The kernel rounds it up to a clock tick, and scales its delayed acknowledgements with it.
    #[arg(long, hide_short_help = true, help_heading = EMULATION, value_name = "MS", value_parser = parse_rto)]
    pub rto_min_ms: Option<f64>,
    /// Emulator that delays and drops packets: auto, netem or router [default: auto]. auto prefers the kernel's netem
    /// if the kernel has it and it supports everything in the network file, and otherwise the router in user space.
    #[arg(long, hide_short_help = true, help_heading = EMULATION, value_name = "auto|netem|router",
          value_parser = choice::<Emulator>())]
    pub emulator: Option<Emulator>,
    /// Congestion control of the kernel's TCP: cubic, reno, or another that this kernel has [default: cubic].
    #[arg(long, hide_short_help = true, help_heading = EMULATION, value_name = "NAME", value_parser = parse_name)]
    pub congestion_control: Option<String>,
}

fn parse_rto(text: &str) -> Result<f64, String> {
    let rto = text.parse::<f64>().ok().filter(|rto| RTO_MIN_MS.contains(rto));
    rto.ok_or_else(|| format!("write milliseconds from {} to {}", RTO_MIN_MS.start(), RTO_MIN_MS.end()))
}

fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let fits = (1..16).contains(&text.len()) && text.chars().all(is_plain);
    if fits { Ok(text.to_owned()) } else { Err("write a name such as cubic or reno".to_owned()) }
}

impl EmulationOptions {
    /// Returns the name of the network.
    pub fn name(&self) -> &str {
        self.network.as_deref().unwrap_or(DEFAULT_NETWORK)
    }

    pub fn congestion_control(&self) -> &str {
        self.congestion_control.as_deref().unwrap_or(DEFAULT_CONGESTION_CONTROL)
    }

    /// Returns the network, with its loss, delay and bandwidth overridden by the flags.
    ///
    /// # Errors
    /// If the file cannot be read or does not describe a network.
    pub fn network(&self) -> Result<NetworkSpec, SimError> {
        let EmulationOptions { loss, delay_ms, card_mbit_per_s, .. } = *self;
        let network = self.name().to_owned();
        SimOptions { network, loss, delay_ms, card_mbit_per_s, ..SimOptions::default() }.network()
    }

    /// Refuses flags that have no effect on the spec's host.
    ///
    /// # Errors
    /// The first such flag, with a remedy.
    pub fn fit(&self, spec: &BenchSpec) -> Result<(), SpecError> {
        let Some(flag) = self.arguments().into_iter().next().filter(|_| spec.host != Host::Emulated) else {
            return Ok(());
        };
        let what = format!("{flag} needs an emulated network, but the host is `{}`", spec.host);
        let help = "set --host emulated, or use `quorate sim`".to_owned();
        Err(SpecError::Impossible(vec![Problem { place: format!("{flag}, --host"), what, help }]))
    }

    /// Returns the flags that were given.
    pub fn arguments(&self) -> Vec<String> {
        let flags = [
            ("--network", self.network.clone()),
            ("--loss", self.loss.map(|loss| loss.to_string())),
            ("--delay-ms", self.delay_ms.map(|delay| delay.to_string())),
            ("--card-mbit-per-s", self.card_mbit_per_s.map(|card| card.to_string())),
            ("--rto-min-ms", self.rto_min_ms.map(|rto| rto.to_string())),
            ("--emulator", self.emulator.map(|emulator| emulator.to_string())),
            ("--congestion-control", self.congestion_control.clone()),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
        given.flatten().collect()
    }

    /// Returns the command that reproduces a run of this spec, quoted for a shell.
    pub fn command_line(&self, spec: &BenchSpec) -> String {
        let own = self.arguments();
        std::iter::once(spec.command_line()).chain(own.iter().map(|word| quote(word))).collect::<Vec<_>>().join(" ")
    }
}
