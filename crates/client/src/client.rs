//! A client that executes one command at a time and waits for its result.

use crate::config::ClientConfig;
use crate::connect::{ConnectError, connect, new_identity};
use crate::quorum_reply::ReplyQuorum;
use crate::reach::{Reach, ReachLog, Wanted, await_replicas};
use crate::session::{Accepted, Destination, Outgoing, Session, SessionOptions};
use bytes::Bytes;
use quorate_crypto::ClientIdentity;
use quorate_transports::{Event, Remote, Transport};
use quorate_types::limits::MAX_PAYLOAD_BYTES;
use quorate_types::{
    Bundle, BundleBuilder, ClientId, ClientRequest, Dissemination, Height, Outcome, ReplicaId, ReplicaReply, ReplyMode,
    Results, Signers, Time, decode_message, encode_message,
};
use std::io;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Longest wait in one poll.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// Shortest wait that a poll is asked for, since it counts in milliseconds.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// After this long without news of where the cluster is, it is asked before a command is signed.
const HEIGHT_FRESHNESS: Duration = Duration::from_secs(1);

/// Why a client has no result.
#[derive(Debug, Error)]
pub enum ClientError {
    /// There is no way to the cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Too few replicas can be reached to believe any reply.
    #[error("{reach}; {needed} are needed to believe a reply: start the missing ones, or correct their addresses")]
    Unreachable {
        /// How things stand.
        reach: Reach,
        /// How many replicas are needed.
        needed: usize,
    },
    /// The cluster gives no results.
    #[error("the cluster runs with `reply = \"none\"`, which is for measurements: its replicas give no results")]
    NoReplies,
    /// The command is over the wire's limit.
    #[error("a command of {0} bytes is over the limit of {MAX_PAYLOAD_BYTES} bytes: split it")]
    PayloadTooLarge(usize),
    /// The time is over. A command may have been executed all the same, or may be later.
    #[error(transparent)]
    Timeout(Box<NoQuorum>),
    /// The command was executed before and its result is not kept.
    #[error("the command was executed, but its result is no longer kept by the replicas: ask for the state instead")]
    ResultForgotten,
    /// Nobody knows any more whether the command was executed.
    #[error(
        "the command will not be executed from now on, but whether it was is not known: so many other clients came that its session \
         was forgotten; look before it is sent again"
    )]
    OutcomeUnknown,
    /// The command was not executed.
    #[error(
        "the replicas refused the command, because its result or those before it in the block are too large: it has had no effect, \
         unless somebody sends the same bundle again before height {until}"
    )]
    Refused {
        /// When its bundle expires.
        until: Height,
    },
    /// So many replicas refused the command for good that an honest one is among them.
    #[error("the replicas refused the command: {0}")]
    Rejected(String),
    /// The transport failed.
    #[error("the client's transport failed: {0}")]
    Transport(#[from] io::Error),
}

/// Not enough replicas said the same in time.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no {needed} equal replies within {after:?} ({}; {reach}{}){}",
    answers(*.distinct, .answered),
    .refusal.as_ref().map_or(String::new(), |why| format!("; the last refusal was from {why}")),
    if *.ordered { ": the command may still be executed, so look before it is sent again" } else { ": try again" })]
pub struct NoQuorum {
    /// Whether a command was to be ordered.
    pub ordered: bool,
    /// The time that it was given.
    pub after: Duration,
    /// Equal replies that were needed.
    pub needed: usize,
    /// Who answered.
    pub answered: Signers,
    /// In how many different ways.
    pub distinct: usize,
    /// How things stand.
    pub reach: Reach,
    /// What a replica said, if one refused.
    pub refusal: Option<String>,
}

fn answers(distinct: usize, answered: &Signers) -> String {
    let names: Vec<String> = answered.iter().map(|replica| replica.to_string()).collect();
    match names.len() {
        0 => "no replica answered".to_owned(),
        1 => format!("replica {} alone answered", names[0]),
        _ => format!("{distinct} different ones from replicas {}", names.join(", ")),
    }
}

/// A blocking client with one session of its own. It believes what f+1 replicas say, since one of them is honest.
pub struct Client {
    transport: Box<dyn Transport>,
    session: Session<()>,
    request_timeout: Duration,
    identity: ClientIdentity,
    sequence: u64,
    question: u64,
    clock: Instant,
    /// When there was news of where the cluster is.
    located: Option<Time>,
    log: ReachLog,
    events: Vec<Event>,
    outgoing: Vec<Outgoing>,
}

/// What came in for the request that is waited for.
enum Incoming {
    Accepted(Accepted<()>),
    Answer { from: ReplicaId, id: u64, answer: Bytes },
}

impl Client {
    /// Connects to a cluster, under an id that no other client has.
    pub fn connect(config: &ClientConfig) -> Result<Client, ClientError> {
        let identity = new_identity(config)?;
        let session = config.session().map_err(ConnectError::from)?;
        let connect_timeout = Duration::from_millis(config.connect_timeout_ms);
        let request_timeout = Duration::from_millis(config.request_timeout_ms);
        let transport = connect(config, identity.origin())?;
        Client::over(transport, identity, session, connect_timeout, request_timeout)
    }

    /// A client over a transport that nobody else uses and that speaks for the origin of `identity`, whose commands are its
    /// sequence from 1: an identity is for one client.
    pub fn over(
        mut transport: Box<dyn Transport>,
        identity: ClientIdentity,
        session: SessionOptions,
        connect_timeout: Duration,
        request_timeout: Duration,
    ) -> Result<Client, ClientError> {
        let mut log = ReachLog::default();
        let needed = session.quorum.weak();
        let replicas = session.quorum.replicas();
        // Bundles for all find a quorum that orders them at once, and the others when they are connected. One that is for the leader
        // needs the leader.
        let at_once = match session.dissemination {
            Dissemination::Client => session.quorum.quorum(),
            Dissemination::Leader => replicas,
        };
        let wanted = Wanted { replicas, enough: needed, at_once, including: None };
        let (reach, enough) = await_replicas(&mut *transport, &mut log, wanted, connect_timeout, || true)?;
        if !enough {
            return Err(ClientError::Unreachable { reach, needed });
        }
        let mut session = Session::new(session);
        reach.unreached.keys().for_each(|replica| session.lost(*replica));
        Ok(Client {
            transport,
            session,
            request_timeout,
            identity,
            sequence: 0,
            question: 0,
            clock: Instant::now(),
            located: None,
            log,
            events: Vec::new(),
            outgoing: Vec::new(),
        })
    }

    /// This client's id.
    pub fn id(&self) -> ClientId {
        self.identity.origin()
    }

    /// Which replicas are connected.
    pub fn reach(&mut self) -> Reach {
        let replicas = self.replicas();
        self.log.reach(&mut *self.transport, replicas)
    }

    /// Has a command ordered and executed; its result is what f+1 replicas gave. It is executed at most once, however often it
    /// has to be sent. After [`ClientError::Timeout`] it may have been executed or not, or may be later: until its bundle expires.
    pub fn execute(&mut self, payload: &[u8]) -> Result<Vec<u8>, ClientError> {
        if self.session.options().reply == ReplyMode::None {
            return Err(ClientError::NoReplies);
        }
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(ClientError::PayloadTooLarge(payload.len()));
        }
        let deadline = self.now() + self.request_timeout;
        self.sequence += 1;
        loop {
            self.locate(deadline)?;
            let mut builder = BundleBuilder::new(self.id(), self.session.expiry());
            builder.push(self.id(), self.sequence, payload);
            let bundle = self.identity.finish(builder);
            let results = self.submit(&bundle, deadline)?;
            match results.outcomes().next().expect("one command has one outcome") {
                Outcome::Executed(result) => return Ok(result.to_vec()),
                Outcome::Duplicate => return Err(ClientError::ResultForgotten),
                Outcome::Refused => return Err(ClientError::Refused { until: bundle.expires() }),
                Outcome::Forgotten => return Err(ClientError::OutcomeUnknown),
                // An honest replica says that it was not executed and never will be: only now it may be signed again.
                Outcome::Expired => self.located = None,
            }
        }
    }

    /// Asks where the cluster is, unless there was news of it lately.
    fn locate(&mut self, deadline: Time) -> Result<(), ClientError> {
        let (quorum, retry) = (self.session.options().quorum, self.session.options().retry);
        if self.located.is_some_and(|at| self.now().since(at) < HEIGHT_FRESHNESS) {
            return Ok(());
        }
        self.session.ask_height(&mut self.outgoing);
        loop {
            let attempt_ends = (self.now() + retry).min(deadline);
            let all = quorum.replicas() - quorum.faults();
            while self.session.heights_told().len() < all && self.now() < attempt_ends {
                self.pump(attempt_ends, |_| {})?;
            }
            let told = self.session.heights_told();
            if told.len() >= quorum.weak() {
                self.located = Some(self.now());
                return Ok(());
            }
            if self.now() >= deadline {
                return Err(self.timeout(false, told, told.len()));
            }
            self.session.ask_height_again(&mut self.outgoing);
        }
    }

    fn submit(&mut self, bundle: &Bundle, deadline: Time) -> Result<Results, ClientError> {
        let submitted = self.session.submit(self.now(), bundle, (), &mut self.outgoing);
        submitted.expect("one command is outstanding at a time, each with its own number");
        let mut accepted = None;
        while self.now() < deadline {
            if self.session.is_rejected(bundle.digest()) {
                self.session.abandon(bundle.digest());
                let why = self.session.last_refusal().map_or(String::new(), |(_, why)| why.to_owned());
                return Err(ClientError::Rejected(why));
            }
            self.pump(deadline, |incoming| {
                if let Incoming::Accepted(bundle) = incoming {
                    accepted = Some(bundle);
                }
            })?;
            if let Some(Accepted { height, results, .. }) = accepted {
                // One that was not ordered, at height 0, does not tell where the cluster is.
                if height > Height(0) {
                    self.located = Some(self.now());
                }
                return Ok(results);
            }
        }
        let (answered, distinct) = self.session.answered(bundle.digest());
        self.session.abandon(bundle.digest());
        Err(self.timeout(true, answered, distinct))
    }

    /// Reads the application's state without having anything ordered: the answer that f+1 replicas gave. It may be stale: it is a
    /// state that an honest replica was in, and that replica may lag behind. To read what is certainly the latest, [`execute`] a
    /// command that reads.
    ///
    /// [`execute`]: Client::execute
    pub fn query(&mut self, question: &[u8]) -> Result<Vec<u8>, ClientError> {
        if question.len() > MAX_PAYLOAD_BYTES {
            return Err(ClientError::PayloadTooLarge(question.len()));
        }
        let question = Bytes::copy_from_slice(question);
        let (needed, retry) = (self.session.options().quorum.weak(), self.session.options().retry);
        let deadline = self.now() + self.request_timeout;
        loop {
            // A new name for each attempt: the state moves on, so answers to the last attempt do not count for this one.
            self.question += 1;
            let asked = self.question;
            let frame = encode_message(&ClientRequest::Query { id: asked, question: question.clone() });
            self.outgoing.push(Outgoing { to: Destination::All, frame });
            let attempt_ends = (self.now() + retry).min(deadline);
            let mut answers = ReplyQuorum::default();
            let mut believed = None;
            while believed.is_none() && self.now() < attempt_ends {
                self.pump(attempt_ends, |incoming| match incoming {
                    Incoming::Answer { from, id, answer } if id == asked && believed.is_none() => {
                        believed = answers.add(from, answer, needed);
                    }
                    _ => {}
                })?;
            }
            if let Some(answer) = believed {
                return Ok(answer.to_vec());
            }
            if self.now() >= deadline {
                return Err(self.timeout(false, answers.replicas(), answers.distinct()));
            }
        }
    }

    fn replicas(&self) -> usize {
        self.session.options().quorum.replicas()
    }

    fn now(&self) -> Time {
        Time(self.clock.elapsed().as_nanos() as u64)
    }

    fn timeout(&mut self, ordered: bool, answered: Signers, distinct: usize) -> ClientError {
        let needed = self.session.options().quorum.weak();
        let refusal = self.session.last_refusal().map(|(from, why)| format!("replica {from}: {why}"));
        ClientError::Timeout(Box::new(NoQuorum {
            ordered,
            after: self.request_timeout,
            needed,
            answered,
            distinct,
            refusal: refusal.filter(|_| ordered),
            reach: self.reach(),
        }))
    }

    /// Sends what is to be sent, waits until something comes or something is due, and hands out what came.
    fn pump(&mut self, deadline: Time, mut take: impl FnMut(Incoming)) -> io::Result<()> {
        let now = self.now();
        self.session.poll(now, &mut self.outgoing);
        for Outgoing { to, frame } in self.outgoing.drain(..) {
            match to {
                Destination::All => (0..self.session.options().quorum.replicas() as u16)
                    .for_each(|to| self.transport.send_to(ReplicaId(to), frame.clone())),
                Destination::One(to) => self.transport.send_to(to, frame),
            }
        }
        let due = self.session.next_deadline().map_or(deadline, |retry| retry.min(deadline));
        let wait = due.since(now).clamp(SHORTEST_WAIT, LONGEST_WAIT);
        self.transport.poll(Some(wait), &mut self.events)?;
        let now = self.now();
        for event in self.events.drain(..) {
            match event {
                Event::Received { remote: Remote::Replica(from), frame, .. } => {
                    // What is no reply is no answer either, and the replica that sent it is waited for no longer than a silent one.
                    let Ok(reply) = decode_message::<ReplicaReply>(frame) else { continue };
                    match reply {
                        ReplicaReply::Answer { id, answer, .. } => take(Incoming::Answer { from, id, answer }),
                        reply => {
                            if let Some(accepted) = self.session.receive(now, from, reply) {
                                take(Incoming::Accepted(accepted));
                            }
                        }
                    }
                }
                Event::Disconnected { remote: Remote::Replica(replica), why, .. } => {
                    self.session.lost(replica);
                    self.log.lost(replica, why);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
