//! `quorate level`: raises the feature level of a cluster's application.

use crate::applications::admit_application_of;
use crate::node::keep_memory_secret;
use crate::replicas::{StatusReader, Supports};
use crate::restart::host;
use crate::rolling::fleets::Commands;
use crate::{Interval, Outcome, output};
use bytes::Bytes;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use quorate_client::{CLIENT_CONFIG_FILE, Client, ClientConfig};
use quorate_crypto::Identities;
use quorate_types::digest::{decode_hex, encode_hex};
use quorate_types::identity::Verifier;
use quorate_types::level::{MAX_APPLICATION_LEVEL, statement};
use quorate_types::text::escaped;
use quorate_types::{
    Committee, Decoder, Encoder, FeatureLevel, Height, LevelChange, LevelStatus, LevelSupport, PendingLevel, Wire,
};
use std::error::Error;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Help on the exit status.
pub const EXIT_STATUS: &str = "\
Exit status:
  0  the level is active on all replicas, or with --check, all replicas support it
  1  it is not, for the reported reason; the level never falls, and the call may be repeated
  2  the call is wrong";

/// Maximum time for all replicas' answers.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two readings while the level is pending.
const PAUSE: Duration = Duration::from_millis(100);
/// Commands without effect that are ordered when no others come, before the heights are read again.
const IDLE_COMMANDS: usize = 8;

/// Levels of applications.
const LEVELS: RangeInclusive<i64> = 1..=MAX_APPLICATION_LEVEL.0 as i64;

/// Commands of `quorate level`.
#[derive(Subcommand)]
pub enum LevelCommand {
    /// Collect the signatures of all replicas that they support a level, order the change, and wait until the level is
    /// active.
    #[command(after_help = EXIT_STATUS)]
    Raise(RaiseArgs),
    /// Let the running replica of a directory sign that its program supports a level, and print the signature.
    Sign(SignArgs),
}

/// Flags of `quorate level raise`.
#[derive(Args)]
pub struct RaiseArgs {
    /// The directory of the cluster's client.toml, such as the directory of a testnet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The new level.
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u16).range(LEVELS))]
    to: u16,
    /// Command that prints a replica's signature, such as `ssh {host} quorate-node level sign --dir /var/lib/quorate
    /// --to {level}`. In it, {id} is the replica's number, {dir} its directory, {host} the host of its address, and
    /// {level} the level [default: asks the replicas, whose operators' listeners must be on this host].
    #[arg(long, value_name = "COMMAND")]
    sign_command: Option<String>,
    /// Maximum time until the level is active on all replicas.
    #[arg(long, value_name = "DURATION", default_value_t = Interval::from_millis(60_000))]
    timeout: Interval,
    /// Only show which levels the replicas support; change nothing.
    #[arg(long)]
    check: bool,
}

/// Flags of `quorate level sign`.
#[derive(Args)]
pub struct SignArgs {
    /// The replica's directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The level.
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u16).range(LEVELS))]
    to: u16,
}

/// Runs a command of `quorate level`.
///
/// # Errors
/// If a replica does not support the level or does not answer, or the level is not active in time.
pub fn run(command: &LevelCommand) -> Outcome {
    // Replicas may require a proof of the client's key.
    keep_memory_secret()?;
    match command {
        LevelCommand::Raise(arguments) => raise(arguments),
        LevelCommand::Sign(SignArgs { dir, to }) => {
            let answers = StatusReader::open(dir)?.supports(FeatureLevel(*to), READ_TIMEOUT)?;
            let (replica, answer) = answers.into_iter().next().expect("a replica is asked");
            let support = answer.map_err(|why| format!("replica {replica} does not sign: {why}"))?;
            let mut out = Encoder::default();
            support.encode(&mut out);
            Ok(output::say(&encode_hex(&out.finish()))?)
        }
    }
}

fn raise(arguments: &RaiseArgs) -> Outcome {
    let level = FeatureLevel(arguments.to);
    let path = arguments.dir.join(CLIENT_CONFIG_FILE);
    admit_application_of(&path);
    let config = ClientConfig::load(&path)?;
    let mut reader = StatusReader::open(&arguments.dir)?;
    let levels = levels(&mut reader)?;
    if arguments.check {
        output::say(table(&levels).trim_end())?;
    }
    let lacking = lacking(&levels, level);
    if !lacking.is_empty() {
        return Err(format!("not all replicas support feature level {level}: {}", lacking.join("; ")).into());
    }
    if arguments.check {
        return Ok(());
    }
    let deadline = Instant::now() + Duration::from(arguments.timeout);
    let mut client = Client::connect(&config)?;
    if !levels.iter().flatten().any(|of| agreed(of) >= level) {
        let committee = config.committee()?;
        let supports = signatures(arguments, &config, &committee, &mut reader)?;
        let result = client.execute_system(&LevelChange { level, supports }.to_payload())?;
        // Another operator may have raised it at the same time.
        if let Some(result) = result {
            let pending = PendingLevel::decode(&mut Decoder::new(result.into()))?;
            output::report(&format!("feature level {pending}"));
        }
    }
    wait(&mut reader, &mut client, level, deadline)?;
    Ok(output::say(&format!("feature level {level} is active on all replicas"))?)
}

type Levels = Vec<Result<LevelStatus, String>>;

/// Returns the levels of each replica, or why they are unknown.
fn levels(reader: &mut StatusReader) -> Result<Levels, Box<dyn Error>> {
    let level = |host: Option<Box<quorate_types::HostStatus>>| {
        host.and_then(|host| host.level).ok_or_else(|| "its version has no feature levels".to_owned())
    };
    Ok(reader.answers(READ_TIMEOUT)?.into_iter().map(|answer| level(answer?.host)).collect())
}

fn agreed(status: &LevelStatus) -> FeatureLevel {
    status.pending.map_or(status.active, |pending| pending.level)
}

/// Returns the reasons why replicas cannot sign a level.
fn lacking(levels: &Levels, level: FeatureLevel) -> Vec<String> {
    let reason = |(replica, status): (usize, &Result<LevelStatus, String>)| match status {
        Err(why) => Some(format!("replica {replica}: {}", escaped(why))),
        Ok(status) => {
            let supported = status.supported;
            (supported < level).then(|| format!("replica {replica} supports levels up to {supported}"))
        }
    };
    levels.iter().enumerate().filter_map(reason).collect()
}

fn table(levels: &Levels) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["replica", "level", "supports", "pending"]);
    for (replica, status) in levels.iter().enumerate() {
        let unknown = || "–".to_owned();
        let value = |of: &dyn Fn(&LevelStatus) -> String| status.as_ref().map_or_else(|_| unknown(), of);
        table.add_row([
            replica.to_string(),
            value(&|status| status.active.to_string()),
            value(&|status| status.supported.to_string()),
            value(&|status| status.pending.map_or_else(unknown, |pending| pending.to_string())),
        ]);
    }
    table.trim_fmt()
}

/// Collects and verifies the signatures of all replicas.
fn signatures(
    arguments: &RaiseArgs,
    config: &ClientConfig,
    committee: &Committee,
    reader: &mut StatusReader,
) -> Result<Vec<LevelSupport>, Box<dyn Error>> {
    let level = FeatureLevel(arguments.to);
    let answers: Supports = match &arguments.sign_command {
        None => reader.supports(level, READ_TIMEOUT)?,
        Some(command) => {
            let hosts = config.members.iter().map(|member| host(&member.address.to_string())).collect();
            let commands = Commands { testnet: arguments.dir.clone(), hosts, stop: None, start: String::new() };
            let sign = |replica| commands.fill(command, replica).replace("{level}", &level.to_string());
            committee.replicas().map(|replica| (replica, printed(&sign(replica)))).collect()
        }
    };
    let identities = Identities::new(committee)?;
    let verified = answers.into_iter().map(|(replica, answer)| {
        let support = answer.map_err(|why| format!("replica {replica} does not sign: {why}"))?;
        let statement = statement(&committee.epoch, replica, level, support.until);
        match identities.verify(replica, &statement, &support.signature) {
            true => Ok(support),
            false => Err(format!(
                "replica {replica}'s signature is not valid in the cluster of {}; help: check that it runs in this \
                 cluster under this number",
                arguments.dir.join(CLIENT_CONFIG_FILE).display()
            )),
        }
    });
    Ok(verified.collect::<Result<_, String>>()?)
}

/// Runs an operator's command, and returns the signature that it prints.
fn printed(command: &str) -> Result<LevelSupport, String> {
    let output = Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{command}`: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{command}` ended with {}: {}", output.status, escaped(said.trim())));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let support = decode_hex(text.trim()).and_then(|bytes| {
        let mut input = Decoder::new(Bytes::from(bytes));
        let support = LevelSupport::decode(&mut input).ok()?;
        input.finish("signature of a level").ok().map(|()| support)
    });
    support.ok_or_else(|| format!("`{command}` prints no signature; help: print the output of `quorate level sign`"))
}

/// Waits until a level is active on all replicas. If no other commands come, orders some that have no effect: the level
/// becomes active at a height.
fn wait(reader: &mut StatusReader, client: &mut Client, level: FeatureLevel, deadline: Instant) -> Outcome {
    let (mut last, mut number) = (None, 0u64);
    loop {
        let answers = reader.answers(READ_TIMEOUT)?;
        let is_active = |answer: &Result<quorate_types::Status, String>| {
            let level_of = answer.as_ref().ok().and_then(|status| status.host.as_ref()?.level);
            level_of.is_some_and(|of| of.active >= level)
        };
        let missing: Vec<String> =
            answers.iter().enumerate().filter(|(_, of)| !is_active(of)).map(|(at, _)| at.to_string()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let missing = missing.join(" ");
            return Err(format!(
                "feature level {level} is not active on replicas {missing} in time; help: see `quorate status`, and \
                 repeat the call"
            )
            .into());
        }
        let height: Option<Height> = answers.iter().flatten().map(|status| status.height).max();
        if height == last {
            for _ in 0..IDLE_COMMANDS {
                number += 1;
                client.execute_system(&[b"quorate idle", &number.to_le_bytes()[..]].concat())?;
            }
        }
        last = height;
        std::thread::sleep(PAUSE);
    }
}
