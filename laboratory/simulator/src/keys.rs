//! Keys of a simulated cluster's replicas and clients, drawn from the seed.

use crate::links::{Purpose, Random};
use crate::signatures::{Device, Modelled};
use crate::spec::{Signatures, SimSpec};
use bytes::Bytes;
use quorate_crypto::{
    BundleVerifier, CertificateFault, ClientAuthentication, ClientIdentity, Crypto, DEFAULT_CACHE_BUNDLES,
    IDENTITY_SCHEME, Keyring, MacKeys, ReplicaKeys, ReplicaMacKeys, SEED_BYTES, SchemeKind, VerifiedCache,
};
use quorate_hosting::desk::ClientVerifier;
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{Address, Bundle, ClientId, ClusterId, Committee, Digest, Genesis, Hasher, ReplicaId, tags};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;

/// A committee and its private keys.
struct Members {
    committee: Committee,
    keys: Vec<ReplicaKeys>,
}

impl Members {
    /// Draws the keys. The identity keys do not depend on the voting scheme.
    fn new(scheme: SchemeKind, genesis: &Genesis, seed: u64) -> Members {
        let mut random = Random::new(seed, Purpose::Keys, 0);
        let mut draw = || {
            let mut bytes = [0; SEED_BYTES];
            bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&random.bits().to_le_bytes()));
            ReplicaKeys::from_seed(scheme, bytes)
        };
        let keys: Vec<ReplicaKeys> = (0..genesis.quorum.replicas()).map(|_| draw()).collect();
        let address = Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let members = keys.iter().map(|keys| keys.member(address.clone())).collect();
        Members { committee: Committee { members, ..genesis.committee() }, keys }
    }
}

/// Returns the genesis of a simulated cluster. It has no members: their keys depend on the seed alone, and no two runs
/// share a network.
pub fn genesis(spec: &SimSpec) -> Genesis<'static> {
    Genesis {
        quorum: spec.quorum,
        protocol: spec.consensus.protocol.name(),
        scheme: spec.scheme.name(),
        vote_macs: spec.macs.map(SchemeKind::name),
        ..Genesis::of_name("quorate")
    }
}

/// Returns the crypto device of each replica.
pub fn devices(spec: &SimSpec, seed: u64) -> Vec<Device> {
    let genesis = genesis(spec);
    let (profile, remembered) = (spec.scheme.profile(), spec.certificate_cache.certificates());
    if spec.signatures == Signatures::Modelled || !profile.unforgeable {
        let model = |_| {
            let macs = spec.macs.map(SchemeKind::profile);
            Device::Modelled(Box::new(Modelled::new(genesis.epoch(), spec.quorum, profile, macs, remembered)))
        };
        return (0..spec.quorum.replicas()).map(model).collect();
    }
    let Members { committee, keys } = Members::new(spec.scheme, &genesis, seed);
    let shared = Keyring::shared(spec.scheme, &committee).expect("generated keys are valid");
    let device = |(me, ReplicaKeys { identity, voting: key }): (ReplicaId, ReplicaKeys)| {
        let crypto = match shared.clone() {
            Some(keyring) => Crypto::with_keyring(keyring, &committee, me, key, remembered),
            None => Crypto::new(spec.scheme, &committee, me, key, remembered),
        };
        let crypto = crypto.expect("generated keys are valid");
        let macs = spec.macs.map(|kind| MacKeys::new(kind, &committee, me, &identity));
        Device::Real(Box::new(match macs {
            Some(macs) => crypto.with_macs(macs.expect("generated keys are valid")),
            None => crypto,
        }))
    };
    committee.replicas().zip(keys).map(device).collect()
}

/// The clients' means of authenticating bundles, and the replicas' means of verifying them.
///
/// MACs are real even if signatures are modelled: a replica judges a bundle by its own MAC, so no model can declare a
/// bundle genuine. The charge for MACs comes from the table, as for signatures.
pub struct ClientKeys {
    cluster: ClusterId,
    authentication: ClientAuthentication,
    macs: Option<(SchemeKind, Members)>,
}

impl ClientKeys {
    /// # Panics
    /// If clients use MACs and `spec.macs` names no scheme.
    pub fn new(spec: &SimSpec, seed: u64) -> ClientKeys {
        let genesis = genesis(spec);
        let authentication = spec.client_authentication;
        let macs = (authentication == ClientAuthentication::Mac).then(|| {
            let scheme = spec.macs.expect("clients have MACs only where votes have");
            (scheme, Members::new(IDENTITY_SCHEME, &genesis, seed))
        });
        ClientKeys { cluster: genesis.cluster(), authentication, macs }
    }

    /// Returns the identity of an owner, with a key if clients have any.
    pub fn identity(&self, owner: u128) -> ClientIdentity {
        if self.authentication == ClientAuthentication::None {
            return ClientIdentity::claimed(ClientId(owner << ClientId::SESSION_BITS));
        }
        let mut seed = [0; SEED_BYTES];
        seed[..size_of::<u128>()].copy_from_slice(&owner.to_le_bytes());
        let identity = ClientIdentity::from_seed(&self.cluster, seed);
        match &self.macs {
            None => identity,
            Some((scheme, members)) => {
                identity.with_mac_keys(*scheme, &members.committee).expect("generated keys are valid")
            }
        }
    }

    /// Returns a replica's verifier of bundles.
    pub fn judge(&self, me: ReplicaId) -> Judge {
        match &self.macs {
            Some((scheme, members)) => {
                let identity = &members.keys[me.index()].identity;
                let keys = ReplicaMacKeys::new(*scheme, &members.committee, me, identity);
                let verifier = BundleVerifier::new(self.authentication, self.cluster, DEFAULT_CACHE_BUNDLES);
                Judge::new(JudgesBy::Macs(Box::new(verifier.with_mac_keys(keys.expect("generated keys are valid")))))
            }
            None if self.authentication == ClientAuthentication::None => Judge::new(JudgesBy::Nothing),
            None => Judge::new(JudgesBy::Signatures(VerifiedCache::new(DEFAULT_CACHE_BUNDLES))),
        }
    }
}

/// Verifier of clients' bundles at a simulated replica.
pub struct Judge {
    by: JudgesBy,
    /// Bundles to treat as forged, since a model has no forged signatures.
    forged: BTreeSet<Digest>,
    verifications: u64,
}

enum JudgesBy {
    /// Clients are not authenticated.
    Nothing,
    /// Signatures. They are genuine by construction, and each is verified once.
    Signatures(VerifiedCache),
    /// MACs, which each replica verifies for itself.
    Macs(Box<BundleVerifier>),
}

/// Modelled verification of bundles that are not in the cache.
#[derive(Clone, Debug, Default)]
pub struct ModelledCheck {
    pub genuine: Vec<Digest>,
    pub forged: BTreeSet<Digest>,
}

impl Judge {
    fn new(by: JudgesBy) -> Judge {
        Judge { by, forged: BTreeSet::new(), verifications: 0 }
    }

    /// Treats a bundle as forged if it is verified in this round. Forgets forged bundles that were not verified in the
    /// previous round.
    pub fn forge(&mut self, bundle: Digest) {
        self.forged.insert(bundle);
    }

    pub fn begin_round(&mut self) {
        self.forged.clear();
    }

    fn is_new(&self, bundle: &Digest) -> bool {
        matches!(&self.by, JudgesBy::Signatures(verified) if !verified.contains(bundle))
    }

    fn verified(&mut self, bundle: Digest) {
        if let JudgesBy::Signatures(verified) = &mut self.by {
            self.verifications += 1;
            verified.insert(bundle);
        }
    }
}

impl ClientVerifier for Judge {
    type Task = ModelledCheck;
    type Checked = ModelledCheck;

    fn kind(&self) -> ClientAuthentication {
        match self.by {
            JudgesBy::Nothing => ClientAuthentication::None,
            JudgesBy::Signatures(_) => ClientAuthentication::Ed25519,
            JudgesBy::Macs(_) => ClientAuthentication::Mac,
        }
    }

    fn requires_certificates(&self) -> bool {
        false
    }

    fn lacks_certificate(&mut self, _: &Bundle) -> Option<CertificateFault> {
        None
    }

    fn is_verified(&self, bundle: &Digest) -> bool {
        match &self.by {
            JudgesBy::Nothing => false,
            JudgesBy::Signatures(verified) => verified.contains(bundle),
            JudgesBy::Macs(verifier) => verifier.is_verified(bundle),
        }
    }

    fn begin<'a>(
        &mut self,
        bundles: impl IntoIterator<Item = &'a Bundle>,
    ) -> ControlFlow<BTreeSet<Digest>, ModelledCheck> {
        if let JudgesBy::Macs(verifier) = &mut self.by {
            let (forged, others): (Vec<&Bundle>, Vec<&Bundle>) =
                bundles.into_iter().partition(|bundle| self.forged.remove(&bundle.digest()));
            self.verifications += forged.len() as u64;
            let forged = forged.into_iter().map(Bundle::digest);
            return ControlFlow::Break(verifier.forged(others).into_iter().chain(forged).collect());
        }
        let (mut check, mut seen) = (ModelledCheck::default(), BTreeSet::new());
        for digest in bundles.into_iter().map(Bundle::digest) {
            if self.forged.remove(&digest) {
                check.forged.insert(digest);
            } else if self.is_new(&digest) && seen.insert(digest) {
                check.genuine.push(digest);
            }
        }
        match check.genuine.is_empty() && check.forged.is_empty() {
            true => ControlFlow::Break(BTreeSet::new()),
            false => ControlFlow::Continue(check),
        }
    }

    fn finish(&mut self, checked: ModelledCheck) -> BTreeSet<Digest> {
        checked.genuine.into_iter().for_each(|bundle| self.verified(bundle));
        checked.forged
    }

    fn are_genuine<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> bool {
        if let JudgesBy::Macs(verifier) = &mut self.by {
            return verifier.are_genuine(bundles);
        }
        for digest in bundles.into_iter().map(Bundle::digest) {
            if self.is_new(&digest) {
                self.verified(digest);
            }
        }
        true
    }

    fn verifications(&self) -> u64 {
        let real = if let JudgesBy::Macs(verifier) = &self.by { verifier.verifications() } else { 0 };
        self.verifications + real
    }
}

/// Signer of simulated handshakes and statements about levels. It is forgeable, but no simulated replica impersonates
/// another.
pub(crate) struct SimIdentity(pub ReplicaId);

fn signature(replica: ReplicaId, message: &[u8]) -> [u8; 32] {
    let mut hasher = Hasher::new(tags::SIMULATED_SIGNATURE);
    hasher.update(&replica.0.to_le_bytes());
    hasher.update(message);
    hasher.finish().0
}

impl Signer for SimIdentity {
    fn replica(&self) -> ReplicaId {
        self.0
    }

    fn sign(&self, message: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&signature(self.0, message))
    }
}

impl Verifier for SimIdentity {
    fn verify(&self, replica: ReplicaId, message: &[u8], proof: &[u8]) -> bool {
        proof == signature(replica, message)
    }
}
