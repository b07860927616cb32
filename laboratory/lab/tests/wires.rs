//! Replicas and clients use the transport of the spec.

use quorate_lab::BenchSpec;
use quorate_lab::bench::{self, Progress, Watcher};
use quorate_lab::spec::{Interval, TransportKind};
use quorate_network::channels::ChannelConfig;
use quorate_network::transports::{
    Carrier, Endpoint, Endpoints, SetupError, Transport, TransportProfile, WireSettings,
};
use quorate_testkit::wires::{REPEATING, SIGNED};
use quorate_types::{Address, Committee};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// TCP under another name, which counts the endpoints created with it.
struct Counted {
    profile: TransportProfile,
    listeners: AtomicUsize,
    replicas: AtomicUsize,
    clients: AtomicUsize,
}

static COUNTED: Counted = Counted {
    profile: TransportProfile {
        name: "counted",
        summary: "a toy",
        carriage: quorate_network::channels::Carriage::Stream,
        own_channel: None,
        guards_links: true,
        keeps_order: true,
        repairs_losses: true,
    },
    listeners: AtomicUsize::new(0),
    replicas: AtomicUsize::new(0),
    clients: AtomicUsize::new(0),
};

impl Carrier for Counted {
    fn profile(&self) -> &TransportProfile {
        &self.profile
    }

    fn listen(&self, address: &Address) -> io::Result<Endpoint> {
        self.listeners.fetch_add(1, Ordering::SeqCst);
        TransportKind::TCP.carrier().listen(address)
    }

    fn replica(
        &self,
        committee: &Committee,
        endpoints: Endpoints,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError> {
        self.replicas.fetch_add(1, Ordering::SeqCst);
        TransportKind::TCP.carrier().replica(committee, endpoints, end, settings)
    }

    fn client(
        &self,
        committee: &Committee,
        end: ChannelConfig,
        settings: WireSettings,
    ) -> Result<Box<dyn Transport>, SetupError> {
        self.clients.fetch_add(1, Ordering::SeqCst);
        TransportKind::TCP.carrier().client(committee, end, settings)
    }
}

struct Quiet;

impl Watcher for Quiet {
    fn progress(&mut self, _: &Progress<'_>) {}
    fn warn(&mut self, _: &str) {}
}

#[test]
fn a_benchmark_runs_on_the_transport_that_it_names() {
    let mut spec = {
        let mut spec = BenchSpec::default();
        spec.node.transport = TransportKind::of(&COUNTED);
        spec
    };
    (spec.warmup, spec.duration) = (Interval::from_millis(50), Interval::from_millis(300));
    let result = bench::run(&spec, &mut Quiet).expect("a cluster");
    assert!(result.committed_commands > 0, "commands are ordered over it");
    let counted = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    assert_eq!((counted(&COUNTED.listeners), counted(&COUNTED.replicas)), (4, 4));
    assert!(counted(&COUNTED.clients) > 0, "clients dial with it");
    assert_eq!(result.spec.node.transport.name(), "counted");
}

#[test]
fn a_benchmark_runs_over_an_unlisted_machine() {
    let mut spec = {
        let mut spec = BenchSpec::default();
        spec.node.transport = REPEATING;
        spec.node.channel = SIGNED;
        spec
    };
    (spec.warmup, spec.duration) = (Interval::from_millis(50), Interval::from_millis(500));
    (spec.clients, spec.outstanding) = (1, Some(50));
    let result = bench::run(&spec, &mut Quiet).expect("a cluster over UDP");
    assert!(result.committed_commands > 0, "commands are ordered over it");
    let for_streams = {
        let mut spec = spec;
        spec.node.channel = "tls".parse().expect("a channel");
        spec
    };
    let refused = for_streams.validate().expect_err("TLS does not work over packets").to_string();
    assert!(refused.contains("--channel") && refused.contains("datagrams"), "{refused}");
}
