//! A client's outstanding query, and the replicas that answer it only after the client has proved its key.

use crate::outgoing::{Destination, Outgoing};
use bytes::Bytes;
use quorate_crypto::ClientIdentity;
use quorate_types::text::escaped;
use quorate_types::{Digest, ReplicaId, Signers};

/// Refusal for a client without a key.
const NO_KEY: &str = "the replicas answer only clients that prove an admitted key, and this client has none; help: set \
     `client_authentication` and `key_file` in client.toml";

/// The last query to all replicas.
#[derive(Default)]
pub(crate) struct Asked {
    id: u64,
    frames: Vec<Bytes>,
    /// Unanswered challenges of replicas.
    challenges: Vec<(ReplicaId, Digest)>,
    /// Replicas that were sent a proof since the query was sent. A liar must not be able to request proofs without
    /// limit.
    proved: Signers,
    /// Replicas that will not answer on their links.
    refused: Signers,
    refusal: Option<(ReplicaId, String)>,
}

impl Asked {
    /// Sends all replicas a query that may be repeated.
    pub fn ask(&mut self, id: u64, frames: Vec<Bytes>, out: &mut Vec<Outgoing>) {
        out.extend(frames.iter().map(|frame| Outgoing { to: Destination::All, frame: frame.clone() }));
        if id != self.id {
            (self.refused, self.refusal) = (Signers::empty(), None);
        }
        (self.id, self.frames, self.proved) = (id, frames, Signers::empty());
    }

    pub fn on_challenge(&mut self, from: ReplicaId, challenge: Digest) {
        if self.proved.insert(from) {
            self.challenges.push((from, challenge));
        }
    }

    pub fn on_unanswered(&mut self, from: ReplicaId, id: u64, why: String, again: bool) {
        if id == self.id {
            if !again {
                self.refused.insert(from);
            }
            self.refusal = Some((from, escaped(&why).into_owned()));
        }
    }

    /// Proves the key to the replicas that requested it, and repeats the query to them.
    pub fn prove(&mut self, identity: &ClientIdentity, out: &mut Vec<Outgoing>) {
        for (replica, challenge) in std::mem::take(&mut self.challenges) {
            match identity.prove(replica, identity.origin(), &challenge) {
                None => self.on_unanswered(replica, self.id, NO_KEY.to_owned(), false),
                Some(proof) => {
                    let frames = std::iter::once(proof).chain(self.frames.iter().cloned());
                    out.extend(frames.map(|frame| Outgoing { to: Destination::One(replica), frame }));
                }
            }
        }
    }

    /// Returns the replicas that will never answer the query.
    pub fn refused(&self) -> Signers {
        self.refused
    }

    /// Returns the last reason of a replica for not answering.
    pub fn refusal(&self) -> Option<(ReplicaId, &str)> {
        self.refusal.as_ref().map(|(from, why)| (*from, why.as_str()))
    }
}
