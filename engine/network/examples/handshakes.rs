//! Prints the CPU time of both ends for a handshake of the channel `tls`, full and resumed, in microseconds: `cargo run
//! --release -p quorate-network --example handshakes [HANDSHAKES]`. The inner handshake's committee signatures are
//! replaced by hashes, so only the cost of TLS remains.

use bytes::{Bytes, BytesMut};
use quorate_network::channels::{
    ChannelConfig, ChannelFactory, ChannelKind, KEY_UPDATE_RECORDS, LocalEnd, Sessions, Side, Versions,
};
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{ClusterId, EpochId, Hasher, Parameters, ReplicaId};
use std::sync::Arc;
use std::time::Instant;

const DEFAULT_HANDSHAKES: u32 = 2_000;
const ROUNDS: usize = 3;

struct Hash(ReplicaId);

fn hash(replica: ReplicaId, message: &[u8]) -> [u8; 32] {
    let mut hasher = Hasher::new(*b"exam");
    hasher.update(&replica.0.to_le_bytes());
    hasher.update(message);
    hasher.finish().0
}

impl Signer for Hash {
    fn replica(&self) -> ReplicaId {
        self.0
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&hash(self.0, message))
    }
}

impl Verifier for Hash {
    fn verify(&self, replica: ReplicaId, message: &[u8], signature: &[u8]) -> bool {
        signature == hash(replica, message)
    }
}

fn end(replica: u16, sessions: Sessions) -> ChannelConfig {
    ChannelConfig {
        kind: ChannelKind::TLS,
        cluster: ClusterId::from_name("example"),
        epoch: EpochId::of_name("example"),
        me: LocalEnd::Replica(Arc::new(Hash(ReplicaId(replica)))),
        verifier: Arc::new(Hash(ReplicaId(replica))),
        parameters: Parameters::default(),
        versions: Versions::ALL,
        key_update_records: KEY_UPDATE_RECORDS,
        sessions,
    }
}

fn shake_hands(dials: &ChannelConfig, accepts: &ChannelConfig) {
    let mut ends = [
        dials.open(Side::Initiator { expects: ReplicaId(1) }).expect("a channel"),
        accepts.open(Side::Responder).expect("a channel"),
    ];
    let (mut wires, mut plain, mut sent) = ([BytesMut::new(), BytesMut::new()], BytesMut::new(), Vec::new());
    ends[0].start(&mut sent);
    let mut to = 1;
    while !sent.is_empty() {
        wires[to].extend_from_slice(&sent);
        sent.clear();
        ends[to].receive(&mut wires[to], &mut plain, &mut sent).expect("both ends are honest");
        to = 1 - to;
    }
    assert!(ends.iter().all(|end| end.remote().is_some()), "the handshake is complete");
}

fn main() {
    let given = std::env::args().nth(1).map(|text| text.parse().expect("write a whole number of handshakes"));
    let handshakes = given.unwrap_or(DEFAULT_HANDSHAKES);
    for _ in 0..ROUNDS {
        for (name, sessions) in [("full", Sessions::default as fn() -> Sessions), ("resumed", Sessions::kept)] {
            let (dials, accepts) = (end(0, sessions()), end(1, sessions()));
            shake_hands(&dials, &accepts);
            let began = Instant::now();
            (0..handshakes).for_each(|_| shake_hands(&dials, &accepts));
            let each = began.elapsed().as_secs_f64() * 1e6 / f64::from(handshakes);
            println!("{name}: {each:.1} us ({} of {handshakes} resumed)", accepts.sessions.resumed());
        }
    }
}
