//! Faulty clients.

use quorate_types::command::{CLIENT_MAC_BYTES, macs_in};
use quorate_types::{Bundle, ReplicaId};

/// Returns a client's bundle with a wrong MAC for each replica that is not `chosen`: the MAC attack of Clement et al.,
/// "Making Byzantine fault tolerant systems tolerate Byzantine faults" (Aardvark), NSDI 2009, section 3. If the client
/// signs, the signature is wrong, which all replicas detect.
///
/// # Panics
/// If the bundle has no authenticator.
pub fn divided(bundle: &Bundle, chosen: impl Fn(ReplicaId) -> bool) -> Bundle {
    let authenticator = bundle.authenticator().expect("only an authenticated bundle can be wrong for some");
    let (macs, signature_bytes) = (macs_in(authenticator.kind), authenticator.signature.len());
    let mut body = bundle.body().to_vec();
    let first = body.len() - signature_bytes;
    let wrong: Vec<usize> = match macs {
        0 => vec![first],
        _ => {
            let others = (0..macs).filter(|replica| !chosen(ReplicaId(*replica as u16)));
            others.map(|replica| first + replica * CLIENT_MAC_BYTES).collect()
        }
    };
    wrong.into_iter().for_each(|at| body[at] ^= 1);
    Bundle::from_body(body.into()).expect("an authenticator's bytes do not change the form")
}
