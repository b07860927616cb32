//! `quorate plan cpu`: builds the question from flags and a cost table.

use super::amounts::Amounts;
use crate::input;
use crate::spec::{Rate, SchemeKind, choice};
use clap::Args;
use quorate_simulator::CostTable;
use quorate_simulator::models::plan::cpu::{CpuModel, ENGINE_HEADER_BYTES, MESSAGES_PER_CALL};
use quorate_simulator::models::plan::paper::PaperCosts;
use quorate_simulator::models::plan::{CpuCosts, CpuPlan, CpuQuestion, Framing, Load, Profile};
use quorate_types::Fault;
use std::path::Path;

/// Argument that selects the paper's costs.
const PAPER: &str = "paper";
/// Signature scheme of the paper's costs.
const PAPER_SCHEME: &str = "rsa-2048";

/// Planned load and hardware.
#[derive(Args, Clone, Debug)]
pub struct CpuOptions {
    /// Operations per second, with K, M or G [default: the leader's link capacity].
    #[arg(long, value_name = "PER_S", allow_hyphen_values = true)]
    pub rate: Option<Rate>,
    /// Rate of the leader's link in bits per second, in each direction, with K, M, G or T.
    #[arg(long, value_name = "BITS_PER_S", default_value = "10G", allow_hyphen_values = true)]
    pub line_rate: Rate,
    /// Numbers of replicas: a list, or an inclusive range.
    #[arg(long, value_name = "N,N|A..B", default_value = "15", allow_hyphen_values = true)]
    pub replicas: Amounts,
    /// Sizes of values in bytes: a list, or an inclusive range.
    #[arg(long, value_name = "BYTES,BYTES|A..B/STEP", default_value = "512", allow_hyphen_values = true)]
    pub value: Amounts,
    /// Requests in a batch.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch: u32,
    /// Authentication of messages; clients sign in all profiles, with Ed25519.
    #[arg(long, default_value = "domain", value_parser = choice::<Profile>())]
    pub profile: Profile,
    /// Signatures on votes and replies [default: ed25519; rsa-2048 with --costs paper].
    #[arg(long, value_name = "SCHEME", value_parser = choice::<SchemeKind>())]
    pub scheme: Option<SchemeKind>,
    /// MACs on votes and replies.
    #[arg(long, value_name = "SCHEME", default_value = "hmac-sha256", value_parser = choice::<SchemeKind>())]
    pub mac_scheme: SchemeKind,
    /// Cost table: a file written by `quorate calibrate`, or paper for the pipeline paper's printed cycles [default:
    /// the shipped table].
    #[arg(long, value_name = "FILE|paper")]
    pub costs: Option<String>,
    /// Numbers of cores for which to compute the throughput: a list, or an inclusive range.
    #[arg(long, value_name = "K,K|A..B", default_value = "1,2,4,8,16", allow_hyphen_values = true)]
    pub cores: Amounts,
    /// Messages per system call.
    #[arg(long, value_name = "N", default_value_t = MESSAGES_PER_CALL, allow_hyphen_values = true)]
    pub messages_per_call: f64,
    /// Size of a message without its value, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ENGINE_HEADER_BYTES)]
    pub header_bytes: u32,
    /// Overhead on the link besides messages: none, as in the paper, or full Ethernet packets with TCP/IP.
    #[arg(long, default_value = "none", value_parser = choice::<Framing>())]
    pub framing: Framing,
}

impl CpuOptions {
    /// Builds the question.
    ///
    /// # Errors
    /// The invalid flag or file, with a remedy.
    pub fn question(&self) -> Result<CpuQuestion, Fault> {
        let by_paper = self.costs.as_deref() == Some(PAPER);
        let scheme = self.scheme.map_or(if by_paper { PAPER_SCHEME } else { "ed25519" }, |scheme| scheme.name());
        let model = match by_paper {
            true => CpuModel::Paper(Box::new(PaperCosts::shipped())),
            false => CpuModel::Table(Box::new(self.table(scheme)?)),
        };
        let load = Load {
            replicas: 2,
            value_bytes: 0,
            batch: self.batch,
            header_bytes: self.header_bytes,
            framing: self.framing,
            profile: self.profile,
            checkpoint_interval: None,
        };
        load.validate()?;
        let question = CpuQuestion {
            rate_per_s: self.rate.map(|rate| rate.0),
            line_rate_bits_per_s: self.line_rate.0,
            replicas: self.replicas.0.iter().map(|replicas| *replicas as usize).collect(),
            values: self.value.0.clone(),
            load,
            scheme: scheme.to_owned(),
            model,
            messages_per_call: self.messages_per_call,
            cores: self.cores.0.clone(),
        };
        question.validate()?;
        Ok(question)
    }

    /// Computes the plan.
    ///
    /// # Errors
    /// As [`CpuOptions::question`].
    pub fn answer(&self) -> Result<CpuPlan, Fault> {
        self.question()?.plan()
    }

    fn table(&self, scheme: &str) -> Result<CpuCosts, Fault> {
        let table = match self.costs.as_deref() {
            None => CostTable::shipped(),
            Some(path) => {
                let text = input::settings(Path::new(path)).map_err(|error| {
                    let help = "write one with `quorate calibrate`, or use paper";
                    Fault::new("--costs", format!("cannot read {path}: {error}"), help)
                })?;
                CostTable::parse(&text, path)?
            }
        };
        if self.mac_scheme.profile().has_public_keys_only() {
            let what = format!("{} computes no MACs", self.mac_scheme);
            return Err(Fault::new("--mac-scheme", what, "use aes-256-cmac or hmac-sha256"));
        }
        let scheme: SchemeKind = scheme.parse().expect("the name of a scheme");
        if !scheme.profile().has_public_keys_only() {
            let what = format!("{scheme} makes no signatures");
            return Err(Fault::new("--scheme", what, "use a scheme with public keys, such as ed25519"));
        }
        let votes = table.signatures_of(scheme)?;
        let macs = table.signatures_of(self.mac_scheme)?;
        let clients = table.signatures_of(SchemeKind::ED25519)?;
        let step = |cost: Option<f64>| cost.unwrap_or(table.core.step_us);
        Ok(CpuCosts {
            source: table.source.clone(),
            read_call_us: table.wire.read_call_us,
            write_call_us: table.wire.write_call_us,
            receive_us: table.wire.receive_us,
            send_us: table.wire.send_us,
            receive_byte_ns: table.wire.receive_byte_ns,
            send_byte_ns: table.wire.send_byte_ns,
            hash_us: table.hash.each_us,
            hash_byte_ns: table.hash.byte_ns,
            proposal_us: step(table.steps.proposal_us) + table.core.handle_us,
            statement_us: step(table.steps.statement_us) + table.core.handle_us,
            submit_us: step(table.steps.submit_us),
            verdict_us: step(table.steps.verdict_us),
            pool_us: table.core.pool_us,
            bundle_us: table.core.bundle_us,
            command_us: table.core.command_us,
            command_byte_ns: table.core.command_byte_ns,
            client_verify_us: clients.verify_us.first().map_or(0.0, |(_, cost)| *cost),
            sign_us: votes.sign_us,
            verify_us: votes.verify_us,
            mac_us: macs.sign_us,
            check_us: macs.verify_us,
            flush_us: table.journal.flush_us,
        })
    }
}
