//! The wire format, for tests that speak it over bare sockets and may lie in it.

use quorate_types::codec::WIRE_VERSION;
use quorate_types::{ClientRequest, ClusterId, EpochId, ReplicaId, encode_message};

/// Role of a client in a hello.
const CLIENT: u8 = 2;

/// Returns the hello of a client that claims an id. Layout: magic, version, cluster, epoch, role, id, expected replica,
/// nonce.
pub fn hello((cluster, epoch): (ClusterId, EpochId), client: u128, replica: ReplicaId) -> Vec<u8> {
    let mut hello = b"QUORATE\n".to_vec();
    hello.push(WIRE_VERSION);
    hello.extend_from_slice(&cluster.0.0);
    hello.extend_from_slice(&epoch.0.0);
    hello.push(CLIENT);
    hello.extend_from_slice(&client.to_le_bytes());
    hello.push(1);
    hello.extend_from_slice(&replica.0.to_le_bytes());
    hello.extend_from_slice(&[0; 32]);
    hello
}

/// Returns a request's frame: its length, and the message.
pub fn frame(request: &ClientRequest) -> Vec<u8> {
    let body = encode_message(request);
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}
