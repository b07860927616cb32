//! Checking that bundles are of the clients that they name.

use crate::bisect::find_bad;
use crate::cache::VerifiedCache;
use crate::client::{ClientAuthentication, ED25519_AUTHENTICATOR};
use crate::ed25519::{PUBLIC_KEY_BYTES, PublicKey, verify_many};
use quorate_types::command::BundleStatement;
use quorate_types::{Authenticator, Bundle, ClusterId, Digest};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Verified bundles to remember unless configured otherwise: what comes in during a second or so, in about 6 MB.
pub const DEFAULT_CACHE_BUNDLES: usize = 65_536;
/// Most clients whose keys stay decoded, which saves a sixth of a check; one more, and all are forgotten. About 0.5 kB each.
const MAX_DECODED_KEYS: usize = 4096;

/// One replica's check of clients' bundles. Bundles under one digest are the same to the last bit, their authenticators too, and
/// signatures are checked by the rules of ZIP-215, so every replica finds the same; and each bundle is checked once, whether it
/// comes from its client, from a peer who relays it, inside a proposal, or as the answer to a fetch.
pub struct BundleVerifier {
    kind: ClientAuthentication,
    cluster: ClusterId,
    verified: VerifiedCache,
    keys: HashMap<[u8; PUBLIC_KEY_BYTES], PublicKey>,
    verifications: u64,
}

/// A bundle that is to be checked: its name, its key, what is signed, and the signature.
struct Claim<'a> {
    bundle: Digest,
    public_key: &'a [u8; PUBLIC_KEY_BYTES],
    statement: BundleStatement,
    signature: &'a [u8],
}

impl BundleVerifier {
    /// A verifier that remembers the last `cache_bundles` verified bundles.
    pub fn new(kind: ClientAuthentication, cluster: ClusterId, cache_bundles: usize) -> BundleVerifier {
        let verified = VerifiedCache::new(cache_bundles);
        BundleVerifier { kind, cluster, verified, keys: HashMap::new(), verifications: 0 }
    }

    /// What is asked of bundles.
    pub fn kind(&self) -> ClientAuthentication {
        self.kind
    }

    /// The digests of those among the bundles that do not show whose they are: all signatures are checked at once, and if that fails,
    /// halves are, until every bad one is found. Where clients are not authenticated there are none.
    pub fn forged<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> BTreeSet<Digest> {
        let (claims, mut forged) = self.unverified(bundles);
        forged.extend(find_bad(&claims, |claims| self.check(claims)).into_iter().map(|claim| claim.bundle));
        let genuine = claims.iter().map(|claim| claim.bundle).filter(|bundle| !forged.contains(bundle));
        genuine.for_each(|bundle| self.verified.insert(bundle));
        forged
    }

    /// Whether there is none: one check of all, which costs a forger's victim no more than a message of genuine ones does.
    pub fn are_genuine<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> bool {
        let (claims, forged) = self.unverified(bundles);
        let genuine = forged.is_empty() && self.check(&claims);
        if genuine {
            claims.iter().for_each(|claim| self.verified.insert(claim.bundle));
        }
        genuine
    }

    /// The signatures to check, one for each bundle that was not found genuine lately, and the bundles that have none to check.
    fn unverified<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> (Vec<Claim<'a>>, BTreeSet<Digest>) {
        let (mut seen, mut forged, mut claims) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        if self.kind == ClientAuthentication::None {
            return (claims, forged);
        }
        if self.keys.len() >= MAX_DECODED_KEYS {
            self.keys.clear();
        }
        for bundle in bundles {
            let digest = bundle.digest();
            if self.verified.contains(&digest) || !seen.insert(digest) {
                continue;
            }
            match bundle.authenticator().and_then(|authenticator| self.decode(authenticator)) {
                Some((public_key, signature)) => {
                    let statement = bundle.statement(&self.cluster);
                    claims.push(Claim { bundle: digest, public_key, statement, signature });
                }
                None => drop(forged.insert(digest)),
            }
        }
        (claims, forged)
    }

    /// Whether all claims hold, whose keys are decoded.
    fn check(&mut self, claims: &[Claim<'_>]) -> bool {
        self.verifications += claims.len() as u64;
        match claims {
            [] => return true,
            [Claim { public_key, statement, signature, .. }] => {
                return self.keys[*public_key].verify(statement, signature);
            }
            _ => {}
        }
        let mut keys = Vec::new();
        let mut positions = BTreeMap::new();
        let mut position = |encoded| {
            *positions.entry(encoded).or_insert_with(|| {
                keys.push(&self.keys[encoded]);
                keys.len() - 1
            })
        };
        let at: Vec<usize> = claims.iter().map(|claim| position(claim.public_key)).collect();
        verify_many(&keys, claims.iter().zip(at).map(|(claim, at)| (at, &claim.statement[..], claim.signature)))
    }

    /// Whether a bundle was checked before and found genuine, lately.
    pub fn is_verified(&self, bundle: &Digest) -> bool {
        self.verified.contains(bundle)
    }

    /// Single signatures checked since the start: a batch of k counts k, and again for what is checked again to find the bad ones.
    pub fn verifications(&self) -> u64 {
        self.verifications
    }

    /// Returns an authenticator's key, which is decoded from then on, and its signature; `None` if they are not of Ed25519.
    fn decode<'a>(&mut self, authenticator: Authenticator<'a>) -> Option<(&'a [u8; PUBLIC_KEY_BYTES], &'a [u8])> {
        let Authenticator { kind: ED25519_AUTHENTICATOR, public_key, signature } = authenticator else { return None };
        let public_key = public_key.try_into().ok()?;
        if !self.keys.contains_key(public_key) {
            self.keys.insert(*public_key, PublicKey::decode(public_key)?);
        }
        Some((public_key, signature))
    }
}
