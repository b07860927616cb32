//! Reading of replicas' counters over separate connections, so that it does not disturb a load.

use crate::config::ClientConfig;
use crate::connect::{ConnectError, connect, new_identity};
use crate::reach::{Reach, ReachLog};
use bytes::Bytes;
use quorate_crypto::ClientIdentity;
use quorate_network::transports::{Event, Remote, Transport};
use quorate_types::text::escaped;
use quorate_types::{
    ClientId, ClientRequest, Digest, FeatureLevel, Lane, LevelSupport, ReplicaId, ReplicaReply, Signers, Status,
    decode_message, encode_message,
};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Maximum duration of one poll, after which newly connected replicas are queried.
const SLICE: Duration = Duration::from_millis(20);

/// Client that requests the [`Status`] of replicas.
pub struct StatusProbe {
    transport: Box<dyn Transport>,
    replicas: usize,
    id: u64,
    log: ReachLog,
    events: Vec<Event>,
    prover: Option<Prover>,
    /// Reasons given by replicas for not answering the last query.
    unanswered: BTreeMap<ReplicaId, String>,
}

/// Proves the client's key to replicas that require it. Others answer without a proof, so the key is read only when
/// needed: it may need a passphrase.
struct Prover {
    config: ClientConfig,
    /// The id claimed on the probe's links.
    claimed: ClientId,
    identity: Option<Result<ClientIdentity, String>>,
}

impl Prover {
    /// Returns the proof for a challenge, or the reason why there is none.
    fn prove(&mut self, replica: ReplicaId, challenge: &Digest) -> Result<Bytes, String> {
        let config = &self.config;
        let identity =
            self.identity.get_or_insert_with(|| new_identity(config).map_err(|error| error.to_string())).as_ref();
        let proof = identity.map_err(Clone::clone)?.prove(replica, self.claimed, challenge);
        proof.ok_or_else(|| "it answers only clients that prove an admitted key, and this one has none".to_owned())
    }
}

impl StatusProbe {
    /// Returns a probe, which connects while it is used.
    pub fn connect(config: &ClientConfig) -> Result<Self, ConnectError> {
        let nobody = ClientConfig { key_file: None, ..config.clone() };
        let claimed = new_identity(&nobody)?.origin();
        let transport = connect(config, claimed)?;
        let prover = Prover { config: config.clone(), claimed, identity: None };
        let log = ReachLog::of(config);
        Ok(StatusProbe { prover: Some(prover), log, ..StatusProbe::over(transport, config.members.len()) })
    }

    /// Returns a probe with the given transport, which proves no key.
    pub fn over(transport: Box<dyn Transport>, replicas: usize) -> Self {
        StatusProbe {
            transport,
            replicas,
            id: 0,
            log: ReachLog::default(),
            events: Vec::new(),
            prover: None,
            unanswered: BTreeMap::new(),
        }
    }

    /// Requests every replica's status with its history. The result is indexed by replica id, with `None` for replicas
    /// that did not answer before the timeout.
    pub fn read_histories(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        self.ask(&status(true), self.replicas, timeout)
    }

    /// Requests every replica's status with history and settings, and returns the first answer; `None` after the
    /// timeout.
    pub fn read_first(&mut self, timeout: Duration) -> io::Result<Option<Status>> {
        Ok(self.ask(&status(true), 1, timeout)?.into_iter().flatten().next())
    }

    /// Requests every replica's status. The result is indexed by replica id, with `None` for replicas that did not
    /// answer before the timeout.
    pub fn read(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        self.ask(&status(false), self.replicas, timeout)
    }

    /// Requests every replica's statement that its program supports a feature level. Replicas answer operators only.
    /// The result is as for [`StatusProbe::read`].
    pub fn read_supports(&mut self, level: FeatureLevel, timeout: Duration) -> io::Result<Vec<Option<LevelSupport>>> {
        let question = Question {
            request: |id, level| ClientRequest::Support { id, level },
            of: level,
            answer: |reply| match reply {
                ReplicaReply::Supports { id, support } => Some((id, Some(support))),
                _ => None,
            },
        };
        self.ask(&question, self.replicas, timeout)
    }

    pub fn reach(&mut self) -> Reach {
        self.log.reach(&mut *self.transport, self.replicas)
    }

    /// Returns the reasons given by replicas for not answering the last query.
    pub fn unanswered(&self) -> &BTreeMap<ReplicaId, String> {
        &self.unanswered
    }

    /// Queries every replica, and returns once `enough` of them answered or the timeout expires.
    fn ask<Q: Copy, A: Clone>(
        &mut self,
        asked_for: &Question<Q, A>,
        enough: usize,
        timeout: Duration,
    ) -> io::Result<Vec<Option<A>>> {
        self.id += 1;
        let question = encode_message(&(asked_for.request)(self.id, asked_for.of));
        self.unanswered.clear();
        let mut asked = vec![false; self.replicas];
        let mut proved = Signers::empty();
        let mut answers = vec![None; self.replicas];
        let start = Instant::now();
        loop {
            for replica in (0..self.replicas as u16).map(ReplicaId) {
                if !asked[replica.index()] && self.transport.is_connected(replica) {
                    asked[replica.index()] = true;
                    self.transport.send_to(replica, question.clone(), Lane::Ordinary);
                }
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() || answers.iter().flatten().count() >= enough || self.unanswered.len() == self.replicas {
                return Ok(answers);
            }
            self.transport.poll(Some(left.min(SLICE)), &mut self.events)?;
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                match event {
                    Event::Received { remote: Remote::Replica(from), frame, .. } if from.index() < self.replicas => {
                        let Ok(reply) = decode_message::<ReplicaReply>(frame) else { continue };
                        match (asked_for.answer)(reply.clone()) {
                            Some((id, answer)) if id == self.id => answers[from.index()] = answer,
                            Some(_) => {}
                            None => self.hear(from, reply, &question, &mut proved),
                        }
                    }
                    Event::Disconnected { remote: Remote::Replica(replica), why, .. }
                        if replica.index() < self.replicas =>
                    {
                        asked[replica.index()] = false;
                        proved.remove(replica);
                        self.log.on_disconnected(replica, why);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Handles a reply that is no answer: notes a refusal, or proves the client's key if the replica requires it.
    fn hear(&mut self, from: ReplicaId, reply: ReplicaReply, question: &Bytes, proved: &mut Signers) {
        match reply {
            ReplicaReply::Unanswered { id, why, .. } if id == self.id => {
                self.unanswered.insert(from, escaped(&why).into_owned());
            }
            ReplicaReply::Challenge { challenge } if proved.insert(from) => {
                let Some(prover) = self.prover.as_mut() else { return };
                match prover.prove(from, &challenge) {
                    Ok(proof) => {
                        self.transport.send_to(from, proof, Lane::Ordinary);
                        self.transport.send_to(from, question.clone(), Lane::Ordinary);
                    }
                    Err(why) => drop(self.unanswered.insert(from, why)),
                }
            }
            _ => {}
        }
    }
}

/// Question to every replica.
struct Question<Q, A> {
    request: fn(u64, Q) -> ClientRequest,
    of: Q,
    /// Returns the id and the answer in a reply, if it is one.
    answer: fn(ReplicaReply) -> Option<(u64, Option<A>)>,
}

/// Returns the question for the status, with or without its history.
fn status(history: bool) -> Question<bool, Status> {
    Question {
        request: |id, history| ClientRequest::Status { id, history },
        of: history,
        answer: |reply| match reply {
            ReplicaReply::Status { id, json } => Some((id, serde_json::from_slice(&json).ok())),
            _ => None,
        },
    }
}
