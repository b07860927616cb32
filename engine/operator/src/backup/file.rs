//! The file of a snapshot of a cluster.
//!
//! ```text
//! offset  0  "qBack001"     8
//!         8  length         8   of the content, little-endian
//!        16  digest        32   of the content, as of a state in chunks
//!        48  the content: genesis (32), application, base, blocks, and perhaps the proof
//! ```

use super::BackupError;
use bytes::Bytes;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_storage::private;
use quorate_types::codec::{decode_list, encode_list};
use quorate_types::files::Replacement;
use quorate_types::limits::MAX_BLOCK_BUNDLES;
use quorate_types::state::MAX_STATE_BYTES;
use quorate_types::{Block, Bundle, Certificate, DecodeError, Decoder, Digest, Encoder, EpochId, Manifest, Wire};
use std::io::{self, Read, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"qBack001";
const HEADER_BYTES: usize = 8 + 8 + 32;
const MAX_NAME_BYTES: usize = 64;
/// Maximum number of blocks after the base.
const MAX_BLOCKS: usize = 1 << 24;
/// Minimum length of an encoded block with its bundles.
const MIN_BLOCK_BYTES: usize = 64;
/// Mode of the file: a state contains the data of all clients.
const MODE: u32 = 0o600;

/// State before the first block of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Base {
    /// The application is empty.
    Empty,
    /// The content of the file with the cluster's initial state.
    Initial(Bytes),
    /// A state that a quorum has certified.
    State { certificate: Box<Certificate>, state: Bytes },
}

/// A block after the base, without the proof of its certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackedBlock {
    pub block: Block,
    /// Its bundles, except for void ones.
    pub bundles: Vec<Bundle>,
}

/// A state of a cluster that anybody can verify: a base, the blocks after it, and a certificate of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    /// The cluster.
    pub genesis: EpochId,
    /// Name of the application.
    pub application: String,
    pub base: Base,
    pub blocks: Vec<BackedBlock>,
    /// The checkpoint after the last block; `None` if there are no blocks.
    pub proof: Option<(Certificate, Frontier)>,
}

impl Backup {
    /// Returns the content of the file.
    ///
    /// # Errors
    /// If the content would be longer than [`MAX_STATE_BYTES`].
    pub fn encode(&self) -> Result<Bytes, BackupError> {
        let mut out = Encoder::with_capacity(1 << 20);
        encode_content(self, &mut out);
        let content = out.finish();
        if content.len() > MAX_STATE_BYTES {
            return Err(BackupError::TooLarge(content.len() as u64));
        }
        let mut file = Encoder::with_capacity(HEADER_BYTES + content.len());
        file.put_slice(MAGIC);
        file.put_u64(content.len() as u64);
        Manifest::of(&content).digest().encode(&mut file);
        file.put_slice(&content);
        Ok(file.finish())
    }

    /// Decodes the content of a file. Checks its form, not its proof.
    ///
    /// # Errors
    /// If it is not a snapshot, or incomplete, or damaged.
    pub fn decode(file: Bytes) -> Result<Backup, BackupError> {
        if !file.starts_with(MAGIC) {
            return Err(BackupError::NotASnapshot);
        }
        let mut header = Decoder::new(file.clone());
        header.skip("magic bytes", MAGIC.len())?;
        let length = header.get_u64("length")?;
        let digest = Digest::decode(&mut header)?;
        let (found, expected) = (file.len() as u64, length.saturating_add(HEADER_BYTES as u64));
        if found < expected {
            return Err(BackupError::Truncated { found, expected });
        }
        let content = file.slice(HEADER_BYTES..);
        let fits = found == expected && (1..=MAX_STATE_BYTES).contains(&content.len());
        if !fits || Manifest::of(&content).digest() != digest {
            return Err(BackupError::Damaged);
        }
        let mut input = Decoder::new(content);
        let backup = decode_content(&mut input)?;
        input.finish("end of a snapshot")?;
        Ok(backup)
    }

    /// Writes the file, which gets its name when it is complete. Returns its length.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<u64, BackupError> {
        let bytes = self.encode()?;
        let write = || {
            let mut file = Replacement::begin(path, MODE)?;
            file.write_all(&bytes)?;
            file.commit()
        };
        write().map_err(|source| BackupError::Write { path: path.to_owned(), source })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or as [`Backup::decode`].
    pub fn read(path: &Path) -> Result<Backup, BackupError> {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            private::open_regular(path)?.take((HEADER_BYTES + MAX_STATE_BYTES) as u64 + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|source| BackupError::Read { path: path.to_owned(), source })?;
        Backup::decode(bytes.into())
    }
}

fn encode_content(backup: &Backup, out: &mut Encoder) {
    backup.genesis.0.encode(out);
    out.put_bytes(backup.application.as_bytes());
    match &backup.base {
        Base::Empty => out.put_u8(0),
        Base::Initial(file) => {
            out.put_u8(1);
            out.put_bytes(file);
        }
        Base::State { certificate, state } => {
            out.put_u8(2);
            certificate.encode(out);
            out.put_bytes(state);
        }
    }
    out.put_count(backup.blocks.len());
    for BackedBlock { block, bundles } in &backup.blocks {
        block.encode(out);
        encode_list(bundles, out);
    }
    out.put_u8(backup.proof.is_some().into());
    if let Some((certificate, frontier)) = &backup.proof {
        certificate.encode(out);
        frontier.encode(out);
    }
}

fn decode_content(input: &mut Decoder) -> Result<Backup, DecodeError> {
    let genesis = EpochId(Digest::decode(input)?);
    let application = input.get_text("name of an application", MAX_NAME_BYTES)?;
    let base = match input.get_u8("base of a snapshot")? {
        0 => Base::Empty,
        1 => Base::Initial(input.get_bytes("initial state", MAX_STATE_BYTES)?),
        2 => {
            let certificate = Box::new(Certificate::decode(input)?);
            Base::State { certificate, state: input.get_bytes("state", MAX_STATE_BYTES)? }
        }
        _ => return Err(input.invalid("base of a snapshot", "it is of an unknown kind")),
    };
    let count = input.get_count("blocks of a snapshot", MAX_BLOCKS, MIN_BLOCK_BYTES)?;
    let mut blocks = Vec::with_capacity(count);
    for _ in 0..count {
        let block = Block::decode(input)?;
        let bundles = decode_list(input, "bundles of a block", MAX_BLOCK_BUNDLES, 4)?;
        blocks.push(BackedBlock { block, bundles });
    }
    let has_proof = input.get_flag("proof of a snapshot")?;
    let proof = match has_proof {
        true => Some((Certificate::decode(input)?, Frontier::decode(input)?)),
        false => None,
    };
    Ok(Backup { genesis, application, base, blocks, proof })
}
