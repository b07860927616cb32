//! A rolling digest of all executed blocks, sampled at some heights, for comparing replicas.

use quorate_types::{DecodeError, Decoder, Digest, Encoder, Height, ReplicaId, Wire};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use thiserror::Error;

/// Number of latest heights that are all sampled.
pub const RECENT_HEIGHTS: usize = 4096;
/// Initial distance in heights between permanent samples.
pub const SAMPLE_STRIDE: u64 = 1024;
/// Maximum number of permanent samples. Beyond it every other sample is dropped and the stride doubles.
pub const MAX_SAMPLES: usize = 4096;

/// Samples of the rolling digest. The sampled heights depend only on the last height, so equal executions produce equal
/// histories. Replicas at distant heights still have common samples: height 0 and the multiples of the larger stride.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    height: Height,
    /// Digests at the last heights, up to `height`.
    recent: VecDeque<Digest>,
    /// Digests at the multiples of `stride`, from 0 up to `height`.
    samples: Vec<Digest>,
    stride: u64,
}

impl History {
    /// Creates the history before the first block.
    pub fn new(genesis: Digest) -> History {
        History { height: Height(0), recent: VecDeque::from([genesis]), samples: vec![genesis], stride: SAMPLE_STRIDE }
    }

    pub fn height(&self) -> Height {
        self.height
    }

    /// Returns the digest at the last height.
    pub fn last(&self) -> Digest {
        *self.recent.back().expect("a history contains genesis")
    }

    /// Appends the digest at the next height.
    pub fn push(&mut self, digest: Digest) {
        self.height = self.height.next();
        if self.recent.len() == RECENT_HEIGHTS {
            self.recent.pop_front();
        }
        self.recent.push_back(digest);
        if self.height.0.is_multiple_of(self.stride) {
            self.samples.push(digest);
            if self.samples.len() > MAX_SAMPLES {
                self.samples = self.samples.iter().copied().step_by(2).collect();
                self.stride *= 2;
            }
        }
    }

    /// Returns all samples, ascending by height.
    pub fn samples(&self) -> Vec<(Height, Digest)> {
        let first_recent = self.height.0 + 1 - self.recent.len() as u64;
        let old = self.samples.iter().zip(0u64..).map(|(digest, at)| (Height(at * self.stride), *digest));
        let recent = self.recent.iter().zip(first_recent..).map(|(digest, height)| (Height(height), *digest));
        old.take_while(|(height, _)| height.0 < first_recent).chain(recent).collect()
    }
}

/// Returns the stride of a history up to `height`.
fn stride_at(height: u64) -> u64 {
    let mut stride = SAMPLE_STRIDE;
    while height / stride + 1 > MAX_SAMPLES as u64 {
        stride *= 2;
    }
    stride
}

/// By hand: the height, and the digests, whose number and heights it determines.
impl Wire for History {
    fn encode(&self, out: &mut Encoder) {
        self.height.encode(out);
        self.samples.iter().chain(&self.recent).for_each(|digest| digest.encode(out));
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let height = Height::decode(input)?;
        if height.0 == u64::MAX {
            return Err(input.invalid("history", "it has the maximum height"));
        }
        let stride = stride_at(height.0);
        let samples = (0..height.0 / stride + 1).map(|_| Digest::decode(input)).collect::<Result<Vec<_>, _>>()?;
        let recent_count = (height.0 + 1).min(RECENT_HEIGHTS as u64);
        let recent = (0..recent_count).map(|_| Digest::decode(input)).collect::<Result<VecDeque<_>, _>>()?;
        let first_recent = height.0 - (recent_count - 1);
        for (digest, at) in samples.iter().zip(0u64..) {
            if at * stride >= first_recent && recent[(at * stride - first_recent) as usize] != *digest {
                return Err(input.invalid("history", "it has two digests for one height"));
            }
        }
        Ok(History { height, recent, samples, stride })
    }
}

/// Disagreement between replicas about executed blocks.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Divergence {
    /// The first height with different samples. The cause lies above the last common sample below it.
    pub height: Height,
    /// Replicas that sampled this height, by their digest.
    pub sides: Vec<(Digest, Vec<ReplicaId>)>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the replicas executed different histories, first difference at height {}:", self.height)?;
        self.sides.iter().try_for_each(|(digest, replicas)| write!(f, " {replicas:?} have {digest:?}"))
    }
}

/// Compares histories: at every height that two replicas have sampled, their digests must be equal.
///
/// Returns the highest height that all replicas have sampled; all agree up to it. It is 0 if there is no such height,
/// so a caller that expects progress must check for that.
pub fn compare_histories(histories: &[(ReplicaId, Vec<(Height, Digest)>)]) -> Result<Height, Divergence> {
    let mut heights: BTreeMap<Height, Vec<(Digest, Vec<ReplicaId>)>> = BTreeMap::new();
    for (replica, history) in histories {
        for (height, digest) in history {
            let sides = heights.entry(*height).or_default();
            match sides.iter_mut().find(|(side, _)| side == digest) {
                Some((_, replicas)) => replicas.push(*replica),
                None => sides.push((*digest, vec![*replica])),
            }
        }
    }
    let mut common = Height(0);
    for (height, sides) in heights {
        if sides.len() > 1 {
            return Err(Divergence { height, sides });
        }
        if sides[0].1.len() == histories.len() {
            common = height;
        }
    }
    Ok(common)
}
