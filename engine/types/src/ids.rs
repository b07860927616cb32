//! Identifiers. Each has its own type, so that a height cannot be used as a view.

use crate::digest::{Digest, Hasher};
use crate::limits::MAX_BUNDLE_LIFETIME_BLOCKS;
use crate::{tags, wire};
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        wire! { struct $name($inner[stringify!($name)]) }
    };
}

number!(
    /// Index of a committee member, from 0.
    ReplicaId, u16, "R"
);
number!(
    /// A period with one leader (a round in Jolteon and DiemBFT). View 0 is genesis.
    View, u64, "v"
);
number!(
    /// Distance of a block from genesis, or the slot of a PBFT batch. Height 0 is genesis.
    Height, u64, "h"
);

number!(
    /// Level of the features that an application uses; 0 at genesis. See [`crate::level`].
    FeatureLevel, u16, "l"
);

/// One client session: the scope in which a command's sequence number is unique.
///
/// The lower [`ClientId::SESSION_BITS`] contain the session number of an *owner*, who can sign for all its sessions. If
/// clients are authenticated, the owner is 112 bits of the hash of a public key, so replicas need no client registry.
/// An attacker who finds another key with the same hash can sign for the owner; with the 48 bits that an 8-byte id
/// would leave, finding one would take days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClientId(pub u128);

impl ClientId {
    /// Width of the session number, in bits.
    pub const SESSION_BITS: u32 = 16;

    /// Returns the first session of the owner of this public key.
    pub fn of_key(public_key: &[u8]) -> ClientId {
        let mut hasher = Hasher::new(tags::CLIENT_KEY);
        hasher.update(public_key);
        let hash: [u8; 16] = hasher.finish().0[..16].try_into().expect("a digest has 32 bytes");
        ClientId(u128::from_le_bytes(hash)).with_session(0)
    }

    /// Returns the owner of this session, who can sign for it.
    pub fn owner(self) -> u128 {
        self.0 >> ClientId::SESSION_BITS
    }

    /// Returns the number of this session among the owner's sessions.
    pub fn session(self) -> u16 {
        self.0 as u16
    }

    /// Returns another session of the same owner.
    pub fn with_session(self, session: u16) -> ClientId {
        ClientId(self.owner() << ClientId::SESSION_BITS | u128::from(session))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{self}")
    }
}

wire! { struct ClientId(u128["ClientId"]) }

impl ReplicaId {
    /// Returns the index in arrays by member.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl View {
    pub fn next(self) -> View {
        View(self.0.checked_add(1).expect("a cluster does not live for 2^64 views"))
    }
}

impl Height {
    pub fn next(self) -> Height {
        Height(self.0.checked_add(1).expect("a chain does not reach 2^64 blocks"))
    }

    /// Returns the maximum expiry of a bundle that is executed at this height or above.
    pub fn latest_expiry(self) -> Height {
        Height(self.0.saturating_add(MAX_BUNDLE_LIFETIME_BLOCKS))
    }
}

/// Hash of a cluster's name. Client signatures cover it, and so stay valid when the members change. Replicas'
/// statements name the [epoch](EpochId) instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub Digest);

impl ClusterId {
    /// Hashes a cluster's name.
    pub fn from_name(name: &str) -> Self {
        let mut hasher = Hasher::new(tags::CLUSTER);
        hasher.update(name.as_bytes());
        ClusterId(hasher.finish())
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster {:?}", self.0)
    }
}

/// Hash of everything on which the meaning of a replica's statements depends: the cluster's name, its members with all
/// their keys, the number of faults, the protocol, and the schemes ([`Genesis`](crate::Genesis)). Every statement of a
/// replica contains it, so the statement is invalid in a cluster that differs in any of these.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpochId(pub Digest);

impl EpochId {
    /// Returns the digest of the empty chain, the root of every chain's hash links.
    pub fn genesis(&self) -> Digest {
        let mut hasher = Hasher::new(tags::EMPTY_CHAIN);
        hasher.update(&self.0.0);
        hasher.finish()
    }
}

impl fmt::Debug for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "genesis {:?}", self.0)
    }
}
