//! Test client: submits bundles over a bare transport and waits for f+1 matching replies.
// Not every test uses everything here.
#![allow(dead_code)]

use bytes::Bytes;
use quorate_crypto::{ClientIdentity, Identities, ReplyVerifier};
use quorate_network::channels::{ChannelConfig, ChannelKind, KEY_UPDATE_RECORDS, LocalEnd, Sessions, Versions};
use quorate_network::transports::{Event, LinkConfig, LinkId, Remote, TcpTransport, Transport};
use quorate_node::EmbeddedCluster;
use quorate_types::{
    Bundle, BundleBuilder, ClientId, ClientRequest, Committee, Digest, Height, Lane, Parameters, ReplicaId,
    ReplicaReply, Results, Status, decode_message, encode_message,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for anything has hung.
const HANG: Duration = Duration::from_secs(40);
/// Retry interval of unanswered bundles.
const RETRY: Duration = Duration::from_millis(500);

pub struct TestClient {
    identity: ClientIdentity,
    transport: TcpTransport,
    committee: Committee,
    links: BTreeMap<LinkId, Remote>,
    events: Vec<Event>,
    next_sequence: u64,
    next_question: u64,
    /// The last frame to each replica, which is repeated after a proof of the key.
    last_sent: BTreeMap<ReplicaId, Bytes>,
    /// Messages received but not processed yet.
    pub inbox: Vec<(ReplicaId, ReplicaReply)>,
    /// If set, every reply must have a valid authenticator.
    pub verifier: Option<ReplyVerifier>,
    /// Frames with more than a status, if there is a verifier.
    pub frames: Vec<(ReplicaId, Bytes)>,
}

impl TestClient {
    pub fn new(cluster: &EmbeddedCluster, id: u8) -> TestClient {
        let identity = ClientIdentity::from_seed(&cluster.committee().cluster, [id; 32]);
        TestClient::with_identity(cluster, identity)
    }

    pub fn with_identity(cluster: &EmbeddedCluster, identity: ClientIdentity) -> TestClient {
        TestClient::of(cluster.committee().clone(), identity)
    }

    pub fn of(committee: Committee, identity: ClientIdentity) -> TestClient {
        let identities = Identities::new(&committee).expect("the cluster runs with these keys");
        let channels = ChannelConfig {
            kind: ChannelKind::PLAIN,
            cluster: committee.cluster,
            epoch: committee.epoch,
            me: LocalEnd::Client(identity.origin()),
            verifier: Arc::new(identities),
            parameters: Parameters::default(),
            versions: Versions::ALL,
            key_update_records: KEY_UPDATE_RECORDS,
            sessions: Sessions::default(),
        };
        let transport = TcpTransport::client(&committee, channels, LinkConfig::default()).expect("a client transport");
        TestClient {
            identity,
            transport,
            committee,
            links: BTreeMap::new(),
            events: Vec::new(),
            next_sequence: 1,
            next_question: 1,
            last_sent: BTreeMap::new(),
            inbox: Vec::new(),
            verifier: None,
            frames: Vec::new(),
        }
    }

    pub fn id(&self) -> ClientId {
        self.identity.origin()
    }

    /// Waits until `replicas` replicas are connected.
    pub fn connect(&mut self, replicas: usize) {
        let start = Instant::now();
        while self.links.len() < replicas {
            assert!(start.elapsed() < HANG, "only {:?} are connected", self.links);
            self.poll();
        }
    }

    /// Returns the connected replicas, ascending by id.
    pub fn connected(&self) -> Vec<ReplicaId> {
        let replica = |remote: &Remote| match remote {
            Remote::Replica(replica) => *replica,
            other => panic!("a client is connected with {other:?}"),
        };
        let replicas: BTreeSet<ReplicaId> = self.links.values().map(replica).collect();
        replicas.into_iter().collect()
    }

    fn poll(&mut self) -> bool {
        self.transport.poll(Some(Duration::from_millis(50)), &mut self.events).expect("the transport works");
        let news = !self.events.is_empty();
        let mut challenges = Vec::new();
        for event in self.events.drain(..) {
            match event {
                Event::Connected { link, remote } => drop(self.links.insert(link, remote)),
                Event::Disconnected { link, .. } => drop(self.links.remove(&link)),
                Event::Path { .. } => {}
                Event::Received { remote: Remote::Replica(replica), frame, .. } => {
                    if let Ok(ReplicaReply::Challenge { challenge }) = decode_message(frame.clone()) {
                        challenges.push((replica, challenge));
                        continue;
                    }
                    let Some(verifier) = &self.verifier else {
                        self.inbox.push((replica, decode_message(frame).expect("replicas send replies")));
                        continue;
                    };
                    let replies =
                        verifier.open(replica, frame.clone(), |_| true).expect("replicas authenticate replies");
                    if !matches!(replies[..], [ReplicaReply::Status { .. }]) {
                        self.frames.push((replica, frame));
                    }
                    self.inbox.extend(replies.into_iter().map(|reply| (replica, reply)));
                }
                Event::Received { remote, .. } => panic!("{remote:?} answers a client"),
            }
        }
        for (replica, challenge) in challenges {
            let proof = self.identity.prove(replica, self.id(), &challenge).expect("the client has a key");
            self.transport.send_to(replica, proof, Lane::Ordinary);
            self.transport.send_to(replica, self.last_sent[&replica].clone(), Lane::Ordinary);
        }
        news
    }

    pub fn bundle(&mut self, commands: usize, payload: &[u8]) -> Bundle {
        let mut builder = BundleBuilder::new(self.id(), Height(0).latest_expiry());
        for _ in 0..commands {
            builder.push(self.id(), self.next_sequence, payload);
            self.next_sequence += 1;
        }
        self.identity.finish(builder)
    }

    /// Returns a bundle with one command in each of these sessions.
    pub fn crowd(&self, sessions: &[u16]) -> Bundle {
        let mut builder = BundleBuilder::new(self.id(), Height(0).latest_expiry());
        sessions.iter().for_each(|session| builder.push(self.id().with_session(*session), 1, b"crowd"));
        self.identity.finish(builder)
    }

    pub fn sign(&self, builder: BundleBuilder) -> Bundle {
        self.identity.finish(builder)
    }

    /// Skips the sequence numbers of `commands` commands that the same identity has sent elsewhere.
    pub fn skip(&mut self, commands: u64) {
        self.next_sequence += commands;
    }

    pub fn send_raw(&mut self, to: ReplicaId, frame: Bytes) {
        self.last_sent.insert(to, frame.clone());
        self.transport.send_to(to, frame, Lane::Ordinary);
    }

    pub fn send_all(&mut self, request: &ClientRequest) {
        let frame = encode_message(request);
        for replica in self.committee.replicas() {
            self.transport.send_to(replica, frame.clone(), Lane::Ordinary);
        }
    }

    /// Waits for the first message accepted by `wanted`, and drops those before it.
    pub fn wait<T>(&mut self, wanted: impl FnMut(ReplicaId, &ReplicaReply) -> Option<T>) -> T {
        self.wait_for(HANG, wanted).expect("an answer arrives")
    }

    fn wait_for<T>(
        &mut self,
        time: Duration,
        mut wanted: impl FnMut(ReplicaId, &ReplicaReply) -> Option<T>,
    ) -> Option<T> {
        let start = Instant::now();
        loop {
            for (replica, reply) in std::mem::take(&mut self.inbox) {
                if let Some(found) = wanted(replica, &reply) {
                    return Some(found);
                }
            }
            if start.elapsed() >= time {
                return None;
            }
            self.poll();
        }
    }

    /// Sends bundles to all replicas, at most `window` at a time, until each has `needed` equal replies; returns these.
    pub fn submit(&mut self, bundles: &[Bundle], window: usize, needed: usize) -> Vec<Results> {
        let start = Instant::now();
        let mut done: BTreeMap<Digest, Results> = BTreeMap::new();
        let mut replies: BTreeMap<Digest, BTreeMap<Bytes, BTreeSet<ReplicaId>>> = BTreeMap::new();
        let mut sent = 0;
        let mut last_news = Instant::now();
        while done.len() < bundles.len() {
            if start.elapsed() > HANG {
                let of = self.links.values().filter_map(|remote| match remote {
                    Remote::Replica(replica) => Some(*replica),
                    Remote::Client(_) | Remote::Operator(_) => None,
                });
                let statuses: Vec<Status> = of.collect::<Vec<_>>().into_iter().map(|of| self.status(of)).collect();
                let waiting: Vec<_> = bundles.iter().filter(|bundle| !done.contains_key(&bundle.digest())).collect();
                let heard: Vec<_> = waiting.iter().filter_map(|bundle| replies.get(&bundle.digest())).collect();
                let short = |status: &Status| Status { history: Vec::new(), ..status.clone() };
                let shown: Vec<Status> = statuses.iter().map(short).collect();
                panic!(
                    "{} of {} bundles are answered; {waiting:?} has {heard:?}: {shown:#?}",
                    done.len(),
                    bundles.len()
                );
            }
            while sent < bundles.len() && sent - done.len() < window {
                self.send_all(&ClientRequest::Submit(bundles[sent].clone()));
                sent += 1;
            }
            self.poll();
            for (replica, reply) in std::mem::take(&mut self.inbox) {
                let ReplicaReply::Executed { bundle, height, results } = reply else {
                    panic!("replica {replica} answers {reply:?}")
                };
                // Late reply to a bundle of an earlier call.
                if !bundles[..sent].iter().any(|sent| sent.digest() == bundle) {
                    continue;
                }
                last_news = Instant::now();
                let same = encode_message(&ReplicaReply::Executed { bundle, height, results: results.clone() });
                let voices = replies.entry(bundle).or_default().entry(same).or_default();
                voices.insert(replica);
                if voices.len() >= needed {
                    done.insert(bundle, results);
                }
            }
            if last_news.elapsed() > RETRY {
                last_news = Instant::now();
                for bundle in bundles[..sent].iter().filter(|bundle| !done.contains_key(&bundle.digest())) {
                    self.send_all(&ClientRequest::Submit(bundle.clone()));
                }
            }
        }
        bundles.iter().map(|bundle| done.remove(&bundle.digest()).expect("every bundle is answered")).collect()
    }

    /// Polls a replica until its status is as `wanted`. Repeats the request, because the link may lead to a process
    /// that has stopped.
    pub fn status_with(&mut self, of: ReplicaId, wanted: impl Fn(&Status) -> bool) -> Status {
        let start = Instant::now();
        loop {
            let status = self.status(of);
            if wanted(&status) {
                return status;
            }
            assert!(start.elapsed() < HANG, "the status does not change: {status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn status(&mut self, of: ReplicaId) -> Status {
        let asked = self.next_question;
        self.next_question += 1;
        let start = Instant::now();
        loop {
            self.send_raw(of, encode_message(&ClientRequest::Status { id: asked, history: true }));
            let answer = self.wait_for(RETRY, |replica, reply| match reply {
                ReplicaReply::Status { id, json } if *id == asked => {
                    assert_eq!(replica, of);
                    Some(serde_json::from_slice(json).expect("a status is JSON"))
                }
                _ => None,
            });
            if let Some(status) = answer {
                return status;
            }
            assert!(start.elapsed() < HANG, "replica {of} does not report its status");
        }
    }
}
