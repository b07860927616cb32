//! Replicas without consensus, over real sockets: each executes every bundle on arrival.

use bytes::Bytes;
use quorate_client::{ClientConfig, connect};
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::{
    BundleVerifier, ClientAuthentication, Identities, Identity, ReplicaKeys, ReplyAuthentication, ReplyAuthenticator,
    ReplyKey, SchemeKind,
};
use quorate_network::channels::{ChannelConfig, ChannelKind, KEY_UPDATE_RECORDS, LocalEnd, Sessions, Versions};
use quorate_network::transports::{Event, LinkConfig, TcpTransport, Transport};
use quorate_types::{
    AuthenticatedReplies, Bundle, ClientId, ClientRequest, ClusterId, Digest, Encoder, Height, Member, Outcome,
    Parameters, Quorum, ReplicaId, ReplicaReply, Results, Status, View, decode_message, encode_message,
    question_digest,
};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Behaviour of a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "the benchmark uses only some")]
pub enum Manner {
    /// Returns the payload of a command as its result.
    Honest,
    /// Returns forged results.
    Lies,
    /// Receives everything and answers nothing.
    Silent,
    /// Refuses each bundle once and executes it when it arrives again.
    RefusesOnce,
    /// Refuses each bundle permanently.
    Rejects,
    /// Reports the first bundle as expired, and a far greater height from then on.
    ExpiresOnce,
    /// Reports the outcome of the first bundle as forgotten.
    ForgetsOnce,
    /// Does not listen.
    Absent,
    /// Authenticates its replies for another client.
    WrongSession,
    /// Authenticates nothing.
    Unauthenticated,
    /// Acknowledges without results.
    Acknowledges,
    /// Answers another query, as if an attacker had sent it under the client's number.
    AskedAnother,
}

/// The query answered by [`Manner::AskedAnother`].
pub const OTHER_QUESTION: &[u8] = b"another question";

pub struct EchoCluster {
    pub config: ClientConfig,
    stop: Arc<AtomicBool>,
    wakers: Vec<Arc<dyn Fn() + Send + Sync>>,
    threads: Vec<JoinHandle<()>>,
}

impl EchoCluster {
    pub fn start(manners: &[Manner]) -> EchoCluster {
        EchoCluster::authenticating(manners, ReplyAuthentication::Channel)
    }

    /// Starts replicas that authenticate their replies.
    pub fn authenticating(manners: &[Manner], replies: ReplyAuthentication) -> EchoCluster {
        let scheme = SchemeKind::ED25519;
        let keys: Vec<ReplicaKeys> =
            (0..manners.len()).map(|at| ReplicaKeys::from_seed(scheme, [at as u8 + 1; 32])).collect();
        let listeners: Vec<TcpListener> = manners.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let member =
            |(keys, listener): (&ReplicaKeys, &TcpListener)| keys.member(listener.local_addr().unwrap().into());
        let members: Vec<Member> = keys.iter().zip(&listeners).map(member).collect();
        let faults = Quorum::of(members.len()).unwrap().faults();
        let mut config = ClientConfig::new("echo", ProtocolKind::Jolteon, scheme, faults, &members);
        (config.retry_ms, config.connect_timeout_ms, config.request_timeout_ms) = (200, 10_000, 20_000);
        config.reply_authentication = replies;
        let committee = config.committee().unwrap();
        let identities = Arc::new(Identities::new(&committee).unwrap());
        let mut cluster = EchoCluster { config, stop: Arc::default(), wakers: Vec::new(), threads: Vec::new() };
        for ((replica, keys), (listener, manner)) in
            committee.replicas().zip(keys).zip(listeners.into_iter().zip(manners))
        {
            if *manner != Manner::Absent {
                let authenticator =
                    ReplyAuthenticator::new(replies, SchemeKind::HMAC_SHA256, &committee, replica, &keys).unwrap();
                let channels = ChannelConfig {
                    kind: ChannelKind::PLAIN,
                    cluster: committee.cluster,
                    epoch: committee.epoch,
                    me: LocalEnd::Replica(Arc::new(Identity::new(&committee, replica, keys.identity).unwrap())),
                    verifier: identities.clone(),
                    parameters: Parameters::default(),
                    versions: Versions::ALL,
                    key_update_records: KEY_UPDATE_RECORDS,
                    sessions: Sessions::default(),
                };
                let transport =
                    TcpTransport::replica(&committee, Some(listener), channels, LinkConfig::default()).unwrap();
                cluster.spawn(replica, *manner, transport, committee.cluster, authenticator);
            }
        }
        cluster
    }

    fn spawn(
        &mut self,
        replica: ReplicaId,
        manner: Manner,
        transport: TcpTransport,
        cluster: ClusterId,
        authenticator: Option<ReplyAuthenticator>,
    ) {
        self.wakers.push(transport.waker());
        let stop = self.stop.clone();
        let verifier = BundleVerifier::new(ClientAuthentication::Ed25519, cluster, 0);
        let echo = Echo {
            replica,
            manner,
            verifier,
            authenticator,
            keys: BTreeMap::new(),
            seen: BTreeMap::new(),
            void_sequence: None,
        };
        self.threads.push(std::thread::spawn(move || echo.run(transport, &stop)));
    }

    pub fn transport(&self, origin: ClientId) -> Box<dyn Transport> {
        connect(&self.config, origin).unwrap()
    }
}

impl Drop for EchoCluster {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wakers.iter().for_each(|wake| wake());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() && !std::thread::panicking() {
                panic!("a replica's thread panicked");
            }
        }
    }
}

struct Echo {
    replica: ReplicaId,
    manner: Manner,
    verifier: BundleVerifier,
    authenticator: Option<ReplyAuthenticator>,
    /// MAC keys by client.
    keys: BTreeMap<ClientId, ReplyKey>,
    seen: BTreeMap<Digest, ()>,
    void_sequence: Option<u64>,
}

impl Echo {
    fn run(mut self, mut transport: TcpTransport, stop: &AtomicBool) {
        let mut events = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            transport.poll(None, &mut events).unwrap();
            for event in events.drain(..) {
                let Event::Received { link, frame, remote } = event else { continue };
                let quorate_network::transports::Remote::Client(client) = remote else { continue };
                transport.release(link, frame.len());
                let request = decode_message(frame).unwrap();
                self.introduce(client, &request);
                if let Some(reply) = self.answer(request) {
                    transport.send(link, self.authenticate(client, encode_message(&reply)));
                }
            }
        }
    }

    fn introduce(&mut self, client: ClientId, request: &ClientRequest) {
        let authenticator = match request {
            ClientRequest::Submit(bundle) => bundle.authenticator(),
            _ => None,
        };
        let credential = match request {
            ClientRequest::Introduce { credential } => Some(&credential[..]),
            _ => authenticator.map(|authenticator| authenticator.public_key),
        };
        if let Some(key) = self
            .authenticator
            .as_ref()
            .zip(credential)
            .and_then(|(authenticator, shown)| authenticator.key_of(client, shown))
        {
            self.keys.insert(client, key);
        }
    }

    fn authenticate(&self, client: ClientId, reply: Bytes) -> Bytes {
        let Some(authenticator) = self.authenticator.as_ref().filter(|_| self.manner != Manner::Unauthenticated) else {
            return reply;
        };
        let client_named = if self.manner == Manner::WrongSession { client.with_session(77) } else { client };
        AuthenticatedReplies::encode(&mut Encoder::default(), &[reply], |digest| {
            let tag = authenticator.authenticate(client_named, self.keys.get(&client), digest);
            tag.expect("a client introduces itself before it asks for anything")
        })
    }

    fn answer(&mut self, request: ClientRequest) -> Option<ReplicaReply> {
        if self.manner == Manner::Silent {
            return None;
        }
        Some(match request {
            ClientRequest::Submit(bundle) => self.execute(&bundle),
            ClientRequest::Query { id, question } => {
                let asked = match self.manner {
                    Manner::AskedAnother => Bytes::from_static(OTHER_QUESTION),
                    _ => question,
                };
                let question = question_digest(&asked);
                let answer = if self.manner == Manner::Lies { "a lie".into() } else { asked };
                ReplicaReply::Answer { id, question, height: Height(u64::from(self.replica.0)), answer }
            }
            ClientRequest::Status { id, .. } => {
                let json = serde_json::to_vec(&self.status()).unwrap();
                ReplicaReply::Status { id, json: json.into() }
            }
            ClientRequest::Height { id } => ReplicaReply::Height { id, height: self.height() },
            ClientRequest::Introduce { .. } | ClientRequest::Prove { .. } | ClientRequest::Support { .. } => {
                return None;
            }
            ClientRequest::Compare { id, .. } => {
                ReplicaReply::Compared { id, differing: Parameters::default(), max_frame_bytes: u32::MAX }
            }
        })
    }

    fn execute(&mut self, bundle: &Bundle) -> ReplicaReply {
        let genuine = bundle.authenticator().is_none() || self.verifier.forged([bundle]).is_empty();
        assert!(genuine, "a client's signature is forged");
        if self.manner == Manner::RefusesOnce && self.seen.insert(bundle.digest(), ()).is_none() {
            return ReplicaReply::Refused { bundle: bundle.digest(), why: "come again".to_owned(), again: true };
        }
        if self.manner == Manner::Rejects {
            return ReplicaReply::Refused { bundle: bundle.digest(), why: "not here".to_owned(), again: false };
        }
        let void = match self.manner {
            Manner::ExpiresOnce => Some(Outcome::Expired),
            Manner::ForgetsOnce => Some(Outcome::Forgotten),
            _ => None,
        };
        if let Some(void) = void.filter(|_| self.seen.is_empty() || self.seen.contains_key(&bundle.digest())) {
            self.seen.insert(bundle.digest(), ());
            self.void_sequence = bundle.commands().next().map(|command| command.sequence);
            let results = Results::collect(bundle.commands().map(|_| void));
            return ReplicaReply::Executed { bundle: bundle.digest(), height: Height(0), results };
        }
        if let Some(void) = self.void_sequence.take() {
            assert_eq!(
                bundle.expires(),
                self.height().latest_expiry(),
                "the bundle is not signed for the current height"
            );
            let again = bundle.commands().next().map(|command| command.sequence) == Some(void);
            assert_eq!(again, self.manner == Manner::ExpiresOnce, "only an expired command may be signed again");
        }
        let results = match self.manner {
            Manner::Lies => Results::collect(bundle.commands().map(|_| Outcome::Executed(b"a lie"))),
            Manner::Acknowledges => Results::all_empty(0),
            _ => Results::collect(bundle.commands().map(|command| Outcome::Executed(command.payload))),
        };
        ReplicaReply::Executed { bundle: bundle.digest(), height: Height(1), results }
    }

    fn height(&self) -> Height {
        Height(if self.seen.is_empty() || self.manner != Manner::ExpiresOnce { 1 } else { 2_000_000 })
    }

    fn status(&self) -> Status {
        Status {
            replica: self.replica,
            view: View(4),
            leader: ReplicaId(0),
            height: Height(3),
            committed_commands: 2,
            committed_blocks: 1,
            ..Status::default()
        }
    }
}
