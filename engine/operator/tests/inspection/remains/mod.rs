//! Clusters that have run, and their directories.
#![allow(dead_code, reason = "each test file uses its own part")]

use quorate_applications::{ApplicationKind, KeyValueCommand};
use quorate_client::{Client, ClientConfig, StatusProbe};
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::recovery::journal::Record;
use quorate_crypto::ReplicaKeys;
use quorate_crypto::key_file::{self, passphrase::Passphrases};
use quorate_node::config::CONFIG_FILE;
use quorate_node::{EmbeddedCluster, JournalConfig, NoObserver, NodeConfig, Observer, durability, testnet};
use quorate_operator::inspection::{InspectArgs, InspectResult, run};
use quorate_operator::report::Report;
use quorate_storage::{FileJournal, Identity, Journal, JournalOptions};
use quorate_types::{Decoder, Encoder, Status, Wire};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const REPLICAS: usize = 4;
pub const COMMANDS: u64 = 60;
/// Duration of one attempt to read the replicas' statuses.
const LOOK: Duration = Duration::from_millis(100);
/// Timeout: a cluster that takes longer than this has hung; a busy machine is slow.
const HANG: Duration = Duration::from_secs(120);

/// Directories of a cluster that has run.
pub struct Remains {
    pub directory: PathBuf,
}

impl Remains {
    pub fn of(protocol: ProtocolKind, name: &str) -> Remains {
        Remains::after(COMMANDS, 10, protocol, name, |_| {})
    }

    /// Runs `commands` commands that write `value_bytes` bytes each.
    pub fn after(
        commands: u64,
        value_bytes: usize,
        protocol: ProtocolKind,
        name: &str,
        adjust: impl Fn(&mut NodeConfig),
    ) -> Remains {
        let (remains, cluster) = Remains::running(protocol, name, adjust);
        work(&cluster.0, &cluster.1, commands, value_bytes);
        await_all(&cluster.0, &cluster.1, commands);
        for (_, end) in cluster.0.shut_down() {
            end.expect("a replica runs until it is stopped");
        }
        remains
    }

    pub fn running(
        protocol: ProtocolKind,
        name: &str,
        adjust: impl Fn(&mut NodeConfig),
    ) -> (Remains, (EmbeddedCluster, NodeConfig)) {
        let (remains, template) = Remains::to_be(protocol, name, adjust);
        let listeners = [(); REPLICAS].map(|()| listen((Ipv4Addr::LOCALHOST, 0).into()));
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().expect("it is bound"));
        let nodes = testnet::generate(&template, &addresses).expect("the settings are valid").into_iter();
        let settle = |((mut config, keys), listener): ((NodeConfig, ReplicaKeys), TcpListener)| {
            remains.settle(&mut config);
            durability::mark_as_new(&config.journal.directory).expect("it can be written");
            let cluster = config.committee().expect("it is sound").cluster;
            let path = remains.home(config.replica.0).join(&config.key_file);
            key_file::write(&path, &cluster, config.replica, &keys).expect("it can be written");
            ((config, keys), listener.into())
        };
        let cluster = EmbeddedCluster::start_replicas(nodes.zip(listeners).map(settle), || Box::new(NoObserver));
        (remains, (cluster.expect("a cluster starts"), template))
    }

    /// Starts all replicas again, with their configurations and keys.
    pub fn restart(&self) -> EmbeddedCluster {
        self.restart_watched(|| Box::new(NoObserver))
    }

    /// Starts all replicas again, each with an observer.
    pub fn restart_watched(&self, observer: impl Fn() -> Box<dyn Observer>) -> EmbeddedCluster {
        let nodes = (0..REPLICAS as u16).map(|replica| {
            let home = self.home(replica);
            let config = NodeConfig::read(&home.join(CONFIG_FILE)).expect("its settings are there");
            let (path, cluster) = (home.join(&config.key_file), config.committee().expect("it is sound").cluster);
            let none = Passphrases::default();
            let keys = key_file::read(&path, config.scheme, &cluster, config.replica, &none).expect("it is there");
            let address = config.members[usize::from(replica)].address.socket().expect("a number");
            ((config, keys), listen(address).into())
        });
        EmbeddedCluster::start_replicas(nodes, observer).expect("replicas start")
    }

    /// Returns a directory for a cluster, and the settings shared by its replicas.
    pub fn to_be(protocol: ProtocolKind, name: &str, adjust: impl Fn(&mut NodeConfig)) -> (Remains, NodeConfig) {
        let directory = std::env::temp_dir().join(format!("quorate-inspect-{}-{protocol}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let mut template = NodeConfig::template(name);
        template.application = ApplicationKind::KEY_VALUE;
        template.consensus.protocol = protocol;
        template.consensus.checkpoint_interval = 8;
        template.consensus.view_timeout_ms = 1_000;
        template.consensus.batch_bytes = 1 << 20;
        template.journal = JournalConfig { segment_bytes: 2 << 20, ..JournalConfig::default() };
        adjust(&mut template);
        (Remains { directory }, template)
    }

    /// Creates a replica's directory, including its journal's, and writes its configuration.
    pub fn settle(&self, config: &mut NodeConfig) {
        let home = self.home(config.replica.0);
        fs::create_dir_all(&home).expect("the temporary directory can be written");
        config.journal.directory = home.join("journal");
        fs::write(home.join(CONFIG_FILE), config.to_toml()).expect("it can be written");
    }

    pub fn home(&self, replica: u16) -> PathBuf {
        self.directory.join(format!("replica-{replica}"))
    }

    pub fn inspect(&self, replica: u16, verify: bool) -> InspectResult {
        inspect(&self.home(replica), verify, None)
    }

    /// Returns a replica's export as text.
    pub fn export(&self, replica: u16) -> (InspectResult, String) {
        let path = self.directory.join(format!("export-{replica}.jsonl"));
        let result = inspect(&self.home(replica), true, Some(path.clone()));
        assert!(result.failure().is_none(), "{}", result.to_table());
        (result, fs::read_to_string(path).expect("the export is there"))
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub fn inspect(home: &Path, verify: bool, export: Option<PathBuf>) -> InspectResult {
    let arguments = InspectArgs { verify, export, ..InspectArgs::default() };
    run(home, &arguments).expect("the directory can be read")
}

fn listen(address: SocketAddr) -> TcpListener {
    TcpListener::bind(address).expect("the address is free")
}

fn client_config(cluster: &EmbeddedCluster, config: &NodeConfig) -> ClientConfig {
    let (quorum, members) = (cluster.committee().quorum, &cluster.committee().members);
    let protocol = config.consensus.protocol;
    let told = ClientConfig::new(&config.cluster, protocol, config.scheme, quorum.faults(), members);
    ClientConfig { client_authentication: config.client_authentication, ..told }
}

/// Number of last blocks whose commit a replica may learn only with the next command.
const UNKNOWN_BLOCKS: u64 = 4;

/// Waits until every replica has executed a sequence of commands: a client has its results from f+1 replicas, and the
/// others may not have begun on a busy machine. Returns their statuses.
pub fn await_all(cluster: &EmbeddedCluster, config: &NodeConfig, commands: u64) -> Vec<Status> {
    let mut probe = StatusProbe::connect(&client_config(cluster, config)).expect("replicas answer");
    let start = Instant::now();
    loop {
        let statuses: Vec<_> = probe.read(LOOK).expect("a socket").into_iter().flatten().collect();
        let has_it = |status: &&Status| status.height.0 >= commands.saturating_sub(UNKNOWN_BLOCKS).max(1);
        if statuses.iter().filter(has_it).count() == REPLICAS {
            return statuses;
        }
        assert!(start.elapsed() < HANG, "not all replicas execute the commands: {statuses:?}");
    }
}

/// Executes commands one after the other.
pub fn work(cluster: &EmbeddedCluster, config: &NodeConfig, commands: u64, value_bytes: usize) {
    let mut client = Client::connect(&client_config(cluster, config)).expect("replicas answer");
    for number in 0..commands {
        let (key, value) = (format!("key {}", number % 7), format!("{number:>value_bytes$}"));
        let command = KeyValueCommand::Put { key: key.as_bytes(), value: value.as_bytes() };
        let mut payload = Vec::new();
        command.encode(&mut payload);
        client.execute(&payload).expect("a command is executed");
    }
}

/// Returns the index and value of the first line accepted by `wanted`.
pub fn find_line(export: &str, wanted: impl Fn(&Value) -> bool) -> (usize, Value) {
    let lines = export.lines().map(|line| serde_json::from_str::<Value>(line).expect("lines are JSON"));
    lines.enumerate().find(|(_, line)| wanted(line)).expect("there is such a line")
}

/// Replaces one line of an export.
pub fn with_line(export: &str, at: usize, line: &Value) -> String {
    let changed = line.to_string();
    let lines = export.lines().enumerate().map(|(number, line)| if number == at { &changed } else { line });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Flips the lowest bit of the last byte of hexadecimal text, or of a number.
pub fn flip(value: &mut Value) {
    *value = match &*value {
        Value::String(text) => {
            let (rest, last) = text.split_at(text.len() - 2);
            Value::String(format!("{rest}{:02x}", u8::from_str_radix(last, 16).expect("hexadecimal") ^ 1))
        }
        Value::Number(number) => Value::from(number.as_u64().expect("a natural number") ^ 1),
        other => panic!("not a field to flip a bit in: {other}"),
    };
}

/// Rewrites the journal of a directory with valid checksums, after `change` has edited its records.
pub fn rewrite(home: &Path, change: impl Fn(Vec<Record>) -> Vec<Record>) {
    let config = NodeConfig::read(&home.join(CONFIG_FILE)).expect("it was written before");
    let journal = home.join("journal");
    let decode = |records: &mut Vec<Record>, _, bytes: &[u8]| {
        records.push(Record::decode(&mut Decoder::new(bytes.to_vec().into())).expect("it was written so"));
    };
    let (records, _) = quorate_storage::read(&journal, Vec::new, decode).expect("it can be read");
    fs::remove_dir_all(&journal).expect("it can be removed");
    let identity = Identity { epoch: config.committee().expect("it is sound").epoch, replica: config.replica };
    let options = JournalOptions { segment_bytes: config.journal.segment_bytes, ..JournalOptions::default() };
    let mut written = FileJournal::open(&journal, identity, &options).expect("it can be written");
    let records = change(records);
    for (id, record) in (1..).zip(&records) {
        let mut out = Encoder::default();
        record.encode(&mut out);
        written.append(id, out.finish()).expect("it fits");
    }
    written.commit().expect("it can be written");
    while written.durable().expect("it can be written") < Some(records.len() as u64) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Edits the records with `change`, and checks that the verification fails with these words.
pub fn is_noticed(remains: &Remains, replica: u16, words: &str, change: impl Fn(Vec<Record>) -> Vec<Record>) {
    let (home, kept) = (remains.home(replica), remains.directory.join("kept"));
    let journal = home.join("journal");
    fs::rename(&journal, &kept).expect("it can be renamed");
    fs::create_dir(&journal).expect("it can be made");
    for entry in fs::read_dir(&kept).expect("it can be listed") {
        let entry = entry.expect("it can be listed");
        fs::copy(entry.path(), journal.join(entry.file_name())).expect("it can be copied");
    }
    rewrite(&home, change);
    let result = remains.inspect(replica, true);
    let failure = result.failure().unwrap_or_else(|| panic!("not detected: {words}: {}", result.to_table()));
    assert!(failure.contains(words) || result.to_table().contains(words), "{words}: {}", result.to_table());
    fs::remove_dir_all(&journal).expect("it can be removed");
    fs::rename(&kept, &journal).expect("it can be renamed");
}
