//! `quorate health`: asks a replica's own listener for monitors, for health checks in containers, which have no other
//! program for it.

use crate::failure::wrong_call;
use crate::{Outcome, output};
use clap::Args;
use quorate_node::config::CONFIG_FILE;
use quorate_node::{NodeConfig, NodeError};
use quorate_types::Address;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Help on the exit status.
pub const EXIT_STATUS: &str = "\
Exit status:
  0  the replica is healthy, or ready
  1  it is not, or does not answer
  2  the call is wrong, or `[monitoring] address` is not set";

/// Time to connect, and between two parts of the answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of an answer in bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Flags of `quorate health`.
#[derive(Args)]
pub struct HealthArgs {
    /// The replica's directory, on its own host.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Check that it is ready: it has caught up, its journal can be written, and it reaches a quorum. Without it, check
    /// that it is healthy: it makes progress.
    #[arg(long)]
    ready: bool,
}

/// Prints the replica's answer.
///
/// # Errors
/// If the replica is not healthy, or does not answer.
pub fn run(arguments: &HealthArgs) -> Outcome {
    let config = NodeConfig::read(&arguments.dir.join(CONFIG_FILE)).map_err(NodeError::from)?;
    let Some(address) = &config.monitoring.address else {
        return Err(wrong_call(format!(
            "{}: `monitoring.address` is not set; help: set it, such as `address = \"127.0.0.1:7003\"` in [monitoring]",
            arguments.dir.join(CONFIG_FILE).display()
        )));
    };
    let page = if arguments.ready { "/readyz" } else { "/healthz" };
    let (status, body) = get(address, page).map_err(|error| format!("{address}{page} does not answer: {error}"))?;
    match status {
        200 => Ok(output::say(body.trim_end())?),
        _ => Err(format!("{address}{page} answers {status}: {}", body.trim_end()).into()),
    }
}

/// Returns the status and the body of a page.
fn get(address: &Address, page: &str) -> Result<(u16, String), Box<dyn Error>> {
    let mut stream = TcpStream::connect_timeout(&own(address)?, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {page} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer is not HTTP")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or("the answer is not HTTP")?;
    Ok((status, body.to_owned()))
}

/// Returns an address to connect to for one to listen on.
fn own(address: &Address) -> io::Result<SocketAddr> {
    let none = || io::Error::other("the name has no address");
    let mut own = address.to_string().to_socket_addrs()?.next().ok_or_else(none)?;
    if own.ip().is_unspecified() {
        own.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    Ok(own)
}
