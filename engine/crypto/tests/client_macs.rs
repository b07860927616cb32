//! Client MACs: each replica judges a bundle by its own MAC, so a faulty client can divide the replicas.

use crate::common::{cluster, committee, keys};
use quorate_crypto::{BundleVerifier, ClientAuthentication, ClientIdentity, ReplicaMacKeys, SchemeKind};
use quorate_types::command::{MAX_CLIENT_MACS, authenticator_kind, kind_of_macs};
use quorate_types::{Bundle, BundleBuilder, ClusterId, Committee, Height, ReplicaId};

const MAC_SCHEMES: [SchemeKind; 2] = [SchemeKind::HMAC_SHA256, SchemeKind::AES_256_CMAC];
const MAC_BYTES: usize = 16;

fn members(size: u16) -> Committee {
    committee(SchemeKind::ED25519, size)
}

fn client(number: u8, scheme: SchemeKind, committee: &Committee) -> ClientIdentity {
    let identity = ClientIdentity::from_seed(&committee.cluster, [number + 1; 32]);
    identity.with_mac_keys(scheme, committee).expect("the members' keys are sound")
}

fn bundle(identity: &ClientIdentity, sequence: u64) -> Bundle {
    let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
    builder.push(identity.origin(), sequence, b"payload");
    identity.finish(builder)
}

fn verifier(scheme: SchemeKind, committee: &Committee, me: u16) -> BundleVerifier {
    let identity = &keys(SchemeKind::ED25519, me).identity;
    let keys = ReplicaMacKeys::new(scheme, committee, ReplicaId(me), identity).expect("the key is this replica's");
    BundleVerifier::new(ClientAuthentication::Mac, committee.cluster, 16).with_mac_keys(keys)
}

/// Returns the bundle with an invalid MAC for one of four replicas.
fn without_mac(bundle: &Bundle, replica: u16) -> Bundle {
    let mut body = bundle.body().to_vec();
    let at = body.len() - (4 - usize::from(replica)) * MAC_BYTES;
    body[at] ^= 1;
    Bundle::from_body(body.into()).expect("the form is unchanged")
}

#[test]
fn every_replica_accepts_its_own_mac_only() {
    for scheme in MAC_SCHEMES {
        let committee = members(4);
        let good = bundle(&client(1, scheme, &committee), 7);
        assert_eq!(good.authenticator().expect("it has MACs").signature.len(), 4 * MAC_BYTES);
        for me in 0..4 {
            assert!(verifier(scheme, &committee, me).are_genuine([&good]), "{scheme} at {me}");
            for other in 0..4 {
                let changed = without_mac(&good, other);
                assert_ne!(changed.digest(), good.digest(), "a bundle's name covers its MACs");
                let mut verifier = verifier(scheme, &committee, me);
                assert_eq!(verifier.are_genuine([&changed]), me != other, "{scheme}: MAC of {other} at {me}");
                assert_eq!(verifier.forged([&changed]).is_empty(), me != other);
                assert_eq!(verifier.is_verified(&changed.digest()), me != other);
            }
        }
    }
}

#[test]
fn macs_of_others_are_refused() {
    for scheme in MAC_SCHEMES {
        let committee = members(4);
        let (mine, anothers) = (client(1, scheme, &committee), client(2, scheme, &committee));
        let refused = |bundle: &Bundle| !verifier(scheme, &committee, 0).are_genuine([bundle]);
        let good = bundle(&mine, 7);
        let swapped = |other: &Bundle| {
            let kept = good.body().len() - 4 * MAC_BYTES;
            let macs = &other.body()[other.body().len() - 4 * MAC_BYTES..];
            Bundle::from_body([&good.body()[..kept], macs].concat().into()).expect("the form is the same")
        };
        assert!(refused(&swapped(&bundle(&mine, 8))), "MACs of another bundle");
        assert!(refused(&swapped(&bundle(&anothers, 7))), "MACs of another client");
        let mut elsewhere = members(4);
        elsewhere.cluster = ClusterId::from_name("another");
        assert!(refused(&swapped(&bundle(&client(1, scheme, &elsewhere), 7))), "MACs for another cluster");
        let other_scheme = MAC_SCHEMES[usize::from(scheme == MAC_SCHEMES[0])];
        assert!(refused(&bundle(&client(1, other_scheme, &committee), 7)), "MACs of another scheme");
        assert!(refused(&bundle(&client(1, scheme, &members(5)), 7)), "MACs for five replicas");
        let signed = bundle(&ClientIdentity::from_seed(&cluster(), [2; 32]), 7);
        assert!(refused(&signed), "a signature");
        let claimed = ClientIdentity::claimed(mine.origin());
        assert!(refused(&bundle(&claimed, 7)), "no authenticator");
        let mut signatures = BundleVerifier::new(ClientAuthentication::Ed25519, cluster(), 4);
        assert!(!signatures.are_genuine([&good]), "MACs where signatures are expected");
        let mut auditor = BundleVerifier::new(ClientAuthentication::Mac, cluster(), 4);
        assert!(!auditor.are_genuine([&good]), "an auditor has no keys");
    }
}

#[test]
fn kinds_of_authenticators_have_one_form_each() {
    let lengths = |kind| authenticator_kind(kind).map(|form| (form.public_key_bytes, form.signature_bytes));
    assert_eq!([0, 1].map(lengths), [Some((0, 0)), Some((32, 64))]);
    assert_eq!((kind_of_macs(0), kind_of_macs(MAX_CLIENT_MACS + 1)), (None, None));
    for macs in [1, 4, MAX_CLIENT_MACS] {
        let kind = kind_of_macs(macs).expect("the number is in range");
        assert_eq!(lengths(kind), Some((32, macs * MAC_BYTES)));
    }
    let last = kind_of_macs(MAX_CLIENT_MACS).expect("the number is in range");
    assert_eq!(lengths(last + 1), None);
    assert_eq!(lengths(u8::MAX), None);
}
