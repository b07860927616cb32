//! Service to clients: drives the [desk](quorate_hosting::desk), which decides on their frames.

use crate::client_links::{AtDesk, Links, NodeDesk};
use crate::devices::Devices;
use crate::error::HostError;
use crate::host::Host;
use crate::meters::ClientCommands;
use crate::network::{Frame, kind_of_request};
use bytes::Bytes;
use quorate_applications::levels::SUPPORT_LIFETIME_BLOCKS;
use quorate_consensus::{Input, Protocol};
use quorate_hosting::EventLoop;
use quorate_hosting::desk::{ClientFrame, Question, Submission};
use quorate_network::gateway::budget::{BUNDLES_PER_BATCH, FRAMES_PER_TURN};
use quorate_network::gateway::turns::Standing;
use quorate_network::transports::LinkId;
use quorate_types::limits::MAX_TEXT_BYTES;
use quorate_types::stages::{self, MessageKind, Stage};
use quorate_types::{
    ClientId, ClientRequest, DecodeError, Digest, FeatureLevel, Height, LevelSupport, ReplicaReply, decode_message,
    level, question_digest,
};
use std::time::Instant;

impl<P: Protocol> Host<P> {
    /// Returns the desk, and this host as used by it.
    fn desk(&mut self) -> (&mut NodeDesk, AtDesk<'_, P>) {
        let Devices { desk, network, writer, executor, .. } = &mut self.devices;
        (desk, AtDesk { links: Links { network, writer }, replica: &self.replica, executor })
    }

    /// Serves clients, starting with those known to be genuine.
    pub(crate) fn serve_clients(&mut self) -> Result<(), HostError> {
        let (totals, now) = (self.replica.parts().store.pool.totals(), self.now);
        let commands = ClientCommands { open: totals.open.commands, executed: totals.executed.commands };
        self.devices.meters.observe_queue(now, commands);
        let (desk, links) = self.devices.desk_and_links();
        for source in desk.begin_turn(now, totals, &links) {
            self.consume(Input::Left(source));
            self.perform()?;
        }
        self.submit_batches()?;
        if self.devices.desk.is_idle() || self.devices.has_batches_enough() {
            return Ok(());
        }
        self.serve_some(Standing::Genuine)?;
        self.serve_some(Standing::Stranger)
    }

    /// Serves frames of clients with this standing.
    fn serve_some(&mut self, standing: Standing) -> Result<(), HostError> {
        self.devices.desk.begin_round(standing);
        loop {
            let (desk, links) = self.devices.desk_and_links();
            let Some((link, (client, frame))) = desk.next(&links) else { break };
            self.serve(link, client, frame);
        }
        self.check();
        self.submit_batches()
    }

    fn serve(&mut self, link: LinkId, client: ClientId, frame: Frame<ClientRequest>) {
        let (_message, bytes, now) = (stages::message(MessageKind::Unread, 1), frame.bytes(), self.now);
        let request = frame.message(self.devices.payload_path);
        let agreement_ns = self.look_at(link, bytes, &request);
        let (desk, mut host) = self.desk();
        let question = desk.serve(&mut host, now, ClientFrame { link, client, bytes, request });
        if agreement_ns > 0 {
            desk.charge(link, agreement_ns);
        }
        if let Some(question) = question {
            self.answer(link, client, question);
        }
    }

    /// If a request contains the sender's key, agrees on a key for replies. Returns the nanoseconds spent on this.
    fn look_at(&mut self, link: LinkId, bytes: usize, request: &Result<ClientRequest, DecodeError>) -> u64 {
        let Ok(request) = request else { return 0 };
        let kind = kind_of_request(request);
        stages::name(kind);
        stages::received(kind, bytes);
        let credential = match request {
            ClientRequest::Submit(bundle) => bundle.authenticator().map(|authenticator| authenticator.public_key),
            ClientRequest::Introduce { credential } => Some(&credential[..]),
            _ => None,
        };
        credential.map_or(0, |credential| self.devices.writer.sender.introduce(link, credential))
    }

    /// Begins to verify the bundles of a round. Without other threads, verifies them here.
    fn check(&mut self) {
        let per_batch = if self.devices.has_verifiers() { BUNDLES_PER_BATCH } else { FRAMES_PER_TURN };
        while self.devices.desk.unchecked() > 0 {
            let desk = &mut self.devices.desk;
            let _requests = stages::message(MessageKind::Request, desk.unchecked().min(per_batch));
            let _stage = desk.checks_signatures().then(|| stages::enter(Stage::Authenticate));
            if let Some((number, task)) = desk.begin_check(per_batch)
                && let Some(checked) = self.devices.check_batch(number, task)
            {
                self.devices.desk.settle(number, checked);
            }
        }
    }

    /// Passes verified bundles to the replica, one input per batch.
    fn submit_batches(&mut self) -> Result<(), HostError> {
        loop {
            let now = self.now;
            let (desk, mut host) = self.desk();
            let Some(Submission { bundles, sources }) = desk.next_batch(&mut host, now) else { return Ok(()) };
            let _requests = stages::message(MessageKind::Request, bundles.len());
            self.consume(Input::Submit { bundles, sources });
            self.rewrite();
            self.perform()?;
            let refused = std::mem::take(&mut self.devices.refused);
            let (desk, mut links) = self.devices.desk_and_links();
            desk.refuse(&mut links, refused);
            self.feed_local()?;
        }
    }

    fn answer(&mut self, link: LinkId, client: ClientId, question: Question) {
        let (begun, now) = (Instant::now(), self.now);
        let (reply, bytes) = match question {
            Question::Query { id, question } => self.query(id, &question),
            Question::Status { id, history } => {
                let json = self.recent_status(history);
                let bytes = json.len();
                (ReplicaReply::Status { id, json }, bytes)
            }
            Question::Proof { credential, signature } => {
                let (desk, mut links) = self.devices.desk_and_links();
                desk.prove(&mut links, link, client, &credential, &signature);
                return desk.charge(link, elapsed_ns(begun));
            }
        };
        let (desk, mut links) = self.devices.desk_and_links();
        desk.answer(&mut links, link, reply);
        desk.charge_answer(&links, now, link, bytes, begun.elapsed());
    }

    /// Returns the reply to a query, and the length of the answer.
    fn query(&mut self, id: u64, question: &Bytes) -> (ReplicaReply, usize) {
        let executor = &mut self.devices.executor;
        match executor.query(question) {
            Ok(answer) => {
                let (bytes, height, answer) = (answer.len(), executor.height(), Bytes::from(answer));
                (ReplicaReply::Answer { id, question: question_digest(question), height, answer }, bytes)
            }
            Err(panic) => (ReplicaReply::Unanswered { id, why: panic.to_string(), again: false }, 0),
        }
    }

    /// Answers an operator immediately: operators are few, and they ask when something is wrong.
    pub(crate) fn serve_operator(&mut self, link: LinkId, frame: Bytes) {
        let why = match decode_message(frame) {
            Ok(ClientRequest::Status { id, history }) => {
                let json = self.recent_status(history);
                let (desk, mut links) = self.devices.desk_and_links();
                return desk.tell(&mut links, link, ReplicaReply::Status { id, json });
            }
            Ok(ClientRequest::Support { id, level }) => {
                let reply = self.support(id, level);
                let (desk, mut links) = self.devices.desk_and_links();
                return desk.tell(&mut links, link, reply);
            }
            Ok(_) => FOR_OPERATORS_ONLY.to_owned(),
            Err(error) => error.to_string(),
        };
        let (desk, mut links) = self.devices.desk_and_links();
        desk.refuse_for_good(&mut links, link, Digest::ZERO, why);
    }

    /// Returns the signed statement that this program supports a feature level, or why there is none.
    fn support(&self, id: u64, level: FeatureLevel) -> ReplicaReply {
        let Devices { executor, identity, epoch, me, .. } = &self.devices;
        match executor.level().supported {
            supported if level > supported => {
                let why = format!(
                    "its program supports feature levels up to {supported}; help: start a version of the program that \
                     supports level {level}"
                );
                ReplicaReply::Unanswered { id, why, again: false }
            }
            _ => {
                let until = Height(executor.height().0.saturating_add(SUPPORT_LIFETIME_BLOCKS));
                let signature = identity.sign(&level::statement(epoch, *me, level, until));
                ReplicaReply::Supports { id, support: LevelSupport { until, signature } }
            }
        }
    }

    fn recent_status(&mut self, history: bool) -> Bytes {
        if let Some(last) = self.devices.desk.kept_status(self.now, history) {
            return last;
        }
        let begun = Instant::now();
        let fresh = self.status_json(history);
        self.devices.desk.keep_status(history, fresh.clone(), elapsed_ns(begun));
        fresh
    }

    /// Encodes the status as JSON that fits in a reply: drops the older half of the history until it does.
    fn status_json(&self, history: bool) -> Bytes {
        let mut status = self.status(history);
        loop {
            let json = serde_json::to_vec(&status).expect("a status has a form in JSON");
            if json.len() <= MAX_TEXT_BYTES {
                return json.into();
            }
            match status.history.len() {
                0 => {
                    status.evidence.truncate(status.evidence.len() / 2);
                    status.hearsay.truncate(status.hearsay.len() / 2);
                }
                samples => drop(status.history.drain(..samples.div_ceil(2))),
            }
        }
    }
}

fn elapsed_ns(begun: Instant) -> u64 {
    begun.elapsed().as_nanos() as u64
}

const FOR_OPERATORS_ONLY: &str = "this listener answers only requests for the status and for the support of a feature \
                                  level; help: use the address of `client_listen`";
