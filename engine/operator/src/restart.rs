//! `quorate restart`: restarts the replicas of a cluster one after the other.

use crate::applications::admit_application_of;
use crate::failure::wrong_call;
use crate::node::keep_memory_secret;
use crate::replicas::StatusReader;
use crate::rolling::fleets::{Commands, Processes, Reached, Supervisor};
use crate::rolling::{Fleet, READY_TIMEOUT, RollingRestart, Step};
use crate::testnet::Program;
use crate::{Interval, Outcome, output};
use clap::Args;
use quorate_client::{CLIENT_CONFIG_FILE, ClientConfig};
use quorate_node::interrupt;
use quorate_types::ReplicaId;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Help on the exit status.
pub const EXIT_STATUS: &str = "\
Exit status:
  0  all replicas were restarted, and are ready
  1  it was refused or ended early, and says which replica is the reason; no further replica was stopped
  2  the call is wrong";

/// Flags of `quorate restart`.
#[derive(Args)]
pub struct RestartArgs {
    /// The directory of the cluster's client.toml, such as the directory of a testnet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Restart this replica; may be repeated [default: all].
    #[arg(long, value_name = "ID")]
    replica: Vec<u16>,
    /// Command that restarts a replica, such as `ssh {host} systemctl restart quorate-node`. In it, {id} is the
    /// replica's number, {dir} its directory, and {host} the host of its address [default: replicas are processes of
    /// this host and this user, each run from its directory in DIR].
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["stop_command", "start_command"])]
    restart_command: Option<String>,
    /// Command that stops a replica, and returns once it has ended.
    #[arg(long, value_name = "COMMAND", requires = "start_command")]
    stop_command: Option<String>,
    /// Command that starts a replica.
    #[arg(long, value_name = "COMMAND", requires = "stop_command")]
    start_command: Option<String>,
    /// Maximum time for a restarted replica to be ready again.
    #[arg(long, value_name = "DURATION", default_value_t = Interval::from_millis(READY_TIMEOUT.as_millis() as u64))]
    ready_timeout: Interval,
    /// Only check whether a restart would be allowed now; stop nothing.
    #[arg(long)]
    check: bool,
}

/// Restarts the replicas, and prints each step.
///
/// # Errors
/// If it is refused, or ends early.
pub fn run(arguments: RestartArgs, program: &Program) -> Outcome {
    // Replicas may require a proof of the client's key.
    keep_memory_secret()?;
    admit_application_of(&arguments.dir.join(CLIENT_CONFIG_FILE));
    let config = ClientConfig::load(&arguments.dir.join(CLIENT_CONFIG_FILE))?;
    let (quorum, replicas) = (config.committee()?.quorum, config.members.len());
    let which = chosen(&arguments.replica, replicas)?;
    let hosts = config.members.iter().map(|member| host(&member.address.to_string())).collect();
    let testnet = arguments.dir.clone();
    let command = arguments.restart_command.or(arguments.start_command);
    let mut supervisor: Box<dyn Supervisor> = match command {
        Some(start) => Box::new(Commands { testnet, hosts, stop: arguments.stop_command, start }),
        None => Box::new(Processes::new(&testnet, std::env::current_exe()?, program.run)),
    };
    let restart = RollingRestart { ready_timeout: arguments.ready_timeout.into(), ..RollingRestart::new(quorum) };
    let mut fleet = Reached { reader: StatusReader::open(&arguments.dir)?, supervisor: &mut *supervisor };
    if arguments.check {
        let reading = fleet.read().map_err(|why| why as Box<dyn Error>)?;
        let (next, leads) = restart.next(&reading, &which).map_err(|refusal| refusal.to_string())?;
        return Ok(output::say(&format!("may restart; the first is {}", named(next, leads)))?);
    }
    interrupt::install().map_err(|error| format!("cannot handle signals: {error}"))?;
    let restarted = restart.run(&mut fleet, &which, &mut |step| {
        match step {
            Step::Stops { replica, leads } => output::report(&format!("restarts {}", named(replica, leads))),
            Step::Ready { replica, after } => {
                output::report(&format!("replica {replica} is ready after {:.1} s", after.as_secs_f64()));
            }
        }
        if interrupt::requested().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(output::say(&format!("restarted {} replicas; all are ready", restarted.len()))?)
}

fn named(replica: ReplicaId, leads: bool) -> String {
    format!("replica {replica}{}", if leads { ", the leader" } else { "" })
}

/// Returns the replicas to restart.
fn chosen(named: &[u16], replicas: usize) -> Result<Vec<ReplicaId>, Box<dyn Error>> {
    if let Some(unknown) = named.iter().find(|replica| usize::from(**replica) >= replicas) {
        return Err(wrong_call(format!("--replica {unknown}: the replicas are 0 to {}", replicas - 1)));
    }
    match named.is_empty() {
        true => Ok((0..).map(ReplicaId).take(replicas).collect()),
        false => Ok(named.iter().copied().map(ReplicaId).collect()),
    }
}

/// Returns the host of an address `HOST:PORT`.
pub(crate) fn host(address: &str) -> String {
    address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']).to_owned()
}
