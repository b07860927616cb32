//! A client's connection to a cluster: its transport, session and clock, driven by the thread that owns it.

use crate::client_error::{ClientError, NoQuorum};
use crate::config::ClientConfig;
use crate::connect::{ConnectError, connect, new_identity, reply_verifier};
use crate::distrust::Distrusted;
use crate::outgoing::{Destination, Outgoing};
use crate::reach::{Reach, ReachLog, Wanted, await_replicas};
use crate::session::{Accepted, Session, SessionOptions};
use bytes::Bytes;
use quorate_crypto::{ClientIdentity, ReplyFault, ReplyVerifier};
use quorate_network::transports::{Event, Remote, Transport};
use quorate_types::{
    Bundle, ClientId, ClientRequest, Digest, Dissemination, Lane, ReplicaId, ReplicaReply, Signers, Time,
    decode_message, encode_message,
};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Maximum duration of one poll.
pub(crate) const MAX_WAIT: Duration = Duration::from_millis(50);
/// Minimum duration of one poll, whose timeout is in whole milliseconds.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// Time for which a known height stays valid. After it, the client requests the height before it signs a command.
const HEIGHT_FRESHNESS: Duration = Duration::from_secs(1);

/// A connected client with one session, which attaches a `T` to each outstanding bundle.
pub(crate) struct Connection<T> {
    transport: Box<dyn Transport>,
    pub session: Session<T>,
    pub request_timeout: Duration,
    pub identity: ClientIdentity,
    clock: Instant,
    /// When the client last learned the cluster's height.
    pub located: Option<Time>,
    log: ReachLog,
    /// `None` if the channel alone authenticates replies.
    verifier: Option<ReplyVerifier>,
    pub distrusted: Distrusted,
    /// Signed replies to the bundles outstanding since it was last cleared.
    pub signed: BTreeMap<ReplicaId, Bytes>,
    events: Vec<Event>,
    pub outgoing: Vec<Outgoing>,
}

/// A reply on which its owner acts.
pub(crate) enum Incoming<T> {
    Accepted(Accepted<T>),
    Answer { from: ReplicaId, id: u64, question: Digest, answer: Bytes },
}

impl<T> Incoming<T> {
    /// Returns the accepted bundle, if it is one.
    pub fn accepted(self) -> Option<Accepted<T>> {
        match self {
            Incoming::Accepted(bundle) => Some(bundle),
            Incoming::Answer { .. } => None,
        }
    }
}

impl<T> Connection<T> {
    /// Connects to a cluster under a new, unique id.
    pub fn open(config: &ClientConfig) -> Result<Connection<T>, ClientError> {
        let identity = new_identity(config)?;
        let session = config.session().map_err(ConnectError::from)?;
        let connect_timeout = Duration::from_millis(config.connect_timeout_ms);
        let request_timeout = Duration::from_millis(config.request_timeout_ms);
        let transport = connect(config, identity.origin())?;
        let verifier = reply_verifier(config, &identity)?;
        let timeouts = (connect_timeout, request_timeout);
        let mut connection = Connection::over(transport, identity, session, timeouts, ReachLog::of(config))?;
        connection.session.compare(&config.terms(&session));
        connection.verify_with(verifier);
        Ok(connection)
    }

    /// Counts only replies with an authenticator that the verifier accepts.
    pub fn verify_with(&mut self, verifier: Option<ReplyVerifier>) {
        self.session.introduce_with(verifier.as_ref().and_then(ReplyVerifier::introduction));
        self.verifier = verifier;
    }

    /// Waits on a transport until enough replicas are connected.
    pub fn over(
        mut transport: Box<dyn Transport>,
        identity: ClientIdentity,
        session: SessionOptions,
        (connect_timeout, request_timeout): (Duration, Duration),
        mut log: ReachLog,
    ) -> Result<Connection<T>, ClientError> {
        let needed = session.quorum.weak();
        let replicas = session.quorum.replicas();
        // A bundle for all replicas needs only a quorum to start; a bundle for one replica needs that one.
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
        reach.unreached.keys().for_each(|replica| session.on_disconnected(*replica));
        Ok(Connection {
            transport,
            session,
            request_timeout,
            identity,
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

    /// Returns a function that ends a wait from another thread.
    pub fn waker(&self) -> std::sync::Arc<dyn Fn() + Send + Sync> {
        self.transport.waker()
    }

    pub fn reach(&mut self) -> Reach {
        let replicas = self.replicas();
        self.log.reach(&mut *self.transport, replicas)
    }

    pub fn replicas(&self) -> usize {
        self.session.options().quorum.replicas()
    }

    pub fn now(&self) -> Time {
        Time(self.clock.elapsed().as_nanos() as u64)
    }

    /// Refuses a bundle whose frame is so long that replicas would close the link.
    pub fn check_length(&self, bundle: &Bundle) -> Result<(), ClientError> {
        let bytes = encode_message(&ClientRequest::Submit(bundle.clone())).len();
        match self.session.frame_limit().filter(|limit| bytes > *limit) {
            Some(limit) => Err(ClientError::FrameTooLong { bytes, limit }),
            None => Ok(()),
        }
    }

    /// Requests the cluster's height, unless it was learned less than [`HEIGHT_FRESHNESS`] ago. Passes replies received
    /// meanwhile to `take`.
    pub fn locate(&mut self, deadline: Time, mut take: impl FnMut(Incoming<T>)) -> Result<(), ClientError> {
        let (quorum, retry) = (self.session.options().quorum, self.session.options().retry);
        if self.located.is_some_and(|at| self.now().since(at) < HEIGHT_FRESHNESS) {
            return Ok(());
        }
        self.session.ask_height(&mut self.outgoing);
        loop {
            let attempt_ends = (self.now() + retry).min(deadline);
            let all = quorum.replicas() - quorum.faults();
            while self.session.answered_height().len() < all && self.now() < attempt_ends {
                self.pump(attempt_ends, &mut take)?;
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

    /// Fails if the replicas' configuration differs, or they do not answer this client.
    pub fn check_answers(&self) -> Result<(), ClientError> {
        let differences = self.session.differences();
        if !differences.is_empty() {
            return Err(ClientError::Configuration(differences));
        }
        self.session.unanswered().map_or(Ok(()), |why| Err(ClientError::Unanswered(why.to_owned())))
    }

    /// Returns the last refusal of a command, with its sender.
    pub fn refusal(&self) -> Option<String> {
        self.session.last_refusal().map(in_words)
    }

    pub fn timeout(&mut self, ordered: bool, answered: Signers, distinct: usize) -> ClientError {
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
    pub fn pump(&mut self, deadline: Time, mut take: impl FnMut(Incoming<T>)) -> io::Result<()> {
        let now = self.now();
        self.session.prove(&self.identity, &mut self.outgoing);
        self.session.poll(now, &mut self.outgoing);
        // The session resends the bundles after the wait.
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
