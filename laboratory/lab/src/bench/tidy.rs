//! Loads on a key-value store that others use: they change no foreign key, and remove their own keys at the end.

use crate::settings::Encoder;
use crate::spec::BenchSpec;
use quorate_applications::KeyValueCommand;
use quorate_applications::key_value::MAX_VALUE_BYTES;
use quorate_client::load::{LoadError, LoadGenerator, LoadMode, LoadOptions};
use quorate_client::workload::{
    FileWorkload, KeyValueEncoder, Workload, WorkloadError, WorkloadKind, workload, write_key,
};
use quorate_client::{ClientConfig, connect, new_identity, reply_verifier};
use quorate_types::ClientId;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

/// Common prefix of all loads' keys.
pub const LOAD_PREFIX: &str = "quorate-load/";
/// Expected value for a compare-and-swap that must not take effect; no key under a load's prefix has it.
const NEVER: &[u8] = b"never";
/// Maximum duration of the removal of a load's keys.
const MAX_REMOVAL: Duration = Duration::from_secs(60);

/// Key prefix of one load.
#[derive(Clone, Debug)]
pub(super) struct Prefix(String);

impl Prefix {
    /// Returns a prefix that is unique to this load.
    pub fn new() -> Prefix {
        // The standard library's only source of randomness.
        Prefix(format!("{LOAD_PREFIX}{:016x}/", RandomState::new().hash_one(std::process::id())))
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        [self.0.as_bytes(), key].concat()
    }
}

/// YCSB commands with the prefix before each key.
struct Below(Prefix);

impl KeyValueEncoder for Below {
    fn put(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        Encoder.put(&self.0.key(key), value, out);
    }

    fn get(&self, key: &[u8], out: &mut Vec<u8>) {
        Encoder.get(&self.0.key(key), out);
    }

    fn read_modify_write(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        Encoder.read_modify_write(&self.0.key(key), value, out);
    }
}

/// Commands of another workload as the values of writes that never take effect, cycling through all keys: each replaces
/// a value that no key has. A key-value store does not understand opaque commands.
struct WithoutEffect {
    values: Box<dyn Workload>,
    value: Vec<u8>,
    prefix: Prefix,
    keys: u64,
    next: u64,
}

impl Workload for WithoutEffect {
    fn next(&mut self, client: ClientId, payload: &mut Vec<u8>) {
        self.value.clear();
        self.values.next(client, &mut self.value);
        self.next = (self.next + 1) % self.keys.max(1);
        let key = self.prefix.key(&self.next.to_be_bytes());
        KeyValueCommand::CompareAndSwap { key: &key, expected: Some(NEVER), value: &self.value }.encode(payload);
    }
}

/// Creates the commands of a spec for a key-value store that others use.
///
/// # Errors
/// If the workload cannot be constructed, or the file contains commands that are not the store's.
pub(super) fn commands(spec: &BenchSpec, prefix: &Prefix) -> Result<Box<dyn Workload>, WorkloadError> {
    if let WorkloadKind::File(path) = &spec.workload {
        let file = FileWorkload::read(path)?;
        if let Some(line) = file.lines().position(|line| KeyValueCommand::decode(line).is_err()) {
            return Err(WorkloadError::NotACommand { path: path.clone(), line: line + 1 });
        }
        return Ok(Box::new(file));
    }
    if spec.payload as usize > MAX_VALUE_BYTES {
        return Err(WorkloadError::ValueTooLarge { bytes: spec.payload as usize, limit: MAX_VALUE_BYTES });
    }
    let encoder = Box::new(Below(prefix.clone()));
    let commands = workload(&spec.workload, spec.payload as usize, spec.records, spec.seed, Some(encoder))?;
    if spec.workload != WorkloadKind::Fixed {
        return Ok(commands);
    }
    let (prefix, keys) = (prefix.clone(), spec.records);
    Ok(Box::new(WithoutEffect { values: commands, value: Vec::new(), prefix, keys, next: 0 }))
}

/// Deletes every record of a YCSB workload.
struct Deletes {
    prefix: Prefix,
    records: u64,
    next: u64,
    key: Vec<u8>,
}

impl Deletes {
    fn delete(&mut self, record: u64, payload: &mut Vec<u8>) {
        write_key(record, &mut self.key);
        KeyValueCommand::Delete { key: &self.prefix.key(&self.key) }.encode(payload);
    }
}

impl Workload for Deletes {
    fn preload(&mut self, payload: &mut Vec<u8>) -> bool {
        if self.next == self.records {
            return false;
        }
        self.delete(self.next, payload);
        self.next += 1;
        true
    }

    fn next(&mut self, _: ClientId, payload: &mut Vec<u8>) {
        self.delete(0, payload);
    }
}

/// Removes the load's keys and waits for completion. A first signal is ignored, because an interrupted load has keys,
/// too; a second one ends the process at once. Returns a warning if keys may remain.
pub(super) fn remove(spec: &BenchSpec, config: &ClientConfig, prefix: Prefix) -> Option<String> {
    if !spec.workload.is_key_value() {
        return None;
    }
    let name = prefix.0.clone();
    let deletes = Deletes { prefix, records: spec.records, next: 0, key: Vec::new() };
    delete(spec, config, deletes).err().map(|why| {
        format!(
            "the load's keys could not be removed: {why}; help: list them with `client scan --prefix {name}`, and \
             remove each with `client delete`"
        )
    })
}

fn delete(spec: &BenchSpec, config: &ClientConfig, deletes: Deletes) -> Result<(), Box<dyn std::error::Error>> {
    let options = LoadOptions {
        clients: 1,
        mode: LoadMode::Closed { outstanding: 1 },
        bundle: spec.bundle_commands(),
        warmup: Duration::ZERO,
        duration: Duration::from_millis(1),
        preload_timeout: MAX_REMOVAL,
        ..LoadOptions::default()
    };
    let identity = new_identity(config)?;
    let transport = connect(config, identity.origin())?;
    let verifier = reply_verifier(config, &identity)?;
    let timeout = Duration::from_millis(config.connect_timeout_ms);
    let generator = LoadGenerator::new(transport, identity, config.session()?, options, Box::new(deletes), timeout)?;
    generator.with_verifier(verifier).run()?;
    Ok(())
}

/// Returns whether a load that ended with this error may have written something.
pub(super) fn may_have_written(error: &LoadError) -> bool {
    !matches!(error, LoadError::Options(_) | LoadError::Unreachable { .. } | LoadError::Distrusted { .. })
}
