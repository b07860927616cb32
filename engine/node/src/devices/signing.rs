//! Votes signed by another process: messages wait here while it is away.

use super::Devices;
use crate::observer::NodeEvent;
use crate::signer::protocol::Unsigned;
use crate::signer::{Outcome, RemoteSigner};
use quorate_consensus::Message;
use quorate_hosting::Outgoing;
use quorate_types::host_status::SignerStatus;
use quorate_types::stages::{self, Stage};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Maximum number of messages that wait for the signer. Beyond it, the oldest is dropped, as a network may drop it.
const MAX_WAITING_MESSAGES: usize = 256;
/// Maximum number of messages signed in one iteration after a wait, so that others are handled in between.
const SIGNED_PER_ITERATION: usize = 32;

/// The signer, and the messages that it has not signed yet, in order.
pub(crate) struct Signing<M: Message> {
    remote: RemoteSigner,
    waiting: VecDeque<Outgoing<M>>,
    /// Whether the last event said that the signer is away.
    told_away: bool,
}

impl<M: Message> Signing<M> {
    pub fn new(remote: RemoteSigner) -> Signing<M> {
        Signing { remote, waiting: VecDeque::new(), told_away: false }
    }

    /// Signs the first waiting message. `None` if none waits, or the signer is away.
    fn sign_first(&mut self) -> Option<Result<Outgoing<M>, String>> {
        let first = self.waiting.front_mut()?;
        let vote = first.message.vote_to_sign().expect("a message to sign contains a vote");
        match self.remote.sign(&Unsigned::of_vote(vote)) {
            Outcome::Away => None,
            Outcome::Refused(why) => {
                self.waiting.pop_front();
                Some(Err(why))
            }
            Outcome::Signed(signature) => {
                vote.signature = signature;
                let first = self.waiting.pop_front().expect("there is one");
                Some(Ok(Outgoing { sign: false, ..first }))
            }
        }
    }
}

impl<M: Message> Devices<M> {
    /// Has another process sign a message, and sends it; or lets it wait.
    pub(super) fn send_signed_elsewhere(&mut self, message: Outgoing<M>) {
        let me = self.me;
        let Some(signing) = &mut self.signing else { return };
        let mut message = message;
        let vote = message.message.vote_to_sign().expect("a message to sign contains a vote");
        assert_eq!(vote.voter, me, "a replica signs for itself");
        if signing.waiting.len() == MAX_WAITING_MESSAGES {
            signing.waiting.pop_front();
        }
        signing.waiting.push_back(message);
        self.sign_waiting();
    }

    /// Sends the waiting messages, if the signer answers.
    pub fn sign_waiting(&mut self) {
        for _ in 0..SIGNED_PER_ITERATION {
            let Some(signing) = self.signing.as_mut().filter(|signing| !signing.waiting.is_empty()) else { break };
            let signed = {
                let _stage = stages::enter(Stage::Sign);
                signing.sign_first()
            };
            match signed {
                None => break,
                Some(Ok(message)) => self.transmit(message),
                Some(Err(why)) => self.tell(NodeEvent::SignerRefuses(why)),
            }
        }
        let Some(signing) = &mut self.signing else { return };
        if signing.waiting.is_empty() {
            signing.remote.check();
        }
        let why = signing.remote.why_away().map(str::to_owned);
        if why.is_some() == signing.told_away {
            return;
        }
        signing.told_away = why.is_some();
        let waiting = signing.waiting.len();
        self.tell(match why {
            Some(why) => NodeEvent::SignerAway(why),
            None => NodeEvent::SignerBack { waiting },
        });
    }

    /// Returns the time until the signer should be tried or checked again, if there is one.
    pub fn signing_due(&self) -> Option<Duration> {
        let signing = self.signing.as_ref()?;
        if !signing.waiting.is_empty() && !signing.remote.is_away() {
            return Some(Duration::ZERO);
        }
        Some(signing.remote.due().saturating_duration_since(Instant::now()))
    }

    /// Returns the state of the signer, if there is one.
    pub fn signer_status(&self) -> Option<SignerStatus> {
        self.signing.as_ref().map(|signing| signing.remote.status(signing.waiting.len()))
    }
}
