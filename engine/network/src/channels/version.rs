//! Versions of the wire format, and the one that a link uses.
//!
//! Each end names the versions that it speaks in its hello. A link uses the highest version that both speak, so it is a
//! function of the two hellos and costs no message. Replicas sign both hellos, so an attacker on the path cannot lower
//! it ([ADR 122](../../../../docs/adr/122-versions-of-the-wire.md)).
//!
//! | version | adds |
//! |---|---|
//! | 6 | the oldest version of this release; its hello names no range |
//! | 7 | each replica sends a [`Release`] before the digest of its parameters |
//!
//! A change of the wire adds a row, and every release speaks the newest version of the release before it
//! (docs/UPGRADING.md).

use quorate_types::codec::WIRE_VERSION;
use std::fmt;

/// Oldest wire version that this release speaks.
pub const OLDEST_WIRE_VERSION: u8 = 6;
/// Newest wire version that this release speaks.
pub const NEWEST_WIRE_VERSION: u8 = 7;
/// First wire version in which replicas send a [`Release`].
pub const RELEASE_SINCE: u8 = 7;

// Messages have one layout in all versions of the range. A version with another layout needs a codec that takes the
// version of its link.
const _: () = assert!(WIRE_VERSION <= OLDEST_WIRE_VERSION && OLDEST_WIRE_VERSION < NEWEST_WIRE_VERSION);

/// Range of wire versions that an end speaks. Never empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    oldest: u8,
    newest: u8,
}

impl Versions {
    /// All versions of this release.
    pub const ALL: Versions = Versions { oldest: OLDEST_WIRE_VERSION, newest: NEWEST_WIRE_VERSION };

    /// Returns a range; `None` if it is empty.
    pub fn new(oldest: u8, newest: u8) -> Option<Versions> {
        (oldest <= newest).then_some(Versions { oldest, newest })
    }

    /// Returns the versions of this release up to `newest`.
    ///
    /// # Panics
    /// If this release does not speak `newest`.
    pub fn up_to(newest: u8) -> Versions {
        assert!((OLDEST_WIRE_VERSION..=NEWEST_WIRE_VERSION).contains(&newest), "wire version {newest} is unknown");
        Versions { newest, ..Versions::ALL }
    }

    pub fn oldest(self) -> u8 {
        self.oldest
    }

    pub fn newest(self) -> u8 {
        self.newest
    }

    /// Returns the highest version in both ranges.
    pub fn common(self, other: Versions) -> Option<u8> {
        let highest = self.newest.min(other.newest);
        (highest >= self.oldest.max(other.oldest)).then_some(highest)
    }
}

impl Default for Versions {
    fn default() -> Versions {
        Versions::ALL
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => self.oldest.fmt(f),
            false => write!(f, "{} to {}", self.oldest, self.newest),
        }
    }
}

/// Maximum length of the name of a program's version, in bytes.
const MAX_PROGRAM_BYTES: usize = 24;
/// Maximum length of an encoded [`Release`] after its length, in bytes.
pub(super) const MAX_RELEASE_BYTES: usize = 1 + MAX_PROGRAM_BYTES;

/// Program of a replica, as the replica describes it.
///
/// ```text
/// length   1   bytes that follow
/// newest   1   newest wire version that the program speaks
/// program      version of the program: printable ASCII, 1 to 24 bytes
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Release {
    /// Newest wire version that the program speaks, though its configuration may not allow it.
    pub newest: u8,
    /// Version of the program.
    pub program: String,
}

impl Release {
    /// Returns this program's release.
    pub fn own() -> Release {
        Release { newest: NEWEST_WIRE_VERSION, program: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Returns the encoding, without its length.
    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(is_program(self.program.as_bytes()), "the version of a program is short and printable");
        [&[self.newest], self.program.as_bytes()].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Release> {
        let (newest, program) = bytes.split_first()?;
        let program = str::from_utf8(program).ok().filter(|program| is_program(program.as_bytes()))?;
        Some(Release { newest: *newest, program: program.to_owned() })
    }
}

fn is_program(program: &[u8]) -> bool {
    (1..=MAX_PROGRAM_BYTES).contains(&program.len()) && program.iter().all(u8::is_ascii_graphic)
}

/// Facts about a link that its two ends agreed on in the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Wire version of the link.
    pub version: u8,
    /// The remote's release; `None` for a client, and in versions before [`RELEASE_SINCE`].
    pub release: Option<Release>,
}
