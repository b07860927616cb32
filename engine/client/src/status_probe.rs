//! Reading of replicas' counters over separate connections, so that it does not disturb a load.

use crate::config::ClientConfig;
use crate::connect::{ConnectError, connect, new_identity};
use crate::reach::{Reach, ReachLog};
use bytes::Bytes;
use quorate_crypto::ClientIdentity;
use quorate_network::transports::{Event, Remote, Transport};
use quorate_types::text::escaped;
use quorate_types::{
    ClientId, ClientRequest, Digest, Lane, ReplicaId, ReplicaReply, Signers, Status, decode_message, encode_message,
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
        self.ask(true, self.replicas, timeout)
    }

    /// Requests every replica's status with history and settings, and returns the first answer; `None` after the
    /// timeout.
    pub fn read_first(&mut self, timeout: Duration) -> io::Result<Option<Status>> {
        Ok(self.ask(true, 1, timeout)?.into_iter().flatten().next())
    }

    /// Requests every replica's status. The result is indexed by replica id, with `None` for replicas that did not
    /// answer before the timeout.
    pub fn read(&mut self, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        self.ask(false, self.replicas, timeout)
    }

    pub fn reach(&mut self) -> Reach {
        self.log.reach(&mut *self.transport, self.replicas)
    }

    /// Returns the reasons given by replicas for not answering the last query.
    pub fn unanswered(&self) -> &BTreeMap<ReplicaId, String> {
        &self.unanswered
    }

    /// Queries every replica, and returns once `enough` of them answered or the timeout expires.
    fn ask(&mut self, history: bool, enough: usize, timeout: Duration) -> io::Result<Vec<Option<Status>>> {
        self.id += 1;
        let question = encode_message(&ClientRequest::Status { id: self.id, history });
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
                        if let Some(status) = self.hear(from, frame, &question, &mut proved) {
                            answers[from.index()] = Some(status);
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
    /// Handles a frame: returns the status in it, or proves the client's key if the replica requires it.
    fn hear(&mut self, from: ReplicaId, frame: Bytes, question: &Bytes, proved: &mut Signers) -> Option<Status> {
        match decode_message::<ReplicaReply>(frame).ok()? {
            ReplicaReply::Status { id, json } if id == self.id => return serde_json::from_slice(&json).ok(),
            ReplicaReply::Unanswered { id, why, .. } if id == self.id => {
                self.unanswered.insert(from, escaped(&why).into_owned());
            }
            ReplicaReply::Challenge { challenge } if proved.insert(from) => {
                match self.prover.as_mut()?.prove(from, &challenge) {
                    Ok(proof) => {
                        self.transport.send_to(from, proof, Lane::Ordinary);
                        self.transport.send_to(from, question.clone(), Lane::Ordinary);
                    }
                    Err(why) => drop(self.unanswered.insert(from, why)),
                }
            }
            _ => {}
        }
        None
    }
}
