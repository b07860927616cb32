//! `quorate client`: reads and writes the key-value store of a running cluster, or puts load on the cluster.

use crate::live::Live;
use crate::{Outcome, outputs_of};
use clap::{Args, Subcommand};
use quorate_lab::bench;
use quorate_lab::spec::LoadArgs;
use quorate_operator::client::{self, Reach};
use quorate_operator::node::keep_memory_secret;

/// Arguments of `quorate client`.
#[derive(Args)]
pub struct ClientArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    request: Request,
}

#[derive(Subcommand)]
enum Request {
    #[command(flatten)]
    Store(client::Request),
    /// Put load on the cluster and measure it from the clients' point of view.
    Load(Box<LoadArgs>),
}

impl ClientArgs {
    pub fn is_load(&self) -> bool {
        matches!(self.request, Request::Load(_))
    }
}

pub fn run(arguments: ClientArgs) -> Outcome {
    let reach = arguments.reach;
    let LoadArgs(spec) = match arguments.request {
        Request::Store(request) => return client::run(&reach, request),
        Request::Load(load) => *load,
    };
    keep_memory_secret()?;
    // The load has its own flag for client authentication and refuses this one, so even an explicit default counts as
    // given.
    let config = reach.config()?;
    let outputs = outputs_of(&spec, &[&reach.file()])?;
    let mut live = Live::new();
    let result = bench::load(&spec, &config, reach.directory(), &mut live);
    live.clear();
    let result = result?;
    outputs.show(&result, &[])
}
