//! Cost per command for the load generator, against four replicas without consensus: `cargo bench -p quorate-client`.

#[path = "../tests/echo/mod.rs"]
mod echo;

use echo::{EchoCluster, Manner};
use quorate_client::load::{LoadGenerator, LoadMode, LoadOptions};
use quorate_client::workload::FixedWorkload;
use quorate_client::{ClientConfig, ReplyMode, SessionOptions, new_identity};
use quorate_crypto::ClientAuthentication;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn main() {
    let cluster = EchoCluster::start(&[Manner::Honest; 4]);
    let acknowledging = EchoCluster::start(&[Manner::Acknowledges, Manner::Silent, Manner::Silent, Manner::Silent]);
    let (none, signed) = (ClientAuthentication::None, ClientAuthentication::Ed25519);
    for (name, client_authentication, cluster, reply, payload, bundle, outstanding) in [
        ("100 x 0 B", none, &cluster, ReplyMode::Each, 0, 100, 1600),
        ("100 x 16 B listed", none, &cluster, ReplyMode::Each, 16, 100, 1600),
        ("100 x 512 B listed", none, &cluster, ReplyMode::Each, 512, 100, 1600),
        ("1 x 0 B", none, &cluster, ReplyMode::Each, 0, 1, 400),
        ("1 x 0 B, one outstanding", none, &cluster, ReplyMode::Each, 0, 1, 1),
        ("100 x 0 B, signed", signed, &cluster, ReplyMode::Each, 0, 100, 1600),
        ("1 x 0 B, signed", signed, &cluster, ReplyMode::Each, 0, 1, 400),
        ("100 x 16 B, no reply", none, &acknowledging, ReplyMode::None, 16, 100, 1600),
        ("100 x 4096 B, no reply", none, &acknowledging, ReplyMode::None, 4096, 100, 400),
    ] {
        let mode = LoadMode::Closed { outstanding };
        let clients = if outstanding == 1 { 1 } else { 4 };
        let options = LoadOptions { mode, bundle, clients, duration: SECOND * 2, ..LoadOptions::default() };
        let session = SessionOptions { reply, ..cluster.config.session().unwrap() };
        let config = ClientConfig { client_authentication, ..cluster.config.clone() };
        let identity = new_identity(&config).unwrap();
        let workload = Box::new(FixedWorkload::new(payload, 1).unwrap());
        let transport = cluster.transport(identity.origin());
        let load = LoadGenerator::new(transport, identity, session, options, workload, SECOND * 10).unwrap();
        let report = load.run().unwrap();
        println!(
            "{name:26} {:9.0} commands/s  {:.3} us client CPU/command  p50 {:.3} ms  busy {:.2}  {:.1} commands/bundle",
            report.throughput(),
            report.cpu_us_per_command().unwrap(),
            report.latency_ms(0.5).unwrap(),
            report.busy_fraction().unwrap_or(f64::NAN),
            report.submitted as f64 / report.bundles.submitted as f64,
        );
    }
}
