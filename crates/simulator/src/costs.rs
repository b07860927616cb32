//! What a replica's work costs, in time on a processor: the table that a simulation charges from.

use quorate_crypto::SchemeKind;
use quorate_types::Fault;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The table that is used where none was measured.
pub const SHIPPED: &str = include_str!("../costs.toml");
/// The highest cost of any one thing, in microseconds: one second.
const MOST_US: f64 = 1e6;

/// Costs of work on one core. Times in microseconds, times per byte in nanoseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostTable {
    /// Where the figures come from, for the report.
    pub source: String,
    /// The replica's core.
    pub core: CoreCosts,
    /// Sockets and codec.
    pub wire: WireCosts,
    /// SHA-256.
    pub hash: HashCosts,
    /// Signatures, by the name of the scheme.
    pub signatures: BTreeMap<String, SignatureCosts>,
    /// The journal.
    pub journal: JournalCosts,
    /// The clients' thread.
    pub client: ClientCosts,
    /// What clients may ask for besides commands. Files from before it was a table of its own are read with what was measured then.
    #[serde(default)]
    pub gateway: GatewayCosts,
}

/// The replica's core, microseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreCosts {
    /// Waking up: one wait for the network.
    pub turn_us: f64,
    /// One step of the state machine.
    pub step_us: f64,
    /// Taking one bundle of a client in and answering it.
    pub bundle_us: f64,
    /// Executing one command, session included.
    pub command_us: f64,
}

/// Sockets and codec.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireCosts {
    /// One system call that reads from a link, microseconds.
    pub read_call_us: f64,
    /// One system call that writes to a link, microseconds.
    pub write_call_us: f64,
    /// Decoding a message and finding its place, microseconds.
    pub receive_us: f64,
    /// Encoding a message, microseconds.
    pub send_us: f64,
    /// For each byte received, nanoseconds.
    pub receive_byte_ns: f64,
    /// For each byte sent to each destination, nanoseconds.
    pub send_byte_ns: f64,
}

/// SHA-256.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashCosts {
    /// For each byte, nanoseconds.
    pub byte_ns: f64,
}

/// Signatures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureCosts {
    /// Making one, microseconds.
    pub sign_us: f64,
    /// Checking so many at once: pairs of a count and microseconds, both ascending. Between two, the cost is interpolated.
    pub verify_us: Steps,
    /// Checking a proof of so many signers.
    pub verify_proof_us: Steps,
    /// Making a proof of so many signatures that are checked.
    pub assemble_us: Steps,
}

impl SignatureCosts {
    /// Of signatures that cost nothing.
    pub fn free() -> SignatureCosts {
        let nothing = || vec![(1, 0.0)];
        SignatureCosts { sign_us: 0.0, verify_us: nothing(), verify_proof_us: nothing(), assemble_us: nothing() }
    }
}

/// What a number of things cost: pairs of a count and microseconds.
pub type Steps = Vec<(u32, f64)>;

/// The journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalCosts {
    /// From writing a group of records to its being durable, microseconds; 0 stands for the journal in memory.
    pub flush_us: f64,
}

/// The clients' thread.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCosts {
    /// Making and recording one command, microseconds.
    pub command_us: f64,
    /// Taking one reply, microseconds.
    pub reply_us: f64,
}

/// What clients may ask for besides commands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayCosts {
    /// Making a status with its history, microseconds.
    pub status_us: f64,
    /// Bytes of one.
    pub status_bytes: u32,
}

impl Default for GatewayCosts {
    /// Of a replica with a history of 1024 blocks.
    fn default() -> GatewayCosts {
        GatewayCosts { status_us: 6400.0, status_bytes: 113_000 }
    }
}

impl CostTable {
    /// The shipped table.
    pub fn shipped() -> CostTable {
        CostTable::parse(SHIPPED, "the shipped cost table").expect("the shipped table is held by a test")
    }

    /// A world in which work takes no time.
    pub fn free() -> CostTable {
        CostTable {
            source: "none: work takes no time".into(),
            core: CoreCosts { turn_us: 0.0, step_us: 0.0, bundle_us: 0.0, command_us: 0.0 },
            wire: WireCosts {
                read_call_us: 0.0,
                write_call_us: 0.0,
                receive_us: 0.0,
                send_us: 0.0,
                receive_byte_ns: 0.0,
                send_byte_ns: 0.0,
            },
            hash: HashCosts { byte_ns: 0.0 },
            signatures: SchemeKind::ALL
                .iter()
                .map(|scheme| (scheme.name().to_owned(), SignatureCosts::free()))
                .collect(),
            journal: JournalCosts { flush_us: 0.0 },
            client: ClientCosts { command_us: 0.0, reply_us: 0.0 },
            gateway: GatewayCosts { status_us: 0.0, status_bytes: 0 },
        }
    }

    /// Reads a table; `name` is what errors call it.
    ///
    /// # Errors
    /// With the name, the key and what to do.
    pub fn parse(text: &str, name: &str) -> Result<CostTable, Fault> {
        let table: CostTable = toml::from_str(text).map_err(|error| Fault {
            place: name.to_owned(),
            what: error.to_string().trim_end().to_owned(),
            help: "compare it with what `quorate calibrate` writes".into(),
        })?;
        table.validate(name)?;
        Ok(table)
    }

    /// The table as text that [`CostTable::parse`] reads.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a table of numbers has a form in TOML")
    }

    fn figures(&self) -> [(&'static str, f64); 15] {
        let CostTable { core, wire, hash, journal, client, gateway, .. } = self;
        [
            ("core.turn_us", core.turn_us),
            ("core.step_us", core.step_us),
            ("core.bundle_us", core.bundle_us),
            ("core.command_us", core.command_us),
            ("wire.read_call_us", wire.read_call_us),
            ("wire.write_call_us", wire.write_call_us),
            ("wire.receive_us", wire.receive_us),
            ("wire.send_us", wire.send_us),
            ("wire.receive_byte_ns", wire.receive_byte_ns),
            ("wire.send_byte_ns", wire.send_byte_ns),
            ("hash.byte_ns", hash.byte_ns),
            ("journal.flush_us", journal.flush_us),
            ("client.command_us", client.command_us),
            ("client.reply_us", client.reply_us),
            ("gateway.status_us", gateway.status_us),
        ]
    }

    /// What signatures of a scheme cost; nothing where anybody can forge them.
    ///
    /// # Errors
    /// If the table does not say.
    pub fn signatures_of(&self, scheme: SchemeKind) -> Result<SignatureCosts, Fault> {
        if !scheme.profile().unforgeable {
            return Ok(SignatureCosts::free());
        }
        self.signatures.get(scheme.name()).cloned().ok_or_else(|| Fault {
            place: format!("`[signatures.{scheme}]`"),
            what: format!(
                "the cost table, {:?}, does not say what signatures of the scheme {scheme} cost",
                self.source
            ),
            help: "measure them with `quorate calibrate`".into(),
        })
    }

    fn validate(&self, name: &str) -> Result<(), Fault> {
        let refuse = |key: &str, what: String, help: &str| {
            Err(Fault { place: format!("{name}: `{key}`"), what, help: help.to_owned() })
        };
        let sound = |value: f64| (0.0..=MOST_US).contains(&value);
        if let Some((key, value)) = self.figures().into_iter().find(|(_, value)| !sound(*value)) {
            return refuse(key, format!("{value} is out of range"), "set it between 0 and 1000000");
        }
        for (scheme, costs) in &self.signatures {
            let SignatureCosts { sign_us, verify_us, verify_proof_us, assemble_us } = costs;
            if !sound(*sign_us) {
                let key = format!("signatures.{scheme}.sign_us");
                return refuse(&key, format!("{sign_us} is out of range"), "set it between 0 and 1000000");
            }
            let tables = [("verify_us", verify_us), ("verify_proof_us", verify_proof_us), ("assemble_us", assemble_us)];
            for (key, steps) in tables {
                let ascends = steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
                let starts = steps.first().is_some_and(|(count, _)| *count == 1);
                if !ascends || !starts || steps.iter().any(|(_, cost)| !sound(*cost)) {
                    return refuse(
                        &format!("signatures.{scheme}.{key}"),
                        format!("{steps:?} does not ascend from one signature"),
                        "write pairs such as [[1, 16.0], [3, 31.0]], both ascending, the first for one signature",
                    );
                }
            }
        }
        Ok(())
    }
}
