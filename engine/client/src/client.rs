//! A client that executes one command at a time and waits for its result.

use crate::client_error::ClientError;
use crate::config::ClientConfig;
use crate::connection::{Connection, Incoming};
use crate::distrust::Distrusted;
use crate::quorum_reply::ReplyQuorum;
use crate::reach::{Reach, ReachLog};
use crate::session::{Accepted, SessionOptions};
use bytes::Bytes;
use quorate_crypto::{ClientIdentity, ReplyVerifier};
use quorate_network::transports::Transport;
use quorate_types::level::SYSTEM_SEQUENCE;
use quorate_types::limits::MAX_PAYLOAD_BYTES;
use quorate_types::{
    Bundle, BundleBuilder, ClientId, ClientRequest, Height, Outcome, ReplicaId, ReplyMode, Results, Time,
    encode_message, question_digest,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Blocking client with one session. It trusts a reply given by f+1 replicas, since one of them is honest.
pub struct Client {
    connection: Connection<()>,
    sequence: u64,
    question: u64,
}

impl Client {
    /// Connects to a cluster under a new, unique id.
    pub fn connect(config: &ClientConfig) -> Result<Client, ClientError> {
        Connection::open(config).map(Client::new)
    }

    /// Counts only replies with an authenticator that the verifier accepts.
    pub fn with_verifier(mut self, verifier: Option<ReplyVerifier>) -> Client {
        self.connection.verify_with(verifier);
        self
    }

    /// Returns a client with the given transport, which must be bound to the origin of `identity`. No other client may
    /// use the identity, because this one numbers its commands from the identity's base.
    pub fn over(
        transport: Box<dyn Transport>,
        identity: ClientIdentity,
        session: SessionOptions,
        connect_timeout: Duration,
        request_timeout: Duration,
    ) -> Result<Client, ClientError> {
        let timeouts = (connect_timeout, request_timeout);
        Connection::over(transport, identity, session, timeouts, ReachLog::default()).map(Client::new)
    }

    fn new(connection: Connection<()>) -> Client {
        // No query of a run has the number of an earlier run's query; otherwise an attacker could replay replies to
        // that one.
        let base = connection.identity.sequence_base();
        Client { connection, sequence: base, question: base }
    }

    pub fn id(&self) -> ClientId {
        self.connection.id()
    }

    /// Returns the frames in which replicas signed their replies to the last command, if they sign replies.
    /// [`quorate_crypto::check_signed_replies`] checks them and documents what they prove to others.
    pub fn signed_replies(&self) -> &BTreeMap<ReplicaId, Bytes> {
        &self.connection.signed
    }

    /// Returns the replicas whose frames did not count, with the first reason for each.
    pub fn distrusted(&self) -> &Distrusted {
        &self.connection.distrusted
    }

    pub fn reach(&mut self) -> Reach {
        self.connection.reach()
    }

    /// Orders and executes a command, and returns the result given by f+1 replicas. The command is executed at most
    /// once, no matter how often it is sent. After [`ClientError::Timeout`] it may have been executed, or may be
    /// executed later, until its bundle expires.
    pub fn execute(&mut self, payload: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.sequence += 1;
        let (bundle, results) = self.order(self.sequence, payload)?;
        match first_outcome(&results) {
            Outcome::Executed(result) => Ok(result.to_vec()),
            Outcome::Duplicate => Err(ClientError::ResultForgotten),
            Outcome::Refused => Err(ClientError::Refused { until: bundle.expires() }),
            Outcome::Forgotten | Outcome::Expired => Err(ClientError::OutcomeUnknown),
        }
    }

    /// Orders a command to the replicas' executors instead of the application, such as a
    /// [`LevelChange`](quorate_types::LevelChange). Returns its result; `None` if it had no effect when it was
    /// executed.
    pub fn execute_system(&mut self, payload: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        let (_, results) = self.order(SYSTEM_SEQUENCE, payload)?;
        match first_outcome(&results) {
            Outcome::Executed(result) => Ok(Some(result.to_vec())),
            _ => Ok(None),
        }
    }

    /// Orders a command, and returns its last bundle and the bundle's results.
    fn order(&mut self, sequence: u64, payload: &[u8]) -> Result<(Bundle, Results), ClientError> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(ClientError::PayloadTooLarge(payload.len()));
        }
        let deadline = self.connection.now() + self.connection.request_timeout;
        if self.connection.session.options().reply == ReplyMode::None {
            // If only this client has that mode, the comparison reports it.
            self.connection.locate(deadline, |_| {})?;
            return Err(ClientError::NoReplies);
        }
        loop {
            self.connection.locate(deadline, |_| {})?;
            let mut builder = BundleBuilder::new(self.id(), self.connection.session.expiry());
            builder.push(self.id(), sequence, payload);
            let bundle = self.connection.identity.finish(builder);
            self.connection.check_length(&bundle)?;
            let results = self.submit(&bundle, deadline)?;
            if first_outcome(&results) != Outcome::Expired {
                return Ok((bundle, results));
            }
            // An honest replica states that it was not and never will be executed. Only now is it safe to sign the
            // command again.
            self.connection.located = None;
        }
    }

    /// Returns a warning about the configuration key that makes the client slow, with the remedy.
    pub fn warning(&self) -> Option<String> {
        self.connection.session.warning()
    }

    fn submit(&mut self, bundle: &Bundle, deadline: Time) -> Result<Results, ClientError> {
        self.connection.signed.clear();
        let submitted =
            self.connection.session.submit(self.connection.now(), bundle, (), &mut self.connection.outgoing);
        submitted.expect("one command is outstanding at a time, each with a new sequence number");
        let mut accepted = None;
        while self.connection.now() < deadline {
            if self.connection.session.is_rejected(bundle.digest()) {
                self.connection.session.abandon(bundle.digest());
                let why = self.connection.session.last_refusal().map_or(String::new(), |(_, why)| why.to_owned());
                return Err(ClientError::Rejected(why));
            }
            self.connection.pump(deadline, |incoming| {
                if let Incoming::Accepted(bundle) = incoming {
                    accepted = Some(bundle);
                }
            })?;
            if let Some(Accepted { height, results, .. }) = accepted {
                // Height 0 marks a bundle that was not ordered.
                if height > Height(0) {
                    self.connection.located = Some(self.connection.now());
                }
                return Ok(results);
            }
        }
        let (answered, distinct) = self.connection.session.answered(bundle.digest());
        let is_busy = self.connection.session.is_turned_away(bundle.digest()) && answered.is_empty();
        self.connection.session.abandon(bundle.digest());
        if let Some(refusal) = self.connection.refusal().filter(|_| is_busy) {
            return Err(ClientError::Busy { after: self.connection.request_timeout, refusal });
        }
        Err(self.connection.timeout(true, answered, distinct))
    }

    /// Reads the application's state without ordering, and returns the answer given by f+1 replicas. It describes the
    /// state of an honest replica, which may lag behind. To read the latest state, [`execute`] a command that reads.
    ///
    /// [`execute`]: Client::execute
    pub fn query(&mut self, question: &[u8]) -> Result<Vec<u8>, ClientError> {
        if question.len() > MAX_PAYLOAD_BYTES {
            return Err(ClientError::PayloadTooLarge(question.len()));
        }
        let (question, digest) = (Bytes::copy_from_slice(question), question_digest(question));
        let (needed, retry) =
            (self.connection.session.options().quorum.weak(), self.connection.session.options().retry);
        let deadline = self.connection.now() + self.connection.request_timeout;
        loop {
            // Each attempt has a new id: answers to an earlier one may describe another state, so they do not count.
            self.question += 1;
            let asked = self.question;
            let frame = encode_message(&ClientRequest::Query { id: asked, question: question.clone() });
            self.connection.session.ask(asked, frame, &mut self.connection.outgoing);
            let attempt_ends = (self.connection.now() + retry).min(deadline);
            let mut answers = ReplyQuorum::default();
            let mut agreed = None;
            while agreed.is_none() && self.connection.now() < attempt_ends {
                self.connection.pump(attempt_ends, |incoming| match incoming {
                    // The authenticator of an answer covers the digest of the query, so it is not valid for a different
                    // query with the same number.
                    Incoming::Answer { from, id, question, answer }
                        if (id, question) == (asked, digest) && agreed.is_none() =>
                    {
                        agreed = answers.add(from, answer, needed);
                    }
                    _ => {}
                })?;
                self.connection.check_answers()?;
            }
            if let Some(answer) = agreed {
                return Ok(answer.to_vec());
            }
            if self.connection.now() >= deadline {
                return Err(self.connection.timeout(false, answers.replicas(), answers.distinct()));
            }
        }
    }
}

fn first_outcome(results: &Results) -> Outcome<'_> {
    results.outcomes().next().expect("one command has one outcome")
}
