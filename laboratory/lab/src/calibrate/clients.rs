//! Costs of the clients, and of a replica's work on their bundles: runs the load generator's own code against an
//! executor.

use super::steps::once;
use super::{CalibrateError, ROUNDS, US_PER_NS};
use bytes::Bytes;
use quorate_applications::{ApplicationKind, BlockContext, Executor, Reply};
use quorate_client::load::{LoadCore, LoadMode, LoadOptions};
use quorate_client::workload::{WorkloadKind, workload};
use quorate_client::{ReplyMode, SessionOptions};
use quorate_crypto::ClientIdentity;
use quorate_hosting::{Answers, DEFAULT_REPLY_CACHE_BYTES, ReplyCache};
use quorate_simulator::CostTable;
use quorate_types::{
    Bundle, ClientId, ClientRequest, EpochId, Height, Quorum, ReplicaId, ReplicaReply, Time, decode_message,
    encode_message,
};
use std::time::Duration;

/// Outstanding commands of all clients.
const OUTSTANDING: usize = 1600;
const CLIENTS: usize = 4;
/// Replicas that answer each bundle.
const REPLICAS: u16 = 4;
/// Bundles of one measurement.
const MEASURED_BUNDLES: u64 = 4_000;
/// Bundle sizes of the two measurements, in commands. The difference gives the cost per command.
const COMMANDS: [usize; 2] = [1, 100];
/// Interval between steps of the load.
const BETWEEN: Duration = Duration::from_micros(100);

/// Nanoseconds per bundle.
#[derive(Clone, Copy)]
struct Shares {
    /// Creating the bundle.
    create: f64,
    /// Handling the replies of all replicas.
    replies: f64,
    /// A replica's work on receiving and answering the bundle.
    serve: f64,
    /// Size of a request in bytes.
    bytes: f64,
}

impl Shares {
    /// Combines two measurements, entry by entry.
    fn zip(self, other: Shares, with: fn(f64, f64) -> f64) -> Shares {
        Shares {
            create: with(self.create, other.create),
            replies: with(self.replies, other.replies),
            serve: with(self.serve, other.serve),
            bytes: with(self.bytes, other.bytes),
        }
    }
}

fn load(bundle: usize) -> LoadCore {
    let options = LoadOptions {
        clients: CLIENTS,
        mode: LoadMode::Closed { outstanding: OUTSTANDING / CLIENTS },
        bundle,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(3600),
        ..LoadOptions::default()
    };
    let quorum = Quorum::of(usize::from(REPLICAS)).expect("the size is sound");
    let session = SessionOptions { reply: ReplyMode::Each, ..SessionOptions::new(quorum) };
    let commands = workload(&WorkloadKind::Fixed, 0, 1, 1, None).expect("empty commands need no settings");
    let identity = ClientIdentity::claimed(ClientId(1 << 16));
    LoadCore::new(options, session, commands, identity).expect("the options are sound")
}

/// A replica's work for clients, without consensus.
struct Server {
    executor: Executor,
    cache: ReplyCache<Bytes>,
    height: Height,
    replies: Vec<Reply>,
}

impl Server {
    fn new() -> Server {
        let epoch = EpochId::of_name("calibrate");
        Server {
            executor: Executor::new(ApplicationKind::LOG.make(), &epoch),
            cache: ReplyCache::new(DEFAULT_REPLY_CACHE_BYTES, 1),
            height: Height(0),
            replies: Vec::new(),
        }
    }

    /// Receives a request, executes its bundle and encodes the reply. Returns the reply's frame, and the time without
    /// execution, which is measured elsewhere.
    fn serve(&mut self, frame: Bytes) -> Option<(Bytes, Duration)> {
        let (bundle, receiving) = once(|| self.receive(frame));
        let bundle = bundle?;
        self.height = self.height.next();
        let block = BlockContext::untimed(self.height);
        self.executor.execute(block, std::slice::from_ref(&bundle), &mut self.replies);
        let reply = self.replies.drain(..).next().expect("each bundle has a reply");
        let (reply, answering) = once(|| self.answer(reply));
        Some((reply, receiving + answering))
    }

    fn receive(&mut self, frame: Bytes) -> Option<Bundle> {
        let Ok(ClientRequest::Submit(bundle)) = decode_message(frame) else { return None };
        let is_new = self.executor.begins_anew(&bundle);
        is_new.then_some(bundle)
    }

    fn answer(&mut self, reply: Reply) -> Bytes {
        let Reply { bundle, height, results, is_new, .. } = reply;
        let results = Answers::Outcomes.form(results).expect("replies are on");
        self.cache.get_or_keep(bundle, is_new, || {
            let frame = encode_message(&ReplicaReply::Executed { bundle, height, results });
            let bytes = frame.len();
            (frame, bytes)
        })
    }
}

/// Runs a load with bundles of this many commands against one server, whose replies stand in for all replicas'.
fn measure(bundle: usize) -> Shares {
    let (mut core, mut server) = (load(bundle), Server::new());
    let (mut create, mut replying, mut serving) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let (mut bundles, mut bytes, mut now, mut out) = (0u64, 0usize, Time(0), Vec::new());
    while bundles < MEASURED_BUNDLES {
        now = now + BETWEEN;
        create += once(|| core.step(now, &mut out)).1;
        for request in out.drain(..) {
            let size = request.frame.len();
            let Some((reply, took)) = server.serve(request.frame) else { continue };
            serving += took;
            (bundles, bytes) = (bundles + 1, bytes + size);
            let receive = || {
                for from in 0..REPLICAS {
                    let decoded = decode_message::<ReplicaReply>(reply.clone()).expect("the server has encoded it");
                    core.receive(now, ReplicaId(from), decoded);
                }
            };
            replying += once(receive).1;
        }
    }
    let per = |time: Duration| time.as_nanos() as f64 / bundles as f64;
    let (create, replies, serve) = (per(create), per(replying), per(serving));
    Shares { create, replies, serve, bytes: bytes as f64 / bundles as f64 }
}

/// Measures the costs of the clients, and of a replica's work on their bundles. Hashes are charged by size elsewhere,
/// and decoding by the number of messages.
pub(super) fn clients(table: &mut CostTable) -> Result<(), CalibrateError> {
    let [small, large] = COMMANDS.map(|commands| {
        let first = measure(commands);
        (1..ROUNDS).fold(first, |best, _| best.zip(measure(commands), f64::min))
    });
    let further = (COMMANDS[1] - COMMANDS[0]) as f64;
    let slope = large.zip(small, |large, small| (large - small).max(0.0));
    let hash_ns = |bytes: f64| bytes * table.hash.byte_ns;
    let (create, reply) = ((slope.create - hash_ns(slope.bytes)).max(0.0) / further, slope.replies / further);
    let us = |ns: f64| ns.max(0.0) * US_PER_NS;
    table.client.command_us = us(create + reply);
    table.client.bundle_us = us(small.create - create - hash_ns(small.bytes));
    table.client.reply_us = us(small.replies - reply) / f64::from(REPLICAS);
    table.core.bundle_us = us(small.serve - hash_ns(small.bytes)).max(table.wire.receive_us) - table.wire.receive_us;
    Ok(())
}
