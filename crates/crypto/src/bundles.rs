//! Verification of clients' bundles.

use crate::admission::{CertificateFault, Certifier};
use crate::bisect::find_bad;
use crate::cache::VerifiedCache;
use crate::client::{CERTIFIED_AUTHENTICATOR, ClientAuthentication, ED25519_AUTHENTICATOR};
use crate::client_codes::ReplicaCodes;
use crate::ed25519::{PUBLIC_KEY_BYTES, PublicKey, verify_many};
use crate::verdicts::SharedVerdicts;
use quorate_types::command::BundleStatement;
use quorate_types::{Authenticator, Bundle, ClusterId, Digest};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Default number of verified bundles to remember: about a second's worth, in about 6 MB.
pub const DEFAULT_CACHE_BUNDLES: usize = 65_536;
/// Maximum number of decoded client keys, about 0.5 kB each. A decoded key saves a sixth of a verification. A full
/// table is cleared.
const MAX_DECODED_KEYS: usize = 4096;

/// Verifies clients' bundles for one replica. Each bundle is verified once, whether it arrives from its client, in a
/// peer's relay, in a proposal or in the answer to a fetch. A digest covers the authenticator, and ZIP-215 gives each
/// signature one verdict, so all replicas agree.
///
/// Verifiers of one process can [share](BundleVerifier::sharing) their verdicts, so that each bundle is verified
/// once in the process.
pub struct BundleVerifier {
    kind: ClientAuthentication,
    cluster: ClusterId,
    verified: VerifiedCache,
    shared: Option<Arc<SharedVerdicts>>,
    /// Admits only clients with its certificate.
    certifier: Option<Certifier>,
    keys: HashMap<[u8; PUBLIC_KEY_BYTES], PublicKey>,
    /// This replica's keys for clients' codes; nobody else can check them.
    codes: Option<ReplicaCodes>,
    verifications: u64,
}

/// A bundle's signature to verify.
struct Claim<'a> {
    bundle: Digest,
    public_key: &'a [u8; PUBLIC_KEY_BYTES],
    statement: BundleStatement,
    signature: &'a [u8],
}

impl BundleVerifier {
    /// Makes a verifier that remembers the last `cache_bundles` verified bundles.
    pub fn new(kind: ClientAuthentication, cluster: ClusterId, cache_bundles: usize) -> BundleVerifier {
        let verified = VerifiedCache::new(cache_bundles);
        BundleVerifier {
            kind,
            cluster,
            verified,
            shared: None,
            certifier: None,
            keys: HashMap::new(),
            codes: None,
            verifications: 0,
        }
    }

    /// Shares verdicts with the other verifiers of the same cluster that use `verdicts`.
    pub fn sharing(self, verdicts: Arc<SharedVerdicts>) -> BundleVerifier {
        BundleVerifier { shared: Some(verdicts), ..self }
    }

    /// Verifies codes with a replica's keys. Without, [`ClientAuthentication::Mac`] accepts nothing.
    pub fn with_codes(self, codes: ReplicaCodes) -> BundleVerifier {
        BundleVerifier { codes: Some(codes), ..self }
    }

    pub fn kind(&self) -> ClientAuthentication {
        self.kind
    }

    /// Takes bundles of clients without a certificate of `certifier` for forged.
    pub fn certified_by(self, certifier: Certifier) -> BundleVerifier {
        BundleVerifier { certifier: Some(certifier), ..self }
    }

    /// Returns whether only certified clients are admitted.
    pub fn requires_certificates(&self) -> bool {
        self.certifier.is_some()
    }

    /// Returns why a bundle's client is not certified, if certificates are required.
    pub fn lacks_certificate(&mut self, bundle: &Bundle) -> Option<CertificateFault> {
        self.certifier.as_mut()?.check(bundle.authenticator()).err()
    }

    /// Returns the digests of the bundles without a valid signature. Verifies all signatures in one batch, and bisects
    /// it if that fails. Returns none if clients are not authenticated.
    pub fn forged<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> BTreeSet<Digest> {
        if self.kind == ClientAuthentication::Mac {
            return bundles.into_iter().filter(|bundle| !self.has_code(bundle)).map(Bundle::digest).collect();
        }
        let (claims, mut forged) = self.unverified(bundles);
        let wanted: Vec<Digest> = claims.iter().map(|claim| claim.bundle).collect();
        let find = |verifier: &mut BundleVerifier, claims: &[Claim<'_>]| {
            find_bad(claims, |claims| verifier.check(claims)).into_iter().map(|claim| claim.bundle).collect()
        };
        forged.extend(self.settle(claims, find, |_| true));
        wanted.into_iter().filter(|bundle| !forged.contains(bundle)).for_each(|bundle| self.verified.insert(bundle));
        forged
    }

    /// Returns whether all bundles have valid signatures. Checks one batch without bisection, so forged bundles cost no
    /// more than genuine ones.
    pub fn are_genuine<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> bool {
        if self.kind == ClientAuthentication::Mac {
            return bundles.into_iter().all(|bundle| self.has_code(bundle));
        }
        let (claims, forged) = self.unverified(bundles);
        if !forged.is_empty() {
            return false;
        }
        let wanted: Vec<Digest> = claims.iter().map(|claim| claim.bundle).collect();
        let suspect = |verifier: &mut BundleVerifier, claims: &[Claim<'_>]| match verifier.check(claims) {
            true => BTreeSet::new(),
            false => claims.iter().map(|claim| claim.bundle).collect(),
        };
        let is_genuine = self.settle(claims, suspect, BTreeSet::is_empty).is_empty();
        if is_genuine {
            wanted.into_iter().for_each(|bundle| self.verified.insert(bundle));
        }
        is_genuine
    }

    /// Returns the bundles that `find` finds to be forged, or forged together with others, while `goes_on` with what
    /// was found. Asks it for all claims at once, or only for those that no other replica of this process verifies.
    fn settle(
        &mut self,
        mut claims: Vec<Claim<'_>>,
        find: impl Fn(&mut BundleVerifier, &[Claim<'_>]) -> BTreeSet<Digest>,
        goes_on: impl Fn(&BTreeSet<Digest>) -> bool,
    ) -> BTreeSet<Digest> {
        let Some(shared) = self.shared.clone() else { return find(self, &claims) };
        let mut forged = BTreeSet::new();
        while !claims.is_empty() && goes_on(&forged) {
            let wanted: Vec<Digest> = claims.iter().map(|claim| claim.bundle).collect();
            let (known, taken) = shared.take(&wanted);
            let (mut own, mut rest) = (Vec::new(), Vec::new());
            for (at, claim) in claims.into_iter().enumerate() {
                if taken.at.binary_search(&at).is_ok() {
                    own.push(claim);
                } else if known.binary_search(&at).is_err() {
                    rest.push(claim);
                }
            }
            let found = find(self, &own);
            taken.publish(|bundle| !found.contains(bundle));
            forged.extend(found);
            claims = rest;
        }
        forged
    }

    /// Returns whether a bundle has a code for this replica, or was accepted before.
    fn has_code(&mut self, bundle: &Bundle) -> bool {
        let digest = bundle.digest();
        if self.verified.contains(&digest) {
            return true;
        }
        let (Some(authenticator), Some(codes)) = (bundle.authenticator(), &mut self.codes) else { return false };
        self.verifications += 1;
        let genuine = codes.verify(authenticator, &bundle.statement(&self.cluster));
        if genuine {
            self.verified.insert(digest);
        }
        genuine
    }

    /// Returns the signatures to verify, one for each bundle not in the cache, and the bundles without a signature.
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
            if self.lacks_certificate(bundle).is_some() {
                forged.insert(digest);
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

    /// Verifies claims with decoded keys.
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

    /// Whether a bundle is in the cache of verified ones.
    pub fn is_verified(&self, bundle: &Digest) -> bool {
        self.verified.contains(bundle)
    }

    /// Number of signatures verified since the start. A batch of k counts k, and bisection counts again.
    pub fn verifications(&self) -> u64 {
        self.verifications + self.certifier.as_ref().map_or(0, Certifier::verifications)
    }

    /// Returns an authenticator's key, decoding it into the table, and its signature; `None` if they are not Ed25519.
    fn decode<'a>(&mut self, authenticator: Authenticator<'a>) -> Option<(&'a [u8; PUBLIC_KEY_BYTES], &'a [u8])> {
        let Authenticator { kind, public_key, signature } = authenticator;
        let public_key = match kind {
            ED25519_AUTHENTICATOR | CERTIFIED_AUTHENTICATOR => public_key.first_chunk()?,
            _ => return None,
        };
        if !self.keys.contains_key(public_key) {
            self.keys.insert(*public_key, PublicKey::decode(public_key)?);
        }
        Some((public_key, signature))
    }
}
