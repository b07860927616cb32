//! A single simulated replica, whose clients and time are controlled by a test.

use crate::charges::Tariffs;
use crate::chronicle::Chronicle;
use crate::hostile::Request;
use crate::keys::{ClientKeys, devices, genesis};
use crate::levels;
use crate::node::{Begun, Destination, Node, Reborn, Surroundings};
use crate::oracle::Oracle;
use crate::parcel::{Body, Parcel, Scratch};
use crate::run::{NodeSettings, behaviour, checkpoints, node, oracle};
use crate::spec::SimSpec;
use crate::transcript::Transcript;
use crate::world::charges_of;
use bytes::Bytes;
use quorate_adversary::byzantine::malleable::{ForMalleable, Malleable, for_malleable};
use quorate_consensus::Protocol;
use quorate_consensus::replica::MakeReplica;
use quorate_hosting::desk::{AdmissionPolicy, QuestionPolicy};
use quorate_types::{Bundle, ClientId, ClientRequest, ReplicaId, ReplicaReply, Time, decode_message};
use std::sync::Arc;

/// The only replica of a cluster.
pub struct ScriptedReplica(Box<dyn Scripted>);

impl ScriptedReplica {
    /// Creates a replica for `links` client links, which do not count as authenticated. The specification's quorum has
    /// one replica.
    pub fn new(spec: &SimSpec, links: u16, policy: AdmissionPolicy, questions: QuestionPolicy<u16>) -> ScriptedReplica {
        assert_eq!(spec.quorum.replicas(), 1, "nobody else takes part");
        ScriptedReplica(for_malleable(spec.consensus.protocol, Making { spec, links, policy, questions }))
    }

    /// Connects a client over a link; it claims this ID.
    pub fn connect(&mut self, link: u16, client: ClientId) {
        self.0.connect(link, client);
    }

    pub fn disconnect(&mut self, link: u16, client: ClientId) {
        self.0.disconnect(link, client);
    }

    /// Receives a frame from a link's client.
    pub fn receive(&mut self, link: u16, client: ClientId, frame: Bytes) {
        let bytes = frame.len() as u32;
        self.0.ask(link, Request::Frame(client, frame), bytes);
    }

    /// Receives a bundle in a frame of `bytes`, whose signature counts as forged. Its origin is the client.
    pub fn receive_forged(&mut self, link: u16, bundle: Bundle, bytes: usize) {
        self.0.ask(link, Request::Forged(bundle), bytes as u32);
    }

    /// Runs an iteration. Returns the replies by link, in the order of sending.
    pub fn turn(&mut self, now: Time) -> Vec<(u16, Arc<ReplicaReply>)> {
        self.0.turn(now)
    }
}

trait Scripted {
    fn connect(&mut self, link: u16, client: ClientId);
    fn disconnect(&mut self, link: u16, client: ClientId);
    fn ask(&mut self, link: u16, request: Request, bytes: u32);
    fn turn(&mut self, now: Time) -> Vec<(u16, Arc<ReplicaReply>)>;
}

/// A node, and the part of a world that it accesses.
struct Alone<P: Protocol> {
    node: Node<P>,
    tariffs: Tariffs,
    oracle: Oracle,
    chronicle: Chronicle,
    transcript: Transcript,
    scratch: Scratch,
}

impl<P: Protocol> Scripted for Alone<P> {
    fn connect(&mut self, link: u16, client: ClientId) {
        self.node.connect(link, client);
    }

    fn disconnect(&mut self, link: u16, client: ClientId) {
        self.node.disconnect(link, client);
    }

    fn ask(&mut self, link: u16, request: Request, bytes: u32) {
        if let Request::Frame(_, frame) = &request
            && let Ok(ClientRequest::Submit(bundle)) = decode_message(frame.clone())
        {
            self.oracle.submitted(&bundle);
        }
        self.node.ask(link, request, bytes);
    }

    fn turn(&mut self, now: Time) -> Vec<(u16, Arc<ReplicaReply>)> {
        let (mut outgoing, mut begun) = (Vec::new(), Vec::new());
        let mut surroundings = Surroundings {
            charges: self.tariffs.of(false, false),
            oracle: &mut self.oracle,
            chronicle: &mut self.chronicle,
            outgoing: &mut outgoing,
            begun: &mut begun,
            transcript: &mut self.transcript,
            recorder: None,
            scratch: &mut self.scratch,
            homes: &[],
            commits: &mut Vec::new(),
        };
        self.node.turn(now, &mut surroundings);
        assert_eq!(self.oracle.violation, None, "the oracle has no objection");
        for begun in begun {
            match begun {
                Begun::Flush(record) => self.node.flushed(record),
                Begun::Keep(height) => self.node.kept(height),
                Begun::Question(..) => unreachable!("no other thread verifies"),
            }
        }
        outgoing.into_iter().flat_map(|(to, parcel)| replies(to, parcel)).collect()
    }
}

fn replies<M>(to: Destination, parcel: Parcel<M>) -> Vec<(u16, Arc<ReplicaReply>)> {
    match (to, parcel.body) {
        // The client machines come after the replica.
        (Destination::One(to), Body::Replies(replies)) => {
            replies.into_iter().map(|reply| (to as u16 - 1, reply)).collect()
        }
        _ => unreachable!("there are no peers"),
    }
}

struct Making<'a> {
    spec: &'a SimSpec,
    links: u16,
    policy: AdmissionPolicy,
    questions: QuestionPolicy<u16>,
}

impl ForMalleable for Making<'_> {
    type Output = Box<dyn Scripted>;

    fn run<P: Protocol<Message: Malleable> + 'static>(self, make: MakeReplica<P>) -> Box<dyn Scripted> {
        let Making { spec, links, policy, questions } = self;
        let (me, epoch, salt) = (ReplicaId(0), genesis(spec).epoch(), 0);
        let replica = make(spec.consensus.clone(), spec.quorum, epoch, me, salt);
        let (executor, seen_levels) = levels::executor(spec, checkpoints(&spec.consensus));
        let made = Reborn { replica, executor, seen_levels, behaviour: behaviour(spec, me), salt };
        let origins = (0..links).map(|link| ClientId(u128::MAX - u128::from(link))).collect();
        let settings = NodeSettings { keeps_journal: false, marks: false, models_clients: false, origins };
        let judge = ClientKeys::new(spec, 0).judge(me);
        let mut node = node(spec, me, devices(spec, 0).remove(0), made, judge, settings);
        node.set_policies(policy, questions);
        Box::new(Alone {
            node,
            tariffs: Tariffs::new(&charges_of(spec), &spec.costs),
            oracle: oracle(spec, links.into(), epoch, false),
            chronicle: Chronicle::new(1),
            transcript: Transcript::new(false),
            scratch: Scratch::default(),
        })
    }
}
