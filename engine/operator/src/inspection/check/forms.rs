//! Types of the lines of an export.

use quorate_types::Digest;
use quorate_types::digest::decode_hex;
use quorate_types::limits::{MAX_BLOCK_BUNDLES, MAX_REPLICAS};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Maximum number of blocks before a root that leader election reads.
const MAX_FRONTIER_BLOCKS: usize = 65_536;

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

/// A digest in the same encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name(pub Digest);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Name, D::Error> {
        let Hex(bytes) = Hex::deserialize(input)?;
        bytes.try_into().map(|bytes| Name(Digest(bytes))).map_err(|_| D::Error::custom("a digest has 32 bytes"))
    }
}

/// A line of an export; `docs/EXPORT.md` describes each.
pub enum Line {
    Cluster(ClusterForm),
    Root(RootForm),
    History(HistoryForm),
    Block(BlockForm),
    Certificate(CertifiedForm),
    Checkpoint(CheckpointForm),
    End(EndForm),
}

/// The kind of a line.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    line: Cow<'a, str>,
}

impl Line {
    /// Parses a line. The kind is read first, so that fields of other kinds are not kept, and no list exceeds its
    /// maximum length.
    pub fn parse(line: &[u8]) -> serde_json::Result<Line> {
        Ok(match &*serde_json::from_slice::<Kind>(line)?.line {
            "cluster" => Line::Cluster(serde_json::from_slice(line)?),
            "root" => Line::Root(serde_json::from_slice(line)?),
            "history" => Line::History(serde_json::from_slice(line)?),
            "block" => Line::Block(serde_json::from_slice(line)?),
            "certificate" => Line::Certificate(serde_json::from_slice(line)?),
            "checkpoint" => Line::Checkpoint(serde_json::from_slice(line)?),
            "end" => Line::End(serde_json::from_slice(line)?),
            other => return Err(serde_json::Error::custom(format!("unknown kind of line `{other}`"))),
        })
    }
}

/// List of at most `MOST` elements. A longer one is refused at the first element too many.
struct Few<T, const MOST: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Counting<T, const MOST: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Counting<T, MOST> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MOST} elements")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut taken = Vec::new();
                while let Some(element) = list.next_element()? {
                    if taken.len() == MOST {
                        return Err(A::Error::custom(format!("a list has more than {MOST} elements")));
                    }
                    taken.push(element);
                }
                Ok(taken)
            }
        }
        input.deserialize_seq(Counting::<T, MOST>(PhantomData)).map(Few)
    }
}

fn few<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(input: D) -> Result<Vec<T>, D::Error> {
    Few::<T, MOST>::deserialize(input).map(|Few(list)| list)
}

fn few_or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(
    input: D,
) -> Result<Option<Vec<T>>, D::Error> {
    Option::<Few<T, MOST>>::deserialize(input).map(|list| list.map(|Few(list)| list))
}

/// Height and digest of the block that the next one extends.
#[derive(Deserialize)]
pub struct RootForm {
    pub height: u64,
    pub digest: Name,
}

/// Digest of the history up to a height.
#[derive(Deserialize)]
pub struct HistoryForm {
    pub height: u64,
    pub history: Name,
    /// Time of execution at this height, in milliseconds since the Unix epoch.
    pub time_ms: u64,
}

/// A certificate that proves earlier blocks.
#[derive(Deserialize)]
pub struct CertifiedForm {
    pub certificate: CertificateForm,
}

/// The last line.
#[derive(Deserialize)]
pub struct EndForm {
    pub committed_height: u64,
    pub committed_digest: Name,
    pub proven_height: u64,
    pub blocks: u64,
}

/// The first line: the cluster and its signature schemes.
#[derive(Deserialize)]
pub struct ClusterForm {
    pub format: u32,
    pub name: String,
    pub id: Name,
    pub protocol: String,
    pub scheme: String,
    pub auth_profile: String,
    pub vote_macs: Option<String>,
    pub application: String,
    pub replicas: usize,
    pub faults: usize,
    pub quorum: usize,
    pub checkpoint_interval: u64,
    #[serde(deserialize_with = "few::<_, _, MAX_REPLICAS>")]
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
    /// Time that the proposer gave, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    pub digest: Name,
    pub justify: Option<CertificateForm>,
    #[serde(deserialize_with = "few::<_, _, MAX_BLOCK_BUNDLES>")]
    pub payload: Vec<Name>,
    /// Name of the certificate that proves the storage of each bundle; empty if none is named.
    #[serde(default, deserialize_with = "few::<_, _, MAX_BLOCK_BUNDLES>")]
    pub covers: Vec<Option<Name>>,
    #[serde(default, deserialize_with = "few_or_none::<_, _, MAX_BLOCK_BUNDLES>")]
    pub bundles: Option<Vec<Hex>>,
    /// Certificates of the absence of bundles, without which the block was executed.
    #[serde(default, deserialize_with = "few::<_, _, MAX_BLOCK_BUNDLES>")]
    pub voids: Vec<CertificateForm>,
    #[serde(default, deserialize_with = "few_or_none::<_, _, MAX_BLOCK_BUNDLES>")]
    pub results: Option<Vec<Hex>>,
}

/// A quorum's votes for a subject.
#[derive(Deserialize)]
pub struct CertificateForm {
    pub domain: u8,
    pub view: u64,
    pub height: u64,
    pub digest: Name,
    #[serde(deserialize_with = "few::<_, _, MAX_REPLICAS>")]
    pub signers: Vec<u16>,
    #[serde(default, deserialize_with = "few_or_none::<_, _, MAX_REPLICAS>")]
    pub signatures: Option<Vec<Hex>>,
    pub proof: Option<Hex>,
    #[serde(default)]
    pub unproven: bool,
}

/// A checkpoint certified by a quorum.
#[derive(Deserialize)]
pub struct CheckpointForm {
    pub certificate: CertificateForm,
    pub history: Option<Name>,
    #[serde(default, deserialize_with = "few_or_none::<_, _, MAX_FRONTIER_BLOCKS>")]
    pub frontier: Option<Vec<FrontierForm>>,
}

/// The blocks before a root that leader election reads.
#[derive(Deserialize)]
pub struct FrontierForm {
    pub digest: Name,
    #[serde(deserialize_with = "few::<_, _, MAX_REPLICAS>")]
    pub candidates: Vec<u16>,
}
