//! Keys of a simulated cluster, drawn from the seed: the replicas' and their clients'.

use crate::signatures::{Device, Modelled};
use crate::spec::{Signatures, SimSpec};
use quorate_crypto::{
    BundleVerifier, ClientAuthentication, ClientIdentity, Crypto, DEFAULT_CACHE_BUNDLES, IDENTITY_SCHEME, Keyring,
    MacKeys, ReplicaCodes, ReplicaKeys, SEED_BYTES, SchemeKind, VerifiedCache,
};
use quorate_links::{Purpose, Random};
use quorate_types::{Address, Bundle, ClientId, ClusterId, Committee, Digest, Genesis, ReplicaId};
use std::net::{Ipv4Addr, SocketAddr};

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

/// What clients authenticate bundles with, and replicas judge them by.
///
/// Codes are real, whether or not signatures are: a replica judges a bundle by its own code, so no model can say that a
/// bundle is genuine. What codes cost comes from the table, as for signatures.
pub struct ClientKeys {
    cluster: ClusterId,
    authentication: ClientAuthentication,
    codes: Option<(SchemeKind, Members)>,
}

impl ClientKeys {
    /// # Panics
    /// If clients have codes and `spec.macs` names no scheme.
    pub fn new(spec: &SimSpec, seed: u64) -> ClientKeys {
        let genesis = genesis(spec);
        let authentication = spec.client_authentication;
        let codes = (authentication == ClientAuthentication::Mac).then(|| {
            let scheme = spec.macs.expect("clients have codes only where votes have");
            (scheme, Members::new(IDENTITY_SCHEME, &genesis, seed))
        });
        ClientKeys { cluster: genesis.cluster(), authentication, codes }
    }

    /// Returns the identity of an owner, with a key if clients have any.
    pub fn identity(&self, owner: u128) -> ClientIdentity {
        if self.authentication == ClientAuthentication::None {
            return ClientIdentity::claimed(ClientId(owner << ClientId::SESSION_BITS));
        }
        let mut seed = [0; SEED_BYTES];
        seed[..size_of::<u128>()].copy_from_slice(&owner.to_le_bytes());
        let identity = ClientIdentity::from_seed(&self.cluster, seed);
        match &self.codes {
            None => identity,
            Some((scheme, members)) => {
                identity.with_codes(*scheme, &members.committee).expect("generated keys are valid")
            }
        }
    }

    /// Returns what a replica judges bundles by.
    pub fn judge(&self, me: ReplicaId) -> Judge {
        match &self.codes {
            Some((scheme, members)) => {
                let identity = &members.keys[me.index()].identity;
                let codes = ReplicaCodes::new(*scheme, &members.committee, me, identity);
                let verifier = BundleVerifier::new(self.authentication, self.cluster, DEFAULT_CACHE_BUNDLES);
                Judge::Codes(Box::new(verifier.with_codes(codes.expect("generated keys are valid"))))
            }
            None if self.authentication == ClientAuthentication::None => Judge::Unauthenticated,
            None => Judge::Signatures(VerifiedCache::new(DEFAULT_CACHE_BUNDLES)),
        }
    }
}

/// What a replica judges clients' bundles by.
pub enum Judge {
    /// Clients are not authenticated.
    Unauthenticated,
    /// Signatures. They are genuine by construction, and each is verified once.
    Signatures(VerifiedCache),
    /// Codes, which each replica judges alone.
    Codes(Box<BundleVerifier>),
}

impl Judge {
    /// Returns whether each replica judges a bundle by a code of its own.
    pub fn judges_alone(&self) -> bool {
        matches!(self, Judge::Codes(_))
    }

    /// Returns whether a bundle is genuine, and the number of signatures or codes that were verified for that.
    pub fn check(&mut self, bundle: &Bundle) -> (bool, u64) {
        match self {
            Judge::Unauthenticated => (true, 0),
            Judge::Signatures(verified) => {
                let digest: Digest = bundle.digest();
                let is_new = !verified.contains(&digest);
                if is_new {
                    verified.insert(digest);
                }
                (true, u64::from(is_new))
            }
            Judge::Codes(verifier) => {
                let before = verifier.verifications();
                let genuine = verifier.are_genuine([bundle]);
                (genuine, verifier.verifications() - before)
            }
        }
    }
}
