//! Sets of replicas as bit sets.

use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::ids::ReplicaId;
use crate::limits::MAX_REPLICAS;
use std::fmt;

const WORDS: usize = MAX_REPLICAS / 64;

/// A set of replicas, such as the signers of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Signers([u64; WORDS]);

impl Signers {
    pub const fn empty() -> Self {
        Signers([0; WORDS])
    }

    /// Adds a replica; returns false if it was already in the set.
    ///
    /// # Panics
    /// If its id is not below [`MAX_REPLICAS`].
    pub fn insert(&mut self, replica: ReplicaId) -> bool {
        assert!(replica.index() < MAX_REPLICAS, "replica {replica} is outside every committee");
        let (word, bit) = (replica.index() / 64, 1u64 << (replica.index() % 64));
        let fresh = self.0[word] & bit == 0;
        self.0[word] |= bit;
        fresh
    }

    pub fn remove(&mut self, replica: ReplicaId) {
        if replica.index() < MAX_REPLICAS {
            self.0[replica.index() / 64] &= !(1 << (replica.index() % 64));
        }
    }

    pub fn contains(&self, replica: ReplicaId) -> bool {
        replica.index() < MAX_REPLICAS && self.0[replica.index() / 64] >> (replica.index() % 64) & 1 == 1
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Iterates in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    ReplicaId((at * 64) as u16 + bit as u16)
                })
            })
        })
    }

    pub fn highest(&self) -> Option<ReplicaId> {
        (0..WORDS)
            .rev()
            .find(|at| self.0[*at] != 0)
            .map(|at| ReplicaId((at * 64 + 63 - self.0[at].leading_zeros() as usize) as u16))
    }

    /// Adds every member of the other set.
    pub fn union(&mut self, other: &Signers) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine |= theirs;
        }
    }
}

impl FromIterator<ReplicaId> for Signers {
    fn from_iter<I: IntoIterator<Item = ReplicaId>>(replicas: I) -> Self {
        let mut set = Signers::empty();
        for replica in replicas {
            set.insert(replica);
        }
        set
    }
}

impl fmt::Debug for Signers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// By hand: a byte count and the bytes, least significant first. The last byte is never zero, so a set has one
/// encoding.
impl Wire for Signers {
    fn encode(&self, out: &mut Encoder) {
        let bytes: [u8; WORDS * 8] = std::array::from_fn(|at| self.0[at / 8].to_le_bytes()[at % 8]);
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        out.put_u8(used as u8);
        out.put_slice(&bytes[..used]);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let used = usize::from(input.get_u8("signer bytes")?);
        if used > WORDS * 8 {
            return Err(input.over_limit("signer bytes", used, WORDS * 8));
        }
        let mut set = Signers::empty();
        for at in 0..used {
            let byte = input.get_u8("signers")?;
            if at + 1 == used && byte == 0 {
                return Err(input.invalid("signers", "the last byte is zero, so the set is not in its shortest form"));
            }
            set.0[at / 8] |= u64::from(byte) << (at % 8 * 8);
        }
        Ok(set)
    }
}
