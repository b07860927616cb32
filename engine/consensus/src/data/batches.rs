//! Batches of spread bundles, and the certificates that n-f replicas hold them.
//!
//! A replica that spreads bundles lists them in a [`Batch`]. Each replica that has journaled all of them signs that it
//! keeps them ([`Domain::Stored`]), and n-f signatures form a certificate. From then on a leader may propose the
//! bundles. Its block names the certificate of each bundle. A replica that lacks a bundle may vote for the block if it
//! did not sign the bundle's certificate: at least f+1 honest replicas did, and keep the bundle. The argument is in
//! `docs/adr/045-certified-bundles.md`.

use crate::data::block_limits::Load;
use crate::data::digest_map::{DigestMap, Salt};
use quorate_types::codec::encode_list;
use quorate_types::wire;
use quorate_types::{
    Block, Bundle, Certificate, CoverNames, Digest, Domain, Encoder, Hasher, Height, Quorum, ReplicaId, Subject, Time,
    View, Wire, tags,
};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of bundles in a batch.
pub const MAX_BATCH_BUNDLES: usize = 4096;
/// Maximum number of bundles in all kept batches of one spreader, 40 bytes each. Further batches are not acknowledged.
const MAX_LISTED_BUNDLES: usize = 1 << 18;
/// Maximum number of kept batches of one spreader. Further ones are not acknowledged.
const MAX_BATCHES: usize = 4096;
/// Minimum time for which a certificate is kept, because a leader may send it just before it proposes the bundles.
const MIN_KEPT: Duration = Duration::from_secs(2);
/// Maximum number of certificates of one batch, with different signers. Its spreader forms one; only a faulty spreader
/// forms more, and a replica that lacks the bundles of a further one waits for them.
const MAX_CERTIFICATES: usize = 4;
/// Time after which a batch without a quorum of acknowledgements is dropped.
pub const MAX_UNCERTIFIED: Duration = Duration::from_secs(60);

/// Bundle of a batch, with its size, so that a block can be checked against the limits without its bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub bundle: Digest,
    pub commands: u32,
    /// Length of the encoded bundle, in bytes.
    pub bytes: u32,
}

impl Entry {
    pub fn of(bundle: &Bundle) -> Entry {
        let limited = |size: usize| u32::try_from(size).expect("the wire format limits the size of a bundle");
        Entry { bundle: bundle.digest(), commands: limited(bundle.len()), bytes: limited(bundle.body().len()) }
    }

    pub(crate) fn load(&self) -> Load {
        Load::new(self.commands as usize, self.bytes as usize)
    }
}

const ENTRY_BYTES: usize = 32 + 4 + 4;

wire! { struct Entry { bundle, commands: u32["commands of a bundle"], bytes: u32["bytes of a bundle"] } }

/// Bundles that one replica spread, certified together. Batches are independent, so one that is never certified does
/// not delay others, and two with the same number do no harm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    digest: Digest,
    spreader: ReplicaId,
    /// Counter of the spreader since its last start, by which it tallies acknowledgements.
    number: u64,
    /// Last height of a block that may rely on the certificate.
    until: Height,
    entries: Vec<Entry>,
}

impl Batch {
    /// Creates a batch on whose certificate blocks up to the height `until` may rely.
    pub fn new(spreader: ReplicaId, number: u64, until: Height, entries: Vec<Entry>) -> Batch {
        let mut out = Encoder::with_capacity(24 + entries.len() * ENTRY_BYTES);
        spreader.encode(&mut out);
        out.put_u64(number);
        until.encode(&mut out);
        encode_list(&entries, &mut out);
        let mut hasher = Hasher::new(tags::BATCH);
        hasher.update(&out.finish());
        Batch { digest: hasher.finish(), spreader, number, until, entries }
    }

    pub fn digest(&self) -> Digest {
        self.digest
    }

    pub fn spreader(&self) -> ReplicaId {
        self.spreader
    }

    /// Returns the last height of a block that may rely on the certificate. Acknowledged bundles are kept up to this
    /// height.
    pub fn until(&self) -> Height {
        self.until
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the subject signed by acknowledgements of the batch.
    pub fn subject(&self) -> Subject {
        Subject { domain: Domain::Stored, view: View(0), height: Height(self.number), digest: self.digest }
    }
}

wire! {
    struct Batch {
        spreader,
        number: u64["number of a batch"],
        until,
        entries: list["bundles of a batch", MAX_BATCH_BUNDLES, ENTRY_BYTES],
    } by Batch::new
}

/// Batch with the proof that a quorum holds its bundles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cover {
    pub batch: Arc<Batch>,
    pub certificate: Certificate,
}

impl Cover {
    /// Returns whether the certificate, if genuine, belongs to this batch.
    pub fn is_well_formed(&self) -> bool {
        self.certificate.subject == self.batch.subject() && self.certificate.attachments.is_empty()
    }

    /// Returns the name by which blocks refer to the certificate: a digest of its batch and its signers.
    pub fn name(&self) -> Digest {
        name(&self.certificate)
    }
}

/// Returns the name of a certificate. It does not cover the proof: a replica relies on the signers, not on the bytes of
/// their signatures.
fn name(certificate: &Certificate) -> Digest {
    let mut out = Encoder::with_capacity(128);
    certificate.subject.encode(&mut out);
    certificate.signers.encode(&mut out);
    let mut hasher = Hasher::new(tags::COVER);
    hasher.update(&out.finish());
    hasher.finish()
}

wire! { struct Cover { batch, certificate } }

struct Known {
    batch: Arc<Batch>,
    /// Certificates with different signers, each with its name. This replica's own blocks name the first.
    certificates: Vec<(Digest, Certificate)>,
    since: Time,
}

impl Known {
    fn certificate(&self, name: &Digest) -> Option<&Certificate> {
        self.certificates.iter().find(|(known, _)| known == name).map(|(_, certificate)| certificate)
    }
}

/// The batches known to a replica, its own and the others'.
pub struct Batches {
    me: ReplicaId,
    known: DigestMap<Known>,
    /// Each bundle's last batch, or last certified batch, and the bundle's index in it.
    of_bundle: DigestMap<(Digest, u32)>,
    /// Batch of each certificate, by the certificate's name.
    named: DigestMap<Digest>,
    /// When each spreader last listed each bundle, keyed by [`listing`].
    listed: DigestMap<Time>,
    /// Minimum time between two listings of a bundle by the same spreader; an earlier one is not acknowledged.
    relist_after: Duration,
    /// Number of batches of each spreader, and of bundles in them.
    kept: Vec<(usize, usize)>,
}

impl Batches {
    /// Creates an empty collection. A spreader waits at least `relist_after` before it lists a bundle again.
    pub fn new(quorum: Quorum, me: ReplicaId, relist_after: Duration, salt: Salt) -> Batches {
        Batches {
            me,
            known: DigestMap::with_hasher(salt),
            of_bundle: DigestMap::with_hasher(salt),
            named: DigestMap::with_hasher(salt),
            listed: DigestMap::with_hasher(salt),
            relist_after,
            kept: vec![(0, 0); quorum.replicas()],
        }
    }

    /// Adds a batch without a certificate. Returns false if its spreader has too many.
    pub fn add(&mut self, now: Time, batch: Arc<Batch>) -> bool {
        if self.contains(&batch.digest) {
            return true;
        }
        let has_room = self.has_room(&batch);
        if has_room {
            self.insert(now, batch, None);
        }
        has_room
    }

    /// Adds a batch with its verified certificate, even beyond the limit of batches: a quorum was within its limit.
    pub fn cover(&mut self, now: Time, cover: Cover) {
        let (name, Cover { batch, certificate }) = (cover.name(), cover);
        if let Some(known) = self.known.get_mut(&batch.digest) {
            if known.certificate(&name).is_some() || known.certificates.len() >= MAX_CERTIFICATES {
                return;
            }
            known.certificates.push((name, certificate));
            for (entry, at) in known.batch.entries.iter().zip(0..) {
                self.of_bundle.insert(entry.bundle, (batch.digest, at));
            }
        } else {
            self.insert(now, batch.clone(), Some((name, certificate)));
        }
        self.named.insert(name, batch.digest);
    }

    /// Returns whether the spreader of a batch listed one of its bundles in another batch shortly before. An honest
    /// spreader waits until a batch is overdue.
    pub fn is_listed_again(&self, now: Time, batch: &Batch) -> bool {
        let recently = |entry: &Entry| {
            let listed = self.listed.get(&listing(&entry.bundle, batch.spreader));
            listed.is_some_and(|listed| now < *listed + self.relist_after)
        };
        !self.contains(&batch.digest) && batch.entries.iter().any(recently)
    }

    fn has_room(&self, batch: &Batch) -> bool {
        let (batches, bundles) = self.kept[batch.spreader.index()];
        batches < MAX_BATCHES && bundles + batch.entries.len() <= MAX_LISTED_BUNDLES
    }

    fn insert(&mut self, now: Time, batch: Arc<Batch>, certificate: Option<(Digest, Certificate)>) {
        let (batches, bundles) = &mut self.kept[batch.spreader.index()];
        (*batches, *bundles) = (*batches + 1, *bundles + batch.entries.len());
        for (entry, at) in batch.entries.iter().zip(0..) {
            if certificate.is_some() || self.cover_of(&entry.bundle).is_none() {
                self.of_bundle.insert(entry.bundle, (batch.digest, at));
            }
            self.listed.insert(listing(&entry.bundle, batch.spreader), now);
        }
        let certificates = certificate.into_iter().collect();
        self.known.insert(batch.digest, Known { batch, certificates, since: now });
    }

    pub fn contains(&self, batch: &Digest) -> bool {
        self.known.contains_key(batch)
    }

    /// Returns a batch that has no certificate yet.
    pub fn uncertified(&self, batch: &Digest) -> Option<&Arc<Batch>> {
        self.known.get(batch).filter(|known| known.certificates.is_empty()).map(|known| &known.batch)
    }

    /// Returns whether a cover is superfluous: its certificate is known, or its batch already has the maximum number of
    /// certificates.
    pub fn has_enough(&self, cover: &Cover) -> bool {
        let known = self.known.get(&cover.certificate.subject.digest);
        known.is_some_and(|known| {
            known.certificates.len() >= MAX_CERTIFICATES || known.certificate(&cover.name()).is_some()
        })
    }

    /// Returns the certified batch that lists a bundle.
    pub fn cover_of(&self, bundle: &Digest) -> Option<(&Arc<Batch>, &Certificate)> {
        let known = self.known.get(&self.of_bundle.get(bundle)?.0)?;
        known.certificates.first().map(|(_, certificate)| (&known.batch, certificate))
    }

    /// Returns the certificates on which a block with these bundles relies.
    pub fn names(&self, payload: &[Digest]) -> CoverNames {
        CoverNames::new(payload.iter().map(|bundle| {
            let known = self.known.get(&self.of_bundle.get(bundle)?.0)?;
            known.certificates.first().map(|(name, _)| *name)
        }))
    }

    /// Returns the known covers that a block names.
    pub fn named_by(&self, block: &Block) -> Vec<Cover> {
        let cover = |name| {
            let known = self.known.get(self.named.get(name)?)?;
            Some(Cover { batch: known.batch.clone(), certificate: known.certificate(name)?.clone() })
        };
        block.covers().names().iter().filter_map(cover).collect()
    }

    /// Returns the covers of these bundles, without duplicates.
    pub fn covers<'a>(&self, bundles: impl IntoIterator<Item = &'a Digest>) -> Vec<Cover> {
        let mut covers: Vec<Cover> = Vec::new();
        let mut last = Digest::ZERO;
        for (batch, certificate) in bundles.into_iter().filter_map(|bundle| self.cover_of(bundle)) {
            // The bundles of one batch are often adjacent.
            if batch.digest == last || covers.iter().any(|cover| cover.batch.digest == batch.digest) {
                continue;
            }
            last = batch.digest;
            covers.push(Cover { batch: batch.clone(), certificate: certificate.clone() });
        }
        covers
    }

    /// Returns the size of the missing bundle at this index of a block, if the certificate named for it shows that
    /// honest replicas keep the bundle. A certificate that this replica signed itself does not show that: this replica
    /// has lost its disk since, and the other signers may have, too.
    pub(crate) fn vouch(&self, block: &Block, position: usize) -> Option<Load> {
        let bundle = block.payload.get(position)?;
        let any = || bug!(AnyCertificate).then(|| self.names(std::slice::from_ref(bundle)).names().first().copied());
        let name = any().flatten().or(block.covers().of(position).copied())?;
        let known = self.known.get(self.named.get(&name)?)?;
        if known.certificate(&name)?.signers.contains(self.me) && !bug!(StoredUnseen) {
            return None;
        }
        if block.height > known.batch.until {
            return None;
        }
        let (last, at) = self.of_bundle.get(bundle)?;
        match *last == known.batch.digest {
            true => known.batch.entries.get(*at as usize).map(Entry::load),
            false => known.batch.entries.iter().find(|entry| entry.bundle == *bundle).map(Entry::load),
        }
    }

    /// Returns a replica that has signed that it holds a bundle. The choice differs between bundles.
    pub fn holder(&self, bundle: &Digest) -> Option<ReplicaId> {
        let (_, certificate) = self.cover_of(bundle)?;
        let others = || certificate.signers.iter().filter(|signer| *signer != self.me);
        others().nth(bundle.prefix() as usize % others().count().max(1))
    }

    /// Drops the batches that are no longer needed: those without an open bundle, and those that nobody certifies.
    pub fn sweep(&mut self, now: Time, is_open: impl Fn(&Digest) -> bool) {
        let Batches { known, kept, of_bundle, named, listed, .. } = self;
        known.retain(|digest, known| {
            let age = now.since(known.since);
            let open = || known.batch.entries.iter().any(|entry| is_open(&entry.bundle));
            let keep = match known.certificates.is_empty() {
                false => age < MIN_KEPT || open(),
                true => age < MAX_UNCERTIFIED && open(),
            };
            if !keep {
                let (batches, bundles) = &mut kept[known.batch.spreader.index()];
                (*batches, *bundles) = (*batches - 1, *bundles - known.batch.entries.len());
                for (name, _) in &known.certificates {
                    named.remove(name);
                }
                for entry in &known.batch.entries {
                    listed.remove(&listing(&entry.bundle, known.batch.spreader));
                    if of_bundle.get(&entry.bundle).is_some_and(|(batch, _)| batch == digest) {
                        of_bundle.remove(&entry.bundle);
                    }
                }
            }
            keep
        });
    }

    /// Returns the number of batches.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// Returns the key of a spreader's listing of a bundle.
fn listing(bundle: &Digest, spreader: ReplicaId) -> Digest {
    let mut key = *bundle;
    for (byte, of_spreader) in key.0.iter_mut().rev().zip(spreader.0.to_le_bytes()) {
        *byte ^= of_spreader;
    }
    key
}
