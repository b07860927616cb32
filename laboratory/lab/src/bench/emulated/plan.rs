//! Resolves a network file for an emulation: links for the router, settings for the kernel, faults for the processes.

use super::options::EmulationOptions;
use crate::emulation::{Change, Link, Normal, Plan, TcpSettings};
use crate::sim::SimError;
use crate::spec::{BenchSpec, Fault, Interval, When, timeouts};
use quorate_network::transports::RetransmissionProfile;
use quorate_network::transports::retransmission::Bounds;
use quorate_simulator::faults::{self, FaultSpec};
use quorate_simulator::network::{Bandwidth, Delay, DeliverySpec, Endpoints, Jitter, Packets, Topology};
use quorate_simulator::{ClientsAt, Leaves, NetworkSpec, place};
use quorate_types::{ReplicaId, Time};

const NS_PER_MS: f64 = 1e6;

/// A network file, resolved for an emulation.
#[derive(Debug)]
pub struct Resolved {
    pub plan: Plan,
    pub tcp: TcpSettings,
    pub rto_min_ms: f64,
    /// Faults of processes, on the clock of the spec's faults.
    pub faults: Vec<Fault>,
    /// Settings of the file that the kernel's TCP does not support.
    pub not_applied: Vec<String>,
}

/// Resolves the network of the options for the cluster of a spec. Endpoints are the replicas, followed by the clients.
///
/// # Errors
/// If the file is invalid, does not fit the cluster, or needs the simulator.
pub fn resolve(spec: &BenchSpec, options: &EmulationOptions) -> Result<Resolved, SimError> {
    let (mut network, name) = (options.network()?, options.name());
    let replicas = spec.quorum().replicas();
    let machines = place(&ClientsAt::Network, &network.delay, replicas, spec.clients as usize, name)?;
    if machines.len() > 1 {
        let what = format!("names {} regions for clients, but an emulated network has one", machines.len());
        let help = format!("name one region, or simulate them: quorate sim --network {name}");
        return Err(quorate_types::Fault::new(format!("{name}: `delay.clients`"), what, help).into());
    }
    network.fits(replicas, &machines, name)?;
    let delay = network.delay.clone();
    let endpoints = Endpoints { replicas, machines: &machines, delay: &delay };
    let mut not_applied = not_applied(&network.transport);
    if let Some(profile) = spec.tcp_profile() {
        timeouts::apply(profile, &mut network, &endpoints);
        not_applied.extend(not_of_the_profile(profile));
    }
    let faults = process_faults(&network, spec, name)?;
    let rto_min_ms = options.rto_min_ms.unwrap_or(network.transport.rto_min_ms);
    Ok(Resolved {
        plan: plan(&network, &endpoints, spec.seed),
        tcp: tcp(&network.transport, rto_min_ms, options.congestion_control()),
        rto_min_ms,
        faults,
        not_applied,
    })
}

fn plan(network: &NetworkSpec, endpoints: &Endpoints<'_>, seed: u64) -> Plan {
    let is_star = network.topology == Topology::Star;
    let legs = if is_star { 2.0 } else { 1.0 };
    let ns = |ms: f64| ms * legs * NS_PER_MS;
    let (Jitter { max_ms }, packets) = (network.jitter, network.packets);
    let Bandwidth { egress_mbit_per_s, ingress_mbit_per_s, queue_bytes } = network.bandwidth;
    let ps_per_byte = |mbit_per_s: f64| if mbit_per_s == 0.0 { 0 } else { (8e6 / mbit_per_s) as u64 };
    let Packets { mtu_bytes, duplication, reordering, reordering_ms, bit_error_rate, .. } = packets;
    let routes = network.routes(endpoints);
    Plan {
        ends: endpoints.count(),
        links: routes.iter().map(|route| Link { delay_ns: route.delay_ns, loss: route.loss }).collect(),
        last_leg: is_star.then_some(network.loss),
        normal: match network.delay {
            Delay::Normal { mean_ms, deviation_ms, min_ms, max_ms } => Some(Normal {
                mean_ns: ns(mean_ms),
                deviation_ns: ns(deviation_ms),
                least_ns: ns(min_ms),
                most_ns: ns(max_ms),
            }),
            _ => None,
        },
        jitter_ns: ns(max_ms) as u64,
        reordering,
        reordering_ns: (reordering_ms * NS_PER_MS) as u64,
        duplication,
        bit_error_rate,
        egress_ps_per_byte: ps_per_byte(egress_mbit_per_s),
        ingress_ps_per_byte: ps_per_byte(ingress_mbit_per_s),
        queue_bytes,
        mtu_bytes,
        changes: changes(network, endpoints),
        seed,
    }
}

/// Returns the faults of links, in order of time.
fn changes(network: &NetworkSpec, endpoints: &Endpoints<'_>) -> Vec<(Time, Change)> {
    let is_of_links =
        |fault: &&FaultSpec| matches!(fault, FaultSpec::Cut { .. } | FaultSpec::Spike { .. } | FaultSpec::Lose { .. });
    let of_links: Vec<FaultSpec> = network.faults.iter().filter(is_of_links).cloned().collect();
    let mut changes: Vec<(Time, Change)> = faults::changes(&of_links, endpoints)
        .into_iter()
        .map(|(time, change)| match change {
            faults::Change::Cut(pairs, begins) => (time, Change::Cut(pairs, begins)),
            faults::Change::Spike(pairs, by_ns) => (time, Change::Spike(pairs, by_ns)),
            faults::Change::Lose(pairs, probability) => (time, Change::Lose(pairs, probability)),
            other => unreachable!("only faults of links were chosen, not {other:?}"),
        })
        .collect();
    if let Some(ms) = network.heal_at_ms {
        let at = Time((ms * NS_PER_MS) as u64);
        // Faults that begin after the healing are dropped, as in the simulator.
        changes.retain(|(time, _)| *time < at);
        changes.push((at, Change::Heal));
    }
    changes
}

/// Returns the faults of replicas. The file counts from the start of the warm-up, a spec from its end.
fn process_faults(network: &NetworkSpec, spec: &BenchSpec, name: &str) -> Result<Vec<Fault>, SimError> {
    let warmup_ms = spec.warmup.as_millis() as f64;
    let mut all = Vec::new();
    for (at, fault) in network.faults.iter().enumerate() {
        let refuse = |what: String, help: &str| {
            Err(SimError::Fault(quorate_types::Fault::new(format!("{name}: `faults[{at}]`"), what, help)))
        };
        let measured = |at_ms: f64| Interval::from_millis((at_ms - warmup_ms).round() as u64);
        let starts_early = |at_ms: f64| at_ms < warmup_ms;
        let ms = |ms: f64| Interval::from_millis(ms.round() as u64);
        const EARLY: &str = "set it to the end of the warm-up or later, or shorten --warmup";
        match *fault {
            FaultSpec::Cut { .. } | FaultSpec::Spike { .. } | FaultSpec::Lose { .. } => {}
            FaultSpec::Crash { at_ms, .. } | FaultSpec::Restart { at_ms, .. } if starts_early(at_ms) => {
                return refuse(format!("kills a replica at {at_ms} ms, during the warm-up"), EARLY);
            }
            FaultSpec::Misbehave { at_ms, .. } if at_ms > 0.0 && starts_early(at_ms) => {
                return refuse(format!("begins at {at_ms} ms, during the warm-up"), EARLY);
            }
            FaultSpec::Crash { at_ms, replica } => all.push(Fault::Crash(ReplicaId(replica), measured(at_ms))),
            FaultSpec::Restart { at_ms, for_ms, replica, journal: Leaves::Written } if network.heal_at_ms.is_none() => {
                all.push(Fault::Restart(ReplicaId(replica), measured(at_ms), ms(for_ms)));
            }
            FaultSpec::Misbehave { at_ms, for_ms, every_ms, replica, fault } => {
                let at = (at_ms > 0.0).then(|| measured(at_ms));
                let when = When { at, lasts: for_ms.map(ms), every: every_ms.map(ms) };
                all.push(Fault::Misbehave([ReplicaId(replica)].into_iter().collect(), fault, when));
            }
            _ => {
                let help = format!("remove it, or simulate it: quorate sim --network {name}");
                return refuse("is a fault that only the simulator has".to_owned(), &help);
            }
        }
    }
    Ok(all)
}

fn tcp(transport: &DeliverySpec, rto_min_ms: f64, congestion_control: &str) -> TcpSettings {
    let mut values = vec![
        ("tcp_rto_min_us", ((rto_min_ms * 1e3).round() as u64).to_string()),
        ("tcp_rto_max_ms", (transport.rto_max_ms.round() as u64).to_string()),
    ];
    if !transport.tail_loss_probe {
        values.push(("tcp_early_retrans", "0".to_owned()));
    }
    TcpSettings { congestion_control: congestion_control.to_owned(), values }
}

/// Returns the properties of a profile for which the kernel's TCP has no setting.
fn not_of_the_profile(profile: RetransmissionProfile) -> [String; 2] {
    let Bounds { rto_initial_ms, ack_delay_ms, .. } = profile.bounds();
    [
        format!("first timeout of {rto_initial_ms} ms of the profile {profile}: the kernel's is 1000 ms"),
        format!(
            "acknowledgements after {ack_delay_ms} ms of the profile {profile}: the kernel's wait for 40 ms, and less \
             than the minimum timeout"
        ),
    ]
}

/// Returns the settings of a network file that the kernel's TCP lacks.
fn not_applied(transport: &DeliverySpec) -> Vec<String> {
    let default = DeliverySpec::default();
    let mut all = Vec::new();
    if transport.rto_initial_ms != default.rto_initial_ms {
        all.push(format!("rto_initial_ms = {}: the kernel's is 1000", transport.rto_initial_ms));
    }
    if transport.tick_ms != default.tick_ms {
        all.push(format!("tick_ms = {}: the kernel has its own", transport.tick_ms));
    }
    if !transport.fast_retransmit {
        all.push("fast_retransmit = false: the kernel always has it".to_owned());
    }
    all
}
