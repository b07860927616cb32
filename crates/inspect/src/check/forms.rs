//! Types of the lines of an export.

use quorate_types::Digest;
use quorate_types::digest::decode_hex;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Bytes in lower-case hexadecimal. Upper case is refused, so that each value has a single encoding.
#[derive(Clone, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Hex, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(input)?;
        let lower_case = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let bytes = decode_hex(&text).filter(|_| lower_case);
        bytes.map(Hex).ok_or_else(|| D::Error::custom("bytes are written in lower-case hexadecimal"))
    }
}

/// A digest in the same form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name(pub Digest);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Name, D::Error> {
        let Hex(bytes) = Hex::deserialize(input)?;
        bytes.try_into().map(|bytes| Name(Digest(bytes))).map_err(|_| D::Error::custom("a digest has 32 bytes"))
    }
}

/// A line of an export; `docs/EXPORT.md` describes each.
#[derive(Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum Line {
    Cluster(ClusterForm),
    Root { height: u64, digest: Name },
    History { height: u64, history: Name },
    Block(BlockForm),
    Certificate { certificate: CertificateForm },
    Checkpoint(CheckpointForm),
    End { committed_height: u64, committed_digest: Name, proven_height: u64, blocks: u64 },
}

/// The first line: the cluster and how it signs.
#[derive(Deserialize)]
pub struct ClusterForm {
    pub format: u32,
    pub name: String,
    pub id: Name,
    pub protocol: String,
    pub scheme: String,
    pub application: String,
    pub replicas: usize,
    pub faults: usize,
    pub quorum: usize,
    pub checkpoint_interval: u64,
    pub members: Vec<MemberForm>,
}

/// A member's public keys and its proof of possession.
#[derive(Deserialize)]
pub struct MemberForm {
    pub identity_key: Hex,
    pub voting_key: Hex,
    pub possession: Hex,
}

/// A committed block with its bundles, which must hash to its digest.
#[derive(Deserialize)]
pub struct BlockForm {
    pub committed: bool,
    pub height: u64,
    pub view: u64,
    pub author: u16,
    pub digest: Name,
    pub justify: Option<CertificateForm>,
    pub payload: Vec<Name>,
    /// Name of the certificate that proves the storage of each bundle; empty if none is named.
    #[serde(default)]
    pub covers: Vec<Option<Name>>,
    pub bundles: Option<Vec<Hex>>,
    pub results: Option<Vec<Hex>>,
}

/// A quorum's votes for a subject.
#[derive(Deserialize)]
pub struct CertificateForm {
    pub domain: u8,
    pub view: u64,
    pub height: u64,
    pub digest: Name,
    pub signers: Vec<u16>,
    pub signatures: Option<Vec<Hex>>,
    pub proof: Option<Hex>,
    #[serde(default)]
    pub unproven: bool,
}

/// A checkpoint that a quorum vouched for.
#[derive(Deserialize)]
pub struct CheckpointForm {
    pub certificate: CertificateForm,
    pub history: Option<Name>,
    pub frontier: Option<Vec<FrontierForm>>,
}

/// The blocks before a root that leader election reads.
#[derive(Deserialize)]
pub struct FrontierForm {
    pub digest: Name,
    pub candidates: Vec<u16>,
}
