//! Cost of a typed state machine compared with the application that executes nothing, in one process and alternating:
//! `cargo run --release -p quorate --example cost [ROUNDS]`.
//!
//! Prints the CPU time of the whole process, replicas and clients, per completed command, with the load
//! of `quorate bench`: four clients with 1,600 commands outstanding each, in bundles of 100. The counter by hand shows
//! what the results themselves cost. The last rows are the counter's with one `Pipeline` as its client.

use bytes::Bytes;
use quorate::prelude::*;
use quorate::{ApplicationKind, NodeConfig, kind};
use quorate_applications::{Application, Factory, Frozen, RestoreError};
use quorate_client::load::{LoadGenerator, LoadOptions};
use quorate_client::workload::{WorkloadKind, workload};
use quorate_client::{ClientConfig, connect, new_identity};
use quorate_node::{EmbeddedCluster, NoObserver};
use quorate_types::Command;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::error::Error as AnyError;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

const REPLICAS: usize = 4;
const WARMUP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(3);
/// Outstanding commands of the pipeline, as many as in the load.
const OUTSTANDING: usize = 6400;

#[derive(Clone, Default, Serialize, Deserialize)]
struct Counter(u64);

impl StateMachine for Counter {
    const NAME: &'static str = "counter";
    type Command = u64;
    type Reply = u64;
    type Query = ();
    type Answer = u64;

    fn apply(&mut self, _: &BlockContext, number: u64) -> u64 {
        self.0 = self.0.wrapping_add(number);
        self.0
    }

    fn query(&self, (): ()) -> u64 {
        self.0
    }
}

/// The same counter, written against the engine's own interface.
struct ByHand(u64);

impl Application for ByHand {
    fn name(&self) -> &'static str {
        BY_HAND.name
    }

    fn execute(&mut self, _: &BlockContext, command: &Command<'_>, result: &mut Vec<u8>) {
        self.0 = self.0.wrapping_add(u64::from(command.payload[0]));
        result.extend_from_slice(&self.0.to_le_bytes());
    }

    fn query(&self, _question: &[u8]) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    fn freeze(&mut self) -> Frozen {
        let state = self.0;
        Box::new(move || Bytes::copy_from_slice(&state.to_le_bytes()))
    }

    fn snapshot_bytes(&self) -> usize {
        size_of::<u64>()
    }

    fn restore(&mut self, _snapshot: Bytes) -> Result<(), RestoreError> {
        unreachable!("no replica of this example restarts")
    }
}

static BY_HAND: Factory = Factory { name: "by-hand", make: || Box::new(ByHand(0)) };

/// Returns the CPU time of this process.
fn cpu() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").expect("Linux reports it");
    let fields: Vec<&str> = text.rsplit(')').next().expect("it has a name").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number of ticks");
    // User and system time, in hundredths of a second.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn cluster(application: ApplicationKind) -> Result<(EmbeddedCluster, ClientConfig), Box<dyn AnyError>> {
    let mut template = NodeConfig::template("cost");
    template.application = application;
    template.client_authentication = "none".parse()?;
    let places = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); REPLICAS];
    let cluster = EmbeddedCluster::start(&template, &places, |_| (), || Box::new(NoObserver))?;
    let (committee, protocol) = (cluster.committee(), template.consensus.protocol);
    let mut config =
        ClientConfig::new("cost", protocol, template.scheme, committee.quorum.faults(), &committee.members);
    config.application = application;
    config.client_authentication = template.client_authentication;
    Ok((cluster, config))
}

/// Returns the CPU time per command of a load, in microseconds.
fn load(application: ApplicationKind, file: &Path) -> Result<f64, Box<dyn AnyError>> {
    let (cluster, config) = cluster(application)?;
    let identity = new_identity(&config)?;
    let transport = connect(&config, identity.origin())?;
    let options = LoadOptions { warmup: WARMUP, duration: MEASURED, ..LoadOptions::default() };
    let commands = workload(&WorkloadKind::File(file.to_owned()), 0, 1, 1, None)?;
    let timeout = Duration::from_secs(5);
    let generator = LoadGenerator::new(transport, identity, config.session()?, options, commands, timeout)?;
    let before = cpu();
    let report = generator.run()?;
    let spent = cpu() - before;
    cluster.shut_down().into_iter().try_for_each(|(_, status)| status.map(drop))?;
    let completed: u64 = report.intervals.iter().sum();
    Ok(spent.as_secs_f64() * 1e6 / completed as f64)
}

/// Returns the CPU time per command of one pipeline, in microseconds.
fn pipeline() -> Result<f64, Box<dyn AnyError>> {
    let cluster = LocalCluster::<Counter>::start_with(REPLICAS, |config| {
        config.client_authentication = "none".parse().expect("a name");
    })?;
    let pipeline = cluster.pipeline()?;
    let (before, start, mut completed) = (cpu(), Instant::now(), 0u64);
    let mut open = VecDeque::new();
    while start.elapsed() < WARMUP + MEASURED {
        while open.len() < OUTSTANDING {
            open.push_back(pipeline.execute(&1)?);
        }
        for reply in open.drain(..OUTSTANDING / 2) {
            reply.wait()?;
            completed += 1;
        }
    }
    let spent = cpu() - before;
    drop(pipeline);
    cluster.shut_down()?;
    Ok(spent.as_secs_f64() * 1e6 / completed as f64)
}

fn main() -> Result<(), Box<dyn AnyError>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(3), |rounds| rounds.parse())?;
    let file = std::env::temp_dir().join(format!("quorate-cost-{}", std::process::id()));
    // The command 1: both applications get the same bytes.
    fs::write(&file, [1, b'\n'])?;
    for _ in 0..rounds {
        println!("log               {:.3} us a command", load(ApplicationKind::LOG, &file)?);
        println!("counter by hand   {:.3} us a command", load(ApplicationKind::of(&BY_HAND), &file)?);
        println!("counter           {:.3} us a command", load(kind::<Counter>(), &file)?);
    }
    for _ in 0..rounds {
        println!("counter, pipeline {:.3} us a command", pipeline()?);
    }
    fs::remove_file(file)?;
    Ok(())
}
