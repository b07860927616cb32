//! A client that executes one command at a time and waits for its result.

use crate::config::ClientConfig;
use crate::connect::{ConnectError, connect, new_identity, reply_verifier};
use crate::distrust::Distrusted;
use crate::outgoing::{Destination, Outgoing};
use crate::quorum_reply::ReplyQuorum;
use crate::reach::{Reach, ReachLog, Wanted, await_replicas};
use crate::session::{Accepted, Session, SessionOptions, frame_too_long};
use bytes::Bytes;
use quorate_crypto::{ClientIdentity, ReplyFault, ReplyVerifier};
use quorate_network::transports::{Event, Remote, Transport};
use quorate_types::limits::MAX_PAYLOAD_BYTES;
use quorate_types::parameters::list;
use quorate_types::{
    Bundle, BundleBuilder, ClientId, ClientRequest, Difference, Digest, Dissemination, Height, Lane, Outcome,
    ReplicaId, ReplicaReply, ReplyMode, Results, Signers, Time, decode_message, encode_message, question_digest,
};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Maximum duration of one poll.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Minimum duration of one poll, whose timeout is in whole milliseconds.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// Time for which a known height stays valid. After it, the client asks for the height before it signs a command.
const HEIGHT_FRESHNESS: Duration = Duration::from_secs(1);

/// Reason why a client has no result.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{reach}; {needed} are needed to trust a reply; help: start the missing ones, or correct their addresses")]
    Unreachable { reach: Reach, needed: usize },
    #[error(
        "the cluster runs with `reply = \"none\"`, which is for measurements: its replicas send no results; help: set \
         `reply = \"each\"` on all replicas and clients"
    )]
    NoReplies,
    #[error("a command of {0} bytes is over the limit of {MAX_PAYLOAD_BYTES} bytes; help: split it")]
    PayloadTooLarge(usize),
    /// No result in time. The command may have been executed, or may be executed later.
    #[error(transparent)]
    Timeout(Box<NoQuorum>),
    #[error("the command was executed, but the replicas no longer keep its result; help: query the state instead")]
    ResultForgotten,
    #[error(
        "the command may or may not have been executed, and will not be from now on: other clients' sessions evicted \
         its session; help: check the state before you send it again"
    )]
    OutcomeUnknown,
    #[error(
        "the replicas refused the command because the results of its block are too large: it had no effect, \
         unless someone sends the same bundle again before height {until}"
    )]
    Refused { until: Height },
    /// f+1 replicas refused the command permanently, so at least one honest one did.
    #[error("the replicas refused the command: {0}")]
    Rejected(String),
    /// f+1 replicas have other values in their configuration.
    #[error("client.toml does not fit the cluster: {}; help: set it as it is there", list(.0))]
    Configuration(Vec<Difference>),
    /// f+1 replicas end the link of a client that sends so long a frame, which was not sent.
    #[error("{}", frame_too_long(*.bytes, *.limit))]
    FrameTooLong { bytes: usize, limit: usize },
    /// f+1 replicas refused to answer this client's questions.
    #[error("the replicas do not answer this client's questions: {0}")]
    Unanswered(String),
    /// The replicas were overloaded until the timeout, and refused the command each time. One that refused it may have
    /// been a liar that lets it be executed later.
    #[error(
        "the cluster is overloaded: it refused the command for {after:?} ({refusal}); help: try again later, and check \
         before you send the command again"
    )]
    Busy { after: Duration, refusal: String },
    #[error("the client's transport failed: {0}")]
    Transport(#[from] io::Error),
}

/// Too few equal replies before the timeout.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no {needed} equal replies within {after:?} ({}; {reach}{}{}){}",
    answers(*.distinct, .answered),
    if .distrusted.is_empty() { String::new() } else { format!("; {distrusted}") },
    .refusal.as_ref().map_or(String::new(), |why| format!("; the last refusal was from {why}")),
    if *.ordered { ": the command may still be executed; help: check before you send it again" }
    else { "; help: try again" })]
/// Fewer equal replies than needed arrived in time.
pub struct NoQuorum {
    /// The request was a command, not a query.
    pub ordered: bool,
    pub after: Duration,
    /// Number of equal replies needed.
    pub needed: usize,
    pub answered: Signers,
    /// Number of different replies.
    pub distinct: usize,
    pub reach: Reach,
    /// Replicas whose frames did not count.
    pub distrusted: Distrusted,
    /// The last refusal, with its sender.
    pub refusal: Option<String>,
}

fn answers(distinct: usize, answered: &Signers) -> String {
    let names: Vec<String> = answered.iter().map(|replica| replica.to_string()).collect();
    match names.len() {
        0 => "no replica answered".to_owned(),
        1 => format!("only replica {} answered", names[0]),
        _ => format!("{distinct} different replies from replicas {}", names.join(", ")),
    }
}

/// Blocking client with one session. It trusts a reply that f+1 replicas gave, since one of them is honest.
pub struct Client {
    transport: Box<dyn Transport>,
    session: Session<()>,
    request_timeout: Duration,
    identity: ClientIdentity,
    sequence: u64,
    question: u64,
    clock: Instant,
    /// When the client last learned the height of the cluster.
    located: Option<Time>,
    log: ReachLog,
    /// `None` if the channel alone authenticates replies.
    verifier: Option<ReplyVerifier>,
    distrusted: Distrusted,
    /// Signed replies to the last command.
    signed: BTreeMap<ReplicaId, Bytes>,
    events: Vec<Event>,
    outgoing: Vec<Outgoing>,
}

enum Incoming {
    Accepted(Accepted<()>),
    Answer { from: ReplicaId, id: u64, question: Digest, answer: Bytes },
}

impl Client {
    /// Connects to a cluster under a new, unique id.
    pub fn connect(config: &ClientConfig) -> Result<Client, ClientError> {
        let identity = new_identity(config)?;
        let session = config.session().map_err(ConnectError::from)?;
        let connect_timeout = Duration::from_millis(config.connect_timeout_ms);
        let request_timeout = Duration::from_millis(config.request_timeout_ms);
        let transport = connect(config, identity.origin())?;
        let verifier = reply_verifier(config, &identity)?;
        let timeouts = (connect_timeout, request_timeout);
        let mut client = Client::logged(transport, identity, session, timeouts, ReachLog::of(config))?;
        client.session.compare(&config.terms(&session));
        Ok(client.with_verifier(verifier))
    }

    /// Counts only replies with a seal that the verifier accepts.
    pub fn with_verifier(mut self, verifier: Option<ReplyVerifier>) -> Client {
        self.session.introduce_with(verifier.as_ref().and_then(ReplyVerifier::introduction));
        self.verifier = verifier;
        self
    }

    /// Returns a client with its own transport, which must be bound to the origin of `identity`. No other client may
    /// use the identity, because this one numbers its commands from its base on.
    pub fn over(
        transport: Box<dyn Transport>,
        identity: ClientIdentity,
        session: SessionOptions,
        connect_timeout: Duration,
        request_timeout: Duration,
    ) -> Result<Client, ClientError> {
        let timeouts = (connect_timeout, request_timeout);
        Client::logged(transport, identity, session, timeouts, ReachLog::default())
    }

    fn logged(
        mut transport: Box<dyn Transport>,
        identity: ClientIdentity,
        session: SessionOptions,
        (connect_timeout, request_timeout): (Duration, Duration),
        mut log: ReachLog,
    ) -> Result<Client, ClientError> {
        let needed = session.quorum.weak();
        let replicas = session.quorum.replicas();
        // A bundle for all replicas only needs a quorum now; a bundle for one replica needs that one.
        let at_once = match session.dissemination {
            Dissemination::Client => session.quorum.quorum(),
            Dissemination::Leader | Dissemination::Replicas | Dissemination::ReplicasCertified => replicas,
        };
        let wanted = Wanted { replicas, enough: needed, at_once, including: None };
        let (reach, enough) = await_replicas(&mut *transport, &mut log, wanted, connect_timeout, || true)?;
        if !enough {
            return Err(ClientError::Unreachable { reach, needed });
        }
        let mut session = Session::new(session);
        // No question of a run has the number of an earlier one, to which somebody could repeat the replies.
        let (sequence, question) = (identity.sequence_base(), identity.sequence_base());
        reach.unreached.keys().for_each(|replica| session.on_disconnected(*replica));
        Ok(Client {
            transport,
            session,
            request_timeout,
            identity,
            sequence,
            question,
            clock: Instant::now(),
            located: None,
            log,
            verifier: None,
            distrusted: Distrusted::default(),
            signed: BTreeMap::new(),
            events: Vec::new(),
            outgoing: Vec::new(),
        })
    }

    pub fn id(&self) -> ClientId {
        self.identity.origin()
    }

    /// Returns the frames with which replicas signed their replies to the last command, if they sign replies.
    /// [`quorate_crypto::check_signed_replies`] checks them and says what they prove to others.
    pub fn signed_replies(&self) -> &BTreeMap<ReplicaId, Bytes> {
        &self.signed
    }

    /// Returns the replicas whose frames did not count, with the first reason for each.
    pub fn distrusted(&self) -> &Distrusted {
        &self.distrusted
    }

    pub fn reach(&mut self) -> Reach {
        let replicas = self.replicas();
        self.log.reach(&mut *self.transport, replicas)
    }

    /// Orders and executes a command, and returns the result that f+1 replicas gave. The command is executed at most
    /// once, no matter how often it is sent. After [`ClientError::Timeout`] it may have been executed, or may be
    /// executed later, until its bundle expires.
    pub fn execute(&mut self, payload: &[u8]) -> Result<Vec<u8>, ClientError> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(ClientError::PayloadTooLarge(payload.len()));
        }
        let deadline = self.now() + self.request_timeout;
        if self.session.options().reply == ReplyMode::None {
            // If only this client has that mode, the comparison says so.
            self.locate(deadline)?;
            return Err(ClientError::NoReplies);
        }
        self.sequence += 1;
        loop {
            self.locate(deadline)?;
            let mut builder = BundleBuilder::new(self.id(), self.session.expiry());
            builder.push(self.id(), self.sequence, payload);
            let bundle = self.identity.finish(builder);
            self.check_length(&bundle)?;
            let results = self.submit(&bundle, deadline)?;
            match results.outcomes().next().expect("one command has one outcome") {
                Outcome::Executed(result) => return Ok(result.to_vec()),
                Outcome::Duplicate => return Err(ClientError::ResultForgotten),
                Outcome::Refused => return Err(ClientError::Refused { until: bundle.expires() }),
                Outcome::Forgotten => return Err(ClientError::OutcomeUnknown),
                // An honest replica states that it was not and never will be executed. Only now is it safe to sign
                // again.
                Outcome::Expired => self.located = None,
            }
        }
    }

    /// Refuses a bundle whose frame would end the links that carry it.
    fn check_length(&self, bundle: &Bundle) -> Result<(), ClientError> {
        let bytes = encode_message(&ClientRequest::Submit(bundle.clone())).len();
        match self.session.frame_limit().filter(|limit| bytes > *limit) {
            Some(limit) => Err(ClientError::FrameTooLong { bytes, limit }),
            None => Ok(()),
        }
    }

    /// Returns a warning that names the key with which the client works slowly, and the remedy.
    pub fn warning(&self) -> Option<String> {
        self.session.warning()
    }

    /// Asks for the height of the cluster, unless it was learned less than [`HEIGHT_FRESHNESS`] ago.
    fn locate(&mut self, deadline: Time) -> Result<(), ClientError> {
        let (quorum, retry) = (self.session.options().quorum, self.session.options().retry);
        if self.located.is_some_and(|at| self.now().since(at) < HEIGHT_FRESHNESS) {
            return Ok(());
        }
        self.session.ask_height(&mut self.outgoing);
        loop {
            let attempt_ends = (self.now() + retry).min(deadline);
            let all = quorum.replicas() - quorum.faults();
            while self.session.answered_height().len() < all && self.now() < attempt_ends {
                self.pump(attempt_ends, |_| {})?;
                self.check_answers()?;
            }
            let answered = self.session.answered_height();
            if answered.len() >= quorum.weak() {
                self.located = Some(self.now());
                return Ok(());
            }
            if self.now() >= deadline {
                return Err(self.timeout(false, answered, answered.len()));
            }
            self.session.ask_height_again(&mut self.outgoing);
        }
    }

    fn submit(&mut self, bundle: &Bundle, deadline: Time) -> Result<Results, ClientError> {
        self.signed.clear();
        let submitted = self.session.submit(self.now(), bundle, (), &mut self.outgoing);
        submitted.expect("one command is outstanding at a time, each with a new sequence number");
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
                // Height 0 marks a bundle that was not ordered.
                if height > Height(0) {
                    self.located = Some(self.now());
                }
                return Ok(results);
            }
        }
        let (answered, distinct) = self.session.answered(bundle.digest());
        let is_busy = self.session.is_turned_away(bundle.digest()) && answered.is_empty();
        self.session.abandon(bundle.digest());
        if let Some(refusal) = self.refusal().filter(|_| is_busy) {
            return Err(ClientError::Busy { after: self.request_timeout, refusal });
        }
        Err(self.timeout(true, answered, distinct))
    }

    /// Reads the application's state without ordering, and returns the answer that f+1 replicas gave. It is a state of
    /// an honest replica, which may lag behind. To read the latest state, [`execute`] a command that reads.
    ///
    /// [`execute`]: Client::execute
    pub fn query(&mut self, question: &[u8]) -> Result<Vec<u8>, ClientError> {
        if question.len() > MAX_PAYLOAD_BYTES {
            return Err(ClientError::PayloadTooLarge(question.len()));
        }
        let (question, digest) = (Bytes::copy_from_slice(question), question_digest(question));
        let (needed, retry) = (self.session.options().quorum.weak(), self.session.options().retry);
        let deadline = self.now() + self.request_timeout;
        loop {
            // Each attempt has a new id: answers to an earlier one may describe another state, and do not count.
            self.question += 1;
            let asked = self.question;
            let frame = encode_message(&ClientRequest::Query { id: asked, question: question.clone() });
            self.session.ask(asked, frame, &mut self.outgoing);
            let attempt_ends = (self.now() + retry).min(deadline);
            let mut answers = ReplyQuorum::default();
            let mut agreed = None;
            while agreed.is_none() && self.now() < attempt_ends {
                self.pump(attempt_ends, |incoming| match incoming {
                    // The seal of an answer holds for the question that it names, and for no other of that number.
                    Incoming::Answer { from, id, question, answer }
                        if (id, question) == (asked, digest) && agreed.is_none() =>
                    {
                        agreed = answers.add(from, answer, needed);
                    }
                    _ => {}
                })?;
                self.check_answers()?;
            }
            if let Some(answer) = agreed {
                return Ok(answer.to_vec());
            }
            if self.now() >= deadline {
                return Err(self.timeout(false, answers.replicas(), answers.distinct()));
            }
        }
    }

    /// Fails if the replicas' configuration differs, or they do not answer this client.
    fn check_answers(&self) -> Result<(), ClientError> {
        let differences = self.session.differences();
        if !differences.is_empty() {
            return Err(ClientError::Configuration(differences));
        }
        self.session.unanswered().map_or(Ok(()), |why| Err(ClientError::Unanswered(why.to_owned())))
    }

    fn replicas(&self) -> usize {
        self.session.options().quorum.replicas()
    }

    fn now(&self) -> Time {
        Time(self.clock.elapsed().as_nanos() as u64)
    }

    /// Returns the last refusal of a command, with its sender.
    fn refusal(&self) -> Option<String> {
        self.session.last_refusal().map(in_words)
    }

    fn timeout(&mut self, ordered: bool, answered: Signers, distinct: usize) -> ClientError {
        let needed = self.session.options().quorum.weak();
        let refusal = if ordered { self.refusal() } else { self.session.last_unanswered().map(in_words) };
        ClientError::Timeout(Box::new(NoQuorum {
            ordered,
            after: self.request_timeout,
            needed,
            answered,
            distinct,
            refusal,
            distrusted: self.distrusted.clone(),
            reach: self.reach(),
        }))
    }

    /// Sends all pending frames, waits for replies until a retry or the deadline is due, and passes replies to `take`.
    fn pump(&mut self, deadline: Time, mut take: impl FnMut(Incoming)) -> io::Result<()> {
        let now = self.now();
        self.session.prove(&self.identity, &mut self.outgoing);
        self.session.poll(now, &mut self.outgoing);
        // The session sends them again after the wait.
        self.session.take_turned_away();
        for Outgoing { to, frame } in self.outgoing.drain(..) {
            match to {
                Destination::All => (0..self.session.options().quorum.replicas() as u16)
                    .for_each(|to| self.transport.send_to(ReplicaId(to), frame.clone(), Lane::Ordinary)),
                Destination::One(to) => self.transport.send_to(to, frame, Lane::Ordinary),
            }
        }
        let due = self.session.next_deadline().map_or(deadline, |retry| retry.min(deadline));
        let wait = due.since(now).clamp(MIN_WAIT, MAX_WAIT);
        self.transport.poll(Some(wait), &mut self.events)?;
        let now = self.now();
        for event in self.events.drain(..) {
            match event {
                Event::Received { remote: Remote::Replica(from), frame, .. } => {
                    // A replica that sends garbage, or replies that are not authentic, is treated like a silent one.
                    let opened = match &self.verifier {
                        None => decode_message::<ReplicaReply>(frame).map(|reply| vec![reply]).map_err(Into::into),
                        Some(verifier) => {
                            let (session, signed) = (&self.session, &mut self.signed);
                            open(verifier, from, frame, |reply| session.awaits(reply), signed)
                        }
                    };
                    let replies = opened.unwrap_or_else(|fault| {
                        self.distrusted.note(from, &fault);
                        Vec::new()
                    });
                    for reply in replies {
                        match reply {
                            ReplicaReply::Answer { id, question, answer, .. } => {
                                take(Incoming::Answer { from, id, question, answer });
                            }
                            reply => {
                                if let Some(accepted) = self.session.receive(now, from, reply) {
                                    take(Incoming::Accepted(accepted));
                                }
                            }
                        }
                    }
                }
                Event::Disconnected { remote: Remote::Replica(replica), why, .. } => {
                    self.session.on_disconnected(replica);
                    self.log.on_disconnected(replica, why);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn in_words((from, why): (ReplicaId, &str)) -> String {
    format!("replica {from}: {why}")
}

/// Opens a frame, and keeps it if it is a signed reply to an outstanding bundle.
fn open(
    verifier: &ReplyVerifier,
    from: ReplicaId,
    frame: Bytes,
    mut awaits: impl FnMut(&ReplicaReply) -> bool,
    signed: &mut BTreeMap<ReplicaId, Bytes>,
) -> Result<Vec<ReplicaReply>, ReplyFault> {
    let replies = verifier.open(from, frame.clone(), &mut awaits)?;
    let is_outcome = |reply: &ReplicaReply| matches!(reply, ReplicaReply::Executed { .. }) && awaits(reply);
    if verifier.convinces_others() && replies.iter().any(is_outcome) {
        signed.insert(from, frame);
    }
    Ok(replies)
}
