//! The devices that a replica asks by data: network, keys, journal, alarms, application. All of them answer on the replica's
//! own thread.

use crate::alarms::Alarms;
use crate::error::HostError;
use crate::gateway::Gateway;
use crate::observer::{NodeEvent, Observer};
use bytes::Bytes;
use quorate_applications::{Executor, Reply};
use quorate_consensus::seam::RecordId;
use quorate_consensus::{Action, Envelope, Input, Mark, Message, To};
use quorate_crypto::Crypto;
use quorate_storage::Journal;
use quorate_transports::Transport;
use quorate_types::codec::WIRE_VERSION;
use quorate_types::{Block, Bundle, Certificate, ClusterId, Encoder, ReplicaId, Time, Vote, Wire};
use std::collections::VecDeque;

/// A message that waits until a record is durable.
struct Held<M> {
    after: RecordId,
    to: To,
    message: Envelope<M>,
    sign: bool,
}

/// What a replica's actions are performed on.
pub(crate) struct Devices<M> {
    pub me: ReplicaId,
    pub replicas: u16,
    pub cluster: ClusterId,
    pub transport: Box<dyn Transport>,
    pub crypto: Crypto,
    pub journal: Box<dyn Journal>,
    pub executor: Executor,
    pub gateway: Gateway,
    pub observer: Box<dyn Observer>,
    pub alarms: Alarms,
    /// What comes back at once: answers of the devices, and messages to oneself.
    pub local: VecDeque<Input<M>>,
    /// Blocks executed, empty ones included.
    pub blocks: u64,
    /// The latest leader that the replica could tell.
    pub leader: ReplicaId,
    held: VecDeque<Held<M>>,
    durable: Option<RecordId>,
    unwritten: bool,
    /// Messages are encoded side by side, and leave memory together soon after they are written.
    encoder: Encoder,
    records: Encoder,
    replies: Vec<Reply>,
}

/// The concrete devices of one replica.
pub(crate) struct Fittings {
    pub me: ReplicaId,
    pub replicas: usize,
    pub cluster: ClusterId,
    pub transport: Box<dyn Transport>,
    pub crypto: Crypto,
    pub journal: Box<dyn Journal>,
    pub executor: Executor,
    pub gateway: Gateway,
    pub observer: Box<dyn Observer>,
}

impl<M: Message> Devices<M> {
    pub fn new(fittings: Fittings) -> Devices<M> {
        let Fittings { me, replicas, cluster, transport, crypto, mut journal, executor, gateway, observer } = fittings;
        journal.set_waker(transport.waker());
        Devices {
            me,
            replicas: u16::try_from(replicas).expect("a committee is narrower than that"),
            cluster,
            transport,
            crypto,
            journal,
            executor,
            gateway,
            observer,
            alarms: Alarms::default(),
            local: VecDeque::new(),
            blocks: 0,
            leader: me,
            held: VecDeque::new(),
            durable: None,
            unwritten: false,
            encoder: Encoder::default(),
            records: Encoder::default(),
            replies: Vec::new(),
        }
    }

    /// Performs one action; answers come back through `local`.
    pub fn perform(&mut self, now: Time, action: Action<M>) -> Result<(), HostError> {
        match action {
            Action::Send { to, message, after, sign } => match after {
                Some(record) if !self.is_durable(record)? => {
                    self.held.push_back(Held { after: record, to, message, sign });
                }
                _ => self.send(to, message, sign),
            },
            Action::Persist { id, record } => {
                record.encode(&mut self.records);
                let record = self.records.take();
                self.journal.append(id.0, record)?;
                self.unwritten = true;
            }
            Action::Verify { job, certificates, votes } => {
                let genuine = self.is_genuine(&certificates, &votes);
                self.local.push_back(Input::Verdict { job, genuine });
            }
            Action::Assemble { job, subject, votes } => {
                let result = self.crypto.assemble(&subject, votes);
                self.local.push_back(Input::Assembled { job, result });
            }
            Action::Arm { timer, after } => self.alarms.arm(timer, now + after),
            Action::Disarm(timer) => self.alarms.disarm(timer),
            Action::Commit { block, bundles } => self.commit(&block, &bundles),
            Action::DigestState { height } => {
                assert_eq!(self.executor.height(), height, "blocks are executed as they are committed");
                let state = self.executor.state_digest();
                self.local.push_back(Input::Executed { height, state });
            }
            Action::Accuse(evidence) => self.tell(NodeEvent::Evidence(evidence)),
            Action::Mark(Mark::TimedOut(view)) => self.tell(NodeEvent::TimedOut(view)),
            Action::Mark(Mark::EnteredView { leader, .. }) => self.leader = leader.unwrap_or(self.leader),
            Action::Mark(_) => {}
        }
        Ok(())
    }

    /// Has the records of this turn written, and sends what waited for those that are durable by now.
    pub fn settle_journal(&mut self) -> Result<(), HostError> {
        if std::mem::take(&mut self.unwritten) {
            self.journal.commit()?;
        }
        while let Some(first) = self.held.front().map(|held| held.after) {
            if !self.is_durable(first)? {
                break;
            }
            if let Some(Held { to, message, sign, .. }) = self.held.pop_front() {
                self.send(to, message, sign);
            }
        }
        Ok(())
    }

    fn is_durable(&mut self, record: RecordId) -> Result<bool, HostError> {
        if self.durable < Some(record) {
            self.durable = self.journal.durable()?.map(RecordId);
        }
        Ok(self.durable >= Some(record))
    }

    fn is_genuine(&mut self, certificates: &[Certificate], votes: &[Vote]) -> bool {
        certificates.iter().all(|certificate| self.crypto.verify_certificate(certificate).is_ok())
            && votes.iter().all(|vote| self.crypto.verify_vote(vote))
    }

    fn send(&mut self, to: To, mut message: Envelope<M>, sign: bool) {
        if sign {
            self.sign(&mut message);
        }
        let me = self.me;
        match to {
            To::One(replica) if replica == me => {}
            To::One(replica) => {
                let frame = self.encode(&message);
                self.transport.send_to(replica, frame);
            }
            To::All | To::Others => {
                let frame = self.encode(&message);
                for replica in (0..self.replicas).map(ReplicaId).filter(|replica| *replica != me) {
                    self.transport.send_to(replica, frame.clone());
                }
            }
        }
        if to == To::All || to == To::One(me) {
            self.local.push_back(Input::Receive { from: me, message });
        }
    }

    fn sign(&mut self, message: &mut Envelope<M>) {
        let Envelope::Protocol(message) = message else { panic!("only the protocol's messages are signed") };
        let vote = message.vote_to_sign().expect("a message that is to be signed has a vote in it");
        assert_eq!(vote.voter, self.me, "a replica signs for itself");
        vote.signature = self.crypto.sign(&vote.statement(&self.cluster));
    }

    fn encode(&mut self, message: &Envelope<M>) -> Bytes {
        self.encoder.put_u8(WIRE_VERSION);
        message.encode(&mut self.encoder);
        self.encoder.take()
    }

    fn commit(&mut self, block: &Block, bundles: &[Bundle]) {
        self.blocks += 1;
        self.executor.execute(block.height, bundles, &mut self.replies);
        self.gateway.deliver(&mut *self.transport, &mut self.replies);
    }

    pub fn tell(&mut self, event: NodeEvent) {
        self.observer.observe(self.me, event);
    }
}
