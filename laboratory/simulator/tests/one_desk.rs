//! Node and simulator drive the same clients' desk: equal arrivals, drawn from a seed, lead to equal replies in the
//! same order.
//!
//! Both clusters have a single replica, so it orders every bundle that it accepts. Links connect, close and return with
//! another client's ID; clients send genuine, forged, unsigned, oversized, expired and repeated bundles, garbage and
//! queries.

use crate::common::spec;
use bytes::Bytes;
use quorate_adversary::byzantine::behaviours::Busy;
use quorate_applications::ApplicationKind;
use quorate_consensus::Config;
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::ed25519::PUBLIC_KEY_BYTES;
use quorate_crypto::{AdmittedClients, Challenges, ClientAuthentication, ClientIdentity};
use quorate_hosting::desk::{AdmissionPolicy, AnswerQuotas, Askers, ClientKeys, QuestionPolicy};

use quorate_network::transports::{Event, LinkId, Remote};
use quorate_node::{ClientRules, Laboratory, NodeConfig};
use quorate_simulator::faults::FaultSpec;
use quorate_simulator::links::{Purpose, Random};
use quorate_simulator::{CostTable, SimSpec};
use quorate_testkit::stub::{Stub, Stubbed};
use quorate_types::digest::encode_hex;
use quorate_types::{
    Bundle, BundleBuilder, ClientId, ClientRequest, ClusterId, Digest, Height, Lane, Parameters, Quorum, ReplicaId,
    ReplicaReply, Time, decode_message, encode_message,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LINKS: u16 = 6;
/// Link that only asks queries, one at a time, because the node measures the time of answers.
const ASKING_LINK: u16 = 5;
const TURNS: u64 = 120;
/// Iterations at the end without arrivals.
const QUIET_TURNS: u64 = 40;
const TURN: Duration = Duration::from_millis(5);
const BATCH: usize = 8;
const SEEDS: u64 = 12;
/// Command that runs all seeds; takes about a second.
const REPLAY: &str = "cargo test -p quorate-simulator --test tests one_desk";

/// Rules for clients, given to both hosts.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Scenario {
    authentication: ClientAuthentication,
    /// Whether only clients 0 to 2 are admitted.
    listed: bool,
    max_commands_per_s: u64,
    max_answer_bytes_per_s: u64,
    /// Whether the replica refuses all bundles in every other 100 ms.
    busy: bool,
}

const SCENARIOS: [Scenario; 4] = [
    Scenario {
        authentication: ClientAuthentication::Ed25519,
        listed: false,
        max_commands_per_s: 0,
        max_answer_bytes_per_s: 0,
        busy: false,
    },
    Scenario {
        authentication: ClientAuthentication::Ed25519,
        listed: true,
        max_commands_per_s: 20,
        max_answer_bytes_per_s: 40,
        busy: false,
    },
    Scenario {
        authentication: ClientAuthentication::Ed25519,
        listed: false,
        max_commands_per_s: 100,
        max_answer_bytes_per_s: 40,
        busy: true,
    },
    Scenario {
        authentication: ClientAuthentication::None,
        listed: false,
        max_commands_per_s: 0,
        max_answer_bytes_per_s: 0,
        busy: false,
    },
];

/// Event on a link.
#[derive(Clone, Debug)]
enum Arrival {
    Connected(u16, ClientId),
    Closed(u16, ClientId),
    Frame(u16, ClientId, Bytes),
    /// A bundle with a wrong signature.
    Forged(u16, ClientId, Bundle),
    /// The link's client proves its key by answering the challenge sent to it.
    Proof(u16, ClientId, usize),
}

/// Draws arrivals.
struct Script {
    scenario: Scenario,
    random: Random,
    identities: Vec<ClientIdentity>,
    /// The client that each connected link claims to be.
    links: Vec<Option<usize>>,
    /// The last sequence number of each client.
    sequences: Vec<u64>,
    sent: Vec<(usize, Bundle)>,
    questions: u64,
}

fn identities(scenario: Scenario) -> Vec<ClientIdentity> {
    let identity = |number: u16| match scenario.authentication {
        ClientAuthentication::None => ClientIdentity::claimed(ClientId(u128::from(number + 1) << 64)),
        _ => ClientIdentity::from_seed(&ClusterId::from_name("test"), [number as u8 + 1; 32]),
    };
    (0..LINKS).map(identity).collect()
}

fn key_of(identity: &ClientIdentity) -> [u8; PUBLIC_KEY_BYTES] {
    let mut builder = BundleBuilder::new(identity.origin(), Height(1));
    builder.push(identity.origin(), 1, b"");
    let bundle = identity.finish(builder);
    *bundle.authenticator().expect("it is signed").public_key.first_chunk().expect("it is a key")
}

impl Script {
    fn new(scenario: Scenario, seed: u64) -> Script {
        let identities = identities(scenario);
        Script {
            scenario,
            random: Random::new(seed, Purpose::Faults, 0),
            sequences: vec![0; identities.len()],
            links: vec![None; identities.len()],
            identities,
            sent: Vec::new(),
            questions: 0,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.bits() % limit
    }

    /// Returns the arrivals of an iteration.
    fn turn(&mut self, number: u64) -> Vec<Arrival> {
        if number % 4 == 3 {
            return self.question();
        }
        let count = self.below(8);
        (0..count).flat_map(|_| self.arrival()).collect()
    }

    fn arrival(&mut self) -> Vec<Arrival> {
        let link = self.below(u64::from(ASKING_LINK)) as u16;
        let Some(client) = self.links[usize::from(link)] else { return vec![self.connect(link)] };
        let id = self.identities[client].origin();
        let frame = |bundle: Bundle| Arrival::Frame(link, id, encode_message(&ClientRequest::Submit(bundle)));
        match self.below(20) {
            0 => {
                self.links[usize::from(link)] = None;
                vec![Arrival::Closed(link, id)]
            }
            1 => vec![Arrival::Frame(link, id, Bytes::from_static(b"\x01\xffgarbage"))],
            2 if self.scenario.authentication != ClientAuthentication::None => {
                let bundle = self.bundle(client, 1, Height(0).latest_expiry());
                vec![Arrival::Forged(link, id, forge(&bundle))]
            }
            3 => vec![frame(self.bundle(client, BATCH + 1, Height(0).latest_expiry()))],
            4 => vec![frame(self.bundle(client, 1, Height(1)))],
            5 => vec![frame(self.bundle(client, 1, Height(10_000_000)))],
            6 => {
                let mut builder = BundleBuilder::new(id, Height(0).latest_expiry());
                builder.push(id, self.sequences[client] + 1, b"unsigned");
                vec![frame(builder.finish())]
            }
            7 => {
                let other = self.below(u64::from(LINKS)) as usize;
                vec![frame(self.bundle(other, 1, Height(0).latest_expiry()))]
            }
            8..=11 if !self.sent.is_empty() => {
                let at = self.below(self.sent.len() as u64) as usize;
                let (of, bundle) = self.sent[at].clone();
                // A replay needs a link that claims the client's ID.
                if of == client || self.below(4) == 0 { vec![frame(bundle)] } else { Vec::new() }
            }
            _ => {
                let commands = 1 + self.below(BATCH as u64) as usize;
                let bundle = self.bundle(client, commands, Height(0).latest_expiry());
                self.sent.push((client, bundle.clone()));
                vec![frame(bundle)]
            }
        }
    }

    /// Connects a link, with another link's client ID in one of four cases.
    fn connect(&mut self, link: u16) -> Arrival {
        let client = if self.below(4) == 0 { self.below(u64::from(ASKING_LINK)) as u16 } else { link };
        self.links[usize::from(link)] = Some(client.into());
        Arrival::Connected(link, self.identities[usize::from(client)].origin())
    }

    fn bundle(&mut self, client: usize, commands: usize, expires: Height) -> Bundle {
        let identity = &self.identities[client];
        let mut builder = BundleBuilder::new(identity.origin(), expires);
        for _ in 0..commands {
            self.sequences[client] += 1;
            builder.push(identity.origin(), self.sequences[client], &[7; 40]);
        }
        identity.finish(builder)
    }

    fn question(&mut self) -> Vec<Arrival> {
        let link = ASKING_LINK;
        // Client 0 is admitted; client 5 is not.
        let client = match self.links[usize::from(link)] {
            Some(client) => client,
            None => {
                let client = if self.below(2) == 0 { 0 } else { usize::from(link) };
                self.links[usize::from(link)] = Some(client);
                return vec![Arrival::Connected(link, self.identities[client].origin())];
            }
        };
        let id = self.identities[client].origin();
        self.questions += 1;
        let number = self.questions;
        let request = match self.below(7) {
            0 => {
                self.links[usize::from(link)] = None;
                return vec![Arrival::Closed(link, id)];
            }
            1 if self.scenario.authentication != ClientAuthentication::None => {
                return vec![Arrival::Proof(link, id, client)];
            }
            // The length of the node's statuses varies, so they must not use up a quota.
            2 if self.scenario.max_answer_bytes_per_s == 0 => {
                ClientRequest::Status { id: number, history: self.below(2) == 0 }
            }
            3 => ClientRequest::Height { id: number },
            4 => ClientRequest::Compare { id: number, values: Parameters::new([("reply", "none".to_owned())]) },
            _ => ClientRequest::Query { id: number, question: Bytes::from_static(b"what is it") },
        };
        vec![Arrival::Frame(link, id, encode_message(&request))]
    }
}

/// Returns a bundle with one flipped bit in its signature, which ends its encoding.
fn forge(bundle: &Bundle) -> Bundle {
    let mut frame = encode_message(&ClientRequest::Submit(bundle.clone())).to_vec();
    *frame.last_mut().expect("it is not empty") ^= 1;
    match decode_message(frame.into()) {
        Ok(ClientRequest::Submit(bundle)) => bundle,
        other => panic!("the bundle has its form: {other:?}"),
    }
}

/// A replica that receives the script's arrivals.
trait Replica {
    fn arrive(&mut self, arrival: &Arrival, challenge: Option<Digest>);
    fn turn(&mut self, now: Time) -> Vec<(u16, ReplicaReply)>;
}

/// Frames received from the node's transport, and frames to send.
#[derive(Default)]
struct Wires {
    events: Vec<Event>,
    sent: Vec<(u16, Bytes)>,
}

struct Scripted(Arc<Mutex<Wires>>);

impl Stub for Scripted {
    fn send_to(&mut self, _: ReplicaId, _: Bytes, _: Lane) {
        unreachable!("there are no peers");
    }

    fn send(&mut self, link: LinkId, frame: Bytes) {
        self.0.lock().unwrap().sent.push((link.0 as u16, frame));
    }

    fn poll(&mut self, _: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.append(&mut self.0.lock().unwrap().events);
        Ok(())
    }

    fn source_group(&self, link: LinkId) -> u64 {
        link.0
    }
}

struct Node {
    replica: quorate_node::scripted::ScriptedReplica,
    wires: Arc<Mutex<Wires>>,
    identities: Vec<ClientIdentity>,
}

fn consensus() -> Config {
    Config {
        protocol: ProtocolKind::Jolteon,
        batch: BATCH.to_string().parse().expect("a size"),
        pool_bundles: 12,
        ..Config::default()
    }
}

impl Node {
    fn new(scenario: Scenario) -> Node {
        let mut config = NodeConfig::template("test");
        config.client_authentication = scenario.authentication;
        config.application = ApplicationKind::LOG;
        config.consensus = consensus();
        let identities = identities(scenario);
        config.clients = ClientRules {
            max_commands_per_s: scenario.max_commands_per_s,
            max_answer_bytes_per_s: scenario.max_answer_bytes_per_s,
            ..ClientRules::default()
        };
        if scenario.listed {
            config.clients.admitted = AdmittedClients::Listed;
            config.clients.keys = identities[..3].iter().map(|identity| encode_hex(&key_of(identity))).collect();
        }
        if scenario.busy {
            let laboratory = Laboratory { for_ms: Some(100), every_ms: Some(200), ..Laboratory::of(Busy) };
            config.laboratory = Some(laboratory);
        }
        let wires = Arc::<Mutex<Wires>>::default();
        let transport = Box::new(Stubbed(Scripted(wires.clone())));
        let replica = quorate_node::scripted::ScriptedReplica::start(&config, transport).expect("it starts");
        Node { replica, wires, identities }
    }
}

impl Replica for Node {
    fn arrive(&mut self, arrival: &Arrival, challenge: Option<Digest>) {
        let link = |link: u16| LinkId(link.into());
        let event = match arrival {
            Arrival::Connected(at, client) => Event::Connected { link: link(*at), remote: Remote::Client(*client) },
            Arrival::Closed(at, client) => {
                Event::Disconnected { link: link(*at), remote: Remote::Client(*client), why: "closed".to_owned() }
            }
            Arrival::Frame(at, client, frame) => {
                Event::Received { link: link(*at), remote: Remote::Client(*client), frame: frame.clone() }
            }
            Arrival::Forged(at, client, bundle) => {
                let frame = encode_message(&ClientRequest::Submit(bundle.clone()));
                Event::Received { link: link(*at), remote: Remote::Client(*client), frame }
            }
            Arrival::Proof(at, client, of) => {
                let Some(frame) = prove(&self.identities[*of], *client, challenge) else { return };
                Event::Received { link: link(*at), remote: Remote::Client(*client), frame }
            }
        };
        self.wires.lock().unwrap().events.push(event);
    }

    fn turn(&mut self, now: Time) -> Vec<(u16, ReplicaReply)> {
        self.replica.turn(now);
        let sent = std::mem::take(&mut self.wires.lock().unwrap().sent);
        sent.into_iter().map(|(link, frame)| (link, decode_message(frame).expect("a reply"))).collect()
    }
}

fn prove(identity: &ClientIdentity, client: ClientId, challenge: Option<Digest>) -> Option<Bytes> {
    identity.prove(ReplicaId(0), client, &challenge?)
}

struct Simulated {
    replica: quorate_simulator::scripted::ScriptedReplica,
    identities: Vec<ClientIdentity>,
}

impl Simulated {
    fn new(scenario: Scenario) -> Simulated {
        let mut spec = SimSpec {
            consensus: consensus(),
            quorum: Quorum::of(1).expect("a size"),
            client_authentication: scenario.authentication,
            costs: CostTable::free(),
            ..spec(ProtocolKind::Jolteon)
        };
        if scenario.busy {
            let (at_ms, for_ms, every_ms, fault) = (0.0, Some(100.0), Some(200.0), Busy.into());
            spec.network.faults.push(FaultSpec::Misbehave { at_ms, for_ms, every_ms, replica: 0, fault });
        }
        let identities = identities(scenario);
        let listed = || identities[..3].iter().map(key_of).collect::<ClientKeys>();
        let policy = AdmissionPolicy::new(scenario.listed.then(listed), scenario.max_commands_per_s);
        let quotas = AnswerQuotas { bytes_per_s: scenario.max_answer_bytes_per_s, us_per_s: 0 };
        let questions = match scenario.listed {
            false => QuestionPolicy::open(quotas),
            true => {
                let challenges = Challenges::new().expect("the system has randomness");
                let (cluster, askers) = (ClusterId::from_name("test"), Askers::Listed(listed()));
                QuestionPolicy::closed(cluster, ReplicaId(0), askers, challenges, quotas)
            }
        };
        let replica = quorate_simulator::scripted::ScriptedReplica::new(&spec, LINKS, policy, questions);
        Simulated { replica, identities }
    }
}

impl Replica for Simulated {
    fn arrive(&mut self, arrival: &Arrival, challenge: Option<Digest>) {
        match arrival {
            Arrival::Connected(link, client) => self.replica.connect(*link, *client),
            Arrival::Closed(link, client) => self.replica.disconnect(*link, *client),
            Arrival::Frame(link, client, frame) => self.replica.receive(*link, *client, frame.clone()),
            Arrival::Forged(link, _, bundle) => {
                let bytes = encode_message(&ClientRequest::Submit(bundle.clone())).len();
                self.replica.receive_forged(*link, bundle.clone(), bytes);
            }
            Arrival::Proof(link, client, of) => {
                let Some(frame) = prove(&self.identities[*of], *client, challenge) else { return };
                self.replica.receive(*link, *client, frame);
            }
        }
    }

    fn turn(&mut self, now: Time) -> Vec<(u16, ReplicaReply)> {
        self.replica.turn(now).into_iter().map(|(link, reply)| (link, ReplicaReply::clone(&reply))).collect()
    }
}

/// Removes the differences between hosts: the contents of statuses, random challenges, and the terms, which simulated
/// replicas do not have.
fn comparable(reply: ReplicaReply) -> ReplicaReply {
    match reply {
        ReplicaReply::Status { id, .. } => ReplicaReply::Status { id, json: Bytes::new() },
        ReplicaReply::Challenge { .. } => ReplicaReply::Challenge { challenge: Digest::ZERO },
        ReplicaReply::Compared { id, .. } => {
            ReplicaReply::Compared { id, differing: Parameters::default(), max_frame_bytes: 0 }
        }
        other => other,
    }
}

/// Runs a script, and returns the replies of each turn.
fn run(mut replica: impl Replica, scenario: Scenario, seed: u64) -> Vec<Vec<(u16, ReplicaReply)>> {
    let mut script = Script::new(scenario, seed);
    let mut challenges = BTreeMap::new();
    let turn = |number: u64| {
        let arrivals = if number < TURNS { script.turn(number) } else { Vec::new() };
        for arrival in &arrivals {
            let challenge = match arrival {
                Arrival::Proof(link, ..) => challenges.get(link).copied(),
                _ => None,
            };
            replica.arrive(arrival, challenge);
        }
        let replies = replica.turn(Time(0) + TURN * number as u32);
        for (link, reply) in &replies {
            if let ReplicaReply::Challenge { challenge } = reply {
                challenges.insert(*link, *challenge);
            }
        }
        replies.into_iter().map(|(link, reply)| (link, comparable(reply))).collect()
    };
    (0..TURNS + QUIET_TURNS).map(turn).collect()
}

/// Names the kind of a reply, with the beginning of its reason.
fn kind(reply: &ReplicaReply) -> String {
    let beginning = |why: &str| {
        why.split(' ')
            .filter(|word| !word.chars().any(|c| c.is_ascii_digit()))
            .take(6)
            .fold(String::new(), |all, word| all + " " + word)
    };
    match reply {
        ReplicaReply::Executed { height: Height(0), .. } => "settled".to_owned(),
        ReplicaReply::Executed { .. } => "executed".to_owned(),
        ReplicaReply::Refused { why, .. } => format!("refused:{}", beginning(why)),
        ReplicaReply::Busy { .. } => "busy".to_owned(),
        ReplicaReply::Answer { .. } => "answer".to_owned(),
        ReplicaReply::Status { .. } => "status".to_owned(),
        ReplicaReply::Height { .. } => "height".to_owned(),
        ReplicaReply::Supports { .. } => "support".to_owned(),
        ReplicaReply::Challenge { .. } => "challenge".to_owned(),
        ReplicaReply::Unanswered { why, .. } => format!("unanswered:{}", beginning(why)),
        ReplicaReply::Compared { .. } => "compared".to_owned(),
        ReplicaReply::FrameTooLong { .. } => "frame-too-long".to_owned(),
    }
}

#[test]
fn the_node_and_the_simulator_answer_the_same_arrivals_alike() {
    let mut kinds = BTreeSet::new();
    for (number, scenario) in SCENARIOS.into_iter().enumerate() {
        for seed in 0..SEEDS {
            let node = run(Node::new(scenario), scenario, seed);
            let simulated = run(Simulated::new(scenario), scenario, seed);
            for (turn, (node, simulated)) in node.iter().zip(&simulated).enumerate() {
                assert_eq!(node, simulated, "{REPLAY}: scenario {number} ({scenario:?}), seed {seed}, turn {turn}");
            }
            kinds.extend(node.iter().flatten().map(|(_, reply)| kind(reply)));
        }
    }
    let of = |start: &str| kinds.iter().filter(|kind| kind.starts_with(start)).count();
    for start in ["executed", "busy", "answer", "status", "height", "challenge", "compared"] {
        assert_eq!(of(start), 1, "{start} is among the replies: {kinds:#?}");
    }
    assert!(of("refused") >= 8 && of("unanswered") >= 2, "every reason is among the replies: {kinds:#?}");
}
