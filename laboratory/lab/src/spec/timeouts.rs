//! Retransmission profiles for TCP: applied to the TCP model in the simulator, and to the namespaces' settings in an
//! emulated network. On other hosts the kernel's timeouts stay unchanged.

use super::{BenchSpec, Host};
use quorate_network::transports::retransmission::MARGIN;
use quorate_network::transports::{RetransmissionProfile, TransportKind};
use quorate_simulator::NetworkSpec;
use quorate_simulator::network::Endpoints;

impl BenchSpec {
    /// Returns the retransmission profile for TCP; `None` for other transports, or without `--retransmission`.
    pub(crate) fn tcp_profile(&self) -> Option<RetransmissionProfile> {
        self.retransmission.filter(|_| self.node.transport == TransportKind::TCP)
    }

    /// Returns a warning if TCP cannot follow the profile on this host.
    pub fn idle_beside_the_kernel(&self) -> Option<String> {
        self.tcp_profile().filter(|_| self.host != Host::Emulated).map(|_| {
            format!(
                "--retransmission: has no effect, because --transport is tcp and --host is {}, where the kernel's \
                 timeouts stay as they are; help: use --host emulated, `quorate sim`, or another transport",
                self.host
            )
        })
    }
}

/// Applies a profile's timeouts to a network's TCP. With `auto`, the minimum is the network's smallest round trip plus
/// the same margin as in other transports.
pub(crate) fn apply(profile: RetransmissionProfile, network: &mut NetworkSpec, endpoints: &Endpoints<'_>) {
    let bounds = profile.bounds();
    let margin_ms = MARGIN.as_secs_f64() * 1e3 + bounds.ack_delay_ms as f64;
    let min_ms =
        bounds.rto_min_ms.map_or_else(|| smallest_round_trip_ms(network, endpoints) + margin_ms, |ms| ms as f64);
    let transport = &mut network.transport;
    transport.rto_min_ms = min_ms;
    transport.rto_max_ms = (bounds.rto_max_ms as f64).max(min_ms);
    transport.rto_initial_ms = (bounds.rto_initial_ms as f64).clamp(min_ms, transport.rto_max_ms);
}

fn smallest_round_trip_ms(network: &NetworkSpec, endpoints: &Endpoints<'_>) -> f64 {
    let (routes, count) = (network.routes(endpoints), endpoints.count());
    let round_trip =
        |one: usize, other: usize| routes[one * count + other].delay_ns + routes[other * count + one].delay_ns;
    let all = (0..count).flat_map(|one| (0..one).map(move |other| round_trip(one, other)));
    all.min().unwrap_or(0) as f64 / 1e6
}
