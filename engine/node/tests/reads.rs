//! Queries are answered only for admitted clients: over every wire, with every admission policy and kind of query.

use quorate_applications::ApplicationKind;
use quorate_crypto::key_file::client::ClientKeys;
use quorate_crypto::{AdmittedClients, ClientIdentity, Identities, KeyPair, SchemeKind};
use quorate_network::channels::ChannelKind;
use quorate_network::transports::{Event, Remote, Transport, TransportKind, Wire};
use quorate_node::{ClientRules, EmbeddedCluster, NoObserver, NodeConfig};
use quorate_types::digest::encode_hex;
use quorate_types::{
    BundleBuilder, ClientId, ClientRequest, ClusterId, Digest, Height, Lane, ReplicaId, ReplicaReply, decode_message,
    encode_message,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for anything has hung.
const HANG: Duration = Duration::from_secs(40);
const REPLICA: ReplicaId = ReplicaId(0);

/// A client that answers challenges only on request.
struct Reader {
    transport: Box<dyn Transport>,
    events: Vec<Event>,
    inbox: VecDeque<ReplicaReply>,
    id: u64,
}

impl Reader {
    /// Connects under an id that need not be the client's own.
    fn connect(cluster: &EmbeddedCluster, wire: &Wire, claimed: ClientId) -> Reader {
        let committee = cluster.committee();
        let identities = Arc::new(Identities::new(committee).expect("the cluster runs with these keys"));
        let transport = wire.client(committee, claimed, identities).expect("a client's transport");
        Reader { transport, events: Vec::new(), inbox: VecDeque::new(), id: 0 }
    }

    fn send(&mut self, request: &ClientRequest) {
        self.transport.send_to(REPLICA, encode_message(request), Lane::Ordinary);
    }

    fn prove(&mut self, identity: &ClientIdentity, claimed: ClientId, challenge: &Digest) {
        let proof = identity.prove(REPLICA, claimed, challenge).expect("the identity has a key");
        self.transport.send_to(REPLICA, proof, Lane::Ordinary);
    }

    /// Sends a query of each kind, and returns the replies.
    fn ask_all(&mut self) -> Vec<ReplicaReply> {
        [
            |id| ClientRequest::Query { id, question: "question".into() },
            |id| ClientRequest::Status { id, history: true },
            |id| ClientRequest::Height { id },
        ]
        .map(|question: fn(u64) -> ClientRequest| {
            self.id += 1;
            self.send(&question(self.id));
            self.hear()
        })
        .into()
    }

    fn hear(&mut self) -> ReplicaReply {
        let start = Instant::now();
        loop {
            if let Some(reply) = self.inbox.pop_front() {
                return reply;
            }
            assert!(start.elapsed() < HANG, "the replica says nothing");
            self.transport.poll(Some(Duration::from_millis(20)), &mut self.events).expect("the transport works");
            for event in self.events.drain(..) {
                if let Event::Received { remote: Remote::Replica(REPLICA), frame, .. } = event {
                    self.inbox.push_back(decode_message(frame).expect("replicas send replies"));
                }
            }
        }
    }

    /// Sends a query of each kind, none of which must be answered, and returns the challenge.
    fn challenged(&mut self) -> Digest {
        let heard = self.ask_all();
        let ReplicaReply::Challenge { challenge } = heard[0] else { panic!("{heard:?}") };
        assert!(heard.iter().all(|reply| *reply == ReplicaReply::Challenge { challenge }), "{heard:?}");
        challenge
    }

    /// Sends a query of each kind, all of which must be refused permanently with a reason that contains these words.
    fn is_refused(&mut self, words: &str) {
        for reply in self.ask_all() {
            let ReplicaReply::Unanswered { id, why, again: false } = &reply else { panic!("{reply:?}") };
            assert!(*id <= self.id && why.contains(words) && why.contains("help:"), "{why}");
        }
    }

    /// Sends a query of each kind, all of which must be answered.
    fn is_answered(&mut self) {
        let heard = self.ask_all();
        use ReplicaReply::{Answer, Height, Status};
        assert!(matches!(&heard[..], [Answer { .. }, Status { .. }, Height { .. }]), "{heard:?}");
    }
}

fn start(wire: &Wire, clients: ClientRules) -> EmbeddedCluster {
    let mut template = NodeConfig::template("test");
    template.application = ApplicationKind::LOG;
    (template.transport, template.channel, template.clients) = (wire.transport, wire.channel, clients);
    let address = [([127, 0, 0, 1], 0).into()];
    EmbeddedCluster::start(&template, &address, |_| {}, || Box::new(NoObserver)).expect("the cluster starts")
}

/// Returns every wire supported by this kernel.
fn wires() -> Vec<Wire> {
    let channels = |transport| ChannelKind::ALL.iter().map(move |channel| (transport, *channel));
    let all = TransportKind::ALL.iter().filter(|kind| **kind != TransportKind::SCTP_KERNEL).flat_map(channels);
    let all = all.map(|(&transport, channel)| Wire { transport, channel, ..Wire::default() });
    all.filter(|wire| wire.fits().is_ok()).collect()
}

fn keys() -> ClientKeys {
    ClientKeys::generate(ClusterId::from_name("test")).expect("the system has randomness")
}

fn identity(keys: ClientKeys) -> ClientIdentity {
    keys.identity().expect("the system has randomness")
}

/// Returns the policies that admit some clients, each with an admitted client and the words that refuse others.
fn closed_rules() -> [(ClientRules, ClientIdentity, &'static str); 2] {
    let friend = keys();
    let listed = vec![encode_hex(&friend.key.public_key())];
    let listed = ClientRules { admitted: AdmittedClients::Listed, keys: listed, ..ClientRules::default() };
    let certifier = KeyPair::from_seed(SchemeKind::ED25519, [1; 32]);
    let mut certified_friend = keys();
    certified_friend.certify(&certifier);
    let key = encode_hex(&certifier.public_key());
    let certified = ClientRules { admitted: AdmittedClients::Certified, certifier: key, ..ClientRules::default() };
    [
        (listed, identity(friend), "is not admitted"),
        (certified, identity(certified_friend), "the client is not certified"),
    ]
}

#[test]
fn strangers_read_nothing_over_any_wire_under_any_closed_rule() {
    for wire in wires() {
        for (rules, friend, words) in closed_rules() {
            println!("{} {}, {}", wire.transport, wire.channel, rules.admitted);
            let cluster = start(&wire, rules);
            let mut friends = Reader::connect(&cluster, &wire, friend.origin());
            // They claim the friend's id: a hello proves nothing.
            let mut forgers = [(); 3].map(|()| Reader::connect(&cluster, &wire, friend.origin()));
            let challenges = forgers.each_mut().map(Reader::challenged);
            let own = friends.challenged();
            assert!(!challenges.contains(&own) && challenges[0] != challenges[1], "a challenge is for one link");
            friends.prove(&friend, friend.origin(), &own);
            friends.is_answered();
            // A proof overheard on another link, a key of the stranger's own, and no proof at all.
            forgers[0].prove(&friend, friend.origin(), &own);
            forgers[0].is_refused("is not one of this connection's challenge");
            forgers[1].prove(&identity(keys()), friend.origin(), &challenges[1]);
            forgers[1].is_refused(words);
            let repeated = friend.finish({
                let mut bundle = BundleBuilder::new(friend.origin(), Height(0).latest_expiry());
                bundle.push(friend.origin(), 1, b"payload");
                bundle
            });
            friends.send(&ClientRequest::Submit(repeated.clone()));
            assert!(matches!(friends.hear(), ReplicaReply::Executed { .. }), "the friend has commands ordered");
            forgers[2].send(&ClientRequest::Submit(repeated));
            assert!(matches!(forgers[2].hear(), ReplicaReply::Executed { .. }), "anybody may repeat a bundle");
            assert_eq!(forgers[2].challenged(), challenges[2], "a bundle proves no key");
            friends.is_answered();
        }
    }
}

/// A link has one attempt: another proof, even a valid one, changes nothing.
#[test]
fn a_link_that_proved_nothing_stays_refused() {
    let wire = Wire::default();
    for (rules, friend, _) in closed_rules() {
        let cluster = start(&wire, rules);
        let mut reader = Reader::connect(&cluster, &wire, friend.origin());
        let challenge = reader.challenged();
        reader.prove(&friend, ClientId(7), &challenge);
        reader.prove(&friend, friend.origin(), &challenge);
        reader.is_refused("is not one of this connection's challenge");
    }
}

#[test]
fn everybody_reads_where_everybody_is_admitted() {
    for wire in wires() {
        let cluster = start(&wire, ClientRules::default());
        Reader::connect(&cluster, &wire, ClientId(99)).is_answered();
    }
}

/// The quota is work, not the number of queries: heights cost nothing, and one long answer is paid off later.
#[test]
fn answers_have_quotas_by_bytes_and_by_time() {
    let wire = Wire::default();
    let [bytes, time] = [(40, 0, "40 bytes of answers"), (0, 1, "1 us of a replica's time")];
    for (max_answer_bytes_per_s, max_answer_us_per_s, words) in [bytes, time] {
        let quota = ClientRules { max_answer_bytes_per_s, max_answer_us_per_s, ..ClientRules::default() };
        let status = ClientRequest::Status { id: 1, history: false };
        let spend = |reader: &mut Reader| loop {
            reader.send(&status);
            match reader.hear() {
                ReplicaReply::Status { .. } => {}
                ReplicaReply::Unanswered { id: 1, why, again: true } => {
                    assert!(why.contains(words) && why.contains("help:"), "{why}");
                    break;
                }
                other => panic!("{other:?}"),
            }
        };
        let cluster = start(&wire, quota.clone());
        let mut reader = Reader::connect(&cluster, &wire, ClientId(1));
        spend(&mut reader);
        // Nobody has proved an id, so a new one gets no new quota at the same address.
        let mut renamed = Reader::connect(&cluster, &wire, ClientId(2));
        renamed.send(&status);
        assert!(matches!(renamed.hear(), ReplicaReply::Unanswered { again: true, .. }));

        let friends = [keys(), keys()];
        let listed = friends.iter().map(|keys| encode_hex(&keys.key.public_key())).collect();
        let cluster = start(&wire, ClientRules { admitted: AdmittedClients::Listed, keys: listed, ..quota });
        let mut links = friends.map(|keys| {
            let identity = identity(keys);
            let mut link = Reader::connect(&cluster, &wire, identity.origin());
            let challenge = link.challenged();
            link.prove(&identity, identity.origin(), &challenge);
            link
        });
        spend(&mut links[0]);
        links[1].send(&status);
        assert!(matches!(links[1].hear(), ReplicaReply::Status { .. }), "each key has a quota of its own");
    }
}
