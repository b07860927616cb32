//! The devices that a replica drives through its actions: network, keys, journal, alarms, application. All of them
//! answer on the replica's own thread. Slow work on the state runs on other threads, and so do the verification of
//! signatures and the network if configured.

mod signing;
mod verification;

use crate::alarms::Alarms;
use crate::checkpoints::Checkpoints;
use crate::client_links::{Links, NodeDesk, ReplyWriter};
use crate::durability::remove_mark;
use crate::error::HostError;
use crate::laboratory::Fault;
use crate::meters::Meters;
use crate::network::{Network, Wakeup};
use crate::observer::{NodeEvent, Observer};
use crate::signer::RemoteSigner;
use crate::snapshots::Snapshot;
use crate::states::{Progress, States, Sum};
use crate::verifiers::{Question, Verifiers};
use bytes::Bytes;
use quorate_applications::{Checkpoint, Executor, Reply, RestoreError};
use quorate_consensus::recovery::frontier::Frontier;
use quorate_consensus::recovery::journal::Record;
use quorate_consensus::seam::RecordId;
use quorate_consensus::{Action, Envelope, Input, Mark, Message, Refusal};
use quorate_crypto::{Authentication, Crypto};
use quorate_hosting::{DurabilityGate, Headroom, Outgoing, Peers, split};
use quorate_network::channels::Versions;
use quorate_network::transports::Transport;
use quorate_storage::Journal;
use quorate_storage::account::thread_cpu_ns;
use quorate_types::codec::WIRE_VERSION;
use quorate_types::identity::Signer;
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{
    Block, Bundle, Certificate, Digest, Encoder, EpochId, Height, PayloadPath, Quorum, ReplicaId, ReplicaStages,
    Settings, Time, Wire, decode_message_by, encode_message,
};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use signing::Signing;

/// Number of bytes after which records are flushed even if no message waits for them, as with records of commits.
const UNHURRIED_BYTES: usize = 1 << 20;
/// Size of the buffers in which consecutive messages, or records, are encoded.
const MESSAGES_CHUNK_BYTES: usize = 16 << 10;

/// Devices on which a replica's actions are performed.
pub(crate) struct Devices<M: Message> {
    pub me: ReplicaId,
    pub replicas: u16,
    pub quorum: Quorum,
    /// Decides which contradictions of others are provable to third parties.
    pub authentication: Authentication,
    /// Injected misbehaviour, if any.
    pub fault: Option<Fault>,
    /// Directory of the journal; `None` if it is in memory.
    pub directory: Option<PathBuf>,
    pub epoch: EpochId,
    pub network: Network<M>,
    pub crypto: Crypto,
    /// Another process that signs; `None` if `crypto` does.
    signing: Option<Signing<M>>,
    /// Stages that have their own threads once the replica runs.
    stages: ReplicaStages,
    wakeup: Wakeup,
    /// `None` if the replica's thread verifies signatures.
    verifiers: Option<Verifiers>,
    headroom: Headroom,
    pub journal: Box<dyn Journal>,
    /// Signs statements about the program.
    pub identity: Arc<dyn Signer>,
    pub executor: Executor,
    pub desk: NodeDesk,
    pub writer: ReplyWriter,
    pub observer: Box<dyn Observer>,
    pub alarms: Alarms,
    /// Inputs that the replica receives immediately: answers of devices, and messages to itself.
    pub local: VecDeque<Input<M>>,
    /// Blocks executed, including empty ones.
    pub blocks: u64,
    pub states: States,
    pub checkpoints: Checkpoints,
    /// Last checkpoint whose state a quorum has certified since the start, and when.
    pub stable: Option<(Height, Time)>,
    /// Wire versions that this replica speaks.
    pub versions: Versions,
    /// Settings reported in the replica's status.
    pub settings: Settings,
    pub payload_path: PayloadPath,
    pub meters: Meters,
    /// Marker file: this replica has never run.
    mark: Option<PathBuf>,
    /// Blocks up to this height were executed before the restart and are part of the restored state.
    restored: Height,
    /// Whether the journal survives the process, so that its contents matter.
    keeps: bool,
    gate: DurabilityGate<M>,
    durable: Option<RecordId>,
    unwritten: bool,
    /// Bytes appended since the last write was requested.
    unhurried_bytes: usize,
    /// Id of the last record.
    appended: u64,
    /// First record and height of the last summary begun.
    sum: Option<(u64, Height)>,
    /// Once this record is durable, the repair is complete.
    good_with: Option<RecordId>,
    /// Encodes consecutive messages into one buffer: they are freed together, soon after they are written.
    encoder: Encoder,
    records: Encoder,
    replies: Vec<Reply>,
    /// Client bundles refused by the replica, in order of arrival.
    pub refused: Vec<(Digest, Refusal)>,
    /// Free space of the disk below which the replica stops, in bytes.
    pub min_free_bytes: u64,
}

/// Starting point of a replica that restarts from a snapshot.
#[derive(Default)]
pub(crate) struct Restored {
    /// Height of the state.
    pub height: Height,
    /// Certificate of the checkpoint and the replica's part of the state, if a quorum has certified it.
    pub vouched: Option<(Certificate, Frontier)>,
}

fn decode(frontier: Bytes) -> Result<Frontier, RestoreError> {
    Ok(Frontier::from_bytes(frontier)?)
}

/// Concrete devices of one replica.
pub(crate) struct Fittings {
    pub me: ReplicaId,
    pub quorum: Quorum,
    pub authentication: Authentication,
    pub fault: Option<Fault>,
    pub directory: Option<PathBuf>,
    pub epoch: EpochId,
    pub transport: Box<dyn Transport>,
    /// Wakes the replica.
    pub wakeup: Wakeup,
    pub crypto: Crypto,
    pub signer: Option<RemoteSigner>,
    /// Stages that have their own threads.
    pub stages: ReplicaStages,
    pub journal: Box<dyn Journal>,
    pub mark: Option<PathBuf>,
    pub states: States,
    /// Signs statements about the program.
    pub identity: Arc<dyn Signer>,
    pub executor: Executor,
    pub desk: NodeDesk,
    pub writer: ReplyWriter,
    pub observer: Box<dyn Observer>,
    pub versions: Versions,
    pub settings: Settings,
    pub payload_path: PayloadPath,
    /// The view timeout, if a view has many proposals.
    pub slot_timeout: Option<Duration>,
    pub min_free_bytes: u64,
}

impl<M: Message> Devices<M> {
    pub fn new(mut fittings: Fittings) -> Devices<M> {
        let waker = fittings.wakeup.waker();
        fittings.journal.set_waker(waker.clone());
        let keeps = fittings.journal.outlives_process();
        Devices {
            me: fittings.me,
            replicas: u16::try_from(fittings.quorum.replicas()).expect("a committee has at most 256 members"),
            quorum: fittings.quorum,
            authentication: fittings.authentication,
            fault: fittings.fault,
            directory: fittings.directory,
            epoch: fittings.epoch,
            network: Network::new(fittings.transport, fittings.wakeup.clone()),
            crypto: fittings.crypto,
            signing: fittings.signer.map(Signing::new),
            stages: fittings.stages,
            wakeup: fittings.wakeup,
            verifiers: None,
            headroom: Headroom::default(),
            journal: fittings.journal,
            identity: fittings.identity,
            executor: fittings.executor,
            desk: fittings.desk,
            writer: fittings.writer,
            observer: fittings.observer,
            versions: fittings.versions,
            settings: fittings.settings,
            payload_path: fittings.payload_path,
            meters: Meters::new(fittings.quorum.replicas(), fittings.slot_timeout),
            alarms: Alarms::default(),
            local: VecDeque::new(),
            blocks: 0,
            states: fittings.states,
            checkpoints: Checkpoints::new(waker),
            stable: None,
            mark: fittings.mark,
            restored: Height(0),
            keeps,
            gate: DurabilityGate::default(),
            durable: None,
            unwritten: false,
            unhurried_bytes: 0,
            appended: 0,
            sum: None,
            good_with: None,
            encoder: Encoder::with_capacity(MESSAGES_CHUNK_BYTES),
            records: Encoder::with_capacity(MESSAGES_CHUNK_BYTES),
            replies: Vec::new(),
            refused: Vec::new(),
            min_free_bytes: fittings.min_free_bytes,
        }
    }

    /// Returns the desk, and the links of clients as used by it.
    pub fn desk_and_links(&mut self) -> (&mut NodeDesk, Links<'_, M>) {
        let Devices { desk, network, writer, .. } = self;
        (desk, Links { network, writer })
    }

    /// Performs one action; answers are returned through `local`.
    pub fn perform(&mut self, now: Time, action: Action<M>) -> Result<(), HostError> {
        match action {
            Action::Send { to, message, after, sign } => {
                let message = Outgoing { to, message, sign };
                match after {
                    Some(record) if !self.is_durable(record)? => {
                        self.gate.hold(record, message);
                        self.unwritten = true;
                    }
                    _ => self.send(message),
                }
            }
            Action::Persist { id, record } => self.persist(id, &record)?,
            Action::Verify { job, certificates, votes } => {
                let _stage = stages::enter(Stage::Authenticate);
                match self.crypto.begin_verification(certificates, votes) {
                    ControlFlow::Break(genuine) => self.local.push_back(Input::Verdict { job, genuine }),
                    ControlFlow::Continue(task) => self.ask(Question::Verify(job, task)),
                }
            }
            Action::Assemble { job, subject, votes } => {
                let _stage = stages::enter(Stage::Authenticate);
                let task = self.crypto.begin_assembly(subject, votes);
                self.ask(Question::Assemble(job, task));
            }
            Action::Arm { timer, after } => self.alarms.arm(timer, now + after),
            Action::Commit { block, bundles } if block.height > self.restored => self.commit(now, &block, &bundles)?,
            Action::Commit { .. } => {}
            Action::DigestState { frontier } if frontier.height() > self.restored => self.digest(&frontier)?,
            Action::DigestState { .. } => {}
            Action::StateStable { checkpoint } => self.states.certify(*checkpoint),
            Action::ReadState { to, height, part } => {
                let bytes = self.states.read(height, part);
                self.tell_unreadable();
                self.local.push_back(Input::StateRead { to, height, part, bytes });
            }
            Action::ReceiveState { height, manifest } => {
                let chunks = manifest.chunks();
                let held = self.states.receive(height, manifest);
                self.tell_unreadable();
                self.tell(NodeEvent::ReceivesState { height, chunks, held: held.len() });
                self.local.push_back(Input::Holds { height, chunks: held });
            }
            Action::KeepChunk { height, chunk, bytes } => self.states.keep_chunk(height, chunk, bytes),
            Action::AdoptState { checkpoint } => self.adopt(*checkpoint)?,
            Action::Accuse(evidence) => {
                self.tell(match self.authentication.attributes(evidence.first.subject.domain) {
                    true => NodeEvent::Evidence(*evidence),
                    false => NodeEvent::Hearsay(*evidence),
                })
            }
            Action::Refuse { bundle, why } => self.refused.push((bundle, why)),
            Action::AcceptRepair { after } => {
                self.good_with = Some(after);
                self.unwritten = true;
            }
            Action::Halt(why) => return Err(why.into()),
            Action::Mark(mark) => self.note(now, mark),
        }
        Ok(())
    }

    /// Reports to the observer and the meters.
    fn note(&mut self, now: Time, mark: Mark) {
        match mark {
            Mark::EnteredView { leader, .. } => self.meters.entered(now, leader),
            Mark::Proposed { view, height, .. } => self.meters.proposed(now, self.me, view, height),
            Mark::Stable { height } => self.stable = Some((height, now)),
            Mark::Fetches { height } => {
                self.states.fetch(height);
                self.tell(NodeEvent::FetchesState { height });
            }
            Mark::Voided { height, bundle } => self.tell(NodeEvent::Voided { height, bundle }),
            Mark::Adopted { from, height } => self.tell(NodeEvent::AdoptedState { from, height }),
            Mark::Restarted { view, height } => self.tell(NodeEvent::Restarted { view, height }),
            Mark::Forgot => self.tell(NodeEvent::Forgot),
            Mark::Abstains { up_to } => self.tell(NodeEvent::Abstains { up_to }),
            Mark::TakesPart { view } => self.tell(NodeEvent::TakesPart(view)),
            Mark::TimedOut(view) => {
                let (network, me) = (&self.network, self.me);
                self.meters.timed_out(now, |leader| leader == me || network.is_connected(leader));
                self.tell(NodeEvent::TimedOut(view));
            }
            _ => {}
        }
    }

    /// Appends a record to the journal; only its ID if the journal does not outlive the process.
    fn persist(&mut self, id: RecordId, record: &Record) -> Result<(), HostError> {
        let _stage = stages::enter(Stage::Persist);
        self.appended = id.0;
        if let Record::Summary { height, .. } = record {
            self.sum = Some((id.0, *height));
        }
        match self.keeps {
            true => self.keep(id, record),
            false => Ok(self.journal.append(id.0, Bytes::new())?),
        }
    }

    fn keep(&mut self, id: RecordId, record: &Record) -> Result<(), HostError> {
        let pieces = record.pieces(&mut self.records);
        let bytes = pieces.iter().map(Bytes::len).sum();
        self.journal.append_pieces(id.0, pieces)?;
        self.states.added(bytes);
        self.unhurried_bytes += bytes;
        self.unwritten |= self.unhurried_bytes > UNHURRIED_BYTES;
        Ok(())
    }

    /// Restores the last state on disk. Returns its height and, if certified, the proof for peers.
    pub fn restore(&mut self) -> Result<Restored, HostError> {
        let Some(Snapshot { height, certificate, state }) = self.states.read_last()? else {
            return Ok(Restored::default());
        };
        let frontier = self.executor.adopt(state)?;
        assert_eq!(self.executor.height(), height, "a snapshot has another height than its name");
        self.restored = height;
        let vouched = certificate.map(|certificate| Ok::<_, HostError>((certificate, decode(frontier)?)));
        Ok(Restored { height, vouched: vouched.transpose()? })
    }

    /// Returns whether the journal should be compacted now.
    pub fn is_sum_due(&self) -> bool {
        self.states.is_sum_due()
    }

    /// Records that the journal was just compacted.
    pub fn summed(&mut self) {
        let (first, height) = self.sum.expect("the journal was compacted");
        assert_eq!(self.executor.height(), height, "blocks are executed as they are committed");
        self.unwritten = true;
        let executor = &mut self.executor;
        self.states.summed(Sum { first, last: self.appended, height }, || executor.own_state());
    }

    pub fn go_on_with_states(&mut self, settled: Height) -> Result<(), HostError> {
        let Progress { cut, trouble } = self.states.go_on(self.durable.map(|record| record.0), settled)?;
        if let Some(first_kept) = cut {
            self.journal.truncate(first_kept)?;
        }
        if let Some(trouble) = trouble {
            self.tell(NodeEvent::Journal(trouble));
        }
        Ok(())
    }

    /// Computes the digest of the state at a checkpoint, and keeps the state if this checkpoint requires it.
    fn digest(&mut self, frontier: &Frontier) -> Result<(), HostError> {
        let height = frontier.height();
        assert_eq!(self.executor.height(), height, "blocks are executed as they are committed");
        self.checkpoints.push(height, self.executor.checkpoint(frontier.digest(), || frontier.to_bytes()))?;
        self.take_checkpoints()
    }

    /// Passes the ready checkpoints to the replica.
    pub fn take_checkpoints(&mut self) -> Result<(), HostError> {
        while let Some((height, Checkpoint { digest, kept })) = self.checkpoints.next()? {
            self.local.push_back(Input::Executed { height, state: digest, kept: kept.is_some() });
            if let Some((manifest, state)) = kept {
                self.states.keep(height, manifest, state);
            }
        }
        Ok(())
    }

    fn tell_unreadable(&mut self) {
        while let Some(trouble) = self.states.take_unreadable() {
            self.tell(NodeEvent::Journal(trouble));
        }
    }

    /// Adopts the received state.
    fn adopt(&mut self, checkpoint: Certificate) -> Result<(), HostError> {
        let height = checkpoint.subject.height;
        if height <= self.executor.height() {
            return Ok(());
        }
        let (manifest, state) = self.states.received(height);
        let frontier = decode(self.executor.adopt(state.clone())?)?;
        assert_eq!(self.executor.height(), height, "the certified state has another height");
        self.states.adopt(checkpoint.clone(), manifest, state)?;
        self.restored = height;
        self.local.push_back(Input::Adopted { checkpoint: Box::new(checkpoint), frontier });
        self.checkpoints.clear();
        Ok(())
    }

    /// Returns the number of messages that wait for the journal.
    pub fn held_messages(&self) -> usize {
        self.gate.len()
    }

    /// Returns whether something waits for records that have not been passed to the disk yet.
    pub fn is_writing_due(&self) -> bool {
        self.unwritten
    }

    /// Starts to write the records of this iteration, and sends the messages whose records are durable.
    pub fn settle_journal(&mut self) -> Result<(), HostError> {
        let _stage = stages::enter(Stage::Persist);
        if std::mem::take(&mut self.unwritten) {
            self.journal.commit()?;
            self.unhurried_bytes = 0;
        }
        // Report disk errors at once, even if no message waits for the disk.
        self.look_at_journal()?;
        if let Some(record) = self.good_with
            && self.is_durable(record)?
        {
            self.journal.accept_repair()?;
            self.good_with = None;
        }
        while let Some(record) = self.gate.awaited()
            && self.is_durable(record)?
        {
            while let Some(message) = self.gate.release(self.durable) {
                self.send(message);
            }
        }
        Ok(())
    }

    /// Writes all records and sends the messages that waited for them. Returns whether all records are durable.
    pub fn finish_journal(&mut self) -> Result<bool, HostError> {
        self.unwritten |= self.unhurried_bytes > 0;
        self.settle_journal()?;
        Ok(self.gate.awaited().is_none() && (self.appended == 0 || self.is_durable(RecordId(self.appended))?))
    }

    fn is_durable(&mut self, record: RecordId) -> Result<bool, HostError> {
        if self.durable < Some(record) {
            self.look_at_journal()?;
        }
        Ok(self.durable >= Some(record))
    }

    fn look_at_journal(&mut self) -> Result<(), HostError> {
        self.durable = self.journal.durable()?.map(RecordId);
        if self.durable.is_some()
            && let Some(path) = self.mark.take()
        {
            remove_mark(&path).map_err(|source| HostError::Mark { path, source })?;
        }
        Ok(())
    }

    /// Starts the configured threads. They belong to the account of the calling thread. A recorded replica holds back
    /// its messages until the iteration is recorded.
    pub fn start_threads(&mut self, is_recorded: bool) -> Result<(), HostError> {
        let ReplicaStages { network, verifiers } = self.stages;
        if verifiers > 0 {
            self.verifiers = Some(Verifiers::start(verifiers.into(), &self.wakeup.waker())?);
        }
        match network {
            true => self.network.start(self.me, self.replicas, self.payload_path, is_recorded),
            false => Ok(()),
        }
    }

    /// Periodically measures how busy this thread is, if there are verifiers that can relieve it.
    pub fn measure_headroom(&mut self, now: Time) {
        if self.verifiers.is_some() && self.headroom.is_due(now) {
            self.headroom.update(now, thread_cpu_ns());
        }
    }

    fn send(&mut self, message: Outgoing<M>) {
        match message.sign && self.signing.is_some() {
            true => self.send_signed_elsewhere(message),
            false => self.transmit(message),
        }
    }

    fn transmit(&mut self, Outgoing { to, mut message, sign }: Outgoing<M>) {
        let kind = message.kind();
        let _message = stages::message(kind, 1);
        if sign {
            let _stage = stages::enter(Stage::Sign);
            self.sign(&mut message);
        }
        let (me, lane) = (self.me, message.lane());
        let (peers, comes_back) = split(to, me);
        match peers {
            Peers::Nobody => {}
            Peers::One(replica) => {
                let frame = self.encode(&message);
                stages::sent(kind, frame.len());
                self.network.send_to(replica, frame, lane);
            }
            Peers::Others => {
                let frame = self.encode(&message);
                for replica in (0..self.replicas).map(ReplicaId).filter(|replica| *replica != me) {
                    stages::sent(kind, frame.len());
                    self.network.send_to(replica, frame.clone(), lane);
                }
            }
        }
        if comes_back {
            self.local.push_back(Input::Receive { from: me, message });
        }
    }

    fn sign(&mut self, message: &mut Envelope<M>) {
        let vote = message.vote_to_sign().expect("a message to sign contains a vote");
        assert_eq!(vote.voter, self.me, "a replica signs for itself");
        vote.signature = self.crypto.sign_once(&vote.statement(&self.epoch));
    }

    fn encode(&mut self, message: &Envelope<M>) -> Bytes {
        let _stage = stages::enter(Stage::Marshal);
        if self.payload_path == PayloadPath::Copied {
            let wire: Envelope<M> = decode_message_by(encode_message(message), PayloadPath::Copied)
                .expect("a message decodes from its own encoding");
            return self.write(&wire);
        }
        self.write(message)
    }

    fn write(&mut self, message: &Envelope<M>) -> Bytes {
        self.encoder.put_u8(WIRE_VERSION);
        message.encode(&mut self.encoder);
        self.encoder.take()
    }

    fn commit(&mut self, now: Time, block: &Block, bundles: &[Bundle]) -> Result<(), HostError> {
        self.blocks += 1;
        let begun = Instant::now();
        {
            let _requests = stages::message(MessageKind::Request, bundles.len());
            let _stage = stages::enter(Stage::Execute);
            self.executor.try_execute(block.into(), bundles, &mut self.replies)?;
        }
        self.meters.executed(now, block, begun.elapsed());
        let _replies = stages::message(MessageKind::Reply, self.replies.len());
        let Devices { desk, network, writer, replies, .. } = self;
        desk.deliver(&mut Links { network, writer }, replies);
        Ok(())
    }

    pub fn tell(&mut self, event: NodeEvent) {
        self.observer.observe(self.me, event);
    }
}
