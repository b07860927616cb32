//! Verification of client bundles.

use crate::admission::{CertificateFault, Certifier};
use crate::bundle_task::{BundleTask, CheckedBundles, Claim};
use crate::cache::VerifiedCache;
use crate::client::{CERTIFIED_AUTHENTICATOR, ClientAuthentication, ED25519_AUTHENTICATOR};
use crate::client_macs::ReplicaMacKeys;
use crate::ed25519::{PUBLIC_KEY_BYTES, PublicKey};
use crate::verdicts::SharedVerdicts;
use quorate_types::{Authenticator, Bundle, ClusterId, Digest};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Default number of cached verified bundles: about a second's worth, in about 6 MB.
pub const DEFAULT_CACHE_BUNDLES: usize = 65_536;
/// Maximum number of cached decoded client keys, about 0.5 kB each. A decoded key saves a sixth of a verification. A
/// full table is cleared.
const MAX_DECODED_KEYS: usize = 4096;

/// Verifies client bundles for one replica. Each bundle is verified once, whether it arrives from its client, in a
/// peer's relay, in a proposal or in the answer to a fetch. A digest covers the authenticator, and ZIP-215 gives each
/// signature one verdict, so all replicas agree.
///
/// Verifiers of one process can [share](BundleVerifier::sharing) their verdicts, so that each bundle is verified once
/// per process.
pub struct BundleVerifier {
    kind: ClientAuthentication,
    cluster: ClusterId,
    verified: VerifiedCache,
    shared: Option<Arc<SharedVerdicts>>,
    /// If set, only clients with its certificate are admitted.
    certifier: Option<Certifier>,
    keys: HashMap<[u8; PUBLIC_KEY_BYTES], Arc<PublicKey>>,
    /// This replica's keys for client MACs; nobody else can verify these.
    mac_keys: Option<ReplicaMacKeys>,
    verifications: u64,
}

impl BundleVerifier {
    /// Creates a verifier that caches the last `cache_bundles` verified bundles.
    pub fn new(kind: ClientAuthentication, cluster: ClusterId, cache_bundles: usize) -> BundleVerifier {
        let verified = VerifiedCache::new(cache_bundles);
        BundleVerifier {
            kind,
            cluster,
            verified,
            shared: None,
            certifier: None,
            keys: HashMap::new(),
            mac_keys: None,
            verifications: 0,
        }
    }

    /// Shares verdicts with the other verifiers of the same cluster that use `verdicts`.
    pub fn sharing(self, verdicts: Arc<SharedVerdicts>) -> BundleVerifier {
        BundleVerifier { shared: Some(verdicts), ..self }
    }

    /// Verifies MACs with a replica's keys. Without them, [`ClientAuthentication::Mac`] accepts nothing.
    pub fn with_mac_keys(self, mac_keys: ReplicaMacKeys) -> BundleVerifier {
        BundleVerifier { mac_keys: Some(mac_keys), ..self }
    }

    pub fn kind(&self) -> ClientAuthentication {
        self.kind
    }

    /// Treats bundles of clients without a certificate from `certifier` as forged.
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
        match self.begin(bundles) {
            ControlFlow::Break(forged) => forged,
            ControlFlow::Continue(task) => self.finish(task.run()),
        }
    }

    /// Begins the work of [`forged`](BundleVerifier::forged). Returns the result if no expensive verification is
    /// needed, and otherwise a task that any thread can run, for [`finish`](BundleVerifier::finish).
    pub fn begin<'a>(
        &mut self,
        bundles: impl IntoIterator<Item = &'a Bundle>,
    ) -> ControlFlow<BTreeSet<Digest>, BundleTask> {
        if self.kind == ClientAuthentication::Mac {
            let forged = bundles.into_iter().filter(|bundle| !self.has_mac(bundle)).map(Bundle::digest);
            return ControlFlow::Break(forged.collect());
        }
        let (claims, unsigned) = self.unverified(bundles);
        if claims.is_empty() {
            return ControlFlow::Break(unsigned);
        }
        ControlFlow::Continue(BundleTask { claims, unsigned, shared: self.shared.clone() })
    }

    /// Takes the outcome of a task of this verifier.
    pub fn finish(&mut self, checked: CheckedBundles) -> BTreeSet<Digest> {
        self.verifications += checked.signatures;
        checked.genuine.into_iter().for_each(|bundle| self.verified.insert(bundle));
        checked.forged
    }

    /// Returns whether all bundles have valid signatures. Checks one batch without bisection, so forged bundles cost no
    /// more than genuine ones.
    pub fn are_genuine<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> bool {
        if self.kind == ClientAuthentication::Mac {
            return bundles.into_iter().all(|bundle| self.has_mac(bundle));
        }
        let (claims, unsigned) = self.unverified(bundles);
        if !unsigned.is_empty() {
            return false;
        }
        let task = BundleTask { claims, unsigned, shared: self.shared.clone() };
        self.finish(task.run_without_bisection()).is_empty()
    }

    /// Returns whether a bundle has a valid MAC for this replica, or was accepted before.
    fn has_mac(&mut self, bundle: &Bundle) -> bool {
        let digest = bundle.digest();
        if self.verified.contains(&digest) {
            return true;
        }
        let (Some(authenticator), Some(mac_keys)) = (bundle.authenticator(), &mut self.mac_keys) else { return false };
        self.verifications += 1;
        let genuine = mac_keys.verify(authenticator, &bundle.statement(&self.cluster));
        if genuine {
            self.verified.insert(digest);
        }
        genuine
    }

    /// Returns the signatures to verify, one for each bundle not in the cache, and the bundles without a signature.
    fn unverified<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> (Vec<Claim>, BTreeSet<Digest>) {
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
                Some(key) => {
                    claims.push(Claim { bundle: bundle.clone(), key, statement: bundle.statement(&self.cluster) })
                }
                None => drop(forged.insert(digest)),
            }
        }
        (claims, forged)
    }

    /// Returns whether a bundle is in the cache of verified ones.
    pub fn is_verified(&self, bundle: &Digest) -> bool {
        self.verified.contains(bundle)
    }

    /// Number of signatures verified since the start. A batch of k counts k, and bisection counts them again.
    pub fn verifications(&self) -> u64 {
        self.verifications + self.certifier.as_ref().map_or(0, Certifier::verifications)
    }

    /// Returns an authenticator's key, adding it to the table if necessary; `None` if it is not an Ed25519 key.
    fn decode(&mut self, authenticator: Authenticator<'_>) -> Option<Arc<PublicKey>> {
        let public_key: &[u8; PUBLIC_KEY_BYTES] = match authenticator.kind {
            ED25519_AUTHENTICATOR | CERTIFIED_AUTHENTICATOR => authenticator.public_key.first_chunk()?,
            _ => return None,
        };
        if let Some(key) = self.keys.get(public_key) {
            return Some(key.clone());
        }
        let key = Arc::new(PublicKey::decode(public_key)?);
        self.keys.insert(*public_key, key.clone());
        Some(key)
    }
}
