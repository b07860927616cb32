//! A replica controlled by a test, which can send anything in that replica's name, over real sockets.

use quorate_consensus::{Envelope, Message};
use quorate_crypto::{Crypto, Identities, Identity, ReplicaKeys, SchemeKind};
use quorate_network::channels::{ChannelConfig, ChannelKind, KEY_UPDATE_RECORDS, LocalEnd, Sessions, Versions};
use quorate_network::transports::{Endpoint, Event, LinkConfig, Remote, TcpTransport, Transport};
use quorate_node::{EmbeddedCluster, NodeConfig, NodeEvent, Observer, testnet};
use quorate_types::{Bundle, Committee, Digest, Lane, Parameters, ReplicaId, Vote, decode_message, encode_message};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for anything has hung.
const HANG: Duration = Duration::from_secs(40);

/// Events reported by the honest replicas.
pub type Told = Arc<Mutex<Vec<(ReplicaId, NodeEvent)>>>;

/// Replica 0 of a cluster of four.
pub struct Attacker {
    transport: TcpTransport,
    crypto: Crypto,
    pub committee: Committee,
    events: Vec<Event>,
}

impl Attacker {
    pub const ID: ReplicaId = ReplicaId(0);

    /// Starts the honest three of four replicas, and takes the place of the first.
    pub fn among(template: &NodeConfig) -> (Attacker, EmbeddedCluster, Told) {
        let listeners: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let mut nodes =
            testnet::generate(template, &addresses).unwrap().into_iter().zip(listeners.into_iter().map(Endpoint::from));
        let ((config, keys), endpoint) = nodes.next().unwrap();
        let attacker = Attacker::new(config.committee().unwrap(), config.parameters(), keys, endpoint);
        let told = Told::default();
        let observer = || -> Box<dyn Observer> {
            let told = told.clone();
            Box::new(move |replica: ReplicaId, event: NodeEvent| told.lock().unwrap().push((replica, event)))
        };
        let cluster = EmbeddedCluster::start_replicas(nodes, observer).unwrap();
        (attacker, cluster, told)
    }

    fn new(committee: Committee, parameters: Parameters, keys: ReplicaKeys, endpoint: Endpoint) -> Attacker {
        let identity = Identity::new(&committee, Attacker::ID, keys.identity).unwrap();
        let crypto = Crypto::new(SchemeKind::ED25519, &committee, Attacker::ID, keys.voting, 16).unwrap();
        let channels = ChannelConfig {
            kind: ChannelKind::PLAIN,
            cluster: committee.cluster,
            epoch: committee.epoch,
            me: LocalEnd::Replica(Arc::new(identity)),
            verifier: Arc::new(Identities::new(&committee).unwrap()),
            parameters,
            versions: Versions::ALL,
            key_update_records: KEY_UPDATE_RECORDS,
            sessions: Sessions::default(),
        };
        let transport = TcpTransport::replica(&committee, Some(endpoint), channels, LinkConfig::default()).unwrap();
        Attacker { transport, crypto, committee, events: Vec::new() }
    }

    pub fn honest() -> impl Iterator<Item = ReplicaId> {
        (1..4).map(ReplicaId)
    }

    /// Signs a vote in the replica's name.
    pub fn sign(&self, vote: &mut Vote) {
        vote.signature = self.crypto.sign(&vote.statement(&self.committee.epoch));
    }

    /// Sends a message to every honest replica.
    pub fn say<M: Message>(&mut self, message: &Envelope<M>) {
        let frame = encode_message(message);
        Attacker::honest().for_each(|to| self.transport.send_to(to, frame.clone(), Lane::Ordinary));
    }

    /// Answers requests for any of these bundles with all of them until `done` returns true; returns the other messages
    /// received.
    pub fn serve_until<M: Message>(&mut self, bundles: &[Bundle], mut done: impl FnMut() -> bool) -> Vec<Envelope<M>> {
        let start = Instant::now();
        let mut heard = Vec::new();
        let is_held = |digest: &Digest| bundles.iter().any(|bundle| bundle.digest() == *digest);
        while !done() {
            assert!(start.elapsed() < HANG, "timed out waiting for the condition");
            self.transport.poll(Some(Duration::from_millis(20)), &mut self.events).unwrap();
            for event in std::mem::take(&mut self.events) {
                let Event::Received { remote: Remote::Replica(from), frame, .. } = event else { continue };
                match decode_message(frame).expect("honest replicas send messages") {
                    Envelope::FetchBundles { digests, .. } if digests.iter().any(is_held) => {
                        self.transport.send_to(
                            from,
                            encode_message(&Envelope::<M>::Bundles(bundles.to_vec())),
                            Lane::Ordinary,
                        );
                    }
                    other => heard.push(other),
                }
            }
        }
        heard
    }
}
