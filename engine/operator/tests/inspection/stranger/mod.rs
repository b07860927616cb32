//! An export reader written only from `docs/EXPORT.md`, with SHA-256 and most signatures from another library.

mod signatures;

use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

type Digest = [u8; 32];

/// Summary of a sound export.
#[derive(Debug)]
pub struct Checked {
    pub committed: u64,
    /// Height up to which the reader finds committed blocks.
    pub proven: u64,
    pub commands: u64,
    pub signatures: u64,
    pub checkpoints: u64,
    /// Bundles without which blocks were executed.
    pub voids: u64,
}

/// Contents of the first line.
struct Cluster {
    id: Digest,
    name_hash: Digest,
    protocol: String,
    scheme: String,
    application: String,
    quorum: usize,
    keys: Vec<Vec<u8>>,
}

struct Block {
    height: u64,
    view: u64,
    parent: Option<Digest>,
    committed: bool,
}

struct Certificate {
    domain: u8,
    view: u64,
    height: u64,
    digest: Digest,
    signers: Vec<u16>,
}

impl Certificate {
    /// Decodes a certificate without verifying it.
    fn read(line: &Value) -> Result<Certificate, String> {
        Ok(Certificate {
            domain: number(line, "domain")? as u8,
            view: number(line, "view")?,
            height: number(line, "height")?,
            digest: digest_at(line, "digest")?,
            signers: list(line, "signers")?.iter().map(|signer| signer.as_u64().unwrap_or(u64::MAX) as u16).collect(),
        })
    }
}

/// Checks an export from its first to its last line.
pub fn check(text: &str) -> Result<Checked, String> {
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).map_err(|error| error.to_string()));
    let cluster = read_cluster(&lines.next().ok_or("there is no line")??)?;
    let mut reader = Reader::new(cluster);
    for line in lines {
        let line = line?;
        if reader.ended {
            return Err("there are lines after the end".into());
        }
        match text_at(&line, "line")? {
            "root" => reader.root(&line)?,
            "history" => reader.begin_history(&line)?,
            "block" => reader.block(&line)?,
            "certificate" => {
                let certificate = reader.certificate(&line["certificate"])?;
                reader.learn(&certificate);
            }
            "checkpoint" => reader.checkpoint(&line)?,
            "end" => reader.end(&line)?,
            other => return Err(format!("a line of an unknown kind: {other}")),
        }
    }
    match reader.ended {
        true => Ok(reader.checked),
        false => Err("the end is missing".into()),
    }
}

struct Reader {
    cluster: Cluster,
    blocks: BTreeMap<Digest, Block>,
    at_height: BTreeMap<u64, Digest>,
    last: Option<(u64, Digest)>,
    history: Option<Digest>,
    time_ms: u64,
    histories: BTreeMap<u64, Digest>,
    ended: bool,
    checked: Checked,
}

impl Reader {
    fn new(cluster: Cluster) -> Reader {
        let checked = Checked { committed: 0, proven: 0, commands: 0, signatures: 0, checkpoints: 0, voids: 0 };
        Reader {
            cluster,
            blocks: BTreeMap::new(),
            at_height: BTreeMap::new(),
            last: None,
            history: None,
            time_ms: 0,
            histories: BTreeMap::new(),
            ended: false,
            checked,
        }
    }

    fn is_by_slot(&self) -> bool {
        self.cluster.protocol.starts_with("pbft")
    }

    fn genesis(&self) -> Digest {
        hash(b"qG01", &[&self.cluster.id])
    }

    fn root(&mut self, line: &Value) -> Result<(), String> {
        let (height, digest) = (number(line, "height")?, digest_at(line, "digest")?);
        if height == 0 && digest != self.genesis() {
            return Err("the chain does not begin with the cluster's genesis".into());
        }
        if self.last.is_some_and(|(last, _)| height <= last) {
            return Err("a root is not above the blocks before it".into());
        }
        self.last = Some((height, digest));
        self.history = None;
        self.checked.proven = self.checked.proven.max(height);
        Ok(())
    }

    fn begin_history(&mut self, line: &Value) -> Result<(), String> {
        let (height, history) = (number(line, "height")?, digest_at(line, "history")?);
        let nothing_executed = hash(b"qX00", &[&self.cluster.id, self.cluster.application.as_bytes()]);
        if self.history.is_some() || self.last.is_none_or(|(last, _)| last != height) {
            return Err("unexpected start of a history".into());
        }
        let time_ms = number(line, "time_ms")?;
        if height == 0 && (history, time_ms) != (nothing_executed, 0) {
            return Err("the history does not begin with that of the application".into());
        }
        (self.history, self.time_ms) = (Some(history), time_ms);
        Ok(())
    }

    fn block(&mut self, line: &Value) -> Result<(), String> {
        let (height, view) = (number(line, "height")?, number(line, "view")?);
        let author = number(line, "author")? as u16;
        let payload: Vec<Digest> = list(line, "payload")?.iter().map(as_digest).collect::<Result<_, _>>()?;
        let justify = match &line["justify"] {
            Value::Null => None,
            certificate => Some(self.justify(certificate)?),
        };
        if justify.is_none() != self.is_by_slot() {
            return Err("a block of a chain has a parent, one of a slot has none".into());
        }
        let covers = match line.get("covers") {
            None => Vec::new(),
            Some(_) => list(line, "covers")?.iter().map(as_optional_digest).collect::<Result<_, _>>()?,
        };
        let header = (height, view, author, number(line, "time_ms")?);
        let digest = block_digest(header, justify.as_ref(), &payload, &covers);
        if digest != digest_at(line, "digest")? {
            return Err(format!("the block at height {height} does not match its digest"));
        }
        let parent = justify.as_ref().map(|certificate| certificate.digest);
        let committed = line["committed"] == Value::Bool(true);
        let follows = match &self.last {
            Some((last, head)) => last + 1 == height && parent.is_none_or(|parent| parent == *head),
            None => false,
        };
        if !follows
            || justify.as_ref().is_some_and(|certificate| certificate.height + 1 != height || certificate.view >= view)
        {
            return Err(format!("the block at height {height} does not extend its predecessor"));
        }
        if committed {
            let executed = self.not_void(line, (height, digest), payload)?;
            self.execute(line, height, &executed)?;
            self.at_height.insert(height, digest);
            self.checked.committed = height;
        }
        self.last = Some((height, digest));
        self.blocks.insert(digest, Block { height, view, parent, committed });
        if let Some(certificate) = justify.filter(|_| line["justify"]["unproven"] != Value::Bool(true)) {
            self.learn(&certificate);
        }
        Ok(())
    }

    /// Returns the certificate of a block's parent; genesis needs no signatures.
    fn justify(&mut self, line: &Value) -> Result<Certificate, String> {
        if number(line, "view")? == 0 {
            let is_genesis = number(line, "domain")? == 2
                && number(line, "height")? == 0
                && digest_at(line, "digest")? == self.genesis()
                && list(line, "signers")?.is_empty();
            let genesis = Certificate { domain: 2, view: 0, height: 0, digest: self.genesis(), signers: Vec::new() };
            return if is_genesis {
                Ok(genesis)
            } else {
                Err("a certificate of view 0 that is not for genesis".into())
            };
        }
        if line["unproven"] == Value::Bool(true) {
            return Certificate::read(line);
        }
        self.certificate(line)
    }

    /// Verifies every signature of a certificate, and that the signers are a quorum.
    fn certificate(&mut self, line: &Value) -> Result<Certificate, String> {
        let certificate = Certificate::read(line)?;
        let distinct: BTreeSet<u16> = certificate.signers.iter().copied().collect();
        if distinct.len() < self.cluster.quorum || distinct.len() != certificate.signers.len() {
            return Err("a certificate lacks a quorum".into());
        }
        let mut statement = b"quorate1".to_vec();
        statement.extend(self.cluster.id);
        statement.extend(subject(&certificate));
        statement.push(0);
        let key = |signer: &u16| self.cluster.keys.get(usize::from(*signer)).map(Vec::as_slice);
        let keys: Option<Vec<&[u8]>> = certificate.signers.iter().map(key).collect();
        let keys = keys.ok_or("a signer is no member")?;
        signatures::check_certificate(&self.cluster.scheme, &keys, &statement, line)
            .map_err(|why| format!("the certificate of view {}: {why}", certificate.view))?;
        self.checked.signatures += keys.len() as u64;
        Ok(certificate)
    }

    /// Records the blocks that a valid certificate commits.
    fn learn(&mut self, certificate: &Certificate) {
        let Some(certified) = self.blocks.get(&certificate.digest) else { return };
        let Some((needed, chain)) = proof(&self.cluster.protocol) else { return };
        if certificate.domain != needed || certificate.view != certified.view || certificate.height != certified.height
        {
            return;
        }
        let mut block = certified;
        for _ in 1..chain {
            let parent = block.parent.and_then(|parent| self.blocks.get(&parent));
            let Some(parent) = parent.filter(|parent| parent.view + 1 == block.view) else { return };
            block = parent;
        }
        let last_committed = if block.committed { block.height } else { self.checked.committed };
        self.checked.proven = self.checked.proven.max(last_committed);
    }

    /// Returns the bundles of a block that are not void: each void one has a certificate of absence.
    fn not_void(&mut self, line: &Value, block: (u64, Digest), payload: Vec<Digest>) -> Result<Vec<Digest>, String> {
        let mut absent = BTreeSet::new();
        for void in line["voids"].as_array().map_or(&[][..], Vec::as_slice) {
            let certificate = self.certificate(void)?;
            let position = certificate.view as usize;
            let is_of_block = (certificate.domain, certificate.height, certificate.digest) == (11, block.0, block.1);
            if !is_of_block || position >= payload.len() || !absent.insert(position) {
                return Err(format!("the block at height {} has a foreign certificate of absence", block.0));
            }
        }
        self.checked.voids += absent.len() as u64;
        let executed = payload.into_iter().enumerate().filter(|(position, _)| !absent.contains(position));
        Ok(executed.map(|(_, bundle)| bundle).collect())
    }

    fn execute(&mut self, line: &Value, height: u64, payload: &[Digest]) -> Result<(), String> {
        let bundles = list(line, "bundles")?;
        if bundles.len() != payload.len() {
            return Err(format!("the block at height {height} lacks bundles"));
        }
        for (bundle, expected) in bundles.iter().zip(payload) {
            let body = bytes(bundle)?;
            if self.bundle_digest(&body)? != *expected {
                return Err(format!("a bundle of the block at height {height} does not match its digest"));
            }
            self.checked.commands += u64::from(u32::from_le_bytes(body[25..29].try_into().expect("four bytes")));
        }
        let Some(before) = self.history else { return Ok(()) };
        self.time_ms = self.time_ms.max(number(line, "time_ms")?);
        let mut rolling = before.to_vec();
        rolling.extend(height.to_le_bytes());
        rolling.extend(self.time_ms.to_le_bytes());
        for ((digest, bundle), results) in payload.iter().zip(bundles).zip(list(line, "results")?) {
            let results = bytes(results)?;
            let expires = u64::from_le_bytes(bytes(bundle)?[17..25].try_into().expect("eight bytes"));
            if !are_possible(&results, height, expires).ok_or("results are too short")? {
                return Err(format!("a bundle that expires at {expires} has impossible results at height {height}"));
            }
            rolling.extend(digest);
            rolling.extend(results);
        }
        let history = hash(b"qX03", &[&rolling]);
        self.history = Some(history);
        self.histories.insert(height, history);
        Ok(())
    }

    /// Returns a bundle's digest, after verifying its client's signature.
    fn bundle_digest(&self, body: &[u8]) -> Result<Digest, String> {
        if body.first() == Some(&0) {
            return Ok(hash(b"qB03", &[body]));
        }
        let split = body.len().checked_sub(96).ok_or("a bundle is too short")?;
        let (content, authenticator) = body.split_at(split);
        let content = hash(b"qB03", &[content]);
        let (key, signature) = authenticator.split_at(32);
        let statement = [&b"quorate bundle 2"[..], &self.cluster.name_hash, &content].concat();
        let genuine = UnparsedPublicKey::new(&ED25519, key).verify(&statement, signature);
        genuine.map_err(|_| "a client's signature is invalid")?;
        // The lowest two bytes of the origin are the client's session number.
        if hash(b"qK01", &[key])[2..16] != body[3..17] {
            return Err("a bundle is signed with another key than its origin's".into());
        }
        Ok(hash(b"qA01", &[&content, authenticator]))
    }

    fn checkpoint(&mut self, line: &Value) -> Result<(), String> {
        let certificate = self.certificate(&line["certificate"])?;
        if certificate.domain != 7 || certificate.view != 0 {
            return Err("the certificate of a checkpoint is of another kind".into());
        }
        // Only a reader that has the state can check its digest.
        if line["history"] == Value::Null {
            return Ok(());
        }
        let mut frontier = Vec::new();
        let mut head = None;
        for block in list(line, "frontier")? {
            let digest = digest_at(block, "digest")?;
            let candidates = list(block, "candidates")?;
            frontier.extend(digest);
            frontier.extend((candidates.len() as u64).to_le_bytes());
            for candidate in candidates {
                frontier.extend((candidate.as_u64().ok_or("a candidate is a replica")? as u16).to_le_bytes());
            }
            head = Some(digest);
        }
        let (height, history) = (certificate.height, digest_at(line, "history")?);
        let frontier = hash(b"qF01", &[&frontier]);
        if hash(b"qX02", &[&height.to_le_bytes(), &history, &frontier]) != certificate.digest {
            return Err(format!("the checkpoint at height {height} does not match this history"));
        }
        if self.histories.get(&height) != Some(&history) || self.at_height.get(&height).copied() != head {
            return Err(format!("the checkpoint at height {height} does not match these blocks"));
        }
        self.checked.checkpoints += 1;
        self.checked.proven = self.checked.proven.max(height);
        Ok(())
    }

    fn end(&mut self, line: &Value) -> Result<(), String> {
        self.ended = true;
        let committed = self.at_height.last_key_value();
        let as_said = committed.map(|(height, digest)| (*height, *digest))
            == Some((number(line, "committed_height")?, digest_at(line, "committed_digest")?));
        let counted = self.at_height.len() as u64 == number(line, "blocks")?;
        match as_said && counted && self.checked.proven == number(line, "proven_height")? {
            true => Ok(()),
            false => Err(format!("the end contradicts the preceding lines: {line} and {:?}", self.checked)),
        }
    }
}

/// Returns the id of a cluster with this description, in hexadecimal.
pub fn genesis_id(line: &Value) -> Result<String, String> {
    let (n, f) = (number(line, "replicas")? as u32, number(line, "faults")? as u32);
    let framed = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let mut keys = Vec::new();
    for member in list(line, "members")? {
        keys.extend(framed(&bytes(&member["identity_key"])?));
        keys.extend(framed(&bytes(&member["voting_key"])?));
    }
    let name = hash(b"qC01", &[text_at(line, "name")?.as_bytes()]);
    let mut genesis = [&name[..], &0u64.to_le_bytes(), &n.to_le_bytes(), &f.to_le_bytes()].concat();
    genesis.extend(hash(b"qE02", &[&keys]));
    for setting in ["protocol", "scheme", "auth_profile"] {
        genesis.extend(framed(text_at(line, setting)?.as_bytes()));
    }
    genesis.extend(framed(line["vote_macs"].as_str().unwrap_or_default().as_bytes()));
    let id = hash(b"qE01", &[&genesis]);
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read_cluster(line: &Value) -> Result<Cluster, String> {
    let id = digest_at(line, "id")?;
    if text_at(line, "line")? != "cluster" || number(line, "format")? != 5 {
        return Err("it is not an export of this format".into());
    }
    if id[..] != bytes(&Value::String(genesis_id(line)?))?[..] {
        return Err("the cluster's id is not the hash of its name, members and settings".into());
    }
    let name_hash = hash(b"qC01", &[text_at(line, "name")?.as_bytes()]);
    let (n, f) = (number(line, "replicas")? as usize, number(line, "faults")? as usize);
    let (scheme, mut keys) = (text_at(line, "scheme")?.to_owned(), Vec::new());
    for member in list(line, "members")? {
        let (key, possession) = (bytes(&member["voting_key"])?, bytes(&member["possession"])?);
        signatures::check_member(&scheme, &key, &possession)?;
        keys.push(key);
    }
    Ok(Cluster {
        id,
        name_hash,
        protocol: text_at(line, "protocol")?.to_owned(),
        scheme,
        application: text_at(line, "application")?.to_owned(),
        quorum: (n + f) / 2 + 1,
        keys,
    })
}

fn subject(certificate: &Certificate) -> Vec<u8> {
    let mut bytes = vec![certificate.domain];
    bytes.extend(certificate.view.to_le_bytes());
    bytes.extend(certificate.height.to_le_bytes());
    bytes.extend(certificate.digest);
    bytes
}

fn block_digest(
    (height, view, author, time_ms): (u64, u64, u16, u64),
    justify: Option<&Certificate>,
    payload: &[Digest],
    covers: &[Option<Digest>],
) -> Digest {
    let blank = Certificate { domain: 2, view: 0, height: height - 1, digest: [0; 32], signers: Vec::new() };
    let justify = justify.unwrap_or(&blank);
    let mut header = Vec::new();
    header.extend(view.to_le_bytes());
    header.extend(height.to_le_bytes());
    header.extend(author.to_le_bytes());
    header.extend(time_ms.to_le_bytes());
    header.extend(subject(justify));
    let mut bits = vec![0u8; justify.signers.iter().max().map_or(0, |highest| usize::from(*highest) / 8 + 1)];
    justify.signers.iter().for_each(|signer| bits[usize::from(*signer) / 8] |= 1 << (signer % 8));
    header.push(bits.len() as u8);
    header.extend(bits);
    header.extend((payload.len() as u32).to_le_bytes());
    let (mut names, mut indices): (Vec<Digest>, Vec<u8>) = (Vec::new(), Vec::new());
    for cover in covers {
        let known = cover.map(|cover| {
            names.iter().position(|name| *name == cover).unwrap_or_else(|| {
                names.push(cover);
                names.len() - 1
            })
        });
        indices.extend(known.map_or(u16::MAX, |known| known as u16).to_le_bytes());
    }
    let mut covered = Vec::new();
    if !names.is_empty() {
        covered.extend((names.len() as u32).to_le_bytes());
        covered.extend(names.concat());
        covered.extend(indices);
    }
    hash(b"qH02", &[&header, &payload.concat(), &covered])
}

/// Returns whether a bundle with this expiry can have these results at this height; `None` if they are truncated.
fn are_possible(results: &[u8], height: u64, expires: u64) -> Option<bool> {
    const MAX_AHEAD: u64 = 1_048_576;
    let possible: &[u8] = match expires {
        _ if expires < height => &[1, 3, 4],
        _ if expires - height > MAX_AHEAD => &[2],
        _ => &[0, 1, 2, 4],
    };
    let (form, rest) = results.split_first()?;
    let (count, mut rest) = rest.split_first_chunk()?;
    if *form == 0 {
        return Some(possible.contains(&0));
    }
    for _ in 0..u32::from_le_bytes(*count) {
        let (kind, tail) = rest.split_first()?;
        rest = tail;
        if !possible.contains(kind) {
            return Some(false);
        }
        if *kind == 0 {
            let (length, tail) = rest.split_first_chunk()?;
            rest = tail.get(u32::from_le_bytes(*length) as usize..)?;
        }
    }
    Some(rest.is_empty())
}

fn hash(tag: &[u8; 4], parts: &[&[u8]]) -> Digest {
    let content = [&tag[..], &parts.concat()].concat();
    digest(&SHA256, &content).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn number(line: &Value, key: &str) -> Result<u64, String> {
    line[key].as_u64().ok_or_else(|| format!("{key} is missing in {line}"))
}

fn text_at<'a>(line: &'a Value, key: &str) -> Result<&'a str, String> {
    line[key].as_str().ok_or_else(|| format!("{key} is missing"))
}

fn list<'a>(line: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    line[key].as_array().ok_or_else(|| format!("{key} is missing"))
}

fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    let text = value.as_str().ok_or("bytes are written in hexadecimal")?;
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("hexadecimal is in lower case".to_owned());
    }
    let pair = |at| u8::from_str_radix(text.get(at..at + 2).unwrap_or(""), 16).map_err(|error| error.to_string());
    (0..text.len()).step_by(2).map(pair).collect()
}

fn as_digest(value: &Value) -> Result<Digest, String> {
    bytes(value)?.try_into().map_err(|_| "a digest has 32 bytes".to_owned())
}

fn as_optional_digest(value: &Value) -> Result<Option<Digest>, String> {
    if value.is_null() { Ok(None) } else { as_digest(value).map(Some) }
}

fn digest_at(line: &Value, key: &str) -> Result<Digest, String> {
    as_digest(&line[key])
}

/// Looks up in `docs/EXPORT.md` which certificate commits a block: its domain, and the length of the chain in
/// consecutive views that it must end. `None` if only a checkpoint commits.
fn proof(protocol: &str) -> Option<(u8, usize)> {
    let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/EXPORT.md"));
    let mut rows = document.lines().filter(|line| line.starts_with("| `"));
    let row = rows.find(|row| row.split('|').nth(1).is_some_and(|names| names.contains(&format!("`{protocol}`"))));
    let proof = row.unwrap_or_else(|| panic!("docs/EXPORT.md does not say what commits under {protocol}"));
    let domain = proof.split("a certificate of domain ").nth(1)?.chars().next()?.to_digit(10)?;
    let blocks = proof.split("blocks b").nth(1).map_or(1, |list| 1 + list.matches(", b'").count());
    Some((domain as u8, blocks))
}
