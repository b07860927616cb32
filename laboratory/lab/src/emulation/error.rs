//! Errors of an emulated network.

use quorate_types::choice;
use std::io;
use thiserror::Error;

choice!(
    /// Step in which a network over netem may fail.
    NetemStep, "step",
    Pair = "connect namespaces by virtual Ethernet (veth)",
    Forward = "forward packets between namespaces",
    Classes = "create a class for each link (sch_htb)",
    Netem = "delay packets (sch_netem)",
    Filters = "sort packets by sender (cls_u32)",
);

/// Reason why this host cannot emulate a network.
#[derive(Debug, Error)]
pub enum EmulationError {
    #[error("cannot create a network namespace: {0}")]
    Namespace(io::Error),
    #[error("cannot open /dev/net/tun: {0}")]
    Tun(io::Error),
    /// The interface of an endpoint.
    #[error("cannot {what} the interface of endpoint {end}: {source}")]
    Interface { what: &'static str, end: usize, source: io::Error },
    #[error("cannot start the router: {0}")]
    Router(io::Error),
    #[error("cannot measure the emulation's overhead: {0}")]
    Probe(io::Error),
    #[error("the emulated network failed: {0}")]
    Run(io::Error),
    #[error("cannot use the kernel's netem: the kernel does not {step}: {source}")]
    Netem { step: NetemStep, source: io::Error },
    /// The network needs something that netem does differently.
    #[error("cannot use the kernel's netem for this network: it {0}")]
    Lack(&'static str),
    /// The sender's network has more endpoints than addresses.
    #[error("{0} endpoints are too many: the most is {most}", most = crate::emulation::address::MAX_ENDS)]
    Ends(usize),
}
