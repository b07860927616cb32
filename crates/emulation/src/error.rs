//! Errors of an emulated network.

use std::io;
use thiserror::Error;

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
    #[error("cannot measure what the router adds: {0}")]
    Probe(io::Error),
    /// The sender's network has more endpoints than addresses.
    #[error("{0} endpoints are too many: the most is {most}", most = crate::address::MAX_ENDS)]
    Ends(usize),
}
