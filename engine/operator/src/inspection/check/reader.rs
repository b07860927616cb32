//! Reads an export from start to end, trusting only signatures.

use super::forms::{
    BlockForm, CertificateForm, CheckpointForm, ClusterForm, EndForm, Hex, HistoryForm, Line, MemberForm, Name,
    RootForm,
};
use super::{Checked, difference};
use crate::inspection::certificates::caveat;
use bytes::Bytes;
use quorate_client::ClientConfig;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::facts::Shape;
use quorate_crypto::{
    BundleVerifier, ClientAuthentication, ED25519_AUTHENTICATOR, Keyring, SchemeKind, genesis_differences,
    verify_certificate,
};
use quorate_types::digest::{Hasher, encode_hex};
use quorate_types::text::escaped;
use quorate_types::{
    Block, Bundle, Certificate, Choice, Committee, CoverNames, Decoder, Digest, Domain, EpochId, Genesis, Height,
    Member, Outcome, Quorum, ReplicaId, Results, Subject, View, Wire, tags,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr};

const FORMAT: u32 = 5;

/// Parts of a block that a later certificate may refer to.
struct Kept {
    height: u64,
    view: u64,
    parent: Digest,
    committed: bool,
}

/// Committed block at the height of a checkpoint.
struct Milestone {
    history: Option<Digest>,
    digest: Digest,
}

/// Reader of an export, one line at a time.
pub(super) struct Reader {
    keyring: Keyring,
    protocol: ProtocolKind,
    epoch: EpochId,
    application: String,
    interval: u64,
    clients: BundleVerifier,
    blocks: HashMap<Digest, Kept>,
    milestones: BTreeMap<u64, Milestone>,
    /// Height and digest that the next block must extend.
    head: Option<(u64, Digest)>,
    last_committed: Option<(u64, Digest)>,
    history: Option<Digest>,
    /// Time at which the last block was executed, if the history is known.
    time_ms: u64,
    /// Whether the uncommitted blocks at the end, which only serve as proof, have begun.
    is_beyond: bool,
    ended: bool,
    checked: Checked,
}

impl Reader {
    /// Reads the first line.
    pub fn begin(line: &[u8], trusted: Option<&ClientConfig>) -> Result<Reader, String> {
        let Line::Cluster(form) = parse(line)? else {
            return Err("the first line of an export must describe the cluster".into());
        };
        if form.format != FORMAT {
            return Err(format!(
                "the export has format {}, but this program reads format {FORMAT}; help: export again, or use the \
                 version that wrote the file",
                form.format
            ));
        }
        let committee = committee(&form)?;
        let scheme: SchemeKind = form.scheme.parse().map_err(|error| format!("{error}"))?;
        let protocol: ProtocolKind = form.protocol.parse().map_err(|error| format!("{error}"))?;
        let keys = |of: fn(&Member) -> &Bytes| committee.members.iter().map(|member| encode_hex(of(member))).collect();
        let mut checked = Checked {
            cluster: form.name,
            genesis_id: committee.epoch.0.to_hex(),
            protocol: form.protocol,
            auth_profile: form.auth_profile,
            scheme: scheme.name().to_owned(),
            replicas: form.replicas,
            faults: form.faults,
            identity_keys: keys(|member| &member.identity_key),
            voting_keys: keys(|member| &member.voting_key),
            keys_compared: trusted.is_some(),
            ..Checked::default()
        };
        if let Some(what) = trusted.and_then(|trusted| difference(&checked, trusted)) {
            return Err(what);
        }
        let keyring = Keyring::new(scheme, &committee).map_err(|error| error.to_string())?;
        checked.notes.extend(caveat(scheme));
        Ok(Reader {
            keyring,
            protocol,
            epoch: committee.epoch,
            application: form.application,
            interval: form.checkpoint_interval,
            clients: BundleVerifier::new(ClientAuthentication::Ed25519, committee.cluster, 1),
            blocks: HashMap::new(),
            milestones: BTreeMap::new(),
            head: None,
            last_committed: None,
            history: None,
            time_ms: 0,
            is_beyond: false,
            ended: false,
            checked,
        })
    }

    /// Reads any other line.
    pub fn take(&mut self, line: &[u8]) -> Result<(), String> {
        if self.ended {
            return Err("there are lines after the end".into());
        }
        match parse(line)? {
            Line::Cluster(_) => Err("the cluster is described twice".into()),
            Line::Root(RootForm { height, digest }) => self.root(height, digest.0),
            Line::History(HistoryForm { height, history, time_ms }) => self.begin_history(height, history.0, time_ms),
            Line::Block(form) => self.block(form),
            Line::Certificate(form) => self.certificate(form.certificate).map(|genuine| self.learn(&genuine)),
            Line::Checkpoint(form) => self.checkpoint(form),
            Line::End(EndForm { committed_height, committed_digest, proven_height, blocks }) => {
                self.end((committed_height, committed_digest.0), proven_height, blocks)
            }
        }
    }

    /// Returns the summary, if the export is complete.
    pub fn finish(mut self) -> Result<Checked, String> {
        if !self.ended {
            return Err("the end is missing: the file is truncated".into());
        }
        self.checked.note();
        Ok(self.checked)
    }

    fn is_by_slot(&self) -> bool {
        self.protocol.has_slots()
    }

    fn root(&mut self, height: u64, digest: Digest) -> Result<(), String> {
        if height == 0 && digest != self.epoch.genesis() {
            return Err("the chain does not begin with the cluster's genesis".into());
        }
        if self.head.is_some_and(|(head, _)| height <= head) {
            return Err("a root is not above the blocks before it".into());
        }
        self.head = Some((height, digest));
        self.history = None;
        self.checked.root_height = height;
        self.checked.proven_height = self.checked.proven_height.max(height);
        Ok(())
    }

    fn begin_history(&mut self, height: u64, history: Digest, time_ms: u64) -> Result<(), String> {
        if self.history.is_some() || self.head.is_none_or(|(head, _)| head != height) {
            return Err("unexpected start of a history".into());
        }
        if height == 0 {
            let mut hasher = Hasher::new(tags::NOTHING_EXECUTED);
            hasher.update(&self.epoch.0.0);
            hasher.update(self.application.as_bytes());
            if history != hasher.finish() || time_ms != 0 {
                return Err("the history does not begin with that of the application".into());
            }
        }
        (self.history, self.time_ms) = (Some(history), time_ms);
        Ok(())
    }

    fn block(&mut self, form: BlockForm) -> Result<(), String> {
        let name = format!("the block at height {}", form.height);
        let slot = form.height.checked_sub(1).ok_or("a block has a height above 0")?;
        if form.justify.is_none() != self.is_by_slot() {
            return Err(format!(
                "{name}: a chain's block needs its parent's certificate, and a slot's block must not have one"
            ));
        }
        let payload: Vec<Digest> = form.payload.iter().map(|Name(digest)| *digest).collect();
        if !form.covers.is_empty() && form.covers.len() != payload.len() {
            return Err(format!("{name} names certificates of {} bundles, not of its own", form.covers.len()));
        }
        let covers = CoverNames::new(form.covers.iter().map(|name| name.as_ref().map(|Name(digest)| *digest)));
        let (view, author) = (View(form.view), ReplicaId(form.author));
        let is_proven = form.justify.as_ref().is_some_and(|form| !form.unproven);
        let justify =
            form.justify.map(|form| if is_proven { self.certificate(form) } else { self.link(form) }).transpose()?;
        let extends = |head: Digest| justify.as_ref().is_none_or(|parent| parent.subject.digest == head);
        let is_above = |parent: &Subject| parent.height.0 == slot && parent.view < view;
        let is_newer = justify.as_ref().is_none_or(|parent| is_above(&parent.subject));
        if self.head.is_none_or(|(height, head)| height != slot || !extends(head)) || !is_newer {
            return Err(format!("{name} does not extend its predecessor"));
        }
        let block = match justify.clone() {
            Some(justify) => Block::new(view, author, justify, payload, form.time_ms),
            None => Block::of_slot(view, author, Height(form.height), payload, form.time_ms),
        }
        .with_covers(covers);
        let digest = block.digest();
        if digest != form.digest.0 {
            return Err(format!("{name} does not match its digest"));
        }
        if form.committed {
            let bundles = form.bundles.ok_or_else(|| format!("{name} is committed but lacks its bundles"))?;
            let executed = self.not_void(&block, form.voids).map_err(|what| format!("{name}: {what}"))?;
            self.execute(&block, &executed, bundles, form.results).map_err(|what| format!("{name}: {what}"))?;
        }
        self.is_beyond |= !form.committed;
        self.head = Some((form.height, digest));
        let kept = Kept { height: form.height, view: form.view, parent: block.parent(), committed: form.committed };
        self.blocks.insert(digest, kept);
        if let Some(certificate) = justify.filter(|_| is_proven) {
            self.learn(&certificate);
        }
        Ok(())
    }

    /// Returns the bundles of a block, except those that a quorum signed to be absent.
    fn not_void(&mut self, block: &Block, voids: Vec<CertificateForm>) -> Result<Vec<Digest>, String> {
        let mut absent = BTreeSet::new();
        for form in voids {
            let Subject { domain, view, height, digest } = self.certificate(form)?.subject;
            if (domain, height, digest) != (Domain::Absent, block.height, block.digest()) {
                return Err("it has a certificate of absence that is not its own".into());
            }
            let is_new = absent.insert(view.0);
            if !is_new || view.0 >= block.payload.len() as u64 {
                return Err(format!("its certificate of absence at position {} is superfluous", view.0));
            }
        }
        self.checked.voids += absent.len() as u64;
        let named = (0..).zip(&block.payload).filter(|(position, _)| !absent.contains(position));
        Ok(named.map(|(_, bundle)| *bundle).collect())
    }

    /// Checks the bundles of a committed block, and updates the digest of the history.
    fn execute(
        &mut self,
        block: &Block,
        named: &[Digest],
        bundles: Vec<Hex>,
        results: Option<Vec<Hex>>,
    ) -> Result<(), String> {
        if self.is_beyond {
            return Err("it is committed, but its predecessor is not".into());
        }
        if bundles.len() != named.len() {
            return Err(format!("it names {} bundles but contains {}", named.len(), bundles.len()));
        }
        let (mut signed, height) = (Vec::new(), block.height);
        let mut results_of = results.as_deref().unwrap_or_default().iter();
        for (Hex(body), expected) in bundles.into_iter().zip(named) {
            let bundle = Bundle::from_body(Bytes::from(body)).map_err(|error| format!("invalid bundle: {error}"))?;
            if bundle.digest() != *expected {
                return Err(format!("a bundle does not match its digest {expected}"));
            }
            if let Some(Hex(results)) = results_of.next() {
                check_results(results, &bundle, height)?;
            }
            self.checked.commands += bundle.len() as u64;
            // MACs convince only replicas.
            if bundle.authenticator().is_some_and(|authenticator| authenticator.kind == ED25519_AUTHENTICATOR) {
                signed.push(bundle);
            }
        }
        if !self.clients.are_genuine(&signed) {
            return Err("a client's signature is invalid, or made with a key that is not its origin's".into());
        }
        self.checked.client_signatures += signed.len() as u64;
        let (height, digest) = (height.0, block.digest());
        self.checked.blocks += 1;
        self.last_committed = Some((height, digest));
        self.checked.committed_height = height;
        self.time_ms = self.time_ms.max(block.time_ms);
        self.history = match (self.history, results) {
            (Some(before), Some(results)) if results.len() == named.len() => {
                let mut hasher = Hasher::new(tags::HISTORY);
                hasher.update(&before.0);
                hasher.update(&height.to_le_bytes());
                hasher.update(&self.time_ms.to_le_bytes());
                for (bundle, Hex(results)) in named.iter().zip(&results) {
                    hasher.update(&bundle.0);
                    hasher.update(results);
                }
                Some(hasher.finish())
            }
            (Some(_), _) => return Err("it lacks the results of its bundles, which the history needs".into()),
            (None, Some(_)) => return Err("it has results, but no history begins before it".into()),
            (None, None) => None,
        };
        if height.is_multiple_of(self.interval.max(1)) {
            self.milestones.insert(height, Milestone { history: self.history, digest });
        }
        Ok(())
    }

    /// Returns the certificate of a form, if it is valid.
    fn certificate(&mut self, form: CertificateForm) -> Result<Certificate, String> {
        if form.unproven {
            return Err("a certificate that must prove something has no proof".into());
        }
        let certificate = self.link(form)?;
        let Subject { view, height, .. } = certificate.subject;
        verify_certificate(&self.keyring, &certificate)
            .map_err(|why| format!("the certificate of view {view}, height {height} is invalid: {why}"))?;
        self.checked.signatures += certificate.signers.len() as u64;
        Ok(certificate)
    }

    /// Returns the certificate of a form without verifying it. It names the parent of a block, and proves nothing.
    fn link(&self, form: CertificateForm) -> Result<Certificate, String> {
        let domain = Domain::ALL.into_iter().find(|domain| *domain as u8 == form.domain);
        let domain = domain.ok_or_else(|| format!("a certificate has the unknown domain {}", form.domain))?;
        let is_ascending = form.signers.windows(2).all(|pair| pair[0] < pair[1]);
        if !is_ascending || form.signers.iter().any(|signer| usize::from(*signer) >= self.checked.replicas) {
            return Err("the signers of a certificate must be members, each once, in ascending order".into());
        }
        let proof = match (form.signatures, form.proof) {
            (Some(signatures), None) if signatures.len() == form.signers.len() => {
                signatures.into_iter().flat_map(|Hex(signature)| signature).collect::<Vec<u8>>()
            }
            (None, Some(Hex(proof))) => proof,
            (None, None) if form.unproven => Vec::new(),
            _ => return Err("a certificate needs a signature for each signer, or a proof".into()),
        };
        let (view, height, digest) = (View(form.view), Height(form.height), form.digest.0);
        Ok(Certificate {
            subject: Subject { domain, view, height, digest },
            signers: form.signers.into_iter().map(ReplicaId).collect(),
            attachments: Vec::new(),
            proof: proof.into(),
        })
    }

    /// Records which blocks a valid certificate commits, by the table in `docs/EXPORT.md`.
    fn learn(&mut self, certificate: &Certificate) {
        let shape = self.protocol.facts().shape;
        if shape == Shape::Slots {
            return;
        }
        let Subject { domain, view, height, digest } = certificate.subject;
        let Some(mut block) = self.blocks.get(&digest) else { return };
        if (domain, view.0, height.0) != (shape.decides(), block.view, block.height) {
            return;
        }
        for _ in 1..shape.chain_length() {
            let parent = self.blocks.get(&block.parent).filter(|parent| parent.view + 1 == block.view);
            let Some(parent) = parent else { return };
            block = parent;
        }
        let proven = if block.committed { block.height } else { self.checked.committed_height };
        self.checked.proven_height = self.checked.proven_height.max(proven);
    }

    fn checkpoint(&mut self, form: CheckpointForm) -> Result<(), String> {
        let certificate = self.certificate(form.certificate)?;
        let Subject { domain, view, height, digest } = certificate.subject;
        if (domain, view) != (Domain::Checkpoint, View(0)) {
            return Err("the certificate of a checkpoint is of another kind".into());
        }
        let (history, frontier) = match (form.history, form.frontier) {
            (Some(Name(history)), Some(frontier)) => (history, frontier),
            // The digest of an application state can only be checked by a reader that has the state.
            (None, None) => return Ok(()),
            _ => return Err("a checkpoint needs both a history and a frontier, or neither".into()),
        };
        let mut hasher = Hasher::new(tags::FRONTIER);
        for block in &frontier {
            hasher.update(&block.digest.0.0);
            hasher.update(&(block.candidates.len() as u64).to_le_bytes());
            block.candidates.iter().for_each(|candidate| hasher.update(&candidate.to_le_bytes()));
        }
        let frontier_digest = hasher.finish();
        let mut hasher = Hasher::new(tags::CHECKPOINT);
        hasher.update(&height.0.to_le_bytes());
        hasher.update(&history.0);
        hasher.update(&frontier_digest.0);
        if hasher.finish() != digest {
            return Err(format!("the checkpoint at height {height} does not match its history and frontier"));
        }
        let head = frontier.last().map(|block| block.digest.0);
        let milestone = self.milestones.get(&height.0);
        if milestone.is_none_or(|milestone| milestone.history != Some(history) || Some(milestone.digest) != head) {
            return Err(format!("the checkpoint at height {height} does not match these blocks"));
        }
        self.checked.checkpoints += 1;
        self.checked.proven_height = self.checked.proven_height.max(height.0);
        Ok(())
    }

    fn end(&mut self, committed: (u64, Digest), proven: u64, blocks: u64) -> Result<(), String> {
        self.ended = true;
        let Checked { proven_height, blocks: counted, .. } = self.checked;
        let root = self.head.filter(|(height, _)| *height == self.checked.root_height);
        // A replica that has never run exports no root.
        let genesis = self.head.is_none().then(|| (0, self.epoch.genesis()));
        if self.last_committed.or(root).or(genesis) != Some(committed) {
            return Err(format!(
                "it names {} at height {} as the last committed block, but the preceding lines another",
                committed.1, committed.0
            ));
        }
        self.checked.committed_height = committed.0;
        match (blocks == counted, proven == proven_height) {
            (true, true) => Ok(()),
            (false, _) => Err(format!("it counts {blocks} committed blocks, but there are {counted}")),
            (_, false) => Err(format!(
                "it claims a proof up to height {proven}, but the preceding lines prove up to {proven_height}"
            )),
        }
    }
}

/// Checks that a bundle in a block of this height can have these results: a bundle that has expired, or expires too
/// late, is not executed.
fn check_results(results: &[u8], bundle: &Bundle, height: Height) -> Result<(), String> {
    let mut input = Decoder::new(Bytes::copy_from_slice(results));
    let results = Results::decode(&mut input).and_then(|results| input.finish("results").map(|()| results));
    let results = results.map_err(|error| format!("the results of bundle {}: {error}", bundle.digest()))?;
    let (expires, outcomes) = (bundle.expires(), results.outcomes());
    let is_possible = |outcome: Outcome<'_>| match outcome {
        Outcome::Executed(_) => height <= expires && expires <= height.latest_expiry(),
        Outcome::Duplicate | Outcome::Forgotten => expires <= height.latest_expiry(),
        Outcome::Refused => height <= expires,
        Outcome::Expired => expires < height,
    };
    match results.len() == bundle.len() && outcomes.into_iter().all(is_possible) {
        true => Ok(()),
        false => Err(format!("bundle {}, which expires at height {expires}, has impossible results", bundle.digest())),
    }
}

fn parse(line: &[u8]) -> Result<Line, String> {
    Line::parse(line).map_err(|error| format!("it is not a line of an export: {}", escaped(&error.to_string())))
}

fn committee(form: &ClusterForm) -> Result<Committee, String> {
    let quorum = Quorum::with_faults(form.replicas, form.faults).map_err(|error| error.to_string())?;
    if form.quorum != quorum.quorum() || form.members.len() != form.replicas {
        let (members, replicas) = (form.members.len(), form.replicas);
        return Err(format!(
            "impossible committee: {replicas} replicas, {members} members, quorums of {}",
            form.quorum
        ));
    }
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let member = |form: &MemberForm| {
        let bytes = |Hex(bytes): &Hex| Bytes::from(bytes.clone());
        let [identity_key, voting_key, possession] =
            [&form.identity_key, &form.voting_key, &form.possession].map(bytes);
        Member { address: nowhere.into(), identity_key, voting_key, possession }
    };
    let members: Vec<Member> = form.members.iter().map(member).collect();
    let genesis = Genesis {
        name: &form.name,
        quorum,
        members: &members,
        protocol: &form.protocol,
        scheme: &form.scheme,
        profile: &form.auth_profile,
        vote_macs: form.vote_macs.as_deref(),
    };
    let committee = genesis.committee();
    if form.id.0 != committee.epoch.0 {
        return Err(other_id(&genesis, form));
    }
    Ok(committee)
}

/// Explains why the id in the first line does not match its other fields.
fn other_id(genesis: &Genesis<'_>, form: &ClusterForm) -> String {
    let mac_scheme = form.vote_macs.as_deref().and_then(|name| name.parse().ok()).unwrap_or(SchemeKind::HMAC_SHA256);
    let differences = genesis_differences(genesis, mac_scheme, &ProtocolKind::names(), &EpochId(form.id.0));
    let texts: Vec<String> = differences
        .into_iter()
        .map(|of| format!("; the id is that of `{}` {}", of.key, of.peer.unwrap_or_default()))
        .collect();
    format!("the cluster's id is not the hash of its name, members and settings{}", texts.concat())
}
